//! One task: all that is known of it.

use super::super::database::Rights;
use super::super::frame::Page;
use super::super::frame::shown;
use super::super::html::{maybe_time, name, notice, query, status, time};
use super::super::request::{At, Refusal};
use super::graph;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use tokio_postgres::{Client, Row};
use uuid::Uuid;

/// Longer JSON is cut on the page, and whole as a file.
const SHOWN: usize = 20_000;

const TASK: &str = "
select t.id, t.queue, t.status, t.action, t.key, t.group_key, t.priority, t.progress, t.created::text,
    t.updated::text, t.run_at::text, t.deadline::text, t.owner, t.tries, t.max_tries, t.num_failures,
    t.resubmitted_from, t.role, t.database, t.command, cardinality(t.after) as predecessors,
    left(jsonb_pretty(t.spec), 20001) as spec, left(jsonb_pretty(t.result), 20001) as result,
    left(jsonb_pretty(t.meta), 20001) as meta, (select resubmitted_as from scylla.failed f where f.id = t.id) as resubmitted_as
from scylla.tasks t where t.id = $1";

const ERRORS: &str = "
select e ->> 'code', e ->> 'description', coalesce(e -> 'args' ->> 'traceback', e ->> 'traceback', e -> 'args' ->> 'stack', e ->> 'stack'),
    left(jsonb_pretty((e - '{code,description,traceback,stack}'::text[]) #- '{args,traceback}' #- '{args,stack}'), 20001)
from scylla.tasks t, jsonb_array_elements(t.errors) with ordinality as it(e, n)
where t.id = $1 order by n desc";

const HISTORY: &str = "
select e ->> '_typ', e ->> 'worker', e ->> 'time', e ->> 'progress'
from scylla.tasks t, jsonb_array_elements(t.history) with ordinality as it(e, n)
where t.id = $1 order by n";

pub async fn page(at: At, Path((_, id)): Path<(String, String)>) -> Response {
    let page = Page::new("Task", Some(&at.database), "tasks");
    shown(body(&at, &id).await, &page, &at.viewer)
}

fn missing() -> Refusal {
    Refusal::not_found("there is no such task, or you may not look at it")
}

async fn body(at: &At, id: &str) -> Result<Markup, Refusal> {
    let (viewer, database) = (&at.viewer, &at.database);
    let id: Uuid = id.parse().map_err(|_| Refusal::not_found("this is not the id of a task"))?;
    let client = database.lend(&viewer.identity).await?;
    let task = client.query_opt(TASK, &[&id]).await?.ok_or_else(missing)?;
    let errors = client.query(ERRORS, &[&id]).await?;
    let history = client.query(HISTORY, &[&id]).await?;
    let queue: &str = task.get("queue");
    let state: &str = task.get("status");
    let is_live = ["waiting", "ready", "running"].contains(&state);
    let why = if is_live { why(&client, id).await? } else { None };
    let graph = graph::of(&client, viewer, &database.name, id).await?;
    drop(client);
    let rights = database.rights(&viewer.identity, Some(queue)).await?;
    let to = |path: &str| viewer.url(&format!("/{}/{path}", database.name));
    let text = |column: &str| task.get::<_, Option<&str>>(column);
    Ok(html! {
        div id="fresh" data-refresh=[is_live.then_some("2")] {
            div.heading {
                h1 { "Task " span.id { (id.to_string()) } }
                (status(state))
            }
            @if let Some(why) = why { p.why { (why) } }
            (buttons(at, id, state, rights))
            dl.facts {
                div { dt { "Queue" } dd { a href=(to(&format!("queue{}", query(&[("name", queue)])))) { (name(queue)) } } }
                @for (label, column) in [("Action", "action"), ("Key", "key")] {
                    @if let Some(value) = text(column).filter(|it| !it.is_empty()) { div { dt { (label) } dd { (name(value)) } } }
                }
                @if let Some(group) = text("group_key") { div { dt { "Group" } dd { a href=(to(&format!("tasks{}", query(&[("queue", queue), ("group_key", group)])))) { (name(group)) } } } }
                div { dt { "Priority" } dd { (task.get::<_, i64>("priority")) } }
                div { dt { "Tries" } dd { (task.get::<_, i32>("tries")) @match task.get::<_, Option<i32>>("max_tries") { Some(0) => " of any number", Some(most) => { " of " (most) }, None => "" } } }
                @if let Some(owner) = text("owner") { div { dt { "Worker" } dd { a href=(to(&format!("tasks{}", query(&[("worker", owner)])))) { (name(owner)) } } } }
                @if state == "running" { div { dt { "Lease ends" } dd { @if let Some(deadline) = text("deadline") { (time(deadline)) } @else { "never" } } } }
                @if state == "running" { div { dt { "Progress" } dd { (progress(&task)) } } }
                @if let Some(run_at) = text("run_at").filter(|_| is_live) { div { dt { "Not before" } dd { (time(run_at)) } } }
                div { dt { "Submitted" } dd { (maybe_time(text("created"))) } }
                @if !is_live { div { dt { "Settled" } dd { (maybe_time(text("updated"))) } } }
                @for (label, column) in [("Repeats", "resubmitted_from"), ("Repeated by", "resubmitted_as")] {
                    @if let Some(other) = task.get::<_, Option<Uuid>>(column) { div { dt { (label) } dd { a.id href=(to(&format!("tasks/{other}"))) { (other.to_string()) } } } }
                }
                @for (label, column) in [("Runs as", "role"), ("In database", "database")] {
                    @if let Some(value) = text(column) { div { dt { (label) } dd { (name(value)) } } }
                }
            }
            @if let Some(command) = text("command") { h2 { "Command" } pre tabindex="0" { (command) } }
            @for (label, column) in [("Spec", "spec"), ("Result", "result"), ("Meta", "meta")] {
                @if let Some(json) = text(column) { (block(label, json, &to(&format!("tasks/{id}/{column}")))) }
            }
            @if !errors.is_empty() {
                h2 { "Errors" }
                ol.errors {
                    @for error in &errors {
                        @let [code, description, traceback, more] = [0, 1, 2, 3].map(|n| error.get::<_, Option<&str>>(n).unwrap_or_default());
                        li {
                            p { @if !code.is_empty() { code { (code) } " " } (name(description)) }
                            @if !traceback.is_empty() { details { summary { "Traceback" } pre tabindex="0" { (traceback) } } }
                            @if !["", "{}", "{\n    \"args\": {\n    }\n}"].contains(&more) { pre tabindex="0" { (more) } }
                        }
                    }
                }
            }
            h2 { "History" }
            ol.timeline {
                li { "submitted " (maybe_time(text("created"))) }
                @for entry in &history { li.(kind(entry)) { (event(entry)) } }
                @if !is_live { li.(super::super::html::status_class(state)) { (state) " " (maybe_time(text("updated"))) } }
            }
            (graph)
        }
    })
}

async fn why(client: &Client, id: Uuid) -> Result<Option<String>, Refusal> {
    match client.query_one("select scylla.why($1)", &[&id]).await {
        Ok(row) => Ok(row.get(0)),
        // It has gone a moment ago.
        Err(error) if error.as_db_error().is_some() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn progress(task: &Row) -> Markup {
    let value = task.get::<_, f64>("progress");
    html! { progress max="1" value=(value) aria-label="Progress" {} " " (format!("{:.0} %", value * 100.0)) }
}

fn buttons(at: &At, id: Uuid, state: &str, rights: Rights) -> Markup {
    let (viewer, database) = (&at.viewer, &at.database.name);
    let is_live = ["waiting", "ready", "running"].contains(&state);
    let is_failed = ["aborted", "cancelled"].contains(&state);
    let form = |path: &str, inner: Markup| {
        html! {
            form method="post" action=(viewer.url(&format!("/{database}/{path}"))) {
                (viewer.token_field())
                input type="hidden" name="id" value=(id);
                (inner)
            }
        }
    };
    html! {
        div.row {
            @if is_live && rights.cancel { (form("act", html! { button name="action" value="cancel" { "Cancel" } })) }
            @if is_failed && rights.manage { (form("act", html! { button.main name="action" value="resubmit" { "Retry" } })) }
            @if (state == "waiting" || state == "ready") && rights.cancel {
                (form("act", html! {
                    input name="by" value="1 hour" size="9" aria-label="For how long";
                    button name="action" value="delay" { "Delay" }
                }))
                @if state == "waiting" { (form("act", html! { input type="hidden" name="by" value="0"; button name="action" value="delay" { "Due now" } })) }
            }
            @if rights.cancel { (form("confirm", html! { button name="deed" value="delete" { "Delete…" } })) }
        }
    }
}

fn block(label: &str, json: &str, to: &str) -> Markup {
    let is_cut = json.chars().count() > SHOWN;
    html! {
        h2 { (label) }
        pre tabindex="0" { (json.chars().take(SHOWN).collect::<String>()) @if is_cut { "…" } }
        @if is_cut { (notice("note", "This is only its beginning.", None, None)) }
        p.quiet { a href=(to) { "All of it, as JSON" } }
    }
}

fn kind(entry: &Row) -> &'static str {
    match entry.get::<_, Option<&str>>(0).unwrap_or_default() {
        "TaskAssignment" => "running",
        "TaskTimeout" => "aborted",
        _ => "waiting",
    }
}

fn event(entry: &Row) -> Markup {
    let [typ, worker, at, progress] =
        [0, 1, 2, 3].map(|n| entry.get::<_, Option<&str>>(n).unwrap_or_default());
    let what = match typ {
        "TaskAssignment" => "owned by ",
        "TaskTimeout" => "lease expired at ",
        "TaskYield" => "given back by ",
        "TaskRetry" => "to be tried again, says ",
        other => other,
    };
    html! { (what) (name(worker)) " " (time(at)) @if !progress.is_empty() && progress != "0" { ", progress " (progress) } }
}

/// JSON as the database has it, as a file.
pub async fn download(at: At, Path((_, id, part)): Path<(String, String, String)>) -> Response {
    let sql = match part.as_str() {
        "spec" => "select spec::text from scylla.tasks where id = $1",
        "result" => "select result::text from scylla.tasks where id = $1",
        "meta" => "select meta::text from scylla.tasks where id = $1",
        _ => return missing().show(&at.viewer, Some(&at.database), "tasks"),
    };
    match read(&at, &id, sql).await {
        Ok(json) => {
            let name = format!("attachment; filename=\"{part}.json\"");
            (
                [
                    (header::CONTENT_TYPE, "application/json".to_owned()),
                    (header::CONTENT_DISPOSITION, name),
                ],
                json,
            )
                .into_response()
        }
        Err(refusal) => refusal.show(&at.viewer, Some(&at.database), "tasks"),
    }
}

async fn read(at: &At, id: &str, sql: &str) -> Result<String, Refusal> {
    let id: Uuid = id.parse().map_err(|_| missing())?;
    let client = at.database.lend(&at.viewer.identity).await?;
    let row = client.query_opt(sql, &[&id]).await?.ok_or_else(missing)?;
    row.get::<_, Option<String>>(0).ok_or_else(missing)
}

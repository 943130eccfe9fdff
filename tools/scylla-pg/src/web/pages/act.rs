//! What viewers do: one form for each deed, after a question where it is about many tasks.

use super::super::frame::Page;
use super::super::frame::shown;
use super::super::html::{notice, number};
use super::super::jobs::{Deed, End};
use super::super::log::log;
use super::super::request::{At, Posted, Refusal};
use super::filter::Filter;
use crate::failure::Failure;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

fn wrong(message: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, message, "Go back, and choose again.")
}

fn is_query(text: &str) -> bool {
    text.starts_with('?') && text.bytes().all(|it| it.is_ascii_graphic())
}

fn ids(posted: &Posted) -> Result<Vec<Uuid>, Refusal> {
    posted
        .all("id")
        .map(|it| it.parse().map_err(|_| wrong("this is not the id of a task")))
        .collect()
}

fn needs_writing(at: &At) -> Result<(), Refusal> {
    match at.database.writable {
        true => Ok(()),
        false => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "this page is read-only",
            "Start the program with --access full.",
        )),
    }
}

/// Asks, with the number of tasks.
pub async fn confirm(at: At, posted: Posted) -> Response {
    let page = Page::new("Confirm", Some(&at.database), "tasks");
    shown(question(&at, &posted).await, &page, &at.viewer)
}

async fn question(at: &At, posted: &Posted) -> Result<Markup, Refusal> {
    needs_writing(at)?;
    let (viewer, database) = (&at.viewer, &at.database);
    let text = posted.get("deed");
    let matching = text.strip_prefix("all ");
    let deed = Deed::named(matching.unwrap_or(text)).ok_or_else(|| wrong("no such action"))?;
    let filter = Filter::read(|name| posted.get(name));
    let back = viewer.url(&format!("/{}/tasks{}", database.name, filter.query(&[])));
    let (count, fields) = match matching {
        Some(_) => {
            let client = database.lend(&viewer.identity).await?;
            let mut json = filter.to_json()?;
            // Tasks that come later are not among those that were counted.
            if !json.contains_key("created_before") {
                let now = client.query_one("select clock_timestamp()::text", &[]).await?;
                json.insert("created_before".to_owned(), now.get::<_, &str>(0).into());
            }
            let json = Value::Object(json).to_string();
            let count = deed.count(&client, &json).await?;
            (
                count,
                html! {
                    input type="hidden" name="filter" value=(json);
                    input type="hidden" name="count" value=(count);
                },
            )
        }
        None => {
            let ids = ids(posted)?;
            let fields = html! { @for id in &ids { input type="hidden" name="id" value=(id); } };
            (ids.len() as i64, fields)
        }
    };
    let what = format!("{} task{}", number(count), if count == 1 { "" } else { "s" });
    if count == 0 {
        let text = match matching {
            Some(_) => "No task matches that this could be done to.",
            None => "No task is selected.",
        };
        return Ok(
            html! { h1 { (deed.verb()) } (notice("note", text, None, None)) p { a.button href=(back) { "Back" } } },
        );
    }
    Ok(html! {
        h1 { (deed.verb()) " " (what) "?" }
        @if matching.is_some() {
            dl.facts {
                @for (name, value) in filter.to_json()? { div { dt { (name) } dd { @match value { Value::String(text) => { bdi { (text) } }, other => code { (other.to_string()) } } } } }
            }
        }
        p {
            @match deed {
                Deed::Cancel => "Workers of running tasks learn it at their next call. Tasks that have settled stay as they are.",
                Deed::Resubmit => "Aborted and cancelled tasks are submitted again, as new tasks.",
                Deed::Delete => "They are gone then, with the tasks that wait for nothing else.",
            }
        }
        form.row method="post" action=(viewer.url(&format!("/{}/act", database.name))) {
            (viewer.token_field())
            (fields)
            input type="hidden" name="back" value=(filter.query(&[]));
            input type="hidden" name="action" value=(deed.name());
            button.main.danger[deed == Deed::Delete] { (deed.verb()) " " (what) }
            a.button href=(back) { "Back" }
        }
    })
}

/// Does it, and goes back to where the form was.
pub async fn act(at: At, posted: Posted) -> Response {
    match done(&at, &posted).await {
        Ok(to) => {
            Redirect::to(&at.viewer.url(&format!("/{}/{to}", at.database.name))).into_response()
        }
        Err(refusal) => refusal.show(&at.viewer, Some(&at.database), ""),
    }
}

/// The page to show next.
async fn done(at: &At, posted: &Posted) -> Result<String, Refusal> {
    needs_writing(at)?;
    let action = posted.get("action");
    if let Some(deed) = Deed::named(action).filter(|_| !posted.get("filter").is_empty()) {
        return many(at, posted, deed).await;
    }
    let result = one(at, posted, action).await;
    let (number, error) = match &result {
        Ok((number, _)) => (Some(*number), None),
        Err(refusal) => (None, Some(refusal.failure.message.clone())),
    };
    let targets: Vec<&str> = posted.all("id").chain(posted.all("name")).collect();
    let line = json!({ "database": at.database.name, "action": action, "target": targets, "number": number, "error": error });
    log("action", at.viewer.origin.peer, &at.viewer.identity, line);
    result.map(|(_, to)| to)
}

async fn many(at: &At, posted: &Posted, deed: Deed) -> Result<String, Refusal> {
    let filter = posted.get("filter").to_owned();
    let total = posted.get("count").parse().map_err(|_| wrong("the number is missing"))?;
    let (viewer, database) = (&at.viewer, at.database.clone());
    let job = viewer.app.jobs.begin(
        database,
        viewer.identity.clone(),
        viewer.origin.peer,
        deed,
        filter,
        total,
    );
    Ok(format!("jobs/{job}"))
}

/// Settings of a queue and their types.
pub const SETTINGS: [(&str, &str); 12] = [
    ("max_running", "integer"),
    ("max_running_per_group", "integer"),
    ("max_per_second", "double precision"),
    ("max_ready", "bigint"),
    ("timeout", "interval"),
    ("max_tries", "integer"),
    ("retry_interval", "interval"),
    ("retry_jitter", "interval"),
    ("retention", "interval"),
    ("aging", "interval"),
    ("keep_finished", "boolean"),
    ("critical", "boolean"),
];

/// How many things it was done to, and the page to show next.
async fn one(at: &At, posted: &Posted, action: &str) -> Result<(i64, String), Refusal> {
    let client = at.database.lend(&at.viewer.identity).await?;
    let name = posted.get("name");
    let by_name = |path: &str| format!("{path}{}", super::super::html::query(&[("name", name)]));
    let (sql, values, to): (String, Vec<&str>, String) = match action {
        "cancel" | "resubmit" | "delete" => {
            let deed = Deed::named(action).ok_or_else(|| wrong("no such action"))?;
            let ids = ids(posted)?;
            let to = match (ids.as_slice(), deed) {
                ([id], Deed::Cancel) => format!("tasks/{id}"),
                ([id], Deed::Resubmit) => {
                    let row = client.query_one("select (scylla.resubmit(array[$1]))[1]", &[id]).await?;
                    return match row.get::<_, Option<Uuid>>(0) {
                        Some(new) => Ok((1, format!("tasks/{new}"))),
                        None => Err(wrong("the task is neither aborted nor cancelled")),
                    };
                }
                _ => "tasks".to_owned() + Some(posted.get("back")).filter(|it| is_query(it)).unwrap_or_default(),
            };
            return Ok((deed.to_tasks(&client, &ids).await?, to));
        }
        "delay" => {
            let [id] = ids(posted)?[..] else { return Err(wrong("this is about one task")) };
            let sql = "select scylla.delay($1::uuid, now() + $2::text::interval)";
            let row = client.query_one(sql, &[&id, &posted.get("by")]).await?;
            return match row.get(0) {
                true => Ok((1, format!("tasks/{id}"))),
                false => Err(wrong("the task runs, or has settled")),
            };
        }
        "pause" => ("select scylla.pause($1)".into(), vec![name], by_name("queue")),
        "resume" => ("select scylla.resume($1)".into(), vec![name], by_name("queue")),
        "set" | "reset" => {
            let known = SETTINGS.iter().find(|(it, _)| *it == posted.get("setting"));
            let (setting, kind) = known.ok_or_else(|| wrong("there is no such setting"))?;
            match action {
                "set" => (
                    format!("select scylla.configure_queue($1, {setting} => $2::text::{kind})"),
                    vec![name, posted.get("value")],
                    by_name("queue"),
                ),
                _ => ("select scylla.reset_queue($1, $2)".into(), vec![name, *setting], by_name("queue")),
            }
        }
        "drain" => ("select scylla.drain_worker($1)".into(), vec![name], "workers".into()),
        "release" => ("select scylla.release_worker($1)".into(), vec![name], "workers".into()),
        "run_schedule" => return super::schedules::run_now(&client, name).await,
        "activate" => ("select scylla.alter_schedule($1, active => true)".into(), vec![name], by_name("schedule")),
        "deactivate" => ("select scylla.alter_schedule($1, active => false)".into(), vec![name], by_name("schedule")),
        "alter" => (
            "select scylla.alter_schedule($1, schedule => nullif($2, ''), time_zone => nullif($3, ''), misfire => nullif($4, ''), overlap => nullif($5, ''))".into(),
            vec![name, posted.get("schedule"), posted.get("time_zone"), posted.get("misfire"), posted.get("overlap")],
            by_name("schedule"),
        ),
        "unschedule" => ("select scylla.unschedule($1)".into(), vec![name], "schedules".into()),
        "cancel_group" => ("select scylla.cancel_group($1, $2)".into(), vec![posted.get("queue"), name], "groups".into()),
        "grant" | "revoke" => {
            let privileges: Vec<&str> = posted.all("privilege").collect();
            // The parameter is the name of a role as it is, not an expression to be read.
            let sql = format!("select scylla.{action}($1, quote_ident($2)::regrole, $3)");
            client.execute(&sql, &[&posted.get("queue"), &name, &privileges]).await?;
            return Ok((1, "roles".into()));
        }
        _ => return Err(wrong("there is no such action")),
    };
    let values: Vec<&(dyn ToSql + Sync)> =
        values.iter().map(|it| it as &(dyn ToSql + Sync)).collect();
    let row = client.query_one(&sql, &values).await?;
    // Functions tell by a number or a boolean what they found.
    let number = match row.columns()[0].type_().name() {
        "int4" => row.get::<_, i32>(0).into(),
        "int8" => row.get(0),
        "bool" => row.get::<_, bool>(0).into(),
        _ => 1,
    };
    if number == 0 && matches!(action, "drain" | "unschedule") {
        return Err(Refusal::from(
            Failure::new(format!("there is no \"{name}\"")).hint("It may have gone meanwhile."),
        ));
    }
    Ok((number, to))
}

/// How far an action on many tasks is.
pub async fn job(at: At, Path((_, id)): Path<(String, String)>) -> Response {
    let (viewer, database) = (&at.viewer, &at.database);
    let Some(job) = viewer.app.jobs.find(&id, &database.name, &viewer.identity) else {
        return Refusal::not_found("there is no such action any more").show(
            viewer,
            Some(database),
            "tasks",
        );
    };
    let (done, total) = (job.done.load(Relaxed), job.total);
    let end = super::super::access::lock(&job.end);
    let is_running = matches!(*end, End::Running);
    let body = html! {
        div id="fresh" data-refresh=[is_running.then_some("0.5")] {
            h1 { (job.deed.verb()) " " (number(total)) " tasks" }
            progress max=(total) value=(done) aria-label="Progress" { (done) " of " (total) }
            p role="status" { (number(done)) " of " (number(total)) " " (job.deed.done()) "." }
            @match &*end {
                End::Running => {
                    form method="post" { (viewer.token_field()) button { "Stop" } }
                }
                End::Done if done < total => p { "The others have changed meanwhile, and were left alone." },
                End::Done => p { "Done." },
                End::Stopped => p { "You have stopped it. What was done stays done." },
                End::Failed(failure) => {
                    (notice("error", &failure.message, failure.detail.as_deref(), failure.hint.as_deref().or(Some("What was done stays done. Begin again from the list of tasks."))))
                }
            }
            @if !is_running { p { a.button href=(viewer.url(&format!("/{}/tasks", database.name))) { "Tasks" } } }
        }
    };
    let mut page = Page::new("Progress", Some(database), "tasks");
    page.reloads = is_running;
    page.show(viewer, body)
}

pub async fn stop(at: At, Path((_, id)): Path<(String, String)>, _: Posted) -> Response {
    if let Some(job) = at.viewer.app.jobs.find(&id, &at.database.name, &at.viewer.identity) {
        job.stop.store(true, Relaxed);
    }
    Redirect::to(&at.viewer.url(&format!("/{}/jobs/{id}", at.database.name))).into_response()
}

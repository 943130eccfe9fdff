//! A page of tasks.

use super::super::frame::Page;
use super::super::frame::shown;
use super::super::html::{maybe_time, name, notice, status, time};
use super::super::request::{At, Refusal};
use super::super::request::{Pairs, of};
use super::filter::Filter;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;
use uuid::Uuid;

/// How many tasks a page has.
const PAGE: i32 = 50;

const TASKS: &str = "
select t.id, t.queue, t.status, t.action, t.key, t.tries, t.owner, t.created::text, t.updated::text,
    case when t.status = 'waiting' then t.run_at::text end as run_at, t.deadline::text,
    left(t.spec::text, 120) as spec, left(t.errors -> -1 ->> 'description', 120) as error, t.group_key,
    t.progress
from scylla.list_tasks($1::text::jsonb, $2, $3) t";

pub async fn page(at: At, pairs: Pairs) -> Response {
    let page = Page::new("Tasks", Some(&at.database), "tasks");
    shown(body(&at, &pairs).await, &page, &at.viewer)
}

async fn body(at: &At, pairs: &Pairs) -> Result<Markup, Refusal> {
    let (viewer, database) = (&at.viewer, &at.database);
    let filter = Filter::read(|name| of(pairs, name));
    let path = viewer.url(&format!("/{}/tasks", database.name));
    let queues = match database.visible(&viewer.identity).await {
        Ok(None) => database.snapshot.borrow().queues.iter().map(|it| it.name.clone()).collect(),
        Ok(Some(visible)) => {
            let mut queues: Vec<String> = visible.queues.iter().cloned().collect();
            queues.sort();
            queues
        }
        Err(failure) => return Err(failure.into()),
    };
    let list = match list(at, pairs, &filter, &path).await {
        Ok(list) => list,
        Err(refusal) if refusal.failure.code.is_some() || refusal.failure.hint.is_some() => {
            refusal.html()
        }
        Err(refusal) => return Err(refusal),
    };
    Ok(html! { h1 { "Tasks" } (filter.form(&path, &queues)) (list) })
}

async fn list(at: &At, pairs: &Pairs, filter: &Filter, path: &str) -> Result<Markup, Refusal> {
    let (viewer, database) = (&at.viewer, &at.database);
    let after = match of(pairs, "after") {
        "" => None,
        text => Some(
            text.parse::<Uuid>()
                .map_err(|_| Refusal::not_found("after is not the id of a task"))?,
        ),
    };
    let json = Value::Object(filter.to_json()?).to_string();
    let client = database.lend(&viewer.identity).await?;
    let rows = client.query(TASKS, &[&json, &after, &PAGE]).await?;
    drop(client);
    let queue = Some(filter.get("queue")).filter(|it| !it.is_empty());
    let rights = database.rights(&viewer.identity, queue).await?;
    if rows.is_empty() {
        return Ok(html! {
            @if after.is_some() {
                (notice("note", "There are no more tasks.", None, None))
                p { a.button href={ (path) (filter.query(&[])) } { "First page" } }
            } @else {
                (notice("note", "No task matches.", None, Some("Reset the filter, or load the page again when there are some.")))
            }
        });
    }
    let deeds = [
        ("cancel", "Cancel", rights.cancel),
        ("resubmit", "Retry", rights.manage),
        ("delete", "Delete", rights.cancel),
    ];
    let deeds: Vec<_> = deeds.into_iter().filter(|(_, _, may)| *may).collect();
    let last: Option<Uuid> =
        rows.last().filter(|_| rows.len() == PAGE as usize).map(|row| row.get(0));
    Ok(html! {
        form.tasks method="post" action=(viewer.url(&format!("/{}/confirm", database.name))) {
            (viewer.token_field())
            (filter.hidden())
            @if !deeds.is_empty() {
                div.bar role="group" aria-label="Do something to tasks" {
                    span.count data-none="Selected:" data-some=" selected:" { "Selected:" }
                    @for (deed, label, _) in &deeds { button name="deed" value=(deed) { (label) } }
                    span.apart { "All that match:" }
                    @for (deed, label, _) in &deeds { button name="deed" value={ "all " (deed) } { (label) " all…" } }
                }
            }
            div.scroll {
                table {
                    thead { tr {
                        @if !deeds.is_empty() { th.check scope="col" { input.all type="checkbox" aria-label="Select all tasks of this page" hidden; } }
                        th scope="col" { "Task" }
                        th scope="col" { "Status" }
                        th.opt scope="col" { "Queue" }
                        th.opt scope="col" { "Action, key, group" }
                        th.n.opt scope="col" { "Tries" }
                        th scope="col" { "Submitted" }
                        th.wide scope="col" { "Note" }
                        th.wide scope="col" { "Spec" }
                    } }
                    tbody {
                        @for row in &rows {
                            @let id = row.get::<_, Uuid>(0).to_string();
                            @let (state, text) = (row.get::<_, &str>(2), |n: usize| row.get::<_, Option<&str>>(n).unwrap_or_default());
                            tr {
                                @if !deeds.is_empty() { td.check { input type="checkbox" name="id" value=(id) aria-label={ "Select task " (id) }; } }
                                th scope="row" { a.id href={ (path) "/" (id) } title=(id) { (&id[..8]) "…" (&id[30..]) } }
                                td { (status(state)) }
                                td.opt { (name(text(1))) }
                                td.opt {
                                    (name(text(3)))
                                    @if !text(4).is_empty() { " " span.key title="key" { (name(text(4))) } }
                                    @if !text(13).is_empty() { " " span.group title="group" { (name(text(13))) } }
                                }
                                td.n.opt { (row.get::<_, i32>(5)) }
                                td { (time(text(7))) }
                                td.wide.note {
                                    @match state {
                                        "waiting" => @if let Some(at) = row.get::<_, Option<&str>>(9) { "due " (time(at)) } @else { "waits for tasks" },
                                        "running" => { (name(text(6))) @if let Some(deadline) = row.get::<_, Option<&str>>(10) { ", lease ends " (time(deadline)) } },
                                        "ready" => { (name(text(12))) },
                                        "completed" => { (maybe_time(row.get(8))) },
                                        _ => { (name(text(12))) },
                                    }
                                }
                                td.wide.spec { code { (text(11)) } }
                            }
                        }
                    }
                }
            }
        }
        nav.pages aria-label="More tasks" {
            @if after.is_some() { a.button href={ (path) (filter.query(&[])) } { "First page" } }
            @if let Some(last) = last { a.button href={ (path) (filter.query(&[("after", &last.to_string())])) } rel="next" { "Next page" } }
        }
    })
}

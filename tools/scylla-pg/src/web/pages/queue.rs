//! One queue: its numbers, its limits, its settings.

use super::super::database::{Database, Rights};
use super::super::frame::Page;
use super::super::frame::shown;
use super::super::html::{
    maybe_number, name, notice, number, percentiles, plot, query, rate, seconds,
};
use super::super::part::{Part, id_of};
use super::super::request::{At, Refusal, Viewer};
use super::super::request::{Pairs, of};
use super::act::SETTINGS;
use super::overview::{badges, find};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

pub async fn page(at: At, pairs: Pairs) -> Response {
    let name = of(&pairs, "name");
    let page = Page::new(name, Some(&at.database), "queue");
    let view = query(&[("view", "queue"), ("db", &at.database.name), ("name", name)]);
    shown(body(&at, name).await, &page.live(&view[1..]), &at.viewer)
}

/// What of the page comes from the snapshots.
pub async fn part(viewer: &Viewer, database: &Database, queue: &str, rights: Rights) -> Part {
    let id = id_of(&["p", &database.name, queue]);
    let top = match database.visible(&viewer.identity).await {
        Err(failure) => Refusal::from(failure).html(),
        Ok(Some(visible)) if !visible.queues.contains(queue) => missing().html(),
        Ok(_) => numbers(viewer, database, queue, rights),
    };
    Part::new(id, top, html! {}, Vec::new())
}

fn missing() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "there is no such queue, or you may not look at it",
        "Check the address, or begin at the overview. A server that has just started knows the queues \
         without settings once it has counted their tasks: load the page again.",
    )
}

async fn body(at: &At, queue: &str) -> Result<Markup, Refusal> {
    let (viewer, database) = (&at.viewer, &at.database);
    let columns: Vec<String> = SETTINGS.iter().map(|(it, _)| format!("{it}::text")).collect();
    let sql = format!("select {} from scylla.queues where queue = $1", columns.join(", "));
    let client = database.lend(&viewer.identity).await?;
    let settings = client.query_opt(&sql, &[&queue]).await?.ok_or_else(missing)?;
    drop(client);
    let rights = database.rights(&viewer.identity, Some(queue)).await?;
    let act = viewer.url(&format!("/{}/act", database.name));
    let part = part(viewer, database, queue, rights).await;
    Ok(html! {
        (part.whole())
        h2 { "Settings" }
        div.scroll {
            table {
                thead { tr { th scope="col" { "Setting" } th scope="col" { "Value" } @if rights.manage { th scope="col" { "Change" } } } }
                tbody {
                    @for (n, (setting, _)) in SETTINGS.iter().enumerate() {
                        @let value = settings.get::<_, Option<&str>>(n);
                        tr {
                            th scope="row" { code { (setting) } }
                            td { @if let Some(value) = value { (value) } @else { span.quiet { "default" } } }
                            @if rights.manage {
                                td {
                                    form.row method="post" action=(act) {
                                        (viewer.token_field())
                                        input type="hidden" name="name" value=(queue);
                                        input type="hidden" name="setting" value=(setting);
                                        input name="value" size="10" value=(value.unwrap_or_default()) aria-label={ "New value of " (setting) };
                                        button name="action" value="set" { "Set" }
                                        @if value.is_some() { button.plain name="action" value="reset" { "Default" } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    })
}

fn numbers(viewer: &Viewer, database: &Database, queue: &str, rights: Rights) -> Markup {
    let snapshot = database.snapshot.borrow().clone();
    let numbers = find(&snapshot, queue);
    let act = viewer.url(&format!("/{}/act", database.name));
    let tasks = |status: &str| {
        viewer.url(&format!(
            "/{}/tasks{}",
            database.name,
            query(&[("queue", queue), ("status", status)])
        ))
    };
    html! {
        div.heading { h1 { "Queue " (name(queue)) } @if let Some(numbers) = numbers { (badges(numbers)) } }
        div.row {
            a.button href=(tasks("")) { "Tasks" }
            a.button href=(tasks("aborted")) { "Aborted tasks" }
            @if rights.manage {
                form method="post" action=(act) {
                    (viewer.token_field())
                    input type="hidden" name="name" value=(queue);
                    @if numbers.is_some_and(|it| it.paused) { button.main name="action" value="resume" { "Resume" } }
                    @else { button name="action" value="pause" title="hands out no more tasks" { "Pause" } }
                }
            }
        }
        @if let Some(it) = numbers {
            dl.tiles {
                div { dt { "Ready" } dd { (maybe_number(it.ready)) } }
                div { dt { "Running" } dd { (maybe_number(it.running)) } }
                div { dt { "Waiting" } dd { (maybe_number(it.waiting)) } }
                div { dt { "Oldest ready" } dd { (seconds(it.oldest)) } }
                div { dt { "Workers" } dd { (number(it.workers)) } }
                div { dt { "In/s" } dd { (rate(it.rates[0])) } }
                div { dt { "Out/s" } dd { (rate(it.rates[1])) } }
                div { dt { "Failed/s" } dd { (rate(it.rates[2])) } }
            }
            dl.facts {
                div { dt { "Waited, 50 / 95 / 99 of 100" } dd { (percentiles(&it.waited)) } }
                div { dt { "Ran, 50 / 95 / 99 of 100" } dd { (percentiles(&it.ran)) } }
            }
            div.plots {
                figure { figcaption { "Ready" } (plot(&it.history, |it| it.ready, (280.0, 60.0), "ready")) }
                figure { figcaption { "Submitted a second" } (plot(&it.history, |it| it.submitted, (280.0, 60.0), "submitted a second")) }
                figure { figcaption { "Settled a second" } (plot(&it.history, |it| it.settled, (280.0, 60.0), "settled a second")) }
                figure { figcaption { "Aborted a second" } (plot(&it.history, |it| it.aborted, (280.0, 60.0), "aborted a second")) }
            }
        } @else { (notice("note", "Its numbers come in a moment.", None, None)) }
    }
}

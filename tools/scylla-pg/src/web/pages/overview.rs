//! All databases with their queues.

use super::super::database::{Database, Visible};
use super::super::frame::{Page, dot};
use super::super::html::{
    self, maybe_number, notice, number, percentiles, plot, query, rate, seconds,
};
use super::super::part::{Part, id_of};
use super::super::request::{Refusal, Viewer};
use super::super::snapshot::{Queue, Snapshot};
use crate::metrics::collect::Health;
use crate::output::duration;
use axum::response::Response;
use maud::{Markup, html};
use std::sync::Arc;

pub async fn page(viewer: Viewer) -> Response {
    let mut body = html! { h1.hidden { "Overview" } };
    for database in &viewer.app.databases {
        let part = part(&viewer, database).await;
        body = html! { (body) (part.whole()) };
    }
    Page::new("Overview", None, "overview").live("view=overview").show(&viewer, body)
}

/// One database, as far as the viewer may see it.
pub async fn part(viewer: &Viewer, database: &Database) -> Arc<Part> {
    let snapshot = database.snapshot.borrow().clone();
    match database.visible(&viewer.identity).await {
        Ok(visible) => {
            let make = |snapshot: &_, visible: Option<&_>| of(viewer, database, snapshot, visible);
            database.overview(&viewer.identity, snapshot, visible, make)
        }
        Err(failure) => {
            let top = frame(viewer, database, Refusal::from(failure).html());
            Arc::new(Part::new(id(database), top, html! {}, Vec::new()))
        }
    }
}

fn id(database: &Database) -> String {
    id_of(&["o", &database.name])
}

fn frame(viewer: &Viewer, database: &Database, inner: Markup) -> Markup {
    html! { h2 { (dot(database)) @if viewer.app.databases.len() > 1 { (database.name) } @else { "Queues" } } (inner) }
}

fn of(
    viewer: &Viewer,
    database: &Database,
    snapshot: &Snapshot,
    visible: Option<&Visible>,
) -> Part {
    let is_seen = |name: &str| visible.is_none_or(|it| it.queues.contains(name));
    let queues: Vec<&Queue> = snapshot.queues.iter().filter(|it| is_seen(&it.name)).collect();
    let inner = html! {
        @if let Some(error) = &snapshot.error {
            (notice("error", "The database cannot be reached. What you see is from before.", Some(error), Some("This page goes on when the server is back.")))
        }
        @if let Some(health) = &snapshot.health { (state(health, &queues)) }
        @else if snapshot.error.is_none() { (notice("note", "The first look at the database is under way.", None, None)) }
        @if queues.is_empty() && snapshot.health.is_some() {
            (notice("note", "There is no queue that you may look at.", None, Some("A queue is there with its first task. To see one, your role needs the privilege look: scylla.grant(queue, role, '{look}').")))
        }
    };
    let rows = queues
        .iter()
        .map(|queue| (id_of(&["q", &database.name, &queue.name]), row(viewer, database, queue)));
    let head = html! {
        tr {
            th scope="col" { "Queue" }
            th.n.opt scope="col" { "Waiting" }
            th.n scope="col" { "Ready" }
            th.n scope="col" { "Running" }
            th.n.opt scope="col" title="submitted a second" { "In/s" }
            th.n scope="col" title="completed, aborted or cancelled a second" { "Out/s" }
            th.n.opt scope="col" title="aborted a second" { "Failed/s" }
            th.n.wide scope="col" title="from ready to owned: 50, 95 and 99 of 100 tasks" { "Waited" }
            th.n.wide scope="col" title="from owned to settled: 50, 95 and 99 of 100 tasks" { "Ran" }
            th.n scope="col" title="how long the oldest ready task has waited" { "Oldest" }
            th.n.opt scope="col" title="workers that called within the last minute" { "Workers" }
            th.wide scope="col" { "Last hour" }
        }
    };
    Part::new(id(database), frame(viewer, database, inner), head, rows.collect())
}

fn state(health: &Health, queues: &[&Queue]) -> Markup {
    let sum = |value: fn(&Queue) -> Option<i64>| {
        number(queues.iter().filter_map(|it| value(it)).sum::<i64>())
    };
    let full = health.board_used as f64 / health.board_size.max(1) as f64;
    let is_late = health.due > 5.0;
    // A standby hands out nothing, and has no scheduler.
    let is_down = !health.scheduled && !health.standby;
    html! {
        dl.tiles {
            div { dt { "Ready" } dd { (sum(|it| it.ready)) } }
            div { dt { "Running" } dd { (sum(|it| it.running)) } }
            div { dt { "Waiting" } dd { (sum(|it| it.waiting)) } }
            div { dt { "Out/s" } dd { (rate(queues.iter().map(|it| it.rates[1]).sum())) } }
            div.bad[is_down || is_late] {
                dt { "Scheduler" }
                dd {
                    @if health.standby { "on the primary" } @else if is_down { "down" }
                    @else if is_late { (duration(health.due)) " late" } @else { "up" }
                }
            }
            div.bad[full >= 0.9] {
                dt { "Board" }
                dd title={ (number(health.board_used)) " of " (number(health.board_size)) " slots" } { (format!("{:.0} %", full * 100.0)) }
            }
            div { dt { "scylla" } dd { (health.version) } }
        }
        @if health.open == Some(false) && !health.standby {
            (notice("error", "This database is closed: it hands out and fires nothing.", None, Some("Where its tasks should run here, call scylla.open().")))
        }
        @if let (Some(age), Some(holder)) = (health.xmin_transactions, &health.xmin_holder) {
            @if age > 10_000_000 {
                (notice("warning", &format!("Dead rows are kept for {} transactions.", number(age)), Some(holder), Some("End what holds them, so that tables do not grow.")))
            }
        }
    }
}

/// What holds a queue back.
pub fn badges(queue: &Queue) -> Markup {
    let is_at =
        |value: Option<i64>, limit: Option<i64>| value.zip(limit).is_some_and(|(a, b)| a >= b);
    html! {
        @if queue.paused { " " span.badge.warn { "paused" } }
        @if queue.critical { " " span.badge { "critical" } }
        @if is_at(queue.running, queue.max_running) { " " span.badge.warn title="max_running is reached" { "at its limit" } }
        @if is_at(queue.ready, queue.max_ready) { " " span.badge.warn title="max_ready is reached: submitting fails" { "full" } }
        @if queue.workers == 0 && queue.ready.unwrap_or(0) > 0 && !queue.paused && queue.name != "sql" { " " span.badge.warn title="no worker has called within the last minute" { "no worker" } }
    }
}

fn row(viewer: &Viewer, database: &Database, queue: &Queue) -> Markup {
    let link = |status: &str, value: Option<i64>| {
        let to = query(&[("queue", queue.name.as_str()), ("status", status)]);
        html! {
            @if value.unwrap_or(0) > 0 {
                a href=(viewer.url(&format!("/{}/tasks{to}", database.name))) { (maybe_number(value)) }
            } @else { span.quiet { (maybe_number(value)) } }
        }
    };
    let to = viewer.url(&format!("/{}/queue{}", database.name, query(&[("name", &queue.name)])));
    html! {
        th scope="row" { a href=(to) { (html::name(&queue.name)) } (badges(queue)) }
        td.n.opt { (link("waiting", queue.waiting)) }
        td.n { (link("ready", queue.ready)) }
        td.n { (link("running", queue.running)) }
        td.n.opt { (rate(queue.rates[0])) }
        td.n { (rate(queue.rates[1])) }
        td.n.opt { span.bad[queue.rates[2] >= 0.05] { (rate(queue.rates[2])) } }
        td.n.wide { (percentiles(&queue.waited)) }
        td.n.wide { (percentiles(&queue.ran)) }
        td.n { (seconds(queue.oldest)) }
        td.n.opt { (number(queue.workers)) }
        td.wide { (plot(&queue.history, |it| it.settled, (120.0, 24.0), "settled a second")) }
    }
}

/// The newest numbers of one queue.
pub fn find<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Queue> {
    snapshot.queues.iter().find(|it| it.name == name)
}

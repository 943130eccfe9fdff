//! Schedules: what runs next, and how the last runs went.

use super::super::cron::in_words;
use super::super::frame::Page;
use super::super::frame::shown;
use super::super::html::{maybe_time, name, notice, number, query, status, status_class, time};
use super::super::request::{At, Refusal};
use super::super::request::{Pairs, of};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use tokio_postgres::{Client, Row};
use uuid::Uuid;

const COLUMNS: &str =
    "name, schedule, queue, action, active, time_zone, misfire, overlap, next_run::text,
    last_run::text, fired, completed, aborted, skipped, owner, jsonb_pretty(spec) as spec, command";

pub async fn page(at: At) -> Response {
    let page = Page::new("Schedules", Some(&at.database), "schedules");
    shown(list(&at).await, &page, &at.viewer)
}

fn words(row: &Row) -> Markup {
    let schedule: &str = row.get("schedule");
    html! {
        @match in_words(schedule) {
            Some(words) => { (words) @if words != schedule { " " code.quiet { (schedule) } } },
            None => code { (schedule) },
        }
        @if row.get::<_, &str>("time_zone") != "UTC" { " " span.quiet { (row.get::<_, &str>("time_zone")) } }
    }
}

async fn list(at: &At) -> Result<Markup, Refusal> {
    let (viewer, database) = (&at.viewer, &at.database);
    let client = database.lend(&viewer.identity).await?;
    let rows =
        client.query(&format!("select {COLUMNS} from scylla.schedules order by name"), &[]).await?;
    let coming = if rows.is_empty() {
        Vec::new()
    } else {
        let sql =
            "select name, run_at::text, queue from scylla.coming_runs() order by run_at limit 40";
        client.query(sql, &[]).await?
    };
    let one = |schedule: &str| {
        viewer.url(&format!("/{}/schedule{}", database.name, query(&[("name", schedule)])))
    };
    Ok(html! {
        h1 { "Schedules" }
        @if rows.is_empty() { (notice("note", "There is no schedule that you may look at.", None, Some("Register one by scylla.schedule, or scylla.schedule_sql."))) }
        @else {
            div.scroll { table {
                thead { tr { th scope="col" { "Name" } th scope="col" { "Runs" } th.opt scope="col" { "Queue" } th scope="col" { "Next" } th.opt scope="col" { "Last" } th.n.opt scope="col" { "Completed" } th.n scope="col" { "Aborted" } th.n.wide scope="col" { "Skipped" } } }
                tbody { @for row in &rows {
                    tr {
                        th scope="row" { a href=(one(row.get(0))) { (name(row.get(0))) } @if !row.get::<_, bool>("active") { " " span.badge.warn { "paused" } } }
                        td { (words(row)) }
                        td.opt { (name(row.get("queue"))) }
                        td { (maybe_time(row.get("next_run"))) }
                        td.opt { (maybe_time(row.get("last_run"))) }
                        td.n.opt { (number(row.get::<_, i64>("completed"))) }
                        td.n { span.bad[row.get::<_, i64>("aborted") > 0] { (number(row.get::<_, i64>("aborted"))) } }
                        td.n.wide { (number(row.get::<_, i64>("skipped"))) }
                    }
                } }
            } }
            h2 { "The next runs" }
            @if coming.is_empty() { (notice("note", "Nothing runs within a day.", None, None)) }
            ol.calendar { @for run in &coming { li { (time(run.get(1))) " " a href=(one(run.get(0))) { (name(run.get(0))) } } } }
        }
    })
}

pub async fn one(at: At, pairs: Pairs) -> Response {
    let page = Page::new(of(&pairs, "name"), Some(&at.database), "schedules");
    shown(body(&at, of(&pairs, "name")).await, &page, &at.viewer)
}

fn missing() -> Refusal {
    Refusal::not_found("there is no such schedule, or you may not look at it")
}

/// The last runs by their keys, which are made of the name and the time.
const LAST: &str = "
select t.id, t.status, r.at::text
from (
    select at from scylla.next_runs($2, 60, $3, $4::text::timestamptz - 22 * ($5::text::timestamptz - $4::text::timestamptz)) at
    where at <= $4::text::timestamptz order by at desc limit 20
) r
join scylla.tasks t on t.queue = $6
    and t.key = $1 || '@' || to_char(r.at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
order by r.at desc";

async fn body(at: &At, schedule: &str) -> Result<Markup, Refusal> {
    let (viewer, database) = (&at.viewer, &at.database);
    let client = database.lend(&viewer.identity).await?;
    let row = client
        .query_opt(&format!("select {COLUMNS} from scylla.schedules where name = $1"), &[&schedule])
        .await?
        .ok_or_else(missing)?;
    let (expression, zone, queue) = (
        row.get::<_, &str>("schedule"),
        row.get::<_, &str>("time_zone"),
        row.get::<_, &str>("queue"),
    );
    let is_active: bool = row.get("active");
    let next = match is_active {
        true => {
            client
                .query(
                    "select at::text from scylla.next_runs($1, 10, $2) at",
                    &[&expression, &zone],
                )
                .await?
        }
        false => Vec::new(),
    };
    let last =
        match (row.get::<_, Option<&str>>("last_run"), row.get::<_, Option<&str>>("next_run")) {
            (Some(last), Some(next)) => {
                client.query(LAST, &[&schedule, &expression, &zone, &last, &next, &queue]).await?
            }
            _ => Vec::new(),
        };
    drop(client);
    let rights = database.rights(&viewer.identity, Some(queue)).await?;
    let act = viewer.url(&format!("/{}/act", database.name));
    let button = |action: &str, label: &str| {
        html! { form method="post" action=(act) {
            (viewer.token_field())
            input type="hidden" name="name" value=(schedule);
            button name="action" value=(action) { (label) }
        } }
    };
    Ok(html! {
        div.heading { h1 { "Schedule " (name(schedule)) } @if !is_active { span.badge.warn { "paused" } } }
        p { (words(&row)) }
        @if rights.submit || rights.manage {
            div.row {
                @if rights.submit {
                    (button("run_schedule", "Run now"))
                    @if is_active { (button("deactivate", "Pause")) } @else { (button("activate", "Resume")) }
                }
                (button("unschedule", "Remove"))
            }
        }
        dl.facts {
            div { dt { "Queue" } dd { a href=(viewer.url(&format!("/{}/queue{}", database.name, query(&[("name", queue)])))) { (name(queue)) } } }
            @if !row.get::<_, &str>("action").is_empty() { div { dt { "Action" } dd { (name(row.get("action"))) } } }
            div { dt { "Owner" } dd { (name(row.get::<_, Option<&str>>("owner").unwrap_or_default())) } }
            div { dt { "Missed runs" } dd { (row.get::<_, &str>("misfire")) } }
            div { dt { "Overlap" } dd { (row.get::<_, &str>("overlap")) } }
            div { dt { "Fired" } dd { (number(row.get::<_, i64>("fired"))) } }
            div { dt { "Completed" } dd { (number(row.get::<_, i64>("completed"))) } }
            div { dt { "Aborted" } dd { (number(row.get::<_, i64>("aborted"))) } }
            div { dt { "Skipped" } dd { (number(row.get::<_, i64>("skipped"))) } }
        }
        @if !last.is_empty() {
            h2 { "Last runs" }
            ol.strip { @for run in &last {
                @let state = run.get::<_, &str>(1);
                li { a.(status_class(state)) href=(viewer.url(&format!("/{}/tasks/{}", database.name, run.get::<_, Uuid>(0)))) { (status(state)) " " (time(run.get(2))) } }
            } }
        }
        @if !next.is_empty() { h2 { "Next runs" } ol.calendar { @for run in &next { li { (time(run.get(0))) } } } }
        @if let Some(command) = row.get::<_, Option<&str>>("command") { h2 { "Command" } pre tabindex="0" { (command) } }
        @else { h2 { "Spec" } pre tabindex="0" { (row.get::<_, &str>("spec")) } }
        @if rights.submit {
            h2 { "Change" }
            form.row method="post" action=(act) {
                (viewer.token_field())
                input type="hidden" name="name" value=(schedule);
                label { "Schedule" input name="schedule" value=(expression); }
                label { "Time zone" input name="time_zone" value=(zone); }
                (choice("Missed runs", "misfire", &["skip", "once", "all"], row.get("misfire")))
                (choice("Overlap", "overlap", &["allow", "skip"], row.get("overlap")))
                button.main name="action" value="alter" { "Save" }
            }
        }
    })
}

fn choice(label: &str, name: &str, values: &[&str], current: &str) -> Markup {
    html! { label { (label) select name=(name) { @for value in values { option selected[*value == current] { (value) } } } } }
}

/// Submits what the schedule would, as the viewer's role. The command of an SQL task has to be
/// readable.
pub async fn run_now(client: &Client, schedule: &str) -> Result<(i64, String), Refusal> {
    let row = client
        .query_opt("select command, queue from scylla.schedules where name = $1", &[&schedule])
        .await?
        .ok_or_else(missing)?;
    let sql = match (row.get::<_, Option<&str>>(0), row.get::<_, &str>(1)) {
        (Some(_), _) => {
            "select scylla.run_sql(command, database::name, priority => priority, max_tries => max_tries, retry_interval => retry_interval, retry_jitter => retry_jitter, timeout => timeout, meta => meta) from scylla.schedules where name = $1"
        }
        (None, "sql") => {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "the command is not yours to read",
                "Act as the role that owns the schedule.",
            ));
        }
        (None, _) => {
            "select scylla.submit(queue, spec, action, priority, max_tries => max_tries, retry_interval => retry_interval, retry_jitter => retry_jitter, timeout => timeout, meta => meta) from scylla.schedules where name = $1"
        }
    };
    let id: Uuid = client.query_one(sql, &[&schedule]).await?.get(0);
    Ok((1, format!("tasks/{id}")))
}

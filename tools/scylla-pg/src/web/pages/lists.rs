//! Workers, groups, SQL tasks, roles.

use super::super::database::{Database, Rights};
use super::super::frame::Page;
use super::super::frame::shown;
use super::super::html::{maybe_time, name, notice, number, query, seconds, status, time};
use super::super::part::{Part, id_of};
use super::super::request::{At, Refusal, Viewer};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;
use uuid::Uuid;

pub async fn workers(at: At) -> Response {
    let (viewer, database) = (&at.viewer, &at.database);
    let view = format!("view=workers&db={}", database.name);
    let page = Page::new("Workers", Some(database), "workers").live(&view);
    let rights = database.rights(&viewer.identity, None).await;
    let part = match rights {
        Ok(rights) => Ok(workers_part(viewer, database, rights).await),
        Err(failure) => Err(Refusal::from(failure)),
    };
    shown(part.map(|it| html! { h1 { "Workers" } (it.whole()) }), &page, viewer)
}

pub async fn workers_part(viewer: &Viewer, database: &Database, rights: Rights) -> Part {
    let id = id_of(&["w", &database.name]);
    let snapshot = database.snapshot.borrow().clone();
    let seen = match database.visible(&viewer.identity).await {
        Ok(seen) => seen,
        Err(failure) => return Part::new(id, Refusal::from(failure).html(), html! {}, Vec::new()),
    };
    let is_seen = |queue: &Option<String>, worker: &str| {
        seen.as_ref().is_none_or(|seen| match queue {
            Some(queue) => seen.queues.contains(queue),
            None => seen.idle_workers.contains(worker),
        })
    };
    let workers = snapshot.workers.iter().filter(|it| is_seen(&it.queue, &it.name));
    let form = |worker: &str, action: &str, label: &str, hint: &str| {
        html! {
            form method="post" action=(viewer.url(&format!("/{}/act", database.name))) {
                (viewer.token_field())
                input type="hidden" name="name" value=(worker);
                button name="action" value=(action) title=(hint) aria-label={ (label) " " (worker) } { (label) }
            }
        }
    };
    let rows = workers.map(|it| {
        let queue = it.queue.as_deref().unwrap_or_default();
        let tasks = viewer.url(&format!("/{}/tasks{}", database.name, query(&[("worker", &it.name), ("status", "running")])));
        let cells = html! {
            th scope="row" { a href=(tasks) { (name(&it.name)) } @if it.draining { " " span.badge.warn { "stopping" } } }
            td { @if queue.is_empty() { span.quiet { "none yet" } } @else { (name(queue)) } }
            td.n { (number(it.running)) }
            td { (maybe_time(it.last_seen.as_deref())) }
            td.opt { (maybe_time(it.next_deadline.as_deref())) }
            td.wide { (meta(&it.meta)) }
            @if rights.manage_all {
                td { div.row {
                    @if !it.draining { (form(&it.name, "drain", "Stop", "asks it to finish what it does, and to stop")) }
                    @if it.running > 0 { (form(&it.name, "release", "Release", "gives back all its tasks, as if its leases had expired")) }
                } }
            }
        };
        (id_of(&["w", &database.name, &it.name, queue]), cells)
    });
    let rows: Vec<_> = rows.collect();
    let head = html! {
        tr {
            th scope="col" { "Worker" } th scope="col" { "Queue" } th.n scope="col" { "Running" }
            th scope="col" { "Last call" } th.opt scope="col" { "First lease ends" } th.wide scope="col" { "About it" }
            @if rights.manage_all { th scope="col" { "Actions" } }
        }
    };
    let top = html! {
        @if let Some(error) = &snapshot.error { (notice("error", "The database cannot be reached. What you see is from before.", Some(error), None)) }
        @if rows.is_empty() { (notice("note", "No worker has called within the last hour.", None, Some("Start one that serves a queue which you may look at."))) }
    };
    Part::new(id, top, head, rows)
}

/// What a worker told of itself.
fn meta(text: &str) -> Markup {
    let Ok(Value::Object(meta)) = serde_json::from_str(text) else { return html! {} };
    html! {
        @for (n, (key, value)) in meta.iter().take(6).enumerate() {
            @if n > 0 { ", " }
            bdi { span.quiet { (key) } " " @match value { Value::String(text) => { (text.chars().take(80).collect::<String>()) }, other => { (other.to_string().chars().take(80).collect::<String>()) } } }
        }
    }
}

pub async fn groups(at: At) -> Response {
    let list = at.viewer.url(&format!("/{}/groups/list", at.database.name));
    // All their tasks are counted, which takes a while where millions are ready.
    let body = html! {
        h1 { "Groups" }
        div id="groups" data-later=(list) {
            p.quiet role="status" { "Counting the ready tasks…" }
            noscript { p { a href=(list) { "The groups" } } }
        }
    };
    Page::new("Groups", Some(&at.database), "groups").show(&at.viewer, body)
}

pub async fn groups_list(at: At) -> Response {
    let page = Page::new("Groups", Some(&at.database), "groups");
    shown(groups_body(&at).await, &page, &at.viewer)
}

/// How many rows lists without pages have.
const MOST: usize = 500;

async fn groups_body(at: &At) -> Result<Markup, Refusal> {
    let (viewer, database) = (&at.viewer, &at.database);
    let sql = "select queue, group_key, ready::bigint, running::bigint, extract(epoch from oldest_ready)::float8
               from scylla.groups order by ready desc, queue, group_key limit 501";
    let client = database.lend(&viewer.identity).await?;
    let rows = client.query(sql, &[]).await?;
    drop(client);
    let rights = database.rights(&viewer.identity, None).await?;
    Ok(html! {
        h1 { "Groups" }
        div id="groups" {
            @if rows.is_empty() { (notice("note", "No group has ready or running tasks.", None, Some("A task has a group when it is submitted with group_key."))) }
            @else {
                div.scroll { table {
                    thead { tr { th scope="col" { "Group" } th scope="col" { "Queue" } th.n scope="col" { "Ready" } th.n scope="col" { "Running" } th.n scope="col" { "Oldest" } @if rights.cancel { th scope="col" { "Actions" } } } }
                    tbody { @for row in rows.iter().take(MOST) {
                        @let (queue, group) = (row.get::<_, &str>(0), row.get::<_, &str>(1));
                        tr {
                            th scope="row" { a href=(viewer.url(&format!("/{}/tasks{}", database.name, query(&[("queue", queue), ("group_key", group)])))) { (name(group)) } }
                            td { (name(queue)) }
                            td.n { (number(row.get::<_, i64>(2))) }
                            td.n { (number(row.get::<_, i64>(3))) }
                            td.n { (seconds(row.get(4))) }
                            @if rights.cancel {
                                td { form method="post" action=(viewer.url(&format!("/{}/confirm", database.name))) {
                                    (viewer.token_field())
                                    input type="hidden" name="queue" value=(queue);
                                    input type="hidden" name="group_key" value=(group);
                                    button name="deed" value="all cancel" aria-label={ "Cancel the tasks of " (group) } { "Cancel…" }
                                } }
                            }
                        }
                    } }
                } }
                @if rows.len() > MOST { p.quiet { "The " (MOST) " groups with the most ready tasks." } }
            }
        }
    })
}

pub async fn sql(at: At) -> Response {
    let page = Page::new("SQL tasks", Some(&at.database), "sql");
    shown(sql_body(&at).await, &page, &at.viewer)
}

async fn sql_body(at: &At) -> Result<Markup, Refusal> {
    let (viewer, database) = (&at.viewer, &at.database);
    let sql = "select id, status, role, database, left(command, 200), updated::text, result ->> 'command_tag', left(errors -> -1 ->> 'description', 200)
               from scylla.list_tasks('{\"queue\": \"sql\"}', null, 50)";
    let client = database.lend(&viewer.identity).await?;
    let rows = client.query(sql, &[]).await?;
    Ok(html! {
        h1 { "SQL tasks" }
        @if rows.is_empty() { (notice("note", "The server has run no SQL command yet.", None, Some("Submit one by scylla.run_sql, or at times by scylla.schedule_sql."))) }
        @else {
            div.scroll { table {
                thead { tr { th scope="col" { "Task" } th scope="col" { "Status" } th scope="col" { "Command" } th.opt scope="col" { "Role" } th.opt scope="col" { "Database" } th scope="col" { "Changed" } th.wide scope="col" { "Outcome" } } }
                tbody { @for row in &rows {
                    @let id = row.get::<_, Uuid>(0).to_string();
                    @let text = |n: usize| row.get::<_, Option<&str>>(n).unwrap_or_default();
                    tr {
                        th scope="row" { a.id href=(viewer.url(&format!("/{}/tasks/{id}", database.name))) title=(id) { (&id[..8]) "…" (&id[30..]) } }
                        td { (status(text(1))) }
                        td.spec { @if text(4).is_empty() { span.quiet { "not yours to read" } } @else { code { (text(4)) } } }
                        td.opt { (name(text(2))) }
                        td.opt { @if text(3).is_empty() { span.quiet { "this one" } } @else { (name(text(3))) } }
                        td { (time(text(5))) }
                        td.wide.note { (name(if text(7).is_empty() { text(6) } else { text(7) })) }
                    }
                } }
            } }
            p { a.button href=(viewer.url(&format!("/{}/tasks?queue=sql", database.name))) { "All of them" } }
        }
    })
}

const PRIVILEGES: [&str; 5] = ["submit", "work", "cancel", "look", "manage"];

pub async fn roles(at: At) -> Response {
    let page = Page::new("Roles", Some(&at.database), "roles");
    shown(roles_body(&at).await, &page, &at.viewer)
}

async fn roles_body(at: &At) -> Result<Markup, Refusal> {
    let (viewer, database) = (&at.viewer, &at.database);
    let client = database.lend(&viewer.identity).await?;
    let owner = "select coalesce(bool_or(pg_has_role(extowner, 'usage')), false), has_table_privilege(to_regclass('scylla.privilege'), 'select') from pg_extension where extname = 'scylla'";
    let row = client.query_one(owner, &[]).await?;
    let (is_owner, may_read) = (
        row.get::<_, bool>(0) && database.writable,
        row.get::<_, Option<bool>>(1).unwrap_or(false),
    );
    let grants = match may_read {
        true => client.query("select queue, pg_get_userbyid(role::oid), privileges from scylla.privilege order by 1, 2", &[]).await?,
        false => Vec::new(),
    };
    drop(client);
    let own = database.rights(&viewer.identity, None).await?;
    let act = viewer.url(&format!("/{}/act", database.name));
    let mine: Vec<&str> = [
        ("submit to a queue", own.submit),
        ("cancel tasks", own.cancel),
        ("manage queues", own.manage),
        ("manage all queues and workers", own.manage_all),
        ("grant", own.owner),
    ]
    .into_iter()
    .filter(|(_, may)| *may)
    .map(|(what, _)| what)
    .collect();
    Ok(html! {
        h1 { "Roles and grants" }
        p { "You act as " strong { (name(viewer.identity.role())) } "." @if database.writable { " This role may " @if mine.is_empty() { "change nothing" } @else { (mine.join(", ")) } "." } @else { " This page changes nothing." } }
        @if !may_read { (notice("note", "Only the owner of the extension sees which roles have which privileges.", None, Some("Log in as that role, or ask it to call scylla.grant for you."))) }
        @else if grants.is_empty() { (notice("note", "No role was granted anything yet.", None, Some("Superusers and the extension's owner may do everything."))) }
        @else {
            div.scroll { table {
                thead { tr { th scope="col" { "Role" } th scope="col" { "Queue" } th scope="col" { "Privileges" } @if is_owner { th scope="col" { "Actions" } } } }
                tbody { @for row in &grants {
                    @let (queue, role, privileges) = (row.get::<_, &str>(0), row.get::<_, &str>(1), row.get::<_, Vec<String>>(2));
                    tr {
                        th scope="row" { (name(role)) }
                        td { @if queue == "*" { "all queues" } @else { (name(queue)) } }
                        td { @for one in &privileges { span.badge { (one) } " " } }
                        @if is_owner { td { form method="post" action=(act) {
                            (viewer.token_field())
                            input type="hidden" name="name" value=(role);
                            input type="hidden" name="queue" value=(queue);
                            @for one in &privileges { input type="hidden" name="privilege" value=(one); }
                            button name="action" value="revoke" aria-label={ "Revoke from " (role) } { "Revoke" }
                        } } }
                    }
                } }
            } }
        }
        @if is_owner {
            h2 { "Grant" }
            form.row method="post" action=(act) {
                (viewer.token_field())
                label { "Role" input name="name" required autocapitalize="none" spellcheck="false"; }
                label { "Queue, or *" input name="queue" required value="*"; }
                fieldset { legend { "Privileges" } @for one in PRIVILEGES { label.check { input type="checkbox" name="privilege" value=(one); (one) } " " } }
                button.main name="action" value="grant" { "Grant" }
            }
        }
    })
}

//! A picture of the tasks that a task waits for, and of those that wait for it.

use super::super::html::status_class;
use super::super::request::{Refusal, Viewer};
use maud::{Markup, html};
use std::collections::{BTreeMap, HashMap, HashSet};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

const MOST: usize = 200;
const MOST_STEPS: i32 = 8;
const WIDTH: i32 = 150;
const HEIGHT: i32 = 34;
const GAP: i32 = 12;
const COLUMN: i32 = 200;

struct Node {
    queue: String,
    action: String,
    status: String,
    after: Vec<Uuid>,
    step: i32,
}

const BY_ID: &str = "
select id, queue, action, status, after from scylla.tasks where id = any ($1)";
const WAITING: &str = "
select id, queue, action, status, after from scylla.tasks
where status = 'waiting' and after && $1 limit 200";

pub async fn of(
    client: &Client,
    viewer: &Viewer,
    database: &str,
    id: Uuid,
) -> Result<Markup, Refusal> {
    let mut nodes: HashMap<Uuid, Node> = HashMap::new();
    let mut is_cut = false;
    let mut next = vec![id];
    for step in 0..=MOST_STEPS {
        is_cut |= add(&mut nodes, client.query(BY_ID, &[&next]).await?, -step);
        let known: HashSet<Uuid> = nodes.keys().copied().collect();
        let all = nodes.values().filter(|it| it.step == -step).flat_map(|it| &it.after);
        next = all.filter(|it| !known.contains(it)).copied().take(MOST).collect();
        if next.is_empty() || nodes.len() >= MOST {
            break;
        }
    }
    is_cut |= !next.is_empty() && nodes.len() >= MOST;
    // Dependents have no index that all roles may use: they are looked for a short while.
    client.batch_execute("set statement_timeout = '1s'").await?;
    let mut next = vec![id];
    for step in 1..=MOST_STEPS {
        let rows = match client.query(WAITING, &[&next]).await {
            Ok(rows) => rows,
            Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
                is_cut = true;
                break;
            }
            Err(error) => return Err(error.into()),
        };
        is_cut |= add(&mut nodes, rows, step);
        next = nodes.iter().filter(|(_, it)| it.step == step).map(|(id, _)| *id).collect();
        if next.is_empty() || nodes.len() >= MOST {
            break;
        }
    }
    client.batch_execute("set statement_timeout = '15s'").await?;
    Ok(if nodes.len() < 2 {
        html! {}
    } else {
        draw(&nodes, viewer, database, id, is_cut)
    })
}

/// Whether some found no room.
fn add(nodes: &mut HashMap<Uuid, Node>, rows: Vec<tokio_postgres::Row>, step: i32) -> bool {
    for row in rows {
        if nodes.len() >= MOST {
            return true;
        }
        nodes.entry(row.get(0)).or_insert_with(|| Node {
            queue: row.get(1),
            action: row.get(2),
            status: row.get(3),
            after: row.get(4),
            step,
        });
    }
    false
}

fn draw(
    nodes: &HashMap<Uuid, Node>,
    viewer: &Viewer,
    database: &str,
    own: Uuid,
    is_cut: bool,
) -> Markup {
    let mut columns: BTreeMap<i32, Vec<Uuid>> = BTreeMap::new();
    for (id, node) in nodes {
        columns.entry(node.step).or_default().push(*id);
    }
    let mut places = HashMap::new();
    let highest = columns.values().map(Vec::len).max().unwrap_or(1) as i32;
    for (n, ids) in columns.values_mut().enumerate() {
        ids.sort();
        let top = (highest - ids.len() as i32) * (HEIGHT + GAP) / 2;
        for (m, id) in ids.iter().enumerate() {
            places.insert(*id, (n as i32 * COLUMN + 4, top + m as i32 * (HEIGHT + GAP) + 4));
        }
    }
    let width = columns.len() as i32 * COLUMN - (COLUMN - WIDTH) + 8;
    let height = highest * (HEIGHT + GAP) - GAP + 8;
    let short = |text: &str| match text.chars().count() {
        0..=18 => text.to_owned(),
        _ => text.chars().take(17).collect::<String>() + "…",
    };
    html! {
        h2 { "Dependencies" }
        p.quiet { "Left is what has to settle first." @if is_cut { " Not all tasks are shown." } }
        div.scroll.graph tabindex="0" role="region" aria-label="Dependencies" {
            svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                @for (id, node) in nodes {
                    @for after in &node.after {
                        @if let (Some((x, y)), Some((from_x, from_y))) = (places.get(id), places.get(after)) {
                            @let (a, b, c, d) = (from_x + WIDTH, from_y + HEIGHT / 2, *x, y + HEIGHT / 2);
                            path.edge d=(format!("M{a},{b} C{},{b} {},{d} {c},{d}", a + 25, c - 25)) {}
                        }
                    }
                }
                @for ids in columns.values() {
                    @for id in ids {
                        @let node = &nodes[id];
                        @let (x, y) = places[id];
                        a href=(viewer.url(&format!("/{database}/tasks/{id}"))) {
                            rect.node.(status_class(&node.status)).own[*id == own] x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="5" {}
                            text x=(x + 10) y=(y + 14) { (short(&node.queue)) @if !node.action.is_empty() { " · " (short(&node.action)) } }
                            text.quiet x=(x + 10) y=(y + 28) { (node.status) " · " (&id.to_string()[30..]) }
                        }
                    }
                }
            }
        }
    }
}

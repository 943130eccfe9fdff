//! What the server tells, in three statements.

use crate::failure::Failure;
use std::collections::HashMap;
use tokio_postgres::{Client, Row};

/// A statement that waits for a lock ends, though its scraper is gone. Settings that are local work
/// through a transaction-pooling proxy, too.
const BEGIN: &str = "begin read only; set local statement_timeout = '5s'; set local jit = off";

/// The server's own view counts transactions. Time is known of sessions and of prepared
/// transactions.
const HEALTH: &str = "
select h.version, h.protocol, pg_is_in_recovery() as standby, coalesce(h.open, false) as open,
    h.scheduler_pid is not null as scheduled, extract(epoch from h.scheduler_lag)::float8 as lag,
    coalesce(extract(epoch from h.oldest_due)::float8, 0) as due,
    h.board_size::int8, h.board_used::int8, h.lanes::int8, h.lanes_used::int8,
    case when m.sees_all then coalesce(h.xmin_age, 0) else h.xmin_age end as xmin_transactions,
    case when m.sees_all then greatest(extract(epoch from clock_timestamp() - least(
        (select min(xact_start) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()
                and backend_type = 'client backend'
                and (backend_xmin is not null or backend_xid is not null)),
        (select min(prepared) from pg_prepared_xacts where database = current_database()),
        clock_timestamp()))::float8, 0) end as xmin_seconds
from scylla.health h, (select pg_has_role('pg_monitor', 'usage') as sees_all) m";

const QUEUES: &str = "
select q.queue, q.waiting, q.ready, q.running, extract(epoch from q.oldest_ready)::float8 as oldest,
    q.paused, q.max_running, q.max_per_second, q.max_ready, q.max_running_per_group,
    coalesce(w.workers, 0) as workers, extract(epoch from s.since)::float8 as since,
    array[s.submitted, s.owned, s.completed, s.aborted, s.cancelled, s.retried, s.yielded, s.expired, s.fired]
        as events,
    s.ready_to_owned, s.ready_to_owned_sum, s.owned_to_settled, s.owned_to_settled_sum,
    count(*) over () as queues, sum(q.running) over ()::int8 as leased
from scylla.queues q
left join scylla.stats s on s.queue = q.queue
left join (
    select queue, count(*) as workers from scylla.workers
    where (running > 0 or last_seen > clock_timestamp() - interval '1 minute') and not draining
    group by queue
) w on w.queue = q.queue
order by q.queue limit $1";

const SCHEDULES: &str = "
select name, extract(epoch from next_run)::float8 as next, skipped, count(*) over () as schedules
from scylla.schedules
order by name limit $1";

/// What the counters of a queue are, in the order of the array `events`.
pub const EVENTS: [&str; 9] = [
    "submitted",
    "owned",
    "completed",
    "aborted",
    "cancelled",
    "retried",
    "yielded",
    "expired",
    "fired",
];

pub struct Snapshot {
    pub version: String,
    pub protocol: i32,
    pub server: Server,
    pub queues: Vec<Queue>,
    pub schedules: Vec<Schedule>,
    pub queues_omitted: i64,
    pub schedules_omitted: i64,
}

pub struct Server {
    /// A standby hands out nothing, and has no scheduler.
    pub standby: bool,
    pub open: bool,
    pub scheduled: bool,
    pub lag: Option<f64>,
    pub due: f64,
    pub board_size: i64,
    pub board_used: i64,
    pub leased: i64,
    pub lanes: i64,
    pub lanes_used: i64,
    /// None: the role may not see them.
    pub xmin_transactions: Option<i64>,
    pub xmin_seconds: Option<f64>,
}

pub struct Queue {
    pub name: String,
    /// Waiting, ready and running; None: the server is still counting.
    pub tasks: [Option<i64>; 3],
    pub oldest_ready: Option<f64>,
    pub paused: bool,
    pub limits: [Option<f64>; 4],
    pub workers: i64,
    /// None: nothing has happened.
    pub counters: Option<Counters>,
}

#[derive(Clone)]
pub struct Counters {
    since: f64,
    pub events: Vec<i64>,
    pub ready_to_owned: Histogram,
    pub owned_to_settled: Histogram,
}

/// Counts of what took less than 1 ms, of what took less than 2 ms, 4 ms, and so on; and the sum in
/// seconds.
#[derive(Clone)]
pub struct Histogram {
    pub counts: Vec<i64>,
    pub sum: f64,
}

pub struct Schedule {
    pub name: String,
    /// None: it is not active.
    pub next: Option<f64>,
    pub skipped: i64,
}

pub async fn snapshot(client: &Client, max_names: usize) -> Result<Snapshot, Failure> {
    let most = i64::try_from(max_names).unwrap_or(i64::MAX);
    client.batch_execute(BEGIN).await?;
    let found = statements(client, most).await;
    client.batch_execute("rollback").await?;
    found
}

async fn statements(client: &Client, most: i64) -> Result<Snapshot, Failure> {
    use tokio_postgres::types::Type;
    // Statements without a name: a proxy may give each transaction another connection.
    let health = client.query_typed(HEALTH, &[]).await?.remove(0);
    let queues = client.query_typed(QUEUES, &[(&most, Type::INT8)]).await?;
    let schedules = client.query_typed(SCHEDULES, &[(&most, Type::INT8)]).await?;
    let omitted = |rows: &[Row], of: &str| {
        rows.first().map_or(0, |row| row.get::<_, i64>(of)) - rows.len() as i64
    };
    let leased = queues.first().and_then(|row| row.get("leased")).unwrap_or(0);
    Ok(Snapshot {
        version: health.get("version"),
        protocol: health.get("protocol"),
        server: server(&health, leased),
        queues: queues.iter().map(queue).collect(),
        schedules: schedules.iter().map(schedule).collect(),
        queues_omitted: omitted(&queues, "queues"),
        schedules_omitted: omitted(&schedules, "schedules"),
    })
}

fn server(row: &Row, leased: i64) -> Server {
    Server {
        standby: row.get("standby"),
        open: row.get("open"),
        scheduled: row.get("scheduled"),
        lag: row.get("lag"),
        due: row.get("due"),
        board_size: row.get("board_size"),
        board_used: row.get("board_used"),
        leased,
        lanes: row.get("lanes"),
        lanes_used: row.get("lanes_used"),
        xmin_transactions: row.get("xmin_transactions"),
        xmin_seconds: row.get("xmin_seconds"),
    }
}

fn queue(row: &Row) -> Queue {
    let number = |name: &str| row.get::<_, Option<i32>>(name).map(f64::from);
    let since: Option<f64> = row.get("since");
    let histogram =
        |counts: &str, sum: &str| Histogram { counts: row.get(counts), sum: row.get(sum) };
    Queue {
        name: row.get("queue"),
        tasks: ["waiting", "ready", "running"].map(|state| row.get(state)),
        oldest_ready: row.get("oldest"),
        paused: row.get("paused"),
        limits: [
            number("max_running"),
            row.get("max_per_second"),
            row.get::<_, Option<i64>>("max_ready").map(|it| it as f64),
            number("max_running_per_group"),
        ],
        workers: row.get("workers"),
        counters: since.map(|since| Counters {
            since,
            events: row.get("events"),
            ready_to_owned: histogram("ready_to_owned", "ready_to_owned_sum"),
            owned_to_settled: histogram("owned_to_settled", "owned_to_settled_sum"),
        }),
    }
}

fn schedule(row: &Row) -> Schedule {
    Schedule { name: row.get("name"), next: row.get("next"), skipped: row.get("skipped") }
}

impl Snapshot {
    /// A crash of the server takes some seconds off its counters. Prometheus would take a counter
    /// that falls for one that begins at zero, and add all of it: such a counter keeps its value
    /// until it is reached again.
    pub fn keep_counting(&mut self, told: &mut HashMap<String, Counters>) {
        for queue in &mut self.queues {
            let Some(counters) = &mut queue.counters else { continue };
            match told.get_mut(&queue.name) {
                Some(before) => {
                    counters.keep_up_with(before);
                    before.clone_from(counters);
                }
                None => {
                    told.insert(queue.name.clone(), counters.clone());
                }
            }
        }
    }
}

impl Counters {
    fn keep_up_with(&mut self, before: &Counters) {
        if self.since != before.since {
            return; // the queue was dropped, and is there again
        }
        let keep_up = |now: &mut [i64], before: &[i64]| {
            now.iter_mut().zip(before).for_each(|(now, before)| *now = *before.max(now));
        };
        keep_up(&mut self.events, &before.events);
        for (now, before) in [
            (&mut self.ready_to_owned, &before.ready_to_owned),
            (&mut self.owned_to_settled, &before.owned_to_settled),
        ] {
            keep_up(&mut now.counts, &before.counts);
            now.sum = now.sum.max(before.sum);
        }
    }
}

//! What scylla tells of itself.

use super::report::Report;
use crate::commands::may_look;
use crate::failure::Failure;
use crate::output::duration;
use tokio_postgres::{Client, Row};

/// How long a scheduler may be late, in seconds.
const TOO_LATE: f64 = 5.0;
/// How long ago a delayed task should have fired, in seconds.
const LONG_DUE: f64 = 60.0;

const HEALTH: &str = "
select open, scheduler_pid, extract(epoch from scheduler_lag)::float8 as lag,
    extract(epoch from oldest_due)::float8 as due, board_size::int8, board_used::int8, lanes::int8,
    lanes_used::int8, pg_is_in_recovery() as standby, current_database()::text as database
from scylla.health";

async fn health(client: &Client) -> Result<Row, Failure> {
    Ok(client.query_one(HEALTH, &[]).await?)
}

pub async fn scheduler(client: &Client, report: &mut Report) -> Result<(), Failure> {
    let check = "scheduler";
    let row = health(client).await?;
    let database: &str = row.get("database");
    if row.get("standby") {
        report.note(
            check,
            "this server is a standby, which hands out no tasks",
            "Ask the primary.",
        );
        return Ok(());
    }
    let Some(pid) = row.get::<_, Option<i32>>("scheduler_pid") else {
        report.error(
            check,
            format!("no scheduler serves database \"{database}\": nothing fires, and no lease expires"),
            "If all background workers are in use, raise max_worker_processes and restart the server. \
             Else its log says why.",
        );
        return Ok(());
    };
    match row.get("open") {
        Some(true) => {}
        Some(false) => report.error(
            check,
            format!("database \"{database}\" is closed, as one that was copied or restored"),
            "If its tasks shall run here, run: select scylla.open()",
        ),
        None => {
            report.warning(check, "the board is not built yet", "Wait a moment, and look again.")
        }
    }
    let late = |name: &str, most: f64| row.get::<_, Option<f64>>(name).filter(|it| *it > most);
    if let Some(lag) = late("lag", TOO_LATE) {
        let message = format!("the scheduler, process {pid}, is {} late", duration(lag));
        report.warning(check, message, "See what holds it up: the server's log, locks, the disk.");
    }
    if let Some(due) = late("due", LONG_DUE) {
        let message = format!("a task has been due for {}, and has not fired", duration(due));
        report.warning(
            check,
            message,
            "See what holds the scheduler up: the server's log, locks, the disk.",
        );
    }
    report.ok(check, format!("process {pid} serves database \"{database}\""));
    Ok(())
}

/// Ready tasks may fill the board: what more there are is read from the table. Leases need their
/// slots.
pub async fn board(client: &Client, report: &mut Report) -> Result<(), Failure> {
    let check = "board";
    may_look(client).await?;
    let row = health(client).await?;
    let (size, used): (i64, i64) = (row.get("board_size"), row.get("board_used"));
    let (lanes, lanes_used): (i64, i64) = (row.get("lanes"), row.get("lanes_used"));
    let leased = client
        .query_one("select coalesce(sum(running), 0)::int8 from scylla.queues", &[])
        .await?
        .get::<_, i64>(0);
    if leased * 10 >= size * 8 {
        report.error(
            check,
            format!("{leased} of {size} slots of the board have leases"),
            "Beyond it, own_tasks fails with 53400. Raise scylla.board_size, and restart the server.",
        );
    } else if used * 10 >= size * 9 {
        report.note(
            check,
            format!("{used} of {size} slots of the board are in use, {leased} by leases of this database"),
            "More ready tasks are read from the table. To have more in memory, raise scylla.board_size.",
        );
    }
    if lanes_used * 10 >= lanes * 9 {
        report.note(
            check,
            format!("{lanes_used} of {lanes} lanes of the board are in use"),
            "More groups are read from the table. To have more in memory, raise scylla.board_size.",
        );
    }
    report.ok(check, format!("{used} of {size} slots, {lanes_used} of {lanes} lanes"));
    Ok(())
}

/// The relays that carry tasks from outboxes, where there are any.
const RELAYS: &str = "
select name, extract(epoch from clock_timestamp() - seen)::float8 as unseen,
    extract(epoch from lag)::float8 as lag, waiting,
    (select count(*) from scylla_relay.refused r where r.source = s.name) as refused
from scylla_relay.source s order by name";

/// How long a relay may be silent, or behind, in seconds.
const SILENT: f64 = 30.0;
const BEHIND: f64 = 10.0;

pub async fn relays(client: &Client, report: &mut Report) -> Result<(), Failure> {
    let check = "relay";
    let exists = "select to_regclass('scylla_relay.source') is not null";
    if !client.query_one(exists, &[]).await?.get::<_, bool>(0) {
        return Ok(());
    }
    let rows = client.query(RELAYS, &[]).await?;
    for row in &rows {
        let (name, refused): (&str, i64) = (row.get("name"), row.get("refused"));
        let (unseen, lag): (f64, f64) = (row.get("unseen"), row.get("lag"));
        if unseen > SILENT {
            report.error(
                check,
                format!("outbox \"{name}\" has had no relay for {}", duration(unseen)),
                "Start scylla-pg relay with this --name.",
            );
        } else if lag > BEHIND {
            let waiting: i64 = row.get("waiting");
            report.warning(
                check,
                format!(
                    "the relay of outbox \"{name}\" is {} late, {waiting} tasks wait",
                    duration(lag)
                ),
                "See what its stderr says: a queue may be full.",
            );
        }
        if refused > 0 {
            report.warning(
                check,
                format!("{refused} submissions of outbox \"{name}\" were refused"),
                "See scylla_relay.refused, and delete the rows that are dealt with.",
            );
        }
    }
    report.ok(check, format!("{} outboxes, none is late", rows.len()));
    Ok(())
}

/// Queues with something to do that no worker does. The server serves the queue `sql` itself.
const QUEUES: &str = "
select q.queue, coalesce(q.ready, 0)::int8 as ready, coalesce(q.paused, false) as paused,
    q.queue = 'sql' as is_sql,
    extract(epoch from q.oldest_ready)::float8 as oldest, exists (
        select from scylla.workers w
        where w.queue = q.queue and not w.draining
            and (w.running > 0 or w.last_seen > clock_timestamp() - interval '10 minutes')
    ) as served,
    current_setting('scylla.sql_workers')::int as sql_workers, q.running > 0 as runs
from scylla.queues q
order by q.queue";

/// How long a queue may wait for its first worker, in seconds.
const UNSERVED: f64 = 10.0;

pub async fn queues(client: &Client, report: &mut Report) -> Result<(), Failure> {
    let check = "queues";
    may_look(client).await?;
    let rows = client.query(QUEUES, &[]).await?;
    for row in &rows {
        let (queue, ready): (&str, i64) = (row.get("queue"), row.get("ready"));
        let oldest = row.get::<_, Option<f64>>("oldest").unwrap_or(0.0);
        if row.get("paused") {
            let hint = format!(
                "To let it go on, run: select scylla.resume('{}')",
                queue.replace('\'', "''")
            );
            let message = format!("queue \"{queue}\" is paused, with {ready} ready tasks");
            match ready {
                0 => report.note(check, message, &hint),
                _ => report.warning(check, message, &hint),
            }
        } else if row.get("is_sql") {
            let workers: i32 = row.get("sql_workers");
            let message = format!(
                "{ready} SQL tasks wait for a process, the oldest for {}",
                duration(oldest)
            );
            if ready > 0 && workers == 0 {
                let hint = "Set scylla.sql_workers to more than 0, and restart the server.";
                report.error(check, message, hint);
            } else if oldest > UNSERVED && row.get::<_, Option<bool>>("runs") != Some(true) {
                let hint = "Raise max_worker_processes, and restart the server.";
                report.error(check, message, hint);
            }
        } else if ready > 0 && oldest > UNSERVED && !row.get::<_, bool>("served") {
            report.warning(
                check,
                format!(
                    "queue \"{queue}\" has {ready} ready tasks and no worker, the oldest for {}",
                    duration(oldest)
                ),
                "Start a worker that serves the queue, by exactly this name.",
            );
        }
    }
    report.ok(check, format!("{} queues, none waits for a worker", rows.len()));
    Ok(())
}

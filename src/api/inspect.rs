//! `about`, `task`, `why`, `refresh` and `open`, and the functions that the views call.

use crate::api::call::Call;
use crate::api::call::declared::*;
use crate::error::{self, Result};
use crate::extension::{database, members};
use crate::guc;
use crate::ops::query::{health, inspect, owned, unserved};
use crate::ops::queues::max_tries;
use crate::ops::stats::{oldest, queues, workers};
use crate::ops::supply::identity;
use crate::pg::datum::{self, BIGINTS, UUIDS};
use crate::pg::uuid::Uuid;
use crate::pg::{jsonb, relcache};
use crate::storage::privileges::{Privileges, granted, privilege_table};
use crate::xact::on_board::current_database;
use crate::xact::{self, Change};
use pgrx::PgLogLevel;
use pgrx::pg_sys::Datum;

sql_functions!(
    About => about,
    Health => health,
    Task => task,
    Why => why,
    Leases => leases,
    Owned => owned,
    IsOwned => is_owned,
    Front => front,
    OldestReady => oldest_ready,
    QueueNumbers => queue_numbers,
    KnownWorkers => known_workers,
    Refresh => refresh,
    NoteIdentity => note_identity,
    Open => open,
);

/// The version of the calls and their meaning, for clients.
const PROTOCOL: u32 = 1;

/// The features of this version that an earlier one lacks, for clients.
const FEATURES: &[&str] = &[
    "meta",
    "return_many",
    "yield_run_at",
    "heartbeat",
    "own_any",
    "worker_meta",
    "drain_worker",
    "wait_for_event",
    "unique_for",
    "list_tasks",
    "matching",
    "drop_queue",
    "health",
    "stats_sums",
];

/// Takes nothing. Returns what serves here, for clients that work with servers of several versions.
fn about(_: &mut Call, _: About) -> Result<Option<Datum>> {
    let features: Vec<String> = FEATURES.iter().map(|it| format!("\"{it}\"")).collect();
    Ok(Some(jsonb::parse(&format!(
        r#"{{"edition": "extension", "version": "{}", "protocol": {PROTOCOL}, "shard": {},
            "features": [{}]}}"#,
        database::VERSION,
        guc::shard(),
        features.join(", ")
    ))))
}

/// Takes nothing. Returns one row for a health check. What keeps dead rows is shown to those who
/// may see the numbers of all queues.
fn health(call: &mut Call, _: Health) -> Result<Option<Datum>> {
    let mut rows = call.rows()?;
    let db = current_database();
    let health = health::health(&db);
    let number = |it: u32| Some(Datum::from(it as i32));
    let xmin = health.xmin.filter(|_| granted(&db).may_monitor(b""));
    let scheduler = health.scheduler.as_ref();
    rows.add([
        Some(datum::varlena(database::VERSION.as_bytes())),
        number(PROTOCOL),
        health.open.map(Datum::from),
        scheduler.map(|it| Datum::from(it.pid)),
        scheduler.and_then(|it| it.since).map(datum::timestamptz),
        scheduler.map(|it| datum::interval(it.lag)),
        health.oldest_due.map(datum::interval),
        number(health.usage.slots),
        number(health.usage.slots_used),
        number(health.usage.lanes),
        number(health.usage.lanes_used),
        number(health.leases_restored),
        xmin.as_ref().map(|it| Datum::from(it.0)),
        xmin.as_ref().map(|it| datum::varlena(&it.1)),
    ]);
    Ok(None)
}

/// Takes an id. Returns the task's entry, a jsonb.
fn task(call: &mut Call, args: Task) -> Result<Option<Datum>> {
    let id = args.id.required()?;
    call.authorize_tasks(&[id])?;
    let authorize = |queue: &[u8]| call.authorize_found(id, queue);
    inspect::task(&current_database(), id, authorize, datum::copy_to_caller_context())?
        .map(Some)
        .ok_or_else(|| error::no_such_task(id))
}

/// Takes an id. Returns the reason why the task is not running, in one sentence.
fn why(call: &mut Call, args: Why) -> Result<Option<Datum>> {
    let id = args.id.required()?;
    call.authorize_tasks(&[id])?;
    let authorize = |queue: &[u8]| call.authorize_found(id, queue);
    let why = inspect::why(&current_database(), id, authorize)?;
    let why = why.ok_or_else(|| error::no_such_task(id))?;
    Ok(Some(datum::varlena(&why)))
}

/// Takes an id, or null for all tasks. Returns a row per lease that the caller may look at: id,
/// owner, owned_at, deadline, progress, and whether the task's history has it. A task that another
/// open transaction has reserved has an owner and no owned_at.
fn leases(call: &mut Call, args: Leases) -> Result<Option<Datum>> {
    let task = args.task.optional();
    let mut rows = call.rows()?;
    let db = current_database();
    let granted = granted(&db);
    for (lease, queue) in inspect::leases(&db, task) {
        if !granted.on(queue.as_bytes()).has_any(Privileges::LOOK) {
            continue;
        }
        let [owner, owned_at, deadline, progress, recorded] = inspect::columns(&lease);
        rows.add([Some(Uuid(lease.id).datum()), owner, owned_at, deadline, progress, recorded]);
    }
    Ok(None)
}

/// How many tasks one row of `_owned()` has at most.
const OWNED_IN_ROW: usize = 1_024;

/// Takes whether leased tasks are wanted, or those that another open transaction has reserved.
/// Returns those that the caller may look at, of one queue and worker in one row or several.
fn owned(call: &mut Call, args: Owned) -> Result<Option<Datum>> {
    let leased = args.leased.required()?;
    let db = current_database();
    let owned = owned::all(&db, &granted(&db), call.statement());
    let mut rows = call.rows()?;
    for group in owned.groups.iter().filter(|it| it.leased == leased) {
        let queue = datum::varlena(group.queue.as_bytes());
        let owner = datum::varlena(group.owner.as_bytes());
        for tasks in group.tasks.chunks(OWNED_IN_ROW) {
            let bytes: Vec<[u8; 16]> = tasks.iter().map(|it| it.0.to_be_bytes()).collect();
            // An array copies its elements.
            let tasks = bytes.iter().map(|it| Some(Datum::from(it.as_ptr())));
            rows.add([Some(queue), Some(owner), Some(datum::array(UUIDS, tasks))]);
        }
    }
    Ok(None)
}

/// Takes an id. Returns whether the task is owned, as the statement that calls sees it, and the
/// caller may look at it.
fn is_owned(call: &mut Call, args: IsOwned) -> Result<Option<Datum>> {
    let task = args.task.required()?;
    let db = current_database();
    let is = owned::has(&db, &granted(&db), call.statement(), task);
    Ok(Some(Datum::from(is)))
}

/// Takes the names of a queue and of an action, and a priority. Returns where the ready tasks begin
/// in their lane; no row when the board does not know it, or the caller may not look at the queue.
fn front(call: &mut Call, args: Front) -> Result<Option<Datum>> {
    let (queue, action) = (args.queue.required()?, args.action.required()?);
    let priority = args.priority.optional().unwrap_or(0).clamp(0, u32::MAX.into()) as u32;
    let mut rows = call.rows()?;
    let db = current_database();
    let may_look = granted(&db).on(&queue).has_any(Privileges::LOOK);
    let front = inspect::front(&db, &queue, &action, priority);
    if let Some(front) = front.filter(|_| may_look) {
        rows.add([
            Some(Datum::from(i64::from(front.priority))),
            Some(datum::timestamptz(front.created)),
            Some(Uuid(front.id).datum()),
        ]);
    }
    Ok(None)
}

/// Takes the name of a queue. Returns since when its oldest task is ready that no worker owns; null
/// when there is no such task, or when the caller may not see the queue's numbers.
fn oldest_ready(call: &mut Call, args: OldestReady) -> Result<Option<Datum>> {
    let queue = args.queue.required()?;
    let db = current_database();
    let may_see = granted(&db).may_monitor(&queue);
    let oldest = || oldest::oldest_ready(&db, &queue, call.statement());
    let oldest = may_see.then(oldest).flatten();
    Ok(oldest.map(datum::timestamptz))
}

/// Takes nothing. Returns a row per queue that the caller may see: the queue, how many of its tasks
/// wait, are ready, and run, null while that is not known; since when it is counted, null while
/// nothing has happened; how often each event has; and the two histograms with their sums, in
/// microseconds.
fn queue_numbers(call: &mut Call, _: QueueNumbers) -> Result<Option<Datum>> {
    let mut rows = call.rows()?;
    let db = current_database();
    let granted = granted(&db);
    let number = |it: i64| Some(Datum::from(it));
    let numbers =
        |all: &[u64]| Some(datum::array(BIGINTS, all.iter().map(|it| number(*it as i64))));
    let queues = queues::all(&db).into_iter();
    for (queue, it) in queues.filter(|(queue, _)| granted.may_monitor(queue)) {
        let running = i64::from(it.running);
        rows.add([
            Some(datum::varlena(&queue)),
            it.gauges.and_then(|it| number(it.waiting)),
            it.gauges.and_then(|it| number((it.ready - running).max(0))),
            number(running),
            it.since.map(datum::timestamptz),
            numbers(&it.events.counts),
            numbers(&it.events.ready_to_owned),
            numbers(&it.events.owned_to_settled),
            number(it.events.sums[0] as i64),
            number(it.events.sums[1] as i64),
        ]);
    }
    Ok(None)
}

/// Takes a time. Returns a row per worker and queue, of the queues whose numbers the caller may
/// see: how many tasks the worker has, when it last called, and when the first of its leases
/// expires, null if none does. The queue is null of a worker that called about none. A worker
/// without tasks that last called an hour before the time is left out.
fn known_workers(call: &mut Call, args: KnownWorkers) -> Result<Option<Datum>> {
    let now = args.now.required()?;
    let mut rows = call.rows()?;
    let db = current_database();
    let granted = granted(&db);
    let workers = workers::all(&db, now).into_iter();
    // No grant is on an empty name: who may see a worker in no queue may see all queues.
    for (it, deadline) in workers.filter(|(it, _)| granted.may_monitor(it.queue.as_bytes())) {
        let queue = it.queue.as_bytes();
        rows.add([
            Some(datum::varlena(it.name.as_bytes())),
            (!queue.is_empty()).then(|| datum::varlena(queue)),
            Some(Datum::from(i64::from(it.running))),
            Some(datum::timestamptz(it.last_seen)),
            deadline.map(datum::timestamptz),
        ]);
    }
    Ok(None)
}

/// Takes nothing. At the commit, the scheduler surveys the tables, and sessions read the privileges
/// again. The script that creates an extension of another version calls it as well: nothing is
/// surveyed until the update.
fn refresh(_: &mut Call, _: Refresh) -> Result<Option<Datum>> {
    if let Some(version) = members::extension().and_then(database::other_version) {
        error::other_version(&version, database::VERSION).report(PgLogLevel::WARNING);
        return Ok(None);
    }
    let db = current_database();
    let granted = granted(&db);
    if !granted.everywhere.has_any(Privileges::MANAGE) {
        return Err(error::denied_on_all(granted.role, Privileges::MANAGE.words()));
    }
    relcache::announce_change(privilege_table(&db));
    max_tries::announce_change(&db);
    xact::at_commit(&db, [Change::Refresh]);
    unserved::warn_of(&db, b"");
    Ok(None)
}

/// Takes a boolean: whether this database hands out and fires tasks from the commit on.
fn open(_: &mut Call, args: Open) -> Result<Option<Datum>> {
    identity::open(&current_database(), args.enabled.required()?);
    Ok(None)
}

/// The trigger after changes of `scylla.incarnation`: a row that comes from another database closes
/// this one.
fn note_identity(call: &mut Call, _: NoteIdentity) -> Result<Option<Datum>> {
    call.trigger().ok_or_else(error::not_a_trigger)?;
    identity::note(&current_database());
    Ok(Some(Datum::from(0)))
}

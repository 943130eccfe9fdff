//! Looking: one task's entry, why it does not run, and the leases.

use crate::error::Result;
use crate::extension::database::Database;
use crate::ops::query::unserved::{self, Lack};
use crate::ops::supply::order::{self, First};
use crate::pg::datum::{self, BOOL, FLOAT, TEXT, TIMESTAMPTZ, UUID};
use crate::pg::process;
use crate::pg::spi::statement;
use crate::pg::time;
use crate::pg::uuid::{Uuid, group_hash};
use crate::shmem::segment::{scan_pinned, with_board};
use crate::shmem::sql_record;
use crate::storage::rows::{id_at, session};
use board::{Blocked, Board, LaneName, Lease, Micros, Name, QUEUE_MAX, Rank, Slot, State};
use pgrx::pg_sys::Datum;

statement!(TASK, "query/task", [UUID, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, FLOAT, BOOL]);
statement!(WHY, "query/why", [UUID, TIMESTAMPTZ]);

/// A task as `scylla.task` returns it, shown to `show` while it lives; `None`: there is no such
/// task. `authorize`: whether a task of a queue may be looked at.
pub fn task<T>(
    db: &Database,
    id: Uuid,
    authorize: impl Fn(&[u8]) -> Result<()>,
    show: impl FnOnce(Datum) -> T,
) -> Result<Option<T>> {
    let session = session(db);
    let rows = beside_lease(db, id, |lease| {
        let [worker, since, deadline, progress, in_history] =
            lease.map(columns).unwrap_or_default();
        let id = Some(id.datum());
        session.run(&TASK, &[id, worker, since, deadline, progress, in_history])
    });
    if rows.len() > 0 {
        authorize(&datum::text(rows.get(0, 1)))?;
    }
    Ok(rows.first().map(show))
}

const CLOSED: &str =
    "the database is closed, as one that was copied or restored; scylla.open() opens it";

const STANDBY: &str = "this server is a standby, which hands out no tasks";

/// Why a task is not running, in one sentence, in the database's encoding; `None`: there is no such
/// task. `authorize` as of `task`.
pub fn why(
    db: &Database,
    id: Uuid,
    authorize: impl Fn(&[u8]) -> Result<()>,
) -> Result<Option<Vec<u8>>> {
    let session = session(db);
    let (rows, lease) = beside_lease(db, id, |lease| {
        let now = datum::timestamptz(time::now().wall);
        (session.run(&WHY, &[Some(id.datum()), Some(now)]), lease.copied())
    });
    if rows.len() == 0 {
        return Ok(None);
    }
    let [status, ready, due, pending, given, oldest] = [0, 1, 2, 3, 4, 5].map(|it| rows.get(0, it));
    let pending = datum::number(pending);
    let queue = datum::text(rows.get(0, 6));
    authorize(&queue)?;
    let group = rows.get(0, 7).map(|key| group_hash(&datum::text(Some(key))));
    let tries = datum::number(rows.get(0, 8));
    let is_behind = datum::number(rows.get(0, 9)) != 0;
    if status.is_some() {
        return Ok(Some([b"it is ", &*datum::text(status)].concat()));
    }
    if let Some(lease) = lease {
        return Ok(Some(why_owned(&lease)));
    }
    let now = time::monotonic();
    let (blocked, has_groups) = with_board(|board| {
        let found = db.find(board).map(|entry| (entry, board.find_queue(entry, &queue)));
        let Some((entry, found)) = found else { return (None, false) };
        let blocked =
            board.blocked(entry, found, now, None).or_else(|| board.group_blocked(found?, group));
        let has = |ask: fn(&Board, u32) -> bool| found.is_some_and(|queue| ask(board, queue));
        (blocked, has(|it, queue| it.has_groups(queue)))
    });
    let why = if process::is_in_recovery() {
        STANDBY.to_owned()
    } else if blocked == Some(Blocked::Closed) {
        CLOSED.to_owned()
    } else if pending > 0 {
        let oldest =
            oldest.map_or(String::new(), |_| format!(", the oldest {}", id_at(&rows, 0, 5)));
        format!("waits for {pending} of {} tasks{oldest}", datum::number(given))
    } else if due.is_some() {
        let due = time::humanize(Micros(datum::number(due)));
        match tries {
            0 => format!("due in {due}"),
            _ => format!("due in {due}, for try {}", tries + 1),
        }
    } else if let Some(why) = blocked {
        why_blocked(why).to_owned()
    } else if datum::number(ready) == 0 {
        "waits for the scheduler".to_owned()
    } else if is_behind {
        match order::first(&session, &queue, group) {
            Some(first) => return Ok(Some(behind(&first))),
            None => "waits for the scheduler".to_owned(),
        }
    } else if queue == sql_record::QUEUE {
        "ready, and waits for a process that runs SQL commands".to_owned()
    } else if has_groups {
        "ready, and waits for a worker and for the turn of its group".to_owned()
    } else {
        "ready, and waits for a worker".to_owned()
    };
    // What else keeps it from running comes first.
    let is_served = blocked.is_none() && pending == 0;
    let lack = if is_served { unserved::lack(db, &queue) } else { None };
    let rest = lack.map_or("", |lack| {
        unserved::warn(db, lack);
        match lack {
            Lack::Scheduler => {
                "; the database has no scheduler, since max_worker_processes is too low"
            }
            Lack::SqlProcess => "; none can be started, since max_worker_processes is too low",
            Lack::SqlWorkers => "; no process does, since scylla.sql_workers is 0",
        }
    });
    Ok(Some((why + rest).into_bytes()))
}

/// Why a task does not run, or is not handed out, that a worker owns.
fn why_owned(lease: &Lease) -> Vec<u8> {
    let worker = lease.worker.as_bytes();
    if let Some(process) = reserved_elsewhere(lease) {
        let until = format!("\" until the transaction of process {process} commits");
        return [b"it is reserved for worker \"", worker, until.as_bytes()].concat();
    }
    let has_expired = lease.deadline_at().is_some_and(|at| at <= time::now().wall);
    if has_expired || lease.state() == State::Withheld {
        return [b"its lease of worker \"", worker, b"\" has expired, and is being ended"].concat();
    }
    [b"it is running, owned by worker \"", worker, b"\""].concat()
}

/// Why a task's queue or group hands out nothing.
fn why_blocked(why: Blocked) -> &'static str {
    match why {
        Blocked::Closed => CLOSED,
        Blocked::Paused => "its queue is paused; scylla.resume() lets it hand out tasks",
        Blocked::NotCritical => {
            "only critical queues hand out tasks; scylla.critical_only(false) lets all do so"
        }
        Blocked::MaxRunning(_) => "its queue runs as many tasks as max_running allows",
        Blocked::MaxRunningPerGroup(_) => {
            "its group runs as many tasks as max_running_per_group allows"
        }
        Blocked::MaxPerSecond => "its queue hands out no more tasks than max_per_second allows",
    }
}

/// Why a task that is not the first of its group does not run.
fn behind(first: &First) -> Vec<u8> {
    let waits = format!("waits for task {} of its group, which is ", first.id);
    let is = match first.due {
        Some(due) => format!("due in {}", time::humanize(due - time::now().wall)).into_bytes(),
        None if first.action.is_empty() => b"ready and waits for a worker".to_vec(),
        None => [b"ready for a worker of the action \"", &*first.action, b"\""].concat(),
    };
    [waits.as_bytes(), &is].concat()
}

/// Reads a task's row together with its lease. The lease must be the same before and after: the
/// commit of a transaction that ends it shows in the row first, and on the board a moment later.
fn beside_lease<T>(db: &Database, id: Uuid, mut read: impl FnMut(Option<&Lease>) -> T) -> T {
    let find = || leases(db, Some(id)).pop().map(|(lease, _)| lease);
    let mut lease = find();
    loop {
        let answer = read(lease.as_ref());
        let after = find();
        let is_same = match (&lease, &after) {
            (Some(before), Some(after)) => before.is_same_lease(after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if is_same {
            return answer;
        }
        pgrx::check_for_interrupts!();
        lease = after;
    }
}

/// What the tables do not tell of a task: worker, when the ownership began, deadline, progress, and
/// whether the task's history has it. Of a task that another open transaction has reserved: its
/// worker only.
pub fn columns(lease: &Lease) -> [Option<Datum>; 5] {
    let worker = Some(datum::varlena(lease.worker.as_bytes()));
    if reserved_elsewhere(lease).is_some() {
        return [worker, None, None, None, Some(Datum::from(true))];
    }
    [
        worker,
        Some(datum::timestamptz(lease.since_at)),
        lease.deadline_at().map(datum::timestamptz),
        Some(datum::float(lease.progress)),
        Some(Datum::from(lease.in_history())),
    ]
}

/// The process whose open transaction has reserved the task, if it is not this one.
fn reserved_elsewhere(lease: &Slot) -> Option<i32> {
    lease.reserved_by().filter(|process| *process != process::id())
}

/// The leases and reservations of this database, all or one task's, each with its queue.
pub fn leases(db: &Database, task: Option<Uuid>) -> Vec<(Lease, Name<QUEUE_MAX>)> {
    let Some(entry) = with_board(|board| db.find(board)) else {
        return Vec::new();
    };
    let show = |board: &Board, slot: &Slot| (board.lease(slot), board.queue_name_of(slot));
    if let Some(id) = task {
        let lease = with_board(|board| {
            board.slot_of(entry, id.0).filter(|it| is_owned(it)).map(|it| show(board, it))
        });
        return lease.into_iter().collect();
    }
    scan_pinned(entry, |board, it, _| is_owned(it).then(|| show(board, it))).flatten().collect()
}

/// The rank of the next task in the lane of an action and priority, or the lowest that one in the
/// table may have; `None`: the board does not know the lane.
pub fn front(db: &Database, queue: &[u8], action: &[u8], priority: u32) -> Option<Rank> {
    let lane = LaneName { queue, action, group: None };
    with_board(|board| board.front_of(db.find(board)?, lane, priority))
}

/// Whether there is a lease, as this transaction sees it, or a reservation. A withheld task still
/// has its lease: no call for work gets it yet.
pub fn is_owned(slot: &Slot) -> bool {
    slot.has_lease_for(process::id())
        || slot.reserved_by().is_some()
        || slot.state() == State::Withheld
}

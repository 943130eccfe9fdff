//! The tasks of SQL commands: what a scheduler remembers of them, and its turns.
//!
//! A task is owned only when there is a process for it: until then it is ready.
//!
//! A command begins only when its lease is durable in `scylla.lease`: after a crash the try counts,
//! and no command runs more often than its task has tries.

use crate::extension::database::Database;
use crate::ops::sql::command::{self, Command, Refusal};
use crate::ops::sql::finish;
use crate::pg::command::simple_query::{Completed, Failure};
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::scheduler::process::{Commit, in_extension_transaction};
use crate::scheduler::sql::processes::{self, LOOK_INTERVAL, Processes};
use crate::shmem::segment::{scan_pinned, with_board};
use crate::shmem::sql_record::{SqlRecord, SqlState, WORKER};
use board::{Micros, Monotonic, TokenHash};
use pgrx::pg_sys;
use std::collections::{HashMap, HashSet};

/// How long to wait after a failure, or where a role has its share.
pub(super) const PAUSE: Micros = Micros::from_millis(200);
/// How long to wait first for room among the server's processes; each further time is twice as
/// long.
pub(super) const WORKER_PAUSE: Micros = Micros::from_millis(10);

/// A task that is owned, and not assigned yet.
pub(super) struct Claimed {
    pub(super) id: Uuid,
    pub(super) token_hash: TokenHash,
    /// Its lease is durable.
    pub(super) is_persisted: bool,
    /// What its process is to do, or why there is nothing.
    pub(super) what: Result<(Command, Assigned), Refusal>,
}

/// The process of a task, by its record.
pub(super) struct Assigned {
    pub(super) number: usize,
    pub(super) is_new: bool,
}

/// A command that is to end.
pub(super) struct Ending {
    pub(super) token_hash: TokenHash,
    pub(super) since: Monotonic,
    /// The log has that its process is terminated.
    pub(super) is_told: bool,
}

/// What the scheduler of a database remembers of SQL commands.
pub struct SqlTasks {
    pub(super) claimed: Vec<Claimed>,
    pub(super) processes: Processes,
    /// When this scheduler took over; `None`: it has not yet.
    pub(super) adopted: Option<Monotonic>,
    not_before: Monotonic,
    pub(super) worker_pause: Micros,
    /// The task that was the next one when there was no process for it.
    pub(super) first: Option<Uuid>,
    /// The role of the command that began last.
    pub(super) last_role: u32,
    /// The commands that are to end, by their records.
    pub(super) ending: HashMap<usize, Ending>,
}

impl SqlTasks {
    pub fn new() -> SqlTasks {
        SqlTasks {
            claimed: Vec::new(),
            processes: Processes::default(),
            adopted: None,
            not_before: Monotonic::MIN,
            worker_pause: WORKER_PAUSE,
            first: None,
            last_role: 0,
            ending: HashMap::new(),
        }
    }

    /// Does what is due. Returns when to look again, unless a process wakes the scheduler before.
    /// `begins`: whether the database hands out tasks; commands end in any case.
    pub fn turn(&mut self, db: &Database, entry: u32, begins: bool) -> Monotonic {
        let now = time::monotonic();
        // A copy of a database has leases of commands that run in the original.
        if self.adopted.is_none() && begins {
            if !adopt(db, entry) {
                return now + PAUSE;
            }
            self.adopted = Some(now);
        }
        if self.collect(db, entry) {
            self.not_before = now;
        }
        self.end_overdue(db, entry, now);
        if begins && now >= self.not_before {
            self.not_before = now + self.begin(db, entry, now);
        }
        let is_idle = |(_, record): (usize, &SqlRecord)| record.state() == SqlState::Idle;
        let rests = self.claimed.is_empty() && processes::own(db).all(is_idle);
        match rests && !processes::is_waiting(entry) {
            // What woke the scheduler during a pause is looked at after it.
            true if self.not_before > now => self.not_before,
            true => Monotonic::NEVER,
            false if self.not_before > now => self.not_before.min(now + LOOK_INTERVAL),
            false => now + LOOK_INTERVAL,
        }
    }
}

/// Returns a task; false: that failed, and is to be tried again.
pub(super) fn finish(
    db: &Database,
    id: Uuid,
    token_hash: TokenHash,
    outcome: &Result<Completed, Failure>,
) -> bool {
    let what = "return an SQL task";
    in_extension_transaction(db, what, Commit::Durable, || {
        finish::finish(db, id, token_hash, outcome);
    })
    .is_some()
}

/// Takes over from an earlier scheduler: leases of commands that no process runs end at once.
fn adopt(db: &Database, entry: u32) -> bool {
    for (number, _) in processes::own(db).filter(|(_, it)| it.state() == SqlState::Taken) {
        processes::give_back(number);
    }
    let kept: HashSet<u128> = processes::own(db)
        .filter(|(_, it)| it.state().has_command())
        .map(|(_, it)| it.assignment().id)
        .collect();
    let leases: Vec<(u128, TokenHash)> =
        leases(entry).into_iter().filter(|(id, _)| !kept.contains(id)).collect();
    if leases.is_empty() {
        return true;
    }
    // A worker of another queue may have the same name.
    let ids: Vec<Uuid> = leases.iter().map(|(id, _)| Uuid(*id)).collect();
    let what = "look for SQL tasks that no process runs";
    let live = in_extension_transaction(db, what, Commit::Ahead, || command::live(db, &ids));
    let Some(live) = live else { return false };
    for (id, hash) in leases.iter().filter(|(id, _)| live.contains(&Uuid(*id))) {
        expire(entry, *id, hash);
    }
    true
}

/// Ends a lease at once, as one that expires.
pub(super) fn expire(entry: u32, id: u128, token_hash: &TokenHash) {
    let now = time::now();
    with_board(|board| board.extend(entry, id, token_hash, now, Some(Micros::ZERO), None));
}

/// The leases of SQL commands, by the name of their worker.
fn leases(entry: u32) -> Vec<(u128, TokenHash)> {
    let found = scan_pinned(entry, |board, slot, _| {
        let is_meant = slot.has_lease() && board.lease(slot).worker.as_bytes() == WORKER;
        is_meant.then_some((slot.id, slot.token_hash))
    });
    found.flatten().collect()
}

pub(super) fn encoding() -> i32 {
    // SAFETY: reads this process's state.
    unsafe { pg_sys::GetDatabaseEncoding() }
}

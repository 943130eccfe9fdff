//! The tasks of SQL commands: owned, written down as begun, assigned, and returned.
//!
//! A command begins only when its lease is durable in `scylla.lease`: after a crash the try counts, and
//! no command runs more often than its task has tries.

use crate::error;
use crate::ops::maintenance::persist_leases::{note_persisted, persist};
use crate::ops::sql::command::{self, Refusal};
use crate::ops::sql::{QUEUE, WORKER, finish};
use crate::pg::command::shared_area;
use crate::pg::command::simple_query::{Completed, Failure};
use crate::pg::uuid::Uuid;
use crate::pg::{process, time};
use crate::scheduler::duties::in_extension_transaction;
use crate::scheduler::process::Commit;
use crate::scheduler::sql::exchange::{Request, is_unbegun, read_reply};
use crate::scheduler::sql::slots::{self, Assigned, Processes};
use crate::shmem::database::Database;
use crate::shmem::durability;
use crate::shmem::segment::{sql_slots, with_board};
use crate::shmem::sql_slot::{Assignment, SqlSlot, SqlState};
use crate::shmem::xact::AT_ONCE;
use board::{Micros, Monotonic, Next, TokenHash};
use pgrx::pg_sys;
use std::collections::HashSet;

/// How often a scheduler looks whether a task whose command runs was cancelled.
const LOOK_INTERVAL: Micros = Micros::from_millis(100);
/// How long to wait after a failure, or where there is no room.
const PAUSE: Micros = Micros::from_millis(200);
/// How long a process may take to start that an earlier scheduler asked for.
const START_TIMEOUT: Micros = Micros::from_secs(10);

/// A task that is owned, and not assigned yet.
struct Claimed {
    id: Uuid,
    token_hash: TokenHash,
    /// Its lease is durable.
    is_persisted: bool,
}

/// What the scheduler of a database remembers of SQL commands.
pub struct SqlTasks {
    claimed: Vec<Claimed>,
    processes: Processes,
    /// When this scheduler took over; `None`: it has not yet.
    adopted: Option<Monotonic>,
    not_before: Monotonic,
}

impl SqlTasks {
    pub fn new() -> SqlTasks {
        SqlTasks {
            claimed: Vec::new(),
            processes: Processes::default(),
            adopted: None,
            not_before: Monotonic::MIN,
        }
    }

    /// Does what is due. Returns when to look again, unless a process wakes the scheduler before.
    pub fn turn(&mut self, db: &Database, entry: u32) -> Monotonic {
        let now = time::monotonic();
        if self.adopted.is_none() {
            if !adopt(db, entry) {
                return now + PAUSE;
            }
            self.adopted = Some(now);
        }
        self.collect(db, entry);
        interrupt_cancelled(db, entry);
        if now >= self.not_before {
            self.not_before = if self.begin(db, entry, now) { now } else { now + PAUSE };
        }
        let is_idle = |(_, slot): (usize, &SqlSlot)| slot.state() == SqlState::Idle;
        match self.claimed.is_empty() && slots::own(db).all(is_idle) {
            // What woke the scheduler during a pause is looked at after it.
            true if self.not_before > now => self.not_before,
            true => Monotonic::NEVER,
            false => now + LOOK_INTERVAL,
        }
    }

    /// Returns the tasks whose commands have ended.
    fn collect(&mut self, db: &Database, entry: u32) {
        for (number, slot) in slots::own(db) {
            let Assignment { id, token_hash, area, .. } = slot.assignment();
            let id = Uuid(id);
            match slot.state() {
                SqlState::Assigned if self.did_not_start(number, slot.pid()) => {
                    slot.change(SqlState::Assigned, SqlState::Unbegun);
                }
                SqlState::Done => {
                    let reply = read_reply(area, encoding());
                    let outcome = reply.unwrap_or_else(|| Err(error::reply_lost().as_failure()));
                    if finish(db, id, token_hash, &outcome) {
                        shared_area::free(area);
                        slot.release();
                    }
                }
                SqlState::Unbegun => {
                    let outcome = Err(error::process_did_not_start().as_failure());
                    if finish(db, id, token_hash, &outcome) {
                        shared_area::free(area);
                        slot.set(SqlState::Free);
                    }
                }
                // Another process runs it.
                SqlState::Lost if is_unbegun(area) => {
                    self.claimed.push(Claimed { id, token_hash, is_persisted: true });
                    shared_area::free(area);
                    slot.set(SqlState::Free);
                }
                SqlState::Lost => {
                    // The process may have told the outcome before it ended.
                    let is_over = match read_reply(area, encoding()) {
                        Some(outcome) => finish(db, id, token_hash, &outcome),
                        None => {
                            expire(entry, id.0, &token_hash);
                            true
                        }
                    };
                    if is_over {
                        shared_area::free(area);
                        slot.set(SqlState::Free);
                    }
                }
                _ => {}
            }
        }
    }

    fn did_not_start(&self, number: usize, pid: Option<i32>) -> bool {
        let since = self.adopted.unwrap_or(Monotonic::NEVER);
        let is_late = || time::monotonic() - since > START_TIMEOUT;
        pid.is_none() && self.processes.is_over(number).unwrap_or_else(is_late)
    }

    /// Owns tasks for which there is room, and assigns them. False: to be tried again after a pause.
    fn begin(&mut self, db: &Database, entry: u32, now: Monotonic) -> bool {
        // The end of the reason wakes the scheduler.
        let has_next = with_board(|board| {
            let queue = board.find_queue(entry, QUEUE);
            !sql_slots().is_empty()
                && board.blocked(entry, queue, now, None).is_none()
                && !matches!(board.next_task(entry, QUEUE, None), Next::Empty)
        });
        let mut room = 1;
        if has_next {
            slots::reclaim();
            room = slots::room().saturating_sub(self.claimed.len());
            if room > 0 {
                let what = "own SQL tasks";
                let owned =
                    in_extension_transaction(db, what, Commit::Ahead, || command::own(db, room));
                let owned = owned.unwrap_or_default();
                if owned.is_empty() {
                    return false;
                }
                let claimed = |(id, token_hash)| Claimed { id, token_hash, is_persisted: false };
                self.claimed.extend(owned.into_iter().map(claimed));
            }
        }
        if self.claimed.is_empty() {
            // Without room, those of other databases may end their commands.
            return room > 0;
        }
        if !self.persist(db, entry) {
            return false;
        }
        let mut kept = Vec::new();
        for it in std::mem::take(&mut self.claimed) {
            if !self.assign(db, entry, &it) {
                kept.push(it);
            }
        }
        self.claimed = kept;
        self.claimed.is_empty()
    }

    /// Makes the leases of tasks durable that are about to begin.
    fn persist(&mut self, db: &Database, entry: u32) -> bool {
        let new: Vec<u128> =
            self.claimed.iter().filter(|it| !it.is_persisted).map(|it| it.id.0).collect();
        if new.is_empty() {
            return true;
        }
        let lease = |id: &u128| with_board(|board| board.lease_of(entry, *id));
        let leases: Vec<_> = new.iter().filter_map(lease).collect();
        let what = "write down which SQL tasks begin";
        let written = in_extension_transaction(db, what, Commit::Durable, || persist(db, &leases));
        let Some(written) = written else { return false };
        note_persisted(entry, &written);
        durability::flush(durability::last_commit());
        self.claimed.iter_mut().for_each(|it| it.is_persisted = true);
        true
    }

    /// Assigns a task to a process. True: it is assigned, or over.
    fn assign(&mut self, db: &Database, entry: u32, it: &Claimed) -> bool {
        // Its lease was released, and its command has not ended yet.
        if sql_slots().iter().any(|slot| slot.has_command_of(db.key(), it.id.0)) {
            return false;
        }
        let what = "read an SQL task";
        let read = in_extension_transaction(db, what, Commit::Ahead, || command::read(db, it.id));
        let command = match read {
            None => return false,
            // Cancelled or deleted.
            Some(None) => return true,
            Some(Some(Err(Refusal { why, is_final: true }))) => {
                let (what, why) = ("abort an SQL task", why.as_failure());
                let abort = || finish::abort(db, it.id, it.token_hash, &why);
                return in_extension_transaction(db, what, Commit::Durable, abort).is_some();
            }
            Some(Some(Err(Refusal { why, is_final: false }))) => {
                return finish(db, it.id, it.token_hash, &Err(why.as_failure()));
            }
            Some(Some(Ok(command))) => command,
        };
        let assignment = Assignment {
            home: db.key(),
            entry,
            id: it.id.0,
            token_hash: it.token_hash,
            role: command.role.to_u32(),
            database: command.database.to_u32(),
            area: 0,
        };
        let timeout = command.timeout.map_or(0, |it| it.millis_up().clamp(1, i64::from(i32::MAX)));
        let request =
            Request { timeout: timeout as i32, encoding: encoding(), command: command.text };
        let write = || {
            let what = "pass an SQL task on";
            in_extension_transaction(db, what, Commit::Ahead, || request.write()).flatten()
        };
        matches!(self.processes.assign(assignment, write), Assigned::Done)
    }
}

/// Returns a task; false: that failed, and is to be tried again.
fn finish(
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

/// Cancels the commands whose tasks were cancelled.
fn interrupt_cancelled(db: &Database, entry: u32) {
    for (_, slot) in slots::own(db).filter(|(_, it)| it.state() == SqlState::Running) {
        let Assignment { id, token_hash, .. } = slot.assignment();
        let lease = with_board(|board| board.lease_of(entry, id));
        if lease.is_none_or(|(_, lease)| lease.token_hash != token_hash)
            && slot.state() == SqlState::Running
        {
            slot.pid().into_iter().for_each(process::interrupt);
        }
    }
}

/// Takes over from an earlier scheduler: leases of commands that no process runs end at once.
fn adopt(db: &Database, entry: u32) -> bool {
    for (_, slot) in slots::own(db).filter(|(_, it)| it.state() == SqlState::Taken) {
        if slot.pid().is_some() { slot.release() } else { slot.set(SqlState::Free) }
    }
    let kept: HashSet<u128> = slots::own(db)
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
fn expire(entry: u32, id: u128, token_hash: &TokenHash) {
    let now = time::now();
    with_board(|board| board.extend(entry, id, token_hash, now, Some(Micros::ZERO), None));
}

/// The leases of SQL commands, by the name of their worker.
fn leases(entry: u32) -> Vec<(u128, TokenHash)> {
    let (mut found, mut from) = (Vec::new(), 0);
    loop {
        found.reserve(AT_ONCE);
        let end = with_board(|board| {
            let end = board.slots_end();
            for at in from..end.min(from + AT_ONCE as u32) {
                if let Some(slot) = board.slot_at(at, entry)
                    && slot.has_lease()
                    && board.lease(slot).worker.as_bytes() == WORKER
                {
                    found.push((slot.id, slot.token_hash));
                }
            }
            end
        });
        from = from.saturating_add(AT_ONCE as u32);
        if from >= end {
            return found;
        }
    }
}

fn encoding() -> i32 {
    // SAFETY: reads this process's state.
    unsafe { pg_sys::GetDatabaseEncoding() }
}

//! Beginning SQL tasks: owning them, making their leases durable, and assigning each to its
//! process.

use crate::extension::database::Database;
use crate::ops::maintenance::persist_leases::{note_persisted, persist};
use crate::ops::sql::command::{self, Refusal};
use crate::ops::sql::{finish as outcome, rights};
use crate::pg::subtransaction::tentatively;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::scheduler::process::{Commit, in_extension_transaction};
use crate::scheduler::sql::exchange::Request;
use crate::scheduler::sql::processes::{self, Taken};
use crate::scheduler::sql::tasks::{
    Assigned, Claimed, PAUSE, SqlTasks, WORKER_PAUSE, encoding, finish,
};
use crate::shmem::segment::{sql_records, with_board};
use crate::shmem::sql_record::{Assignment, QUEUE};
use crate::xact::durability;
use board::{Micros, Monotonic, Next};

/// What came of owning a task.
enum Step {
    Claimed(Claimed),
    /// It was settled meanwhile.
    Gone,
    /// No task can be owned.
    NoTask,
    /// This role has as many processes as it may have.
    RoleHasItsShare(u32),
    /// There is no process now.
    Later,
    /// The server has no room for one.
    NoWorker,
}

impl SqlTasks {
    /// Owns tasks for which there are processes, and assigns them. Returns how long to wait before
    /// the next time, unless something happens.
    pub(super) fn begin(&mut self, db: &Database, entry: u32, now: Monotonic) -> Micros {
        let mut pause = Micros::ZERO;
        if has_next(entry, now) {
            processes::reclaim();
            if processes::may_begin(entry) {
                let (mut new, mut end) = (Vec::new(), Step::Later);
                let what = "own SQL tasks";
                let done = in_extension_transaction(db, what, Commit::Ahead, || {
                    end = self.own(db, entry, &mut new);
                });
                if done.is_none() {
                    new.iter().for_each(Claimed::give_back);
                    return PAUSE;
                }
                if !matches!(end, Step::NoWorker) {
                    self.worker_pause = WORKER_PAUSE;
                }
                pause = match end {
                    Step::NoWorker => {
                        let pause = self.worker_pause;
                        self.worker_pause = (pause * 2).min(PAUSE);
                        pause
                    }
                    Step::RoleHasItsShare(_) => PAUSE,
                    // What the board has cannot be owned: it is to be looked at again.
                    Step::NoTask if new.is_empty() => PAUSE,
                    _ => Micros::ZERO,
                };
                self.claimed.append(&mut new);
            }
        } else {
            processes::wants_none(entry);
        }
        if self.claimed.is_empty() {
            return pause;
        }
        if !self.persist(db, entry) {
            return PAUSE;
        }
        let claimed = std::mem::take(&mut self.claimed);
        self.claimed = claimed.into_iter().filter_map(|it| self.assign(db, entry, it)).collect();
        if self.claimed.is_empty() { pause } else { PAUSE }
    }

    /// Owns the best tasks as long as there are processes for them, in this transaction. Returns
    /// what came of the last one.
    fn own(&mut self, db: &Database, entry: u32, new: &mut Vec<Claimed>) -> Step {
        let mut full = Vec::new();
        loop {
            pgrx::check_for_interrupts!();
            // An ownership that is rolled back costs the task's group a turn.
            let may_go_on = || has_next(entry, time::monotonic()) && processes::may_begin(entry);
            if !new.is_empty() && !may_go_on() {
                return Step::Later;
            }
            // Its group has had its turn by now.
            let first = self.first.take();
            let mut step = self.try_own(db, entry, first);
            if first.is_some() && matches!(step, Step::NoTask) {
                step = self.try_own(db, entry, None);
            }
            if let Step::RoleHasItsShare(role) = step {
                full.push(role);
                let begun = processes::own(db).map(|(_, record)| Uuid(record.assignment().id));
                let begun: Vec<Uuid> = begun.chain(new.iter().map(|it| it.id)).collect();
                for id in command::of_other_roles(db, &full, &begun, self.last_role) {
                    step = self.try_own(db, entry, Some(id));
                    match step {
                        // Its group may have its turn later; another role's may be first.
                        Step::NoTask => {}
                        Step::RoleHasItsShare(role) => full.push(role),
                        _ => break,
                    }
                }
                if matches!(step, Step::NoTask | Step::RoleHasItsShare(_)) {
                    processes::wants_none(entry);
                    return Step::RoleHasItsShare(role);
                }
            }
            match step {
                Step::Claimed(it) => {
                    if let Ok((command, _)) = &it.what {
                        self.last_role = command.role.to_u32();
                    }
                    new.push(it);
                }
                Step::Gone => {}
                Step::NoTask => {
                    processes::wants_none(entry);
                    return Step::NoTask;
                }
                end => return end,
            }
        }
    }

    /// Owns the best task, or the one of an id, if there is a process for it.
    fn try_own(&mut self, db: &Database, entry: u32, id: Option<Uuid>) -> Step {
        tentatively(|| {
            let Some((id, token_hash)) = command::own(db, id) else { return (false, Step::NoTask) };
            let claimed = |what| {
                let it = Claimed { id, token_hash, is_persisted: false, what };
                (true, Step::Claimed(it))
            };
            // Its lease was released, and its command has not ended yet.
            if sql_records().iter().any(|record| record.has_command_of(db.key(), id.0)) {
                return (false, Step::Later);
            }
            let command = match command::read(db, id) {
                None => return (true, Step::Gone),
                Some(Err(why)) => return claimed(Err(why)),
                Some(Ok(command)) => command,
            };
            let (role, database) = (command.role.to_u32(), command.database.to_u32());
            let running = processes::used_by(role, database);
            match rights::commands_left(command.role, command.database, running) {
                Err(why) => {
                    let why = Refusal { why: why.as_failure(), is_final: false };
                    return claimed(Err(why));
                }
                Ok(Some(0)) => return (false, Step::RoleHasItsShare(role)),
                Ok(_) => {}
            }
            match self.processes.take(db, entry, role, database) {
                Taken::Record { number, is_new } => {
                    claimed(Ok((command, Assigned { number, is_new })))
                }
                Taken::RoleHasItsShare => (false, Step::RoleHasItsShare(role)),
                none => {
                    self.first = Some(id);
                    let is_later = matches!(none, Taken::Later);
                    (false, if is_later { Step::Later } else { Step::NoWorker })
                }
            }
        })
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

    /// Assigns a task to its process. `Some`: it is to be tried again.
    fn assign(&self, db: &Database, entry: u32, it: Claimed) -> Option<Claimed> {
        let Claimed { id, token_hash, .. } = it;
        let lease = with_board(|board| board.lease_of(entry, id.0));
        if lease.is_none_or(|(_, lease)| lease.token_hash != token_hash) {
            // Cancelled, deleted or released.
            it.give_back();
            return None;
        }
        let (command, process) = match &it.what {
            Ok(what) => what,
            Err(Refusal { why, is_final: true }) => {
                let abort = || outcome::abort(db, id, token_hash, why);
                let what = "abort an SQL task";
                let done = in_extension_transaction(db, what, Commit::Durable, abort);
                return done.is_none().then_some(it);
            }
            Err(Refusal { why, is_final: false }) => {
                let why = why.clone();
                return (!finish(db, id, token_hash, &Err(why))).then_some(it);
            }
        };
        let timeout = command.timeout.map_or(0, |it| it.millis_up().clamp(1, i64::from(i32::MAX)));
        let assignment = Assignment {
            home: db.key(),
            entry,
            id: id.0,
            token_hash,
            role: command.role.to_u32(),
            database: command.database.to_u32(),
            area: 0,
            timeout: timeout as i32,
        };
        let write = || {
            let what = "pass an SQL task on";
            let request = Request { encoding: encoding(), command: command.text.as_slice() };
            in_extension_transaction(db, what, Commit::Ahead, || request.write()).flatten()
        };
        let is_done = self.processes.assign(process.number, process.is_new, assignment, write);
        (!is_done).then_some(it)
    }
}

impl Claimed {
    /// Gives its process back, which has not begun it.
    fn give_back(&self) {
        if let Ok((_, process)) = &self.what {
            processes::give_back(process.number);
        }
    }
}

/// Whether the queue has a task that it hands out. The end of what is in the way wakes the
/// scheduler.
fn has_next(entry: u32, now: Monotonic) -> bool {
    with_board(|board| {
        let queue = board.find_queue(entry, QUEUE);
        !sql_records().is_empty()
            && board.blocked(entry, queue, now, None).is_none()
            && !matches!(board.next_task(entry, QUEUE, None), Next::Empty)
    })
}

//! The tasks of SQL commands: owning them, recording that they begin, assigning and returning them.
//!
//! A task is owned only when there is a process for it: until then it is ready.
//!
//! A command begins only when its lease is durable in `scylla.lease`: after a crash the try counts,
//! and no command runs more often than its task has tries.

use crate::error;
use crate::ops::maintenance::persist_leases::{note_persisted, persist};
use crate::ops::sql::command::{self, Command, Refusal};
use crate::ops::sql::{QUEUE, WORKER, finish, rights};
use crate::pg::command::shared_area;
use crate::pg::command::simple_query::{Completed, Failure};
use crate::pg::subtransaction::tentatively;
use crate::pg::uuid::Uuid;
use crate::pg::{process, time};
use crate::scheduler::duties::in_extension_transaction;
use crate::scheduler::process::Commit;
use crate::scheduler::sql::exchange::{Request, is_unbegun, read_reply};
use crate::scheduler::sql::slots::{self, GRACE, LOOK_INTERVAL, Processes, Taken};
use crate::shmem::database::Database;
use crate::shmem::durability;
use crate::shmem::segment::{scan, sql_slots, with_board};
use crate::shmem::sql_slot::{Assignment, SqlSlot, SqlState};
use board::{Micros, Monotonic, Next, TokenHash};
use pgrx::{PgLogLevel, pg_sys};
use std::collections::{HashMap, HashSet};

/// How long to wait after a failure, or where a role has its share.
const PAUSE: Micros = Micros::from_millis(200);
/// How long to wait first for a place among the server's processes; each further time is twice as
/// long.
const WORKER_PAUSE: Micros = Micros::from_millis(10);
/// How long a process may take to start that an earlier scheduler asked for.
const START_TIMEOUT: Micros = Micros::from_secs(10);
/// How long a process may take to connect.
const CONNECT_TIMEOUT: Micros = Micros::from_secs(60);

/// A task that is owned, and not assigned yet.
struct Claimed {
    id: Uuid,
    token_hash: TokenHash,
    /// Its lease is durable.
    is_persisted: bool,
    /// What its process is to do, or why there is nothing.
    what: Result<(Command, Place), Refusal>,
}

/// The process of a task, by its slot.
struct Place {
    number: usize,
    is_new: bool,
}

/// A command that is to end.
struct Ending {
    token_hash: TokenHash,
    since: Monotonic,
    /// The log has that its process is terminated.
    is_told: bool,
}

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
    /// The server has no place for one.
    NoWorker,
}

/// What the scheduler of a database remembers of SQL commands.
pub struct SqlTasks {
    claimed: Vec<Claimed>,
    processes: Processes,
    /// When this scheduler took over; `None`: it has not yet.
    adopted: Option<Monotonic>,
    not_before: Monotonic,
    worker_pause: Micros,
    /// The task that was the next one when there was no process for it.
    first: Option<Uuid>,
    /// The role of the command that began last.
    last_role: u32,
    /// The commands that are to end, by their slots.
    ending: HashMap<usize, Ending>,
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
        let is_idle = |(_, slot): (usize, &SqlSlot)| slot.state() == SqlState::Idle;
        let rests = self.claimed.is_empty() && slots::own(db).all(is_idle);
        match rests && !slots::is_waiting(entry) {
            // What woke the scheduler during a pause is looked at after it.
            true if self.not_before > now => self.not_before,
            true => Monotonic::NEVER,
            false if self.not_before > now => self.not_before.min(now + LOOK_INTERVAL),
            false => now + LOOK_INTERVAL,
        }
    }

    /// Returns the tasks whose commands have ended. True when there were any.
    fn collect(&mut self, db: &Database, entry: u32) -> bool {
        let mut any = false;
        for (number, slot) in slots::own(db) {
            let Assignment { id, token_hash, area, .. } = slot.assignment();
            let id = Uuid(id);
            let state = slot.state();
            match state {
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
                SqlState::Lost if is_unbegun(area) => self.begin_again(db, number, id, token_hash),
                SqlState::Lost => {
                    // The process may have told the outcome before it ended.
                    let is_late = |at| time::monotonic() >= at + GRACE;
                    let is_over = match read_reply(area, encoding()) {
                        Some(outcome) => finish(db, id, token_hash, &outcome),
                        None if slot.deadline().is_some_and(is_late) => {
                            let outcome = Err(error::terminated_after_timeout(GRACE).as_failure());
                            finish(db, id, token_hash, &outcome)
                        }
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
            any |= slot.state() != state;
        }
        if any {
            slots::wake_waiting(entry);
        }
        any
    }

    /// Has another process begin a command whose process has left, since its role was changed.
    fn begin_again(&mut self, db: &Database, number: usize, id: Uuid, token_hash: TokenHash) {
        let read = || command::read(db, id);
        let what = "read an SQL task";
        let Some(read) = in_extension_transaction(db, what, Commit::Ahead, read) else { return };
        let slot = &sql_slots()[number];
        shared_area::free(slot.assignment().area);
        let what = match read {
            Some(Ok(command)) => self
                .processes
                .start_again(number)
                .then_some(Ok((command, Place { number, is_new: true }))),
            Some(Err(why)) => {
                slot.set(SqlState::Free);
                Some(Err(why))
            }
            // Cancelled or deleted.
            None => {
                slot.set(SqlState::Free);
                None
            }
        };
        let claimed = what.map(|what| Claimed { id, token_hash, is_persisted: true, what });
        self.claimed.extend(claimed);
    }

    fn did_not_start(&self, number: usize, pid: Option<i32>) -> bool {
        let since = self.adopted.unwrap_or(Monotonic::NEVER);
        let is_late = || time::monotonic() - since > START_TIMEOUT;
        pid.is_none() && self.processes.is_over(number).unwrap_or_else(is_late)
    }

    /// Ends commands whose time is up, or whose tasks were cancelled: it cancels what they run, and
    /// terminates their processes where that does not help.
    fn end_overdue(&mut self, db: &Database, entry: u32, now: Monotonic) {
        let mut ending = HashMap::new();
        for (number, slot) in slots::own(db) {
            let Assignment { id, token_hash, .. } = slot.assignment();
            let state = slot.state();
            if !matches!(state, SqlState::Assigned | SqlState::Running) {
                continue;
            }
            let known = self.ending.get(&number).filter(|it| it.token_hash == token_hash);
            let lease = with_board(|board| board.lease_of(entry, id));
            let is_live = lease.is_some_and(|(_, lease)| lease.token_hash == token_hash);
            let since = match state {
                _ if !is_live => Some(known.map_or(now, |it| it.since)),
                SqlState::Assigned => Some(slot.since() + CONNECT_TIMEOUT),
                // The process cancels its statement itself, in time.
                _ => slot.deadline().filter(|at| now >= *at + LOOK_INTERVAL),
            };
            let Some(since) = since.filter(|at| *at <= now) else { continue };
            let mut it = Ending { token_hash, since, is_told: known.is_some_and(|it| it.is_told) };
            // It may have ended meanwhile, and serve another command.
            let is_same = slot.state() == state && slot.assignment().token_hash == token_hash;
            if let Some(pid) = slot.pid().filter(|_| is_same) {
                if state == SqlState::Running && now < since + GRACE {
                    process::interrupt(pid);
                } else {
                    if !std::mem::replace(&mut it.is_told, true) {
                        error::terminates_command(Uuid(id)).report(PgLogLevel::LOG);
                    }
                    process::terminate(pid);
                }
            }
            ending.insert(number, it);
        }
        self.ending = ending;
    }

    /// Owns tasks for which there are processes, and assigns them. Returns how long to wait before
    /// the next time, unless something happens.
    fn begin(&mut self, db: &Database, entry: u32, now: Monotonic) -> Micros {
        let mut pause = Micros::ZERO;
        if has_next(entry, now) {
            slots::reclaim();
            if slots::may_begin(entry) {
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
            slots::wants_none(entry);
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
            let may_go_on = || has_next(entry, time::monotonic()) && slots::may_begin(entry);
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
                let begun = slots::own(db).map(|(_, slot)| Uuid(slot.assignment().id));
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
                    slots::wants_none(entry);
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
                    slots::wants_none(entry);
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
            if sql_slots().iter().any(|slot| slot.has_command_of(db.key(), id.0)) {
                return (false, Step::Later);
            }
            let command = match command::read(db, id) {
                None => return (true, Step::Gone),
                Some(Err(why)) => return claimed(Err(why)),
                Some(Ok(command)) => command,
            };
            let (role, database) = (command.role.to_u32(), command.database.to_u32());
            let running = slots::used_by(role, database);
            match rights::commands_left(command.role, command.database, running) {
                Err(why) => {
                    let why = Refusal { why: why.as_failure(), is_final: false };
                    return claimed(Err(why));
                }
                Ok(Some(0)) => return (false, Step::RoleHasItsShare(role)),
                Ok(_) => {}
            }
            match self.processes.take(db, entry, role, database) {
                Taken::Slot { number, is_new } => claimed(Ok((command, Place { number, is_new }))),
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
        let (command, place) = match &it.what {
            Ok(what) => what,
            Err(Refusal { why, is_final: true }) => {
                let abort = || finish::abort(db, id, token_hash, why);
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
        let is_done = self.processes.assign(place.number, place.is_new, assignment, write);
        (!is_done).then_some(it)
    }
}

impl Claimed {
    /// Gives its process back, which has not begun it.
    fn give_back(&self) {
        if let Ok((_, place)) = &self.what {
            slots::give_back(place.number);
        }
    }
}

/// Whether the queue has a task that it hands out. The end of what is in the way wakes the
/// scheduler.
fn has_next(entry: u32, now: Monotonic) -> bool {
    with_board(|board| {
        let queue = board.find_queue(entry, QUEUE);
        !sql_slots().is_empty()
            && board.blocked(entry, queue, now, None).is_none()
            && !matches!(board.next_task(entry, QUEUE, None), Next::Empty)
    })
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

/// Takes over from an earlier scheduler: leases of commands that no process runs end at once.
fn adopt(db: &Database, entry: u32) -> bool {
    for (number, _) in slots::own(db).filter(|(_, it)| it.state() == SqlState::Taken) {
        slots::give_back(number);
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
    let found = scan(
        |board| board.slots_end(),
        |board, at| {
            let slot = board.slot_at(at, entry)?;
            let is_meant = slot.has_lease() && board.lease(slot).worker.as_bytes() == WORKER;
            is_meant.then_some((slot.id, slot.token_hash))
        },
    );
    found.flatten().collect()
}

fn encoding() -> i32 {
    // SAFETY: reads this process's state.
    unsafe { pg_sys::GetDatabaseEncoding() }
}

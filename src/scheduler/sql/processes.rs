//! The processes that run commands, as a scheduler sees them: it takes a free one, starts one, and
//! ends idle ones. All databases share them.
//!
//! When a process comes free, it goes to the database that runs the fewest commands among those
//! that wait. Among equals, it goes to the one that began its last command earliest. No role and no
//! database has more than its share, however long its commands run: a part is kept for other
//! databases, if there are any, and another part for other roles.

use crate::extension::database::Database;
use crate::pg::command::shared_area;
use crate::pg::{process, time};
use crate::scheduler::process::builder;
use crate::shmem::segment::{sql_records, sql_wants, wake_scheduler, with_board, with_sql_lock};
use crate::shmem::sql_record::{Assignment, SqlRecord, SqlState, SqlWant};
use board::{DatabaseEntry, Micros, Monotonic};
use pgrx::bgworkers::{BackgroundWorkerStatus, DynamicBackgroundWorker};
use pgrx::pg_sys::{self, Datum};
use std::collections::HashMap;

/// How long a wish for a process counts: its scheduler renews it, unless that has ended.
const WANT_TIME: Micros = Micros::from_secs(2);
/// How often commands are looked at that are to end.
pub const LOOK_INTERVAL: Micros = Micros::from_millis(100);
/// How long a command may outlive its time or its task before its process is terminated.
pub const GRACE: Micros = Micros::from_secs(5);
/// This part of the processes is kept for other databases, and this part for other roles.
const KEPT_PART: usize = 4;

/// What came of asking for a process.
pub enum Taken {
    /// The record of one, and whether the process is a new one.
    Record { number: usize, is_new: bool },
    /// The role has as many as it may have.
    RoleHasItsShare,
    /// The database has as many as it may have, or others come first, or none is free.
    Later,
    /// The server has no room for another process.
    NoWorker,
}

/// The processes that this scheduler started, by their records.
#[derive(Default)]
pub struct Processes(HashMap<usize, DynamicBackgroundWorker>);

/// The records that the scheduler of a database uses, with their numbers.
pub fn own(db: &Database) -> impl Iterator<Item = (usize, &'static SqlRecord)> {
    let home = db.key();
    let is_own = move |it: &SqlRecord| it.state() != SqlState::Free && it.assignment().home == home;
    sql_records().iter().enumerate().filter(move |(_, it)| is_own(it))
}

/// How many processes may be used at a time.
#[derive(Clone, Copy)]
struct Shares {
    /// By one database.
    database: usize,
    /// By one role, in all databases.
    role: usize,
}

impl Shares {
    /// Those of a database with this entry on the board, and of its roles.
    fn of(entry: u32) -> Shares {
        let is_other = |(at, it): (u32, &DatabaseEntry)| at != entry && it.may_fire();
        let has_others = with_board(|board| (0..).zip(board.entries()).any(is_other));
        let (all, kept) = (sql_records().len(), sql_records().len() / KEPT_PART);
        let database = if has_others { all - kept } else { all };
        Shares { database, role: database - kept }
    }
}

fn used(of: impl Fn(&SqlRecord) -> bool) -> usize {
    sql_records().iter().filter(|it| it.state().is_used() && of(it)).count()
}

/// How many processes a role uses, and how many are used in a database.
pub fn used_by(role: u32, database: u32) -> (usize, usize) {
    (used(|it| it.role() == role), used(|it| it.assignment().database == database))
}

/// The other databases that wait for a process and are to have one before this one: their entries
/// on the board, and what they wait for.
fn ahead(entry: u32, now: Monotonic) -> impl Iterator<Item = (u32, &'static SqlWant)> {
    let key = |entry: u32| {
        let turn = sql_wants()[entry as usize].turn();
        (used(|it| it.entry() == entry), turn)
    };
    let own = key(entry);
    let others = (0..).zip(sql_wants()).filter(move |(at, it)| *at != entry && it.is_set(now));
    others.filter(move |(at, _)| key(*at) < own)
}

/// How many processes there are for this database, leaving those that others are to have first.
fn available(entry: u32, now: Monotonic) -> usize {
    let (count, lacks) = ahead(entry, now)
        .fold((0, false), |(count, lacks), (_, it)| (count + 1, lacks || it.lacks_worker()));
    let is_available = |it: &&SqlRecord| match it.state() {
        SqlState::Idle => true,
        // Of no use to those that lack room among the server's processes.
        SqlState::Free => !lacks,
        _ => false,
    };
    sql_records().iter().filter(is_available).count().saturating_sub(count)
}

/// Whether a command of a database may begin now, as far as that does not depend on its role. If
/// not, the database waits, unless it is at its share.
pub fn may_begin(entry: u32) -> bool {
    let now = time::monotonic();
    let (want, most) = (&sql_wants()[entry as usize], Shares::of(entry).database);
    let may = with_sql_lock(|| {
        if used(|it| it.entry() == entry) >= most {
            want.clear();
            return false;
        }
        let may = available(entry, now) > 0;
        if !may {
            want.set(now + WANT_TIME, false);
        }
        may
    });
    if !may {
        wake_those_ahead(entry);
    }
    may
}

/// Wakes the schedulers that are to have a free process before this one.
fn wake_those_ahead(entry: u32) {
    let is_free = |it: &SqlRecord| matches!(it.state(), SqlState::Idle | SqlState::Free);
    if sql_records().iter().any(is_free) {
        // Only these: else two that wait would wake each other all the time.
        ahead(entry, time::monotonic()).for_each(|(at, _)| wake_scheduler(at));
    }
}

/// Wakes the other schedulers that wait for a process: one may have come free.
pub fn wake_waiting(entry: u32) {
    let now = time::monotonic();
    let waiting = (0..).zip(sql_wants()).filter(|(at, it)| *at != entry && it.is_set(now));
    waiting.for_each(|(at, _)| wake_scheduler(at));
}

/// Whether a database waits for a process.
pub fn is_waiting(entry: u32) -> bool {
    sql_wants()[entry as usize].is_set(time::monotonic())
}

/// The database has no command to begin.
pub fn wants_none(entry: u32) {
    sql_wants()[entry as usize].clear();
}

/// Asks an idle process to leave, unless as many are about to as databases wait.
fn ask_to_leave(now: Monotonic) -> Option<i32> {
    let leaving = sql_records().iter().filter(|it| it.state() == SqlState::Leaving).count();
    let waiting = sql_wants().iter().filter(|it| it.is_set(now)).count();
    if leaving >= waiting {
        return None;
    }
    let leaves = |it: &&SqlRecord| it.change(SqlState::Idle, SqlState::Leaving);
    sql_records().iter().find(leaves).and_then(SqlRecord::pid)
}

/// Whether a process is lost to its database: no scheduler looks after its command.
pub fn is_orphan(record: &SqlRecord) -> bool {
    let home = record.assignment().home;
    record.state().is_used() && with_board(|board| board.find_entry(home.0, home.1)).is_none()
}

/// Frees records of databases that are gone, or whose extension is: no scheduler collects their
/// replies.
pub fn reclaim() {
    for record in sql_records() {
        let state = record.state();
        let is_over = matches!(state, SqlState::Done | SqlState::Lost | SqlState::Unbegun);
        let area = record.assignment().area;
        if is_over
            && record.pid().is_none()
            && is_orphan(record)
            && record.change(state, SqlState::Taken)
        {
            shared_area::free(area);
            record.set(SqlState::Free);
        }
    }
}

/// Commands whose extension was dropped, or whose database was, by their records; since when.
#[derive(Default)]
pub struct Orphans(HashMap<usize, Monotonic>);

/// For how long an entry may be missing before its commands count as lost: after a crash under the
/// board's lock it is registered again.
const ENTRY_TIMEOUT: Micros = Micros::from_secs(2);

impl Orphans {
    /// Ends commands that no scheduler looks after: cancels them, and terminates their processes
    /// where that does not help. Returns when to look again.
    pub fn end(&mut self) -> Option<Micros> {
        let now = time::monotonic();
        let mut found = HashMap::new();
        for (number, record) in sql_records().iter().enumerate().filter(|(_, it)| is_orphan(it)) {
            let since = self.0.get(&number).copied().unwrap_or(now);
            found.insert(number, since);
            if now < since + ENTRY_TIMEOUT {
                continue;
            }
            match (record.state(), record.pid()) {
                (SqlState::Taken, _) => give_back(number),
                (SqlState::Running, Some(pid)) if now < since + ENTRY_TIMEOUT + GRACE => {
                    process::interrupt(pid);
                }
                (SqlState::Running | SqlState::Assigned, Some(pid)) => process::terminate(pid),
                _ => {}
            }
        }
        reclaim();
        self.0 = found;
        (!self.0.is_empty()).then_some(LOOK_INTERVAL)
    }
}

/// What a look at the records found.
enum Found {
    Idle(usize),
    /// With the number of the process to start.
    Free(usize, u32),
    RoleHasItsShare,
    Later(Option<i32>),
}

impl Processes {
    /// Takes a process for a command of a role in a database. If no process is free, the
    /// database waits.
    pub fn take(&mut self, db: &Database, entry: u32, role: u32, database: u32) -> Taken {
        let home = db.key();
        let (now, want) = (time::monotonic(), &sql_wants()[entry as usize]);
        let shares = Shares::of(entry);
        let find = || {
            if used(|it| it.entry() == entry) >= shares.database {
                want.clear();
                return Found::Later(None);
            }
            let wait = || {
                want.set(now + WANT_TIME, false);
                Found::Later(ask_to_leave(now))
            };
            if available(entry, now) == 0 {
                return wait();
            }
            if used(|it| it.role() == role) >= shares.role {
                return Found::RoleHasItsShare;
            }
            let records = sql_records();
            let serves = |record: &SqlRecord| {
                let last = record.assignment();
                (last.home, last.role, last.database) == (home, role, database)
            };
            let idle = |it: &SqlRecord| {
                serves(it) && it.pid().is_some() && it.change(SqlState::Idle, SqlState::Taken)
            };
            let found = if let Some(number) = records.iter().position(idle) {
                Found::Idle(number)
            } else if let Some(number) =
                records.iter().position(|it| it.change(SqlState::Free, SqlState::Taken))
            {
                Found::Free(number, records[number].expect_process())
            } else {
                return wait();
            };
            if let Found::Idle(number) | Found::Free(number, _) = found {
                records[number].note_use(home, entry, role, database);
            }
            found
        };
        let note_turn = || {
            let last = sql_wants().iter().map(SqlWant::turn).max().unwrap_or(0);
            want.note_turn(last + 1);
        };
        match with_sql_lock(find) {
            Found::Idle(number) => {
                note_turn();
                Taken::Record { number, is_new: false }
            }
            Found::Free(number, generation) => match start(number, generation) {
                Some(process) => {
                    self.0.insert(number, process);
                    note_turn();
                    Taken::Record { number, is_new: true }
                }
                None => {
                    sql_records()[number].set(SqlState::Free);
                    let leaving = with_sql_lock(|| {
                        want.set(now + WANT_TIME, true);
                        ask_to_leave(now)
                    });
                    leaving.into_iter().for_each(process::wake);
                    Taken::NoWorker
                }
            },
            Found::RoleHasItsShare => Taken::RoleHasItsShare,
            Found::Later(leaving) => {
                leaving.into_iter().for_each(process::wake);
                wake_those_ahead(entry);
                Taken::Later
            }
        }
    }

    /// Starts another process for a record whose process left without having begun its command;
    /// false: the server has no room for one.
    pub fn start_again(&mut self, number: usize) -> bool {
        let record = &sql_records()[number];
        record.set(SqlState::Taken);
        let process = start(number, record.expect_process());
        if process.is_none() {
            record.set(SqlState::Unbegun);
        }
        let is_started = process.is_some();
        self.0.extend(process.map(|it| (number, it)));
        is_started
    }

    /// Assigns a command to a process that was taken for it. `write` writes the request and returns
    /// its area; false: there is no memory.
    pub fn assign(
        &self,
        number: usize,
        is_new: bool,
        it: Assignment,
        write: impl FnOnce() -> Option<u32>,
    ) -> bool {
        let record = &sql_records()[number];
        let Some(area) = write() else { return false };
        record.assign(&Assignment { area, ..it }, time::monotonic());
        if !is_new {
            record.note_absence();
        }
        record.pid().into_iter().for_each(process::wake);
        true
    }

    /// Whether the process of a record has ended, or never started; `None`: an earlier scheduler
    /// started it.
    pub fn is_over(&self, number: usize) -> Option<bool> {
        let process = self.0.get(&number)?;
        Some(!matches!(process.pid(), Ok(_) | Err(BackgroundWorkerStatus::NotYetStarted)))
    }
}

/// Makes a process available that was taken, and has no command. If it is about to start still, its
/// record is free, and it finds that another one is expected.
pub fn give_back(number: usize) {
    with_sql_lock(|| sql_records()[number].release());
}

/// Starts a process for a record, which is told both numbers.
fn start(number: usize, generation: u32) -> Option<DynamicBackgroundWorker> {
    let both = (generation as usize) << 32 | number;
    // SAFETY: the handle that PostgreSQL allocates outlives the transaction.
    unsafe {
        let before = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
        let process = builder("scylla sql worker", "scylla_sql_worker")
            .set_argument(Some(Datum::from(both)))
            .set_notify_pid(process::id())
            .set_restart_time(None)
            .load_dynamic();
        pg_sys::MemoryContextSwitchTo(before);
        process.ok()
    }
}

//! Which process schedules which database, and which does long work beside it: one of each at most,
//! and none while a command wants the database for itself. This is kept apart from the board, which
//! may be emptied while a scheduler runs, and what ends a process takes it back.

use crate::pg::compat::server;
use crate::pg::process;
use crate::shmem::segment::{
    MAX_ABSENT, ProcessRole, broadcast, sql_records, wake_launcher, with_absent, with_board,
    with_processes,
};
use pgrx::pg_sys::{self, Datum};
use pgrx::prelude::*;
use std::cell::Cell;

thread_local! {
    static AT_END: Cell<fn()> = const { Cell::new(|| ()) };
}

/// Makes this process the scheduler of a database until it ends; `at_end`: what it does then.
/// False when there is one, or when a command wants the database for itself.
pub fn claim(database: u32, at_end: fn()) -> bool {
    AT_END.set(at_end);
    // SAFETY: registered before this process enters the database, so called after it has left it.
    unsafe { pg_sys::on_shmem_exit(Some(scheduler_ends), Datum::from(0)) };
    take(database, |it| it.schedules, ProcessRole { schedules: database, ..ProcessRole::default() })
}

/// As `claim`, for the process that does long work for a database.
pub fn claim_help(database: u32) -> bool {
    // SAFETY: as in `claim`.
    unsafe { pg_sys::on_shmem_exit(Some(helper_ends), Datum::from(0)) };
    take(database, |it| it.helps, ProcessRole { helps: database, ..ProcessRole::default() })
}

/// Gives this process a role that no process has for the database, unless that is suspended.
fn take(database: u32, role: fn(&ProcessRole) -> u32, new: ProcessRole) -> bool {
    with_processes(|all| {
        let is_taken = all.iter().any(|it| role(it) == database || it.suspends == database);
        if !is_taken {
            all[process::number() as usize] = ProcessRole { pid: process::id(), ..new };
        }
        !is_taken
    })
}

/// However a scheduler ends, its record is free then, and its successor finds nothing half done.
#[pg_guard]
unsafe extern "C-unwind" fn scheduler_ends(_code: core::ffi::c_int, _arg: Datum) {
    let database =
        with_processes(|all| std::mem::take(&mut all[process::number() as usize].schedules));
    if database != 0 {
        AT_END.get()();
        with_board(|board| board.note_scheduler_ended(database));
        broadcast();
        wake_launcher();
    }
}

/// The process that schedules a database.
pub fn scheduler_of(database: u32) -> Option<i32> {
    with_processes(|all| all.iter().find(|it| it.schedules == database).map(|it| it.pid))
}

/// Whether a database lacks a scheduler since every background worker of the server is in use.
pub fn lacks_process(database: u32) -> bool {
    scheduler_of(database).is_none() && server::has_no_free_worker()
}

/// Whether no process runs SQL commands, and none can be started since every background worker of
/// the server is in use.
pub fn lacks_sql_process() -> bool {
    sql_records().iter().all(|record| record.pid().is_none()) && server::has_no_free_worker()
}

/// The process that does long work for a database.
pub fn helper_of(database: u32) -> Option<i32> {
    with_processes(|all| all.iter().find(|it| it.helps == database).map(|it| it.pid))
}

#[pg_guard]
unsafe extern "C-unwind" fn helper_ends(_code: core::ffi::c_int, _arg: Datum) {
    with_processes(|all| all[process::number() as usize].helps = 0);
    broadcast();
}

/// Keeps schedulers out of a database until this process lets them in again, or asks for another.
pub fn suspend(database: u32) {
    with_processes(|all| all[process::number() as usize].suspends = database);
}

/// Lets the scheduler in again that this process keeps out, if it does.
pub fn resume() {
    let suspended =
        with_processes(|all| std::mem::take(&mut all[process::number() as usize].suspends));
    if suspended != 0 {
        wake_launcher();
    }
}

/// Whether a command keeps schedulers out of a database.
pub fn is_suspended(database: u32) -> bool {
    with_processes(|all| all.iter().any(|it| it.suspends == database))
}

/// Tells the launcher that a database has been looked into and does not have the extension.
pub fn note_absent(database: u32) {
    with_absent(|absent| {
        // Without a record it is looked into once more.
        if let Some(free) = absent.iter_mut().find(|it| **it == 0) {
            *free = database;
        }
    });
}

/// The databases that were found without the extension since the last call; 0: an unused record.
pub fn take_absent() -> [u32; MAX_ABSENT] {
    with_absent(std::mem::take)
}

//! The process that runs commands: connected as their role to their database, for no other role or
//! database ever. Between two commands it discards all that the first left in the session.

use crate::pg::command::simple_query::{self, Completed, Failure};
use crate::pg::named::role;
use crate::pg::{datum, process, time};
use crate::scheduler::process::{Commit, install_signal_handlers, sleep, transaction};
use crate::scheduler::sql::exchange::{Request, write_reply, write_unbegun};
use crate::scheduler::sql::processes;
use crate::shmem::segment::{sql_records, wake_scheduler, with_sql_lock};
use crate::shmem::sql_record::{Assignment, SqlRecord, SqlState};
use board::Micros;
use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::prelude::*;
use std::ffi::CStr;

/// How long a process waits for another command. Shorter than the time for which DROP DATABASE
/// waits.
const IDLE_TIMEOUT: Micros = Micros::from_secs(2);
/// How long discarding may wait, in milliseconds: another session of the role may have locked what
/// is discarded.
const DISCARD_TIMEOUT: i32 = 5_000;
/// The longest message, detail and hint of a failure, in bytes.
const TEXT_MAX: usize = 16 << 10;

/// The process's entry point.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn scylla_sql_worker(argument: Datum) {
    let (number, generation) = (argument.value() as u32 as usize, (argument.value() >> 32) as u32);
    let record = &sql_records()[number];
    if !with_sql_lock(|| record.starts(generation, process::id())) {
        return;
    }
    // SAFETY: the callback is this library's, and the record exists.
    unsafe { pg_sys::on_shmem_exit(Some(worker_ends), Datum::from(number)) };
    install_signal_handlers();
    // The command may be assigned while this process connects.
    let Assignment { role, database, .. } = record.assignment();
    // SAFETY: connects as the role itself. PostgreSQL refuses a role that may not log in or
    // connect, which ends the process.
    unsafe {
        let (database, role) = (Oid::from_u32(database), Oid::from_u32(role));
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, role, 0);
    }
    let Some(as_connected) = session_row() else { return };
    let mut leave_at = time::monotonic() + IDLE_TIMEOUT;
    loop {
        // A cancel that came late meant the command before.
        // SAFETY: a plain flag of this process.
        unsafe { std::ptr::write_volatile(&raw mut pg_sys::QueryCancelPending, 0) };
        if record.begins(time::monotonic()) {
            if !serve(record, as_connected) {
                return;
            }
            leave_at = time::monotonic() + IDLE_TIMEOUT;
            continue;
        }
        let left = leave_at - time::monotonic();
        let may_leave = || record.change(SqlState::Idle, SqlState::Leaving);
        match record.state() {
            SqlState::Leaving => return,
            SqlState::Idle if left <= Micros::ZERO && may_leave() => return,
            // The scheduler finds the reply without this process.
            SqlState::Done if left <= Micros::ZERO => return,
            _ => drop(sleep(left.max(Micros::from_millis(10)))),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn worker_ends(_code: core::ffi::c_int, number: Datum) {
    let record = &sql_records()[number.value()];
    record.ends();
    let entry = record.entry();
    wake_scheduler(entry);
    processes::wake_waiting(entry);
}

/// The row of a role in the catalog.
type RoleRow = Option<(u32, u32, u16)>;

/// The row of this session's role; `None`: it cannot be read.
///
/// A session keeps until its end whether its role was a superuser as it connected. If that has
/// changed in the meantime, the row is told as none, which no role has.
fn session_row() -> Option<RoleRow> {
    transaction("look at the role of SQL commands", Commit::Ahead, || {
        // SAFETY: reads this process's state; the setting's value ends with a zero.
        let (role, was_superuser) = unsafe {
            let setting = pg_sys::GetConfigOption(c"is_superuser".as_ptr(), false, false);
            (pg_sys::GetSessionUserId(), CStr::from_ptr(setting) == c"on")
        };
        role::row(role).filter(|_| role::is_superuser(role) == was_superuser)
    })
}

/// Runs the command that is assigned. False: the session cannot be used again. `as_connected`: the
/// row of its role then.
fn serve(record: &SqlRecord, as_connected: RoleRow) -> bool {
    let Assignment { entry, area, timeout, .. } = record.assignment();
    // Without its request the command cannot have begun.
    let Some(Request { encoding, command }) = Request::read(area) else {
        record.set(SqlState::Unbegun);
        return false;
    };
    // A role that has changed, such as a superuser that was demoted, has another session.
    if as_connected.is_none() || session_row() != Some(as_connected) {
        write_unbegun(area);
        return false;
    }
    let outcome = simple_query::run(&command, encoding, timeout);
    // SAFETY: reads this process's state.
    let own_encoding = unsafe { pg_sys::GetDatabaseEncoding() };
    write_reply(area, &clipped(outcome), own_encoding);
    // A process that is done may get another command at once. One that cannot discard its session
    // ends instead, and the scheduler finds the reply.
    let is_clean = simple_query::discard(DISCARD_TIMEOUT);
    if is_clean {
        record.set(SqlState::Done);
        wake_scheduler(entry);
    }
    is_clean
}

/// A failure whose texts fit into a reply.
fn clipped(outcome: Result<Completed, Failure>) -> Result<Completed, Failure> {
    let clip = |mut text: Vec<u8>| {
        text.truncate(datum::clipped_length(&text, TEXT_MAX));
        text
    };
    outcome.map_err(|Failure { sqlstate, message, detail, hint }| {
        let [message, detail, hint] = [message, detail, hint].map(clip);
        Failure { sqlstate, message, detail, hint }
    })
}

//! Moves the rows of settled tasks from `scylla.task` to `scylla.finished` past the executor:
//! starting a plan costs more than moving a row.

use crate::error;
use crate::extension::database::Database;
use crate::pg::datum;
use crate::pg::process;
use crate::pg::spi::Session;
use crate::storage::ending::{Ended, Ending, with_error};
use crate::storage::lookup::TaskLookup;
use crate::storage::rows::share;
use crate::storage::writers::partition_writer::PartitionWriter;
use board::{ABORTED, CANCELLED, COMPLETED, Micros, RowHint, Wall};
use pgrx::PgMemoryContexts;
use pgrx::pg_sys::{self, Datum};
use std::ptr;

/// What a task settles as.
const STATUSES: [&str; 3] = [COMPLETED, ABORTED, CANCELLED];

/// Moves tasks in the order of `endings`, and waits for row locks of other transactions. Returns
/// the tasks that were live.
pub fn move_rows(
    db: &Database,
    session: &Session,
    status: impl Fn(usize) -> &'static str,
    now: Wall,
    endings: &[Ending],
) -> Vec<Ended> {
    // The functions of indexes run with the rights of the tables' owner.
    session.begin();
    let mut command = next_command();
    let mut live = open(db);
    let words = STATUSES.map(|status| datum::varlena(status.as_bytes()));
    let mut scratch = PgMemoryContexts::new("scylla: errors");
    let mut partition = PartitionWriter::open(db, live.table(), now, command);
    // SAFETY: an open table.
    unsafe { pg_sys::CheckCmdReplicaIdentity(live.table(), pg_sys::CmdType::CMD_DELETE) };
    let mut ended = Vec::with_capacity(endings.len());
    for (at, ending) in endings.iter().enumerate() {
        let status = status(at);
        let word = STATUSES.iter().position(|it| *it == status).map(|at| words[at]);
        let row = ending.lease.as_ref().map_or(RowHint::default(), |lease| lease.row);
        let is_live = loop {
            pgrx::check_for_interrupts!();
            match live.find_near(ending.id, row) {
                false => break false,
                true if delete(&live, command) => break true,
                // Another transaction has changed the row, and committed: a look under a new
                // snapshot tells what it is now.
                true => {
                    live.close();
                    command = next_command();
                    live = open(db);
                }
            }
        };
        if !is_live {
            continue;
        }
        let row = live.row(partition.map.last);
        let [has_dependents, post_result, was_ready] =
            partition.map.flags.map(|column| datum::number(row.get(column)) != 0);
        let before = row.get(partition.map.errors);
        let errors = match (before, ending.error) {
            // SAFETY: switches to a context of this call's, which outlives the row.
            (Some(it), Some(error)) => unsafe {
                scratch.switch_to(|_| Some(with_error(it, error)))
            },
            _ => before,
        };
        if post_result || !ending.is_discarded {
            let tries = datum::number(row.get(partition.map.tries)) as i32;
            partition.add(row, || {
                let lease = ending.lease_not_in_history();
                [
                    Some(datum::timestamptz(now)),
                    word,
                    Some(datum::float(ending.progress(status))),
                    ending.lease.map(|lease| datum::varlena(lease.worker.as_bytes())),
                    lease.map(|lease| datum::timestamptz(lease.since_at)),
                    ending.result,
                    Some(Datum::from(tries + i32::from(lease.is_some()))),
                    errors,
                ]
            });
        }
        if ending.error.is_some() {
            // SAFETY: the row was copied.
            unsafe { scratch.reset() };
        }
        ended.push(Ended {
            id: ending.id,
            status,
            has_dependents,
            post_result,
            was_ready,
            queue: share(&datum::text(row.get(partition.map.queue))),
            owned_for: ending.owned_for(now),
            schedule: row.get(partition.map.schedule).map(|it| it.value() as i64),
            pause: Micros::ZERO,
        });
    }
    partition.close();
    live.close();
    next_command();
    ended
}

/// Makes earlier changes visible, as between two statements.
fn next_command() -> pg_sys::CommandId {
    // SAFETY: inside a transaction.
    unsafe {
        pg_sys::CommandCounterIncrement();
        pg_sys::GetCurrentCommandId(true)
    }
}

fn open(db: &Database) -> TaskLookup {
    let live = TaskLookup::open(db, pg_sys::RowExclusiveLock);
    live.unwrap_or_else(|| error::not_as_installed().raise())
}

/// Deletes the row that was found, and waits for its lock. False when the row has been changed
/// since.
fn delete(live: &TaskLookup, command: pg_sys::CommandId) -> bool {
    let mut failure = pg_sys::TM_FailureData::default();
    let mut tid = live.tid();
    // SAFETY: a row of the open table, which the snapshot saw.
    let result = unsafe {
        let anybody = ptr::null_mut();
        pg_sys::heap_delete(live.table(), &mut tid, command, anybody, true, &mut failure, false)
    };
    match result {
        pg_sys::TM_Result::TM_Ok => true,
        pg_sys::TM_Result::TM_Updated if process::has_one_snapshot() => {
            error::changed_meanwhile("update").raise()
        }
        pg_sys::TM_Result::TM_Deleted if process::has_one_snapshot() => {
            error::changed_meanwhile("delete").raise()
        }
        _ => false,
    }
}

//! Moves the rows of settled tasks from `scylla.task` to `scylla.finished` past the executor:
//! starting a plan costs more than moving a row. Unusual cases are left to the SQL statement.

use crate::error;
use crate::extension::database::Database;
use crate::pg::datum;
use crate::pg::process;
use crate::storage::ending::{Ended, Ending, with_error};
use crate::storage::lookup::TaskLookup;
use crate::storage::rows::share;
use crate::storage::writers::partition_writer::PartitionWriter;
use board::{ABORTED, CANCELLED, COMPLETED, Micros, RowHint, Wall};
use pgrx::PgMemoryContexts;
use pgrx::pg_sys;
use std::ptr;

/// What a task settles as.
const STATUSES: [&str; 3] = [COMPLETED, ABORTED, CANCELLED];

/// Moves tasks in the order of `endings`, and waits for row locks of other transactions. Returns
/// the tasks that were live, and how many endings are done; the SQL statement has to do the rest.
pub fn move_rows(
    db: &Database,
    status: impl Fn(usize) -> &'static str,
    now: Wall,
    endings: &[Ending],
) -> (Vec<Ended>, usize) {
    let mut ended = Vec::new();
    // SAFETY: makes earlier changes of this command visible, as a statement would.
    let command = unsafe {
        pg_sys::CommandCounterIncrement();
        pg_sys::GetCurrentCommandId(true)
    };
    let Some(mut live) = TaskLookup::open(db, pg_sys::RowExclusiveLock) else { return (ended, 0) };
    let words = STATUSES.map(|status| datum::varlena(status.as_bytes()));
    let mut scratch = PgMemoryContexts::new("scylla: errors");
    let Some(mut partition) = PartitionWriter::open(db, live.table(), now, command) else {
        live.close();
        return (ended, 0);
    };
    // SAFETY: an open table.
    unsafe { pg_sys::CheckCmdReplicaIdentity(live.table(), pg_sys::CmdType::CMD_DELETE) };
    ended.reserve(endings.len());
    let mut done = 0;
    for (at, ending) in endings.iter().enumerate() {
        let status = status(at);
        let word = STATUSES.iter().position(|it| *it == status).map(|at| words[at]);
        pgrx::check_for_interrupts!();
        let row = ending.lease.as_ref().map_or(RowHint::default(), |lease| lease.row);
        if live.find_near(ending.id, row) {
            let row = live.row(partition.map.last);
            // A row with a command is left to the statement, which checks the command's role.
            if row.get(partition.map.command).is_some() || !delete(&live, command) {
                break;
            }
            let [has_dependents, post_result, was_ready] =
                partition.map.flags.map(|column| datum::number(row.get(column)) != 0);
            let errors = ending.error.map(|error| {
                let before = row.get(partition.map.errors).expect("a column that is not null");
                // SAFETY: switches to a context of this call's, which outlives the row.
                unsafe { scratch.switch_to(|_| with_error(before, error)) }
            });
            let given = || {
                [
                    Some(datum::timestamptz(now)),
                    word,
                    Some(datum::float(ending.progress(status))),
                    ending.lease.map(|lease| datum::varlena(lease.worker.as_bytes())),
                    ending.lease_not_in_history().map(|lease| datum::timestamptz(lease.since_at)),
                    ending.result,
                ]
            };
            if post_result || !ending.is_discarded {
                let tries = ending.lease_not_in_history().is_some().into();
                partition.add(row, tries, errors, given);
            }
            if errors.is_some() {
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
        done += 1;
    }
    partition.close();
    live.close();
    // SAFETY: makes the changes visible to what follows.
    unsafe { pg_sys::CommandCounterIncrement() };
    (ended, done)
}

/// Deletes the row that was found, and waits for its lock. False when the row has been updated
/// since: a statement has to look again.
fn delete(live: &TaskLookup, command: pg_sys::CommandId) -> bool {
    let mut failure = pg_sys::TM_FailureData::default();
    let mut place = live.place();
    // SAFETY: a row of the open table, which the snapshot saw.
    let result = unsafe {
        let anybody = ptr::null_mut();
        pg_sys::heap_delete(live.table(), &mut place, command, anybody, true, &mut failure, false)
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

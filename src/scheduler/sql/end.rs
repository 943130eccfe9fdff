//! Ending SQL tasks: returning those whose commands have ended, and ending commands whose time is
//! up.

use crate::error;
use crate::extension::database::Database;
use crate::ops::sql::command;
use crate::pg::command::shared_area;
use crate::pg::uuid::Uuid;
use crate::pg::{process, time};
use crate::scheduler::process::{Commit, in_extension_transaction};
use crate::scheduler::sql::exchange::{is_unbegun, read_reply};
use crate::scheduler::sql::processes::{self, GRACE, LOOK_INTERVAL};
use crate::scheduler::sql::tasks::{Assigned, Claimed, Ending, SqlTasks, encoding, expire, finish};
use crate::shmem::segment::{sql_records, with_board};
use crate::shmem::sql_record::{Assignment, SqlState};
use board::{Micros, Monotonic, TokenHash};
use pgrx::PgLogLevel;
use std::collections::HashMap;

/// How long a process may take to start that an earlier scheduler asked for.
const START_TIMEOUT: Micros = Micros::from_secs(10);
/// How long a process may take to connect.
const CONNECT_TIMEOUT: Micros = Micros::from_secs(60);

impl SqlTasks {
    /// Returns the tasks whose commands have ended. True when there were any.
    pub(super) fn collect(&mut self, db: &Database, entry: u32) -> bool {
        let mut any = false;
        for (number, record) in processes::own(db) {
            let Assignment { id, token_hash, area, .. } = record.assignment();
            let id = Uuid(id);
            let state = record.state();
            match state {
                SqlState::Assigned if self.did_not_start(number, record.pid()) => {
                    record.change(SqlState::Assigned, SqlState::Unbegun);
                }
                SqlState::Done => {
                    let reply = read_reply(area, encoding());
                    let outcome = reply.unwrap_or_else(|| Err(error::reply_lost().as_failure()));
                    if finish(db, id, token_hash, &outcome) {
                        shared_area::free(area);
                        record.release();
                    }
                }
                SqlState::Unbegun => {
                    let outcome = Err(error::process_did_not_start().as_failure());
                    if finish(db, id, token_hash, &outcome) {
                        shared_area::free(area);
                        record.set(SqlState::Free);
                    }
                }
                SqlState::Lost if is_unbegun(area) => self.begin_again(db, number, id, token_hash),
                SqlState::Lost => {
                    // The process may have told the outcome before it ended.
                    let is_late = |at| time::monotonic() >= at + GRACE;
                    let is_over = match read_reply(area, encoding()) {
                        Some(outcome) => finish(db, id, token_hash, &outcome),
                        None if record.deadline().is_some_and(is_late) => {
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
                        record.set(SqlState::Free);
                    }
                }
                _ => {}
            }
            any |= record.state() != state;
        }
        if any {
            processes::wake_waiting(entry);
        }
        any
    }

    /// Has another process begin a command whose process has left, since its role was changed.
    fn begin_again(&mut self, db: &Database, number: usize, id: Uuid, token_hash: TokenHash) {
        let read = || command::read(db, id);
        let what = "read an SQL task";
        let Some(read) = in_extension_transaction(db, what, Commit::Ahead, read) else { return };
        let record = &sql_records()[number];
        shared_area::free(record.assignment().area);
        let what = match read {
            Some(Ok(command)) => self
                .processes
                .start_again(number)
                .then_some(Ok((command, Assigned { number, is_new: true }))),
            Some(Err(why)) => {
                record.set(SqlState::Free);
                Some(Err(why))
            }
            // Cancelled or deleted.
            None => {
                record.set(SqlState::Free);
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
    pub(super) fn end_overdue(&mut self, db: &Database, entry: u32, now: Monotonic) {
        let mut ending = HashMap::new();
        for (number, record) in processes::own(db) {
            let Assignment { id, token_hash, .. } = record.assignment();
            let state = record.state();
            if !matches!(state, SqlState::Assigned | SqlState::Running) {
                continue;
            }
            let known = self.ending.get(&number).filter(|it| it.token_hash == token_hash);
            let lease = with_board(|board| board.lease_of(entry, id));
            let is_live = lease.is_some_and(|(_, lease)| lease.token_hash == token_hash);
            let since = match state {
                _ if !is_live => Some(known.map_or(now, |it| it.since)),
                SqlState::Assigned => Some(record.since() + CONNECT_TIMEOUT),
                // The process cancels its statement itself, in time.
                _ => record.deadline().filter(|at| now >= *at + LOOK_INTERVAL),
            };
            let Some(since) = since.filter(|at| *at <= now) else { continue };
            let mut it = Ending { token_hash, since, is_told: known.is_some_and(|it| it.is_told) };
            // It may have ended meanwhile, and serve another command.
            let is_same = record.state() == state && record.assignment().token_hash == token_hash;
            if let Some(pid) = record.pid().filter(|_| is_same) {
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
}

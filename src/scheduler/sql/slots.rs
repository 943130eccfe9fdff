//! The processes that run commands, from the side of a scheduler: finding one that is free, starting
//! one, and letting idle ones go. All databases share them.

use crate::pg::command::shared_area;
use crate::pg::process;
use crate::scheduler::process::builder;
use crate::shmem::database::Database;
use crate::shmem::segment::{sql_slots, with_board};
use crate::shmem::sql_slot::{Assignment, SqlSlot, SqlState};
use pgrx::bgworkers::{BackgroundWorkerStatus, DynamicBackgroundWorker};
use pgrx::pg_sys::Datum;
use std::collections::HashMap;

/// What came of an assignment.
pub enum Assigned {
    Done,
    /// A process is on its way out to make room, or the server has no place for one.
    Later,
}

/// The processes that this scheduler started, by their slots.
#[derive(Default)]
pub struct Processes(HashMap<usize, DynamicBackgroundWorker>);

/// The slots that the scheduler of a database uses, with their numbers.
pub fn own(db: &Database) -> impl Iterator<Item = (usize, &'static SqlSlot)> {
    let home = db.key();
    let is_own = move |it: &SqlSlot| it.state() != SqlState::Free && it.assignment().home == home;
    sql_slots().iter().enumerate().filter(move |(_, it)| is_own(it))
}

/// How many commands could begin now.
pub fn room() -> usize {
    sql_slots().iter().filter(|it| matches!(it.state(), SqlState::Free | SqlState::Idle)).count()
}

/// Frees slots of databases that are gone, or whose extension is: no scheduler collects their replies.
pub fn reclaim() {
    for slot in sql_slots() {
        let state = slot.state();
        let is_over = matches!(state, SqlState::Done | SqlState::Lost | SqlState::Unbegun);
        let Assignment { home, area, .. } = slot.assignment();
        let is_orphan = || with_board(|board| board.find_entry(home.0, home.1)).is_none();
        if is_over && slot.pid().is_none() && is_orphan() && slot.change(state, SqlState::Taken) {
            shared_area::free(area);
            slot.set(SqlState::Free);
        }
    }
}

impl Processes {
    /// Assigns a command. `write` writes the request and returns its area; `None`: there is no memory.
    pub fn assign(&mut self, it: Assignment, write: impl FnOnce() -> Option<u32>) -> Assigned {
        let slots = sql_slots();
        let serves = |slot: &SqlSlot| {
            let last = slot.assignment();
            (last.home, last.role, last.database) == (it.home, it.role, it.database)
        };
        // A process that has served the role and database, else a new one.
        let idle = slots.iter().find(|it| serves(it) && it.change(SqlState::Idle, SqlState::Taken));
        if let Some(slot) = idle {
            slot.note_home(it.home);
            let Some(area) = write() else {
                slot.release();
                return Assigned::Later;
            };
            slot.assign(&Assignment { area, ..it });
            slot.note_absence();
            slot.pid().into_iter().for_each(process::wake);
            return Assigned::Done;
        }
        let free = |it: &&SqlSlot| it.change(SqlState::Free, SqlState::Taken);
        if let Some(number) = slots.iter().position(|it| free(&it)) {
            let slot = &slots[number];
            slot.note_home(it.home);
            let Some(area) = write() else {
                slot.set(SqlState::Free);
                return Assigned::Later;
            };
            slot.assign(&Assignment { area, ..it });
            return match start(number) {
                Some(process) => {
                    self.0.insert(number, process);
                    Assigned::Done
                }
                None => {
                    slot.set(SqlState::Free);
                    shared_area::free(area);
                    Assigned::Later
                }
            };
        }
        let leaves = |it: &&SqlSlot| it.change(SqlState::Idle, SqlState::Leaving);
        let leaving = slots.iter().find(leaves);
        leaving.and_then(SqlSlot::pid).into_iter().for_each(process::wake);
        Assigned::Later
    }

    /// Whether the process of a slot has ended, or never started; `None`: an earlier scheduler started
    /// it.
    pub fn is_over(&self, number: usize) -> Option<bool> {
        let process = self.0.get(&number)?;
        Some(!matches!(process.pid(), Ok(_) | Err(BackgroundWorkerStatus::NotYetStarted)))
    }
}

fn start(number: usize) -> Option<DynamicBackgroundWorker> {
    builder("scylla sql worker", "scylla_sql_worker")
        .set_argument(Some(Datum::from(number)))
        .set_notify_pid(process::id())
        .set_restart_time(None)
        .load_dynamic()
        .ok()
}

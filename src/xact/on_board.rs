//! Access to the board for callers: waits until the database's board is built from its tables, and
//! builds it where no scheduler does (I1).

use crate::error::{self, Error};
use crate::extension::database::{Database, VERSION, cached_or_find, other_version};
use crate::extension::members;
use crate::pg::named::role;
use crate::pg::process;
use crate::pg::time;
use crate::shmem::segment::{AT_ONCE, in_steps, wait, with_board};
use crate::xact::in_hand::{building, note_call};
use board::{Board, BuildState, Id, Micros, Slot};
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use std::sync::OnceLock;

/// How long a caller waits for the scheduler to build the board.
const BUILD_TIMEOUT: Micros = Micros::from_secs(10);

/// How long a caller leaves building the board to a scheduler that may be starting.
const SCHEDULER_START_GRACE: Micros = Micros::from_secs(2);

/// The operation that builds a board from the tables. It belongs to a higher floor, which registers
/// it.
static BUILD: OnceLock<fn(&Database, u32) -> bool> = OnceLock::new();

/// Registers the operation that builds a board; called while the library is preloaded.
pub fn load_board_with(build: fn(&Database, u32) -> bool) {
    let _ = BUILD.set(build);
}

/// This backend's database. Looked up once, and again when the tables or the extension have
/// changed.
pub fn current_database() -> Database {
    note_call();
    cached_or_find().unwrap_or_else(|| {
        let Some(extension) = members::extension() else { error::not_created().raise() };
        match other_version(extension) {
            Some(version) => error::other_version(&version, VERSION).raise(),
            None => not_as_made(extension).unwrap_or_else(error::not_as_installed).raise(),
        }
    })
}

/// The error where the extension's tables belong to several roles, or others have added to them
/// what they must not have.
pub fn not_as_made(extension: Oid) -> Option<Error> {
    let added = || members::added(extension).map(|it| error::added(&it));
    let Some(those) = members::owners_that_differ(extension) else { return added() };
    Some(error::owners_differ(those.map(|(table, owner)| (table, role::name(owner)))))
}

impl Database {
    /// Runs `moves` on this database's part of the board under one hold of the lock. Waits until
    /// the board is built from the tables (I1).
    pub fn on_board<T>(&self, mut moves: impl FnMut(&mut Board, u32) -> T) -> T {
        loop {
            let answer = with_board(|board| {
                let entry = self.find(board)?;
                (board.entry(entry).build_state == BuildState::Built).then(|| moves(board, entry))
            });
            match answer {
                Some(answer) => return answer,
                None => self.wait_until_open(),
            }
        }
    }

    /// Makes a move for each of `items`, under holds of the lock that are short (I8). A move that
    /// another process is in the way of answers `None`, and is made again after a while. What the
    /// others answer goes to `then`, with the lock free: before anything can raise.
    pub fn in_steps<I: Copy, T>(
        &self,
        items: &[I],
        mut moves: impl FnMut(&mut Board, u32, I) -> Option<T>,
        mut then: impl FnMut(I, T),
    ) {
        for some in items.chunks(AT_ONCE) {
            let mut left = some.to_vec();
            let mut answers = Vec::with_capacity(some.len());
            while !left.is_empty() {
                self.on_board(|board, entry| {
                    left.retain(|it| match moves(board, entry, *it) {
                        Some(answer) => {
                            answers.push((*it, answer));
                            false
                        }
                        None => true,
                    });
                });
                answers.drain(..).for_each(|(it, answer)| then(it, answer));
                if !left.is_empty() {
                    wait();
                }
            }
        }
    }

    /// What `show` shows of the slots of some tasks, in order; `None`: the board does not know the
    /// task.
    pub fn slots_of<T>(
        &self,
        tasks: impl Iterator<Item = Id>,
        mut show: impl FnMut(&Board, &Slot) -> Option<T>,
    ) -> Vec<Option<T>> {
        let entry = with_board(|board| self.find(board));
        in_steps(tasks, |board, id| show(board, board.slot_of(entry?, id)?))
    }

    fn wait_until_open(&self) {
        let begun = time::monotonic();
        loop {
            let (entry, open, has_scheduler) = self.register();
            let waited = time::monotonic() - begun;
            if open {
                return;
            } else if waited > BUILD_TIMEOUT {
                error::board_not_built(&self.database_name()).raise();
            } else if has_scheduler || waited < SCHEDULER_START_GRACE || !self.build(entry) {
                wait();
            }
        }
    }

    /// Builds the board where no scheduler does; false when another process has to.
    fn build(&self, entry: u32) -> bool {
        let me = process::id();
        // This transaction's uncommitted rows must not get onto the board.
        if process::has_written() || !with_board(|board| board.begin_build(entry, me)) {
            return false;
        }
        building(Some(entry));
        error::no_scheduler(&self.database_name()).report(PgLogLevel::WARNING);
        let built = BUILD.get().is_some_and(|build| build(self, entry));
        with_board(|board| board.end_build(entry, me));
        building(None);
        built
    }
}

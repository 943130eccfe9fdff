//! Supply: brings ready tasks from the table to those who ask for work (I4).
//!
//! A queue that the board covers is served from its lanes, which are refilled one by one
//! (`refill`). For any other queue the table is searched (`search`), and the tasks that are found
//! are claimed by id. Each call makes a bounded number of refills and falls back to the search.
//! `survey` reads which lanes there are. `load_board` builds the board from the tables, once
//! `identity` says whether the database is a copy. `inline`: what callers do where no scheduler
//! runs.

pub mod identity;
pub mod inline;
pub mod load_board;
pub mod order;
pub mod refill;
pub mod search;
pub mod survey;

use crate::extension::database::Database;
use crate::ops::supply::search::{Asked, Found, Search};
use crate::pg::spi::Session;
use crate::shmem::segment;
use board::Next;

/// How many refills one call makes without a task from any, before it searches the table: where
/// there are fewer slots than lanes, one that is refilled may lose its task to another.
const REFILLS_MAX: u32 = 64;

/// The steps of a caller for whom the board has no task of a queue.
#[derive(Default)]
pub struct Supply {
    /// How many refills there were since the board had something.
    refills: u32,
    search: Option<Search>,
}

/// What became of it.
pub enum Supplied {
    /// Ask the board again.
    Again,
    /// Tasks that were found in the table, in the order in which they are to be handed out.
    Found(Vec<Found>),
    /// No task is ready that may be handed out.
    Nothing,
}

impl Supply {
    /// Notes that the caller got something.
    pub fn found(&mut self) {
        self.refills = 0;
        self.search = None;
    }

    /// Brings tasks, as far as what is next on the board calls for it; waits for another process
    /// that does.
    pub fn bring(
        &mut self,
        db: &Database,
        session: &Session,
        entry: u32,
        asked: &Asked,
        next: Next,
    ) -> Supplied {
        match next {
            Next::Task(_) => Supplied::Again,
            Next::NeedsRefill(lane) if self.refills < REFILLS_MAX => {
                self.refills += 1;
                refill::refill(db, session, entry, asked.queue, &lane);
                Supplied::Again
            }
            Next::Refilling if self.refills < REFILLS_MAX => {
                segment::wait();
                Supplied::Again
            }
            Next::Empty => Supplied::Nothing,
            Next::NeedsRefill(_) | Next::Refilling | Next::Search => {
                let search = self.search.get_or_insert_with(|| Search::begin(entry, asked));
                search.next(session, asked).map_or(Supplied::Nothing, Supplied::Found)
            }
        }
    }
}

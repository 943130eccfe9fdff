//! Locking: the rows of live tasks, for somebody who ends them or makes them wait.

use crate::error::Result;
use crate::ops::locking::withdraw::withdraw;
use crate::pg::datum::{self, UUIDS};
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::xact::{self, Change, Offer};
use crate::storage::edges::{delete_edges, edges_of};
use crate::storage::rows::{BoardKey, ids, ids_in};

statement!(LOCK, "rows/lock", [UUIDS]);

/// Live tasks whose rows this transaction holds, in the order of their ids.
pub struct Locked {
    pub ids: Vec<Uuid>,
    rows: Rows,
}

impl Locked {
    /// Waits for whoever holds one of the rows.
    pub fn lock(db: &Database, session: &Session, wanted: &[Uuid]) -> Locked {
        let rows = session.run(&LOCK, &[ids(wanted.iter().copied())]);
        xact::at_commit(db, [Change::RowsReleased]);
        Locked { ids: ids_in(&rows).collect(), rows }
    }

    pub fn board_key(&self, at: usize) -> BoardKey {
        BoardKey::at(&self.rows, at, 1, self.ids[at])
    }

    /// Whether the task is not waiting; it may be running.
    fn is_ready(&self, at: usize) -> bool {
        datum::number(self.rows.get(at, 6)) != 0
    }

    /// How many predecessors the task waits for.
    pub fn pending(&self, at: usize) -> usize {
        datum::number(self.rows.get(at, 7)) as usize
    }

    /// The offer of a task that is not waiting.
    pub fn offer(&self, at: usize) -> Option<Offer> {
        self.is_ready(at).then(|| self.board_key(at).offer())
    }

    /// What the end of the task does to the board, whoever owns it.
    pub fn removal(&self, at: usize) -> Change {
        self.offer(at).map_or(Change::Gone(self.ids[at].0), Change::Cancel)
    }

    /// Keeps workers from the task; false when one owns it, or is about to.
    pub fn withdraw(&self, db: &Database, at: usize) -> Result<bool> {
        if self.is_ready(at) { withdraw(db, &self.board_key(at)) } else { Ok(true) }
    }

    /// Takes some of the tasks off those that they wait for.
    pub fn delete_edges(&self, session: &Session, some: &[Uuid]) {
        let at = |id: &Uuid| self.ids.binary_search(id).ok();
        let edges =
            some.iter().filter_map(at).flat_map(|at| edges_of(self.ids[at], self.rows.get(at, 8)));
        delete_edges(session, &edges.collect::<Vec<_>>());
    }
}

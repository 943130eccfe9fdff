//! Locks the rows of live tasks, for an operation that ends them or makes them wait.

use crate::error::Result;
use crate::extension::database::Database;
use crate::ops::locking::withdraw::withdraw;
use crate::pg::datum;
use crate::pg::spi::{Rows, Session};
use crate::pg::uuid::Uuid;
use crate::storage::edges::{delete_edges, edges_of};
use crate::storage::rows::{BoardKey, LOCK, ids, ids_in, share};
use crate::xact::{self, Change, Offer};
use std::rc::Rc;

/// Live tasks whose rows this transaction has locked, in the order of their ids.
pub struct Locked<'session> {
    pub ids: Vec<Uuid>,
    rows: Rows<'session>,
}

impl<'session> Locked<'session> {
    /// Locks rows; waits for the locks of other transactions.
    pub fn lock(db: &Database, session: &'session Session, wanted: &[Uuid]) -> Locked<'session> {
        let rows = session.run(&LOCK, &[ids(wanted.iter().copied())]);
        xact::at_commit(db, [Change::RowsReleased]);
        let locked = Locked { ids: ids_in(&rows).collect(), rows };
        let in_order = (0..locked.ids.len()).filter(|at| locked.keeps_position(*at));
        let leave = in_order.map(|at| Change::LeaveOrder(locked.board_key(at).offer()));
        xact::at_commit(db, leave.collect::<Vec<_>>());
        locked
    }

    pub fn board_key(&self, at: usize) -> BoardKey {
        BoardKey::at(&self.rows, at, 1, self.ids[at])
    }

    pub fn queue(&self, at: usize) -> Rc<[u8]> {
        share(&datum::text(self.rows.get(at, 1)))
    }

    /// Refuses the call unless `authorize` allows each task, by its queue.
    pub fn authorize(&self, authorize: impl Fn(Uuid, &[u8]) -> Result<()>) -> Result<()> {
        (0..self.ids.len()).try_for_each(|at| authorize(self.ids[at], &self.queue(at)))
    }

    /// Whether the task is not waiting; it may be running.
    pub fn is_ready(&self, at: usize) -> bool {
        datum::number(self.rows.get(at, 7)) != 0
    }

    /// Whether the task waits for its time and keeps its position in its group.
    fn keeps_position(&self, at: usize) -> bool {
        datum::number(self.rows.get(at, 10)) != 0
    }

    /// How many predecessors the task waits for.
    pub fn pending(&self, at: usize) -> usize {
        datum::number(self.rows.get(at, 8)) as usize
    }

    /// How to offer the task on the board; `None`: it is waiting.
    pub fn offer(&self, at: usize) -> Option<Offer> {
        let behind = datum::number(self.rows.get(at, 11)) != 0;
        self.is_ready(at).then(|| Offer { behind, ..self.board_key(at).offer() })
    }

    /// The change of the board that ends the task, whether it is owned or not.
    pub fn removal(&self, at: usize) -> Change {
        self.offer(at).map_or(Change::Gone(self.ids[at].0), Change::Cancel)
    }

    /// Withdraws the task from the board; false when a worker owns it, or is about to.
    pub fn withdraw(&self, db: &Database, at: usize) -> Result<bool> {
        if self.is_ready(at) { withdraw(db, &self.board_key(at)) } else { Ok(true) }
    }

    /// Deletes the edges that end at some of the tasks.
    pub fn delete_edges(&self, session: &Session, some: &[Uuid]) {
        let at = |id: &Uuid| self.ids.binary_search(id).ok();
        let edges =
            some.iter().filter_map(at).flat_map(|at| edges_of(self.ids[at], self.rows.get(at, 9)));
        delete_edges(session, &edges.collect::<Vec<_>>());
    }
}

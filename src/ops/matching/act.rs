//! Doing something with all tasks that match a filter. Their ids are read first. Then the rows are
//! locked in the order of their ids, as every call locks rows, and compared with the filter again.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::finish::cancel::cancel_locked;
use crate::ops::finish::delete;
use crate::ops::locking::lock::Locked;
use crate::ops::matching::filter::{BY_ID, Filter, KINDS, with_marks};
use crate::ops::query::inspect::is_owned;
use crate::ops::resubmit;
use crate::pg::datum::{self, Kind, UUIDS};
use crate::pg::named::role;
use crate::pg::spi::snapshot::{self, Snapshot};
use crate::pg::spi::{Rows, Session};
use crate::pg::uuid::Uuid;
use crate::shmem::segment::with_board;
use crate::storage::privileges::{Granted, Privileges, granted_to};
use crate::storage::rows::{ROWS_PER_TX, id_at, ids, session};
use board::Lease;
use pgrx::pg_sys::{Datum, Oid};
use std::collections::HashSet;
use std::rc::Rc;

macro_rules! text {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/matching/", $file, ".sql"))
    };
}

/// What a call is about.
pub struct Matching<'m> {
    pub db: &'m Database,
    pub filter: Filter,
    /// The role that asks, and what it needs on the queue of each task.
    pub role: Oid,
    pub needed: &'m [Privileges],
    /// How many tasks at most.
    pub most: Option<usize>,
}

/// What happens to the tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Cancel,
    Resubmit,
    Delete,
    /// As `Delete`, of live tasks, none of which may run.
    Drop,
}

impl Matching<'_> {
    /// How many tasks the filter takes now. Locks nothing.
    pub fn count(&self, action: Action) -> usize {
        let (live, settled) = self.find(action);
        live.len() + settled.len()
    }

    /// Does it to all of them. Returns to how many.
    pub fn act(&self, action: Action) -> Result<usize> {
        let (mut live, mut settled) = self.find(action);
        live.sort_unstable();
        settled.sort_unstable();
        let mut count = 0;
        let mut gone: Vec<Uuid> = Vec::new();
        // First the settled ones: a resubmission locks them, and then waits for a live task with
        // its key.
        for some in settled.chunks(ROWS_PER_TX) {
            count += match action {
                Action::Delete => {
                    delete::delete_settled(self.db, some.to_vec(), self.authorize())?.len()
                }
                _ => self.resubmit(some)?,
            };
            pgrx::check_for_interrupts!();
        }
        for some in live.chunks(ROWS_PER_TX) {
            count += match action {
                Action::Delete | Action::Drop => self.delete_live(some, action, &mut gone)?,
                _ => self.cancel(some)?,
            };
            pgrx::check_for_interrupts!();
        }
        // One that went as another's dependent counts where it is one of these.
        gone.sort_unstable();
        count += live.iter().filter(|id| gone.binary_search(id).is_ok()).count();
        Ok(count)
    }

    /// The tasks that the filter takes, live and settled ones.
    fn find(&self, action: Action) -> (Vec<Uuid>, Vec<Uuid>) {
        let mut left = self.most.unwrap_or(usize::MAX);
        let (mut live, mut settled) = (Vec::new(), Vec::new());
        if action != Action::Resubmit && self.filter.takes_live() {
            self.find_live(left, &mut live);
            left -= live.len();
        }
        if matches!(action, Action::Resubmit | Action::Delete)
            && self.filter.takes_settled()
            && left > 0
        {
            self.find_settled(action, left, &mut settled);
        }
        (live, settled)
    }

    fn granted(&self) -> Rc<Granted> {
        granted_to(self.db, self.role)
    }

    /// Whether a task of a queue may be deleted.
    fn authorize(&self) -> impl Fn(Uuid, &[u8]) -> Result<()> {
        let (granted, role) = (self.granted(), self.role);
        move |id: Uuid, queue: &[u8]| match granted.on(queue).has_any(Privileges::CANCEL) {
            true => Ok(()),
            false => {
                let visible = granted.on(queue).has_any(Privileges::LOOK).then_some(queue);
                Err(error::denied_on_task(role, id, visible, Privileges::CANCEL.words()))
            }
        }
    }

    fn takes_queue(&self, granted: &Granted, queue: &[u8]) -> bool {
        self.filter.takes_queue(granted, self.needed, queue)
    }

    fn find_live(&self, most: usize, found: &mut Vec<Uuid>) {
        let (granted, session) = (self.granted(), session(self.db));
        let text = with_marks(text!("live"), &self.filter.marks());
        session.read_text(text.as_bytes(), &KINDS, &self.filter.parameters(), |rows| {
            let is_allowed =
                |row: &usize| self.takes_queue(&granted, &datum::text(rows.get(*row, 1)));
            let some: Vec<Uuid> =
                (0..rows.len()).filter(is_allowed).map(|row| id_at(rows, row, 0)).collect();
            let ids = some.iter().map(|id| id.0);
            let known = self.db.slots_of(ids, |board, slot| Some(board.lease(slot)));
            let taken = some.iter().zip(&known);
            let taken = taken.filter(|it| self.takes_lease(it.1.as_ref())).map(|it| *it.0);
            found.extend(taken.take(most - found.len()));
            found.len() < most
        });
    }

    fn takes_lease(&self, known: Option<&Lease>) -> bool {
        self.filter.takes_lease(known.filter(|it| is_owned(it)))
    }

    fn find_settled(&self, action: Action, most: usize, found: &mut Vec<Uuid>) {
        let (granted, session) = (self.granted(), session(self.db));
        let mut marks = self.filter.marks();
        if action == Action::Resubmit {
            marks.push("to_resubmit");
        }
        let text = with_marks(text!("settled"), &marks);
        session.read_text(text.as_bytes(), &KINDS, &self.filter.parameters(), |rows| {
            let is_allowed =
                |row: &usize| self.takes_queue(&granted, &datum::text(rows.get(*row, 1)));
            let some = (0..rows.len()).filter(is_allowed).map(|row| id_at(rows, row, 0));
            found.extend(some.take(most - found.len()));
            found.len() < most
        });
    }

    /// Refuses the call if its queue is out of reach by now.
    fn authorize_again(&self, granted: &Granted) -> Result<()> {
        let Some(queue) = &self.filter.queue else { return Ok(()) };
        match self.needed.iter().find(|it| !granted.on(queue).has_any(**it)) {
            Some(missing) => Err(error::denied_on_queue(self.role, queue, missing.words())),
            None => Ok(()),
        }
    }

    /// Runs a statement with the parameters of the filter and some ids.
    fn run<'it>(&self, session: &'it Session, text: &str, some: &[Uuid]) -> Rows<'it> {
        let mut marks = self.filter.marks();
        // A locked row does not change any more.
        marks.extend(marks.contains(&"is_ready").then_some("is_locked_ready"));
        marks.extend(marks.contains(&"is_waiting").then_some("is_locked_waiting"));
        let mut parameters: Vec<Option<Datum>> = self.filter.parameters();
        parameters.push(ids(some.iter().copied()));
        let kinds: Vec<Kind> = KINDS.into_iter().chain([UUIDS]).collect();
        session.begin();
        let snapshot: Snapshot = snapshot::latest(|_, _| ()).1.keep();
        session.run_variant(with_marks(text, &marks), &kinds, &parameters, snapshot.as_ptr())
    }

    /// Which of some locked tasks the filter takes, but for whether a worker owns them.
    fn still(&self, session: &Session, locked: &Locked) -> Result<HashSet<Uuid>> {
        let granted = self.granted();
        self.authorize_again(&granted)?;
        let rows = self.run(session, BY_ID, &locked.ids);
        let is_taken = |row: &usize| datum::number(rows.get(*row, 2)) != 0;
        let taken = (0..rows.len()).filter(is_taken).map(|row| id_at(&rows, row, 0));
        let is_allowed = |id: &Uuid| {
            let at = locked.ids.binary_search(id).ok();
            at.is_some_and(|at| self.takes_queue(&granted, &locked.queue(at)))
        };
        Ok(taken.filter(is_allowed).collect())
    }

    fn cancel(&self, some: &[Uuid]) -> Result<usize> {
        let session = session(self.db);
        let locked = Locked::lock(self.db, &session, some);
        let still = self.still(&session, &locked)?;
        let takes = |at: usize, known: Option<&Lease>| {
            still.contains(&locked.ids[at]) && self.takes_lease(known)
        };
        Ok(cancel_locked(self.db, &session, &locked, takes).len())
    }

    /// Deletes live tasks, and notes all that went in `all_gone`. Returns how many had settled
    /// before.
    fn delete_live(
        &self,
        some: &[Uuid],
        action: Action,
        all_gone: &mut Vec<Uuid>,
    ) -> Result<usize> {
        let gone = delete::delete_live(
            self.db,
            some.to_vec(),
            self.authorize(),
            |session, locked, wanted| {
                let still = self.still(session, locked)?;
                let mut taken = Vec::with_capacity(wanted.len());
                for id in wanted.into_iter().filter(|id| still.contains(id)) {
                    let known = with_board(|board| {
                        board.slot_of(self.db.find(board)?, id.0).map(|it| board.lease(it))
                    });
                    if action == Action::Drop && known.as_ref().is_some_and(|it| is_owned(it)) {
                        return Err(error::queue_runs(
                            self.filter.queue.as_deref().unwrap_or_default(),
                        ));
                    }
                    taken.extend(self.takes_lease(known.as_ref()).then_some(id));
                }
                Ok(taken)
            },
        )?;
        let mut count = 0;
        if self.filter.takes_settled() && !self.filter.is_of_owned() {
            // Those that settled before they could be locked are still what the filter takes.
            let others = some.iter().filter(|id| gone.binary_search(id).is_err());
            let others = others.copied().collect();
            count += delete::delete_late(self.db, others, self.authorize())?.len();
        }
        all_gone.extend(gone);
        Ok(count)
    }

    fn resubmit(&self, some: &[Uuid]) -> Result<usize> {
        let session = session(self.db);
        let rows = self.run(&session, text!("lock_settled"), some);
        let granted = self.granted();
        self.authorize_again(&granted)?;
        let is_allowed = |row: &usize| {
            let command_role = rows.get(*row, 2).map(|it| datum::oid(Some(it)));
            self.takes_queue(&granted, &datum::text(rows.get(*row, 1)))
                && command_role.is_none_or(|it| role::may_act_as(self.role, it))
        };
        let allowed: Vec<Uuid> =
            (0..rows.len()).filter(is_allowed).map(|row| id_at(&rows, row, 0)).collect();
        drop(session);
        if allowed.is_empty() {
            return Ok(0);
        }
        // Their rows are locked.
        let again = resubmit::resubmit(self.db, self.role, &allowed, |_, _| Ok(()))?;
        Ok(again.into_iter().flatten().count())
    }
}

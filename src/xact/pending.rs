//! The changes that this transaction has registered for its end.

use crate::extension::database::Database;
use crate::pg::process;
use crate::shmem::segment::{broadcast, discard_board, in_steps, wake_scheduler};
use crate::xact::change::{Change, QueueCounts};
use board::{Board, Counts, FreedPlace, GroupPlace, Id, RunningPlace, Ticket};
use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

pub(super) struct PendingChange {
    /// The (sub)transaction's nesting level.
    pub(super) level: i32,
    pub(super) database: u32,
    pub(super) extension: u32,
    pub(super) change: Change,
}

thread_local! {
    static PENDING: RefCell<Vec<PendingChange>> = const { RefCell::new(Vec::new()) };
}

/// Registers changes of the board for the end of the (sub)transaction. Allocates now, so that
/// nothing has to be allocated at the commit.
pub fn at_commit(db: &Database, changes: impl IntoIterator<Item = Change>) {
    at_commit_of(db.database.to_u32(), db.extension.to_u32(), changes);
}

/// As `at_commit`, by the oids of the database and of the extension in it.
pub fn at_commit_of(database: u32, extension: u32, changes: impl IntoIterator<Item = Change>) {
    let level = process::nest_level();
    PENDING.with_borrow_mut(|pending| {
        pending.extend(changes.into_iter().map(|change| PendingChange {
            level,
            database,
            extension,
            change,
        }));
    });
}

/// The places that this transaction makes free when it commits.
fn with_freed<T>(count: impl FnOnce(&mut dyn Iterator<Item = FreedPlace>) -> T) -> T {
    let freed = |it: &PendingChange| match it.change {
        Change::Finish(_, freed) | Change::Release(_, freed) => freed,
        _ => None,
    };
    PENDING.with_borrow(|pending| count(&mut pending.iter().filter_map(freed)))
}

/// How many places of a queue this transaction makes free when it commits.
pub fn endings_in(place: RunningPlace) -> u32 {
    with_freed(|freed| freed.filter(|it| it.queue == place).count() as u32)
}

/// As `endings_in`, of all groups.
pub fn endings_in_groups() -> Vec<(GroupPlace, u32)> {
    let mut places: Vec<GroupPlace> = with_freed(|freed| freed.map(|it| it.group).collect());
    places.sort_unstable();
    let counts = places.chunk_by(|one, other| one == other);
    counts.map(|some| (some[0], some.len() as u32)).collect()
}

/// What this transaction ends when it commits.
#[derive(Default)]
pub struct Ending {
    tickets: HashSet<Ticket>,
    ids: HashSet<Id>,
}

impl Ending {
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty() && self.ids.is_empty()
    }

    /// Whether it ends this task, which has this slot.
    pub fn has(&self, ticket: Ticket, id: Id) -> bool {
        self.tickets.contains(&ticket) || self.ids.contains(&id)
    }
}

/// The tasks whose leases this transaction ends when it commits.
pub fn ending() -> Ending {
    let mut ending = Ending::default();
    PENDING.with_borrow(|pending| {
        for it in pending {
            match &it.change {
                Change::Finish(ticket, _) | Change::Release(ticket, _) | Change::Revoke(ticket) => {
                    ending.tickets.insert(*ticket);
                }
                Change::Gone(id) => {
                    ending.ids.insert(*id);
                }
                Change::Cancel(offer) => {
                    ending.ids.insert(offer.rank.id);
                }
                _ => {}
            }
        }
    });
    ending
}

/// How many of the last changes are looked at for one that counts the same queue.
const COUNTS_AT_END: usize = 4;

/// Notes what this (sub)transaction changes of a queue's numbers, for its commit.
pub fn count(db: &Database, queue: &Rc<[u8]>, change: impl FnOnce(&mut Counts)) {
    let (database, extension) = (db.database.to_u32(), db.extension.to_u32());
    let level = process::nest_level();
    PENDING.with_borrow_mut(|pending| {
        let from = pending.len().saturating_sub(COUNTS_AT_END);
        let found = pending[from..].iter().position(|it| {
            let is_same = it.level == level && it.database == database;
            is_same && matches!(&it.change, Change::Count(it) if it.queue == *queue)
        });
        match found {
            // The others keep their order.
            Some(at) => pending[from + at..].rotate_left(1),
            None => {
                let counts = QueueCounts { queue: queue.clone(), counts: Counts::NONE };
                let counted = Change::Count(Box::new(counts));
                pending.push(PendingChange { level, database, extension, change: counted });
            }
        }
        if let Some(PendingChange { change: Change::Count(it), .. }) = pending.last_mut() {
            change(&mut it.counts);
        }
    });
}

/// Makes room for `more` changes, so that registering them cannot fail.
pub fn reserve(more: usize) {
    PENDING.with_borrow_mut(|pending| pending.reserve(more));
}

/// A subtransaction has ended well: what it registered is its parent's.
pub(super) fn raise_level(level: i32) {
    PENDING.with_borrow_mut(|pending| {
        for change in pending.iter_mut().rev().take_while(|it| it.level >= level) {
            change.level = level - 1;
        }
    });
}

/// Ends the pending changes of a nesting level and of those within it, which `end` gets with those
/// of outer levels, and where they begin. Allocates nothing: memory may have run out. An error
/// after the commit would be a PANIC of the server. A panic of ours discards the board instead, and
/// it is built again.
pub(super) fn end_level(level: i32, end: impl FnOnce(&mut Vec<PendingChange>, usize)) {
    let mut pending = PENDING.take();
    let from = pending.iter().rposition(|it| it.level < level).map_or(0, |at| at + 1);
    if catch_unwind(AssertUnwindSafe(|| end(&mut pending, from))).is_err() {
        discard_board();
        broadcast();
    }
    pending.truncate(from);
    if from > 0 {
        PENDING.set(pending);
    }
}

/// Makes the changes under short holds of the lock, and wakes the scheduler when a lease ends or a
/// task falls due earlier than the time it sleeps until. A database that has no entry any more is
/// skipped.
pub(super) fn make<'p>(
    pending: impl Iterator<Item = &'p PendingChange>,
    mut change: impl FnMut(&mut Board, u32, &PendingChange),
) {
    let mut scheduler_to_wake = None;
    in_steps(pending, |board, it| {
        if let Some(entry) = board.find_entry(it.database, it.extension) {
            change(board, entry, it);
            let first = it.change.is_use() && board.entry_mut(entry).note_use();
            if first || board.wants_scheduler(entry) {
                scheduler_to_wake = Some(entry);
            }
        }
    });
    if let Some(entry) = scheduler_to_wake {
        wake_scheduler(entry);
    }
}

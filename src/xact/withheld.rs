//! Changes of commits that are not durable yet. What others act on as on what has happened for good
//! waits until it is (I1).

use crate::xact::change::Change;
use crate::xact::durability;
use crate::xact::pending::{PendingChange, make};
use pgrx::pg_sys::XLogRecPtr;
use std::cell::{Cell, RefCell};

/// Changes of commits that are not durable yet.
struct Withheld {
    /// The end of the last of these commits, and how durable it is to be.
    end: XLogRecPtr,
    level: i32,
    changes: Vec<PendingChange>,
}

thread_local! {
    /// Set by `commit_ahead`: the durability that this transaction's commit does not wait for.
    static COMMITS_AHEAD: Cell<Option<i32>> = const { Cell::new(None) };
    static WITHHELD: RefCell<Option<Withheld>> = const { RefCell::new(None) };
}

/// Lets the commit of this transaction return before it is as durable as `level` asks for. Changes
/// that must be durable are withheld until then.
pub fn commit_ahead(level: i32) {
    COMMITS_AHEAD.set(Some(level));
}

/// What is withheld: the end of the last commit, if there is one.
pub fn withheld_until() -> Option<XLogRecPtr> {
    WITHHELD.with_borrow(|withheld| withheld.as_ref().map(|it| it.end))
}

/// Applies the withheld changes if their commits are durable by now. True when nothing is withheld
/// any more.
pub fn publish_durable() -> bool {
    let is_durable = WITHHELD.with_borrow(|withheld| {
        withheld.as_ref().is_none_or(|it| durability::is_durable(it.end, it.level))
    });
    if is_durable {
        end_withholding();
    }
    is_durable
}

/// Applies all withheld changes.
pub fn end_withholding() {
    if let Some(withheld) = WITHHELD.take() {
        make(withheld.changes.iter(), |board, entry, pending| match &pending.change {
            Change::Expire(ticket) => board.publish(*ticket),
            Change::Settled(id) => board.note_settled(entry, *id),
            Change::OfferRun(offer) => offer.put(board, entry),
            _ => {}
        });
    }
}

/// How durable the commit of this transaction is to be, if it does not wait for that.
pub(super) fn take_ahead() -> Option<i32> {
    COMMITS_AHEAD.take()
}

/// Withholds those changes of a commit that must be durable.
pub(super) fn withhold(changes: impl Iterator<Item = PendingChange>, end: XLogRecPtr, level: i32) {
    let mut withheld = changes.filter(|it| it.change.must_be_durable()).peekable();
    if withheld.peek().is_some() {
        let mut changes = WITHHELD.take().map_or(Vec::new(), |it| it.changes);
        changes.extend(withheld);
        WITHHELD.set(Some(Withheld { end, level, changes }));
    }
}

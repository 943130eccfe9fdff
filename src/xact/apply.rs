//! Making the changes of a transaction that has committed, and undoing those of one that has
//! failed.

use crate::extension::database::{self, EntryKey};
use crate::pg::process;
use crate::pg::time;
use crate::shmem::segment::{AT_ONCE, wake_launcher, wake_scheduler, with_board};
use crate::xact::change::Change;
use crate::xact::pending::{PendingChange, make};
use crate::xact::waiter::end_wait;
use crate::xact::{durability, in_hand, withheld};
use board::{Bucket, Monotonic, ROW_RETRY_DELAY, Timestamp};
use std::vec::Drain;

/// Makes the changes of a transaction that has committed; `ahead`: how durable its commit is to be,
/// if it did not wait for that.
pub(super) fn commit(pending: Drain<PendingChange>, ahead: Option<i32>) {
    if pending.as_slice().is_empty() {
        return;
    }
    let end = durability::last_commit();
    let ahead = ahead.filter(|level| !durability::is_durable(end, *level));
    apply(pending.as_slice(), ahead.is_some());
    if let Some(level) = ahead {
        withheld::withhold(pending, end, level);
    }
}

fn apply(pending: &[PendingChange], withholds: bool) {
    let Timestamp { monotonic: now, wall } = time::now();
    let transaction = process::transaction();
    make(pending.iter(), |board, entry, pending| match &pending.change {
        Change::OfferRun(_) if withholds => {}
        Change::Offer(offer) | Change::OfferRun(offer) => offer.put(board, entry),
        Change::Due(at) => board.note_due(entry, *at),
        Change::Run(at) => board.note_run(entry, *at),
        Change::RunsSettled => board.entry_mut(entry).runs_settled = true,
        Change::Cancel(offer) => {
            board.remove_task(entry, offer.rank.id);
            offer.note_group(board, entry);
        }
        Change::Forward(offer) => offer.queue(board, entry),
        Change::LeaveOrder(offer) => offer.note_group(board, entry),
        Change::Own(ticket) => board.commit_claim(*ticket),
        Change::Finish(ticket, _) => board.commit_end(*ticket),
        Change::Release(ticket, _) => board.requeue(*ticket, false),
        Change::Expire(ticket) if withholds => board.withhold(*ticket),
        Change::Expire(ticket) => board.requeue(*ticket, true),
        Change::Revoke(ticket) => board.revoke(*ticket),
        Change::Gone(id) => board.remove_task(entry, *id),
        Change::CountdownDeferred => board.entry_mut(entry).countdown_deferred = true,
        Change::RowsReleased => board.entry_mut(entry).rows_released(now),
        Change::Settled(_) if withholds => {}
        Change::Settled(id) => board.note_settled(entry, *id),
        Change::Open(open) => _ = board.entry_mut(entry).set_paused(!open),
        Change::Configure(it) => {
            board.configure(entry, it.0.as_bytes(), &it.1, now, Bucket::Full);
            board.unpin_queue(entry, it.0.as_bytes());
        }
        Change::CriticalOnly(enabled) => board.entry_mut(entry).critical_only = *enabled,
        Change::Drain(worker) => board.drain_worker(entry, worker.as_bytes(), true, wall),
        Change::Count(it) => board.count(entry, &it.queue, &it.counts, transaction, wall),
        Change::Written(it) => board.note_written(entry, &it.queue, &it.counts.events),
        Change::DropQueue(queue) => {
            board.drop_settings(entry, queue.as_bytes(), now);
            board.forget_events(entry, queue.as_bytes(), wall);
        }
        Change::Refresh | Change::Create | Change::Drop => {}
    });
    // What is dropped makes room for an extension that is created in the same transaction.
    let drops = || pending.iter().filter(|it| matches!(it.change, Change::Drop));
    drops().for_each(|it| remove_dropped(it.database, it.extension));
    pending.iter().for_each(wake_released);
    let refreshes = |change: &Change| matches!(change, Change::Refresh | Change::Open(true));
    for it in pending.iter().filter(|it| refreshes(&it.change)) {
        // It would be registered again.
        if !drops().any(|dropped| dropped.extension == it.extension) {
            ask_for_refresh(it.database, it.extension);
        }
    }
}

/// Takes what is no more off the board: an extension, or with 0 all of a database. A scheduler that
/// serves it is told to do that itself.
fn remove_dropped(database: u32, extension: u32) {
    let is_meant = |key: &EntryKey| key.0 == database && [0, key.1].contains(&extension);
    for key in database::entries().into_iter().filter(is_meant) {
        database::remove_entry(key);
        with_board(|board| {
            if let Some(entry) = board.find_entry(key.0, key.1) {
                board.entry_mut(entry).ask_for_survey();
            }
        });
    }
    wake_schedulers_of(database);
}

/// Wakes processes that may find work now that a change lets queues hand out tasks.
fn wake_released(pending: &PendingChange) {
    let queue = match &pending.change {
        Change::Configure(it) => Some(it.0.as_bytes()),
        Change::DropQueue(queue) => Some(queue.as_bytes()),
        Change::CriticalOnly(false) => None,
        _ => return,
    };
    let mut from = Some(0);
    while let Some(at) = from {
        let early;
        (from, early) = with_board(|board| {
            let Some(entry) = board.find_entry(pending.database, pending.extension) else {
                return (None, None);
            };
            let next = board.release_lanes(entry, queue, at, AT_ONCE as u32);
            (next, board.wants_scheduler(entry).then_some(entry))
        });
        early.into_iter().for_each(wake_scheduler);
    }
    let early = with_board(|board| {
        let entry = board.find_entry(pending.database, pending.extension)?;
        board.wake_searched(entry);
        board.wants_scheduler(entry).then_some(entry)
    });
    early.into_iter().for_each(wake_scheduler);
}

/// Registers the database if it is new: this is how a new extension gets its scheduler.
fn ask_for_refresh(database: u32, extension: u32) {
    let entry = with_board(|board| {
        let is_new = board.find_entry(database, extension).is_none();
        let entry = board.register(database, extension)?;
        board.entry_mut(entry).is_new |= is_new;
        board.entry_mut(entry).ask_for_survey();
        Some(entry)
    });
    entry.into_iter().for_each(wake_scheduler);
    wake_schedulers_of(database);
    wake_launcher();
}

/// Wakes the scheduler of a database, which may serve an earlier creation of the extension.
fn wake_schedulers_of(database: u32) {
    let entry = with_board(|board| {
        board.entries().iter().position(|it| it.database == database && it.scheduler != 0)
    });
    entry.into_iter().for_each(|entry| wake_scheduler(entry as u32));
}

/// In reverse order: a task that was owned and settled in one transaction is first leased again,
/// then given back; one that was submitted and cancelled is first offered again, then taken away.
pub(super) fn revert((kept, pending): (&[PendingChange], &[PendingChange])) {
    end_wait(None);
    in_hand::give_up();
    let now = time::monotonic();
    let later = now + ROW_RETRY_DELAY;
    make(pending.iter().rev(), |board, entry, pending| match &pending.change {
        Change::Own(ticket) => board.undo_claim(*ticket),
        Change::Finish(ticket, _) | Change::Release(ticket, _) | Change::Revoke(ticket) => {
            board.undo_end(*ticket, Monotonic::MIN);
        }
        Change::Expire(ticket) => board.undo_end(*ticket, later),
        Change::Cancel(offer) => offer.put(board, entry),
        Change::RowsReleased => board.entry_mut(entry).rows_released(now),
        Change::Configure(it) => board.unpin_queue(entry, it.0.as_bytes()),
        Change::Count(it) => board.unannounce_ready(entry, &it.queue, it.counts.announced),
        // A claim by this transaction is undone before, and leaves it queued.
        Change::Forward(offer) | Change::Offer(offer) | Change::OfferRun(offer) => {
            board.undo_offer(entry, offer.rank.id);
        }
        Change::Due(_)
        | Change::Run(_)
        | Change::RunsSettled
        | Change::Gone(_)
        | Change::LeaveOrder(_)
        | Change::CountdownDeferred
        | Change::Settled(_)
        | Change::Refresh
        | Change::Open(_)
        | Change::Create
        | Change::Drop
        | Change::CriticalOnly(_)
        | Change::Drain(_)
        | Change::Written(_)
        | Change::DropQueue(_) => {}
    });
    hold_back(kept, pending);
    for created in pending.iter().filter(|it| matches!(it.change, Change::Create)) {
        remove_dropped(created.database, created.extension);
    }
}

/// Takes off the board again what the undone changes had put back there, though its offer is one of
/// the kept changes: it is handed out after their commit.
fn hold_back(kept: &[PendingChange], undone: &[PendingChange]) {
    let puts_back =
        |it: &PendingChange| matches!(it.change, Change::Cancel(_) | Change::Finish(..));
    if undone.iter().any(puts_back) {
        make(kept.iter(), |board, entry, pending| match &pending.change {
            Change::Offer(offer) | Change::OfferRun(offer) | Change::Forward(offer) => {
                board.undo_offer(entry, offer.rank.id);
            }
            _ => {}
        });
    }
}

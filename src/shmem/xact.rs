//! What a transaction does to the board when it ends: nothing is offered before the commit, and
//! what was taken goes back at a rollback, savepoints included (I2).

use crate::error;
use crate::pg::process;
use crate::pg::time;
use crate::shmem::database::{self, Database, EntryKey};
use crate::shmem::durability;
use crate::shmem::segment::{
    AT_ONCE, broadcast, discard_board, in_steps, wake_launcher, wake_scheduler, with_board,
};
use board::{
    Board, Bucket, Counts, FreedPlace, GroupHash, GroupPlace, Id, LaneName, LaneRef, Micros,
    Monotonic, Name, Offered, QUEUE_MAX, QueueSettings, Rank, RowHint, RunningPlace, Ticket,
    Timestamp, WORKER_MAX, WaitFor, Wall,
};
use pgrx::pg_sys::{self, SubXactEvent, XLogRecPtr, XactEvent};
use pgrx::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::vec::Drain;

/// When the scheduler tries a lease again whose row it could not write.
pub const ROW_RETRY_DELAY: Micros = Micros::from_millis(100);

/// How often, at most, the scheduler runs deferred countdowns: a locked row stays locked for a
/// while.
pub const COUNTDOWN_DELAY: Micros = Micros::from_millis(2);

/// A task that becomes ready with its transaction's commit.
#[derive(Debug)]
pub struct Offer {
    pub queue: Rc<[u8]>,
    pub action: Rc<[u8]>,
    pub group: Option<GroupHash>,
    pub rank: Rank,
    pub timeout: Micros,
    /// Since when the task ages, if that is later than its submission.
    pub aged_since: Option<Wall>,
    /// Where its row is; none: not known.
    pub row: Option<RowHint>,
    /// An older task of its group runs first, as its row says.
    pub behind: bool,
}

impl Offer {
    fn lane(&self) -> LaneName<'_> {
        LaneName { queue: &self.queue, action: &self.action, group: self.group }
    }

    /// Has the scheduler look for the next task of its group, if its queue keeps the order.
    fn note_group(&self, board: &mut Board, entry: u32) {
        if board.keeps_order_named(entry, &self.queue) {
            board.note_group(entry, &self.queue, self.group);
        }
    }

    /// Offers the task, or leaves it to the scheduler to bring it forward.
    fn put(&self, board: &mut Board, entry: u32) {
        if self.behind || board.keeps_order_named(entry, &self.queue) {
            board.note_group(entry, &self.queue, self.group);
        } else {
            self.queue(board, entry);
        }
    }

    fn queue(&self, board: &mut Board, entry: u32) {
        if board.offer(entry, self.lane(), self.rank, self.timeout) == Offered::Queued {
            if let Some(since) = self.aged_since {
                board.note_age(entry, self.rank.id, since);
            }
            if let Some(row) = self.row {
                board.note_row(entry, self.rank.id, row);
            }
        }
    }
}

/// One thing that a transaction in flight will do to the board at its commit, or undo at its abort.
#[derive(Debug)]
pub enum Change {
    Offer(Offer),
    /// A task falls due then.
    Due(Wall),
    /// A run of a schedule is due then.
    Run(Wall),
    /// As `Offer`, of a run that must be durable before a worker gets it.
    OfferRun(Offer),
    /// Runs of schedules have settled: the scheduler counts them.
    RunsSettled,
    /// A reservation becomes a lease, or goes back into its lane.
    Own(Ticket),
    /// The task has settled, was deleted, or waits: its slot goes, and the places that it had in
    /// its queue and group are free. At a rollback the slot is as before.
    Finish(Ticket, Option<FreedPlace>),
    /// The task is ready again, or its lease goes on.
    Release(Ticket, Option<FreedPlace>),
    /// As `Release`, by the scheduler: the token stays valid until another worker owns the task.
    Expire(Ticket),
    /// As `Expire`, of a worker that was released: the token is not valid any more.
    Revoke(Ticket),
    /// The task is no longer ready (settled, deleted or waiting): its slot goes, whatever its
    /// state.
    Gone(Id),
    /// The task is the first of its group now.
    Forward(Offer),
    /// A task that keeps its place in its group, though it waits for its time, has changed or gone.
    LeaveOrder(Offer),
    /// The task is no longer live; at a rollback it is offered again, since a look at the table by
    /// this transaction does not find it.
    Cancel(Offer),
    /// Countdowns were deferred: the scheduler runs them.
    CountdownDeferred,
    /// The rows that this transaction locked are free, however it ends: deferred countdowns may
    /// run.
    RowsReleased,
    /// The task has settled, and others may wait for its end.
    Settled(Id),
    /// The tables were changed directly: the scheduler surveys them.
    Refresh,
    /// The database hands out and fires tasks, or does not any more (I12).
    Open(bool),
    /// The extension is created: at a rollback what calls made of it leaves the board.
    Create,
    /// The extension is dropped, or the whole database: what is of them leaves the board.
    Drop,
    /// A queue that is pinned on the board has these settings.
    Configure(Box<(Name<QUEUE_MAX>, QueueSettings)>),
    /// Only critical queues hand out tasks, or all again.
    CriticalOnly(bool),
    /// A worker is asked to stop.
    Drain(Box<Name<WORKER_MAX>>),
    /// What happened in a queue.
    Count(Box<QueueCounts>),
    /// Events of a queue are in the table of totals.
    Written(Box<QueueCounts>),
    /// A queue has neither settings nor totals any more.
    DropQueue(Box<Name<QUEUE_MAX>>),
}

/// What a transaction changes of a queue's numbers.
#[derive(Debug)]
pub struct QueueCounts {
    pub queue: Rc<[u8]>,
    pub counts: Counts,
}

impl Change {
    /// Whether it shows that the database is used, not restored.
    fn is_use(&self) -> bool {
        !matches!(
            self,
            Change::Refresh
                | Change::Open(_)
                | Change::Create
                | Change::Drop
                | Change::Count(_)
                | Change::Written(_)
        )
    }

    /// Whether others act on it as on what has happened for good: the end of a try, the end of a
    /// task, and a run of a schedule (I1).
    fn must_be_durable(&self) -> bool {
        matches!(self, Change::Expire(_) | Change::Settled(_) | Change::OfferRun(_))
    }
}

struct PendingChange {
    /// The (sub)transaction's nesting level.
    level: i32,
    database: u32,
    extension: u32,
    change: Change,
}

/// Changes of commits that are not durable yet.
struct Withheld {
    /// The end of the last of these commits, and how durable it is to be.
    end: XLogRecPtr,
    level: i32,
    changes: Vec<PendingChange>,
}

thread_local! {
    static PENDING: RefCell<Vec<PendingChange>> = const { RefCell::new(Vec::new()) };
    /// The lane that this backend refills, with its entry.
    static REFILLING: Cell<Option<u32>> = const { Cell::new(None) };
    /// The entry in which this backend has a waiter on the board.
    static WAITING: Cell<Option<u32>> = const { Cell::new(None) };
    /// The entry whose board this backend builds.
    static BUILDING: Cell<Option<u32>> = const { Cell::new(None) };
    /// This transaction counts the tasks of a database.
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static CALLED: Cell<bool> = const { Cell::new(false) };
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    /// Set by `commit_ahead`: the durability that this transaction's commit does not wait for.
    static COMMITS_AHEAD: Cell<Option<i32>> = const { Cell::new(None) };
    static WITHHELD: RefCell<Option<Withheld>> = const { RefCell::new(None) };
}

/// Registers changes of the board for the end of the (sub)transaction. Allocates now, so that
/// nothing has to be allocated at the commit.
pub fn at_commit(db: &Database, changes: impl IntoIterator<Item = Change>) {
    at_commit_of(db.database.to_u32(), db.extension.to_u32(), changes);
}

/// As `at_commit`, by the oids of the database and of the extension in it.
pub fn at_commit_of(database: u32, extension: u32, changes: impl IntoIterator<Item = Change>) {
    register();
    // SAFETY: reads this backend's transaction state.
    let level = unsafe { pg_sys::GetCurrentTransactionNestLevel() };
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
    register();
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
    register();
    PENDING.with_borrow_mut(|pending| pending.reserve(more));
}

/// Notes that this transaction has called a function of ours: it cannot be prepared, since its
/// changes of the board would be lost.
pub fn note_call() {
    register();
    CALLED.set(true);
}

/// Notes the lane that this backend refills, so that an error gives it up.
pub fn refilling(lane: Option<u32>) {
    register();
    REFILLING.set(lane);
}

/// Makes this backend wait for something on the board, until it stops or an error, or its end,
/// rolls its transaction back.
pub fn wait_for(db: &Database, wait: WaitFor) {
    register();
    let entry = db.enter();
    WAITING.set(Some(entry));
    with_board(|board| board.wait_for(entry, process::number(), wait));
}

/// Notes that this backend looked and found nothing to own, and waits on.
pub fn found_nothing() {
    WAITING
        .get()
        .into_iter()
        .for_each(|entry| wake(entry, |board| board.found_nothing(process::number())));
}

/// Notes that this backend waits on, though a lane has something, since it could not be leased.
pub fn found_no_room(lane: LaneRef) {
    let entry = WAITING.get();
    entry
        .into_iter()
        .for_each(|entry| wake(entry, |board| board.found_no_room(process::number(), lane)));
}

/// Ends this backend's waiting, which found work in a lane or did not; a wake-up that it did not
/// use goes to the next process.
pub fn end_wait(found: Option<LaneRef>) {
    let entry = WAITING.take();
    entry
        .into_iter()
        .for_each(|entry| wake(entry, |board| board.end_wait(process::number(), found)));
}

/// Does something that may wake other processes, and wakes the scheduler if it is to go on with
/// that.
fn wake(entry: u32, change: impl FnOnce(&mut Board)) {
    let wakes_scheduler = with_board(|board| {
        change(board);
        board.wants_scheduler(entry)
    });
    if wakes_scheduler {
        wake_scheduler(entry);
    }
}

/// Lets the commit of this transaction return before it is as durable as `level` asks for. Changes
/// that must be durable are withheld until then.
pub fn commit_ahead(level: i32) {
    register();
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

/// Notes the entry whose board this backend builds, so that an error gives it up.
pub fn building(entry: Option<u32>) {
    register();
    BUILDING.set(entry);
}

/// Notes that this transaction counts the tasks of a database: its end ends that.
pub fn counting() {
    register();
    COUNTING.set(true);
}

fn end_counting(complete: bool) {
    if COUNTING.take() {
        with_board(|board| board.end_recount(process::id(), complete));
    }
}

fn register() {
    if !REGISTERED.replace(true) {
        // SAFETY: registered once for the life of the backend.
        unsafe {
            pg_sys::RegisterXactCallback(Some(transaction_ends), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(subtransaction_ends), std::ptr::null_mut());
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ends(event: XactEvent::Type, _arg: *mut core::ffi::c_void) {
    match event {
        XactEvent::XACT_EVENT_PRE_PREPARE if CALLED.get() => error::not_preparable().raise(),
        XactEvent::XACT_EVENT_COMMIT => {
            CALLED.set(false);
            let ahead = COMMITS_AHEAD.take();
            end_level(1, |pending, _| commit(pending.drain(..), ahead));
            end_counting(true);
        }
        XactEvent::XACT_EVENT_ABORT => {
            CALLED.set(false);
            COMMITS_AHEAD.set(None);
            end_level(1, |pending, from| revert(pending.split_at(from)));
            end_counting(false);
        }
        // Only a dropped extension or database gets here. Later callers find its entry and remove
        // it.
        XactEvent::XACT_EVENT_PREPARE => end_level(1, |_, _| {}),
        _ => {}
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction_ends(
    event: SubXactEvent::Type,
    _me: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _arg: *mut core::ffi::c_void,
) {
    // The level is still the ending one's.
    let level = process::nest_level();
    match event {
        SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => PENDING.with_borrow_mut(|pending| {
            for change in pending.iter_mut().rev().take_while(|it| it.level >= level) {
                change.level = level - 1;
            }
        }),
        SubXactEvent::SUBXACT_EVENT_ABORT_SUB => {
            end_level(level, |pending, from| revert(pending.split_at(from)));
        }
        _ => {}
    }
}

/// Ends the pending changes of a nesting level and of those within it, which `end` gets with those
/// of outer levels, and where they begin. Allocates nothing: memory may have run out. An error
/// after the commit would be a PANIC of the server. A panic of ours discards the board instead, and
/// it is built again.
fn end_level(level: i32, end: impl FnOnce(&mut Vec<PendingChange>, usize)) {
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

/// Makes the changes of a transaction that has committed; `ahead`: how durable its commit is to be,
/// if it did not wait for that.
fn commit(pending: Drain<PendingChange>, ahead: Option<i32>) {
    let end = durability::last_commit();
    let ahead = ahead.filter(|level| !durability::is_durable(end, *level));
    apply(pending.as_slice(), ahead.is_some());
    if let Some(level) = ahead {
        let mut withheld = pending.filter(|it| it.change.must_be_durable()).peekable();
        if withheld.peek().is_some() {
            let mut changes = WITHHELD.take().map_or(Vec::new(), |it| it.changes);
            changes.extend(withheld);
            WITHHELD.set(Some(Withheld { end, level, changes }));
        }
    }
}

fn apply(pending: &[PendingChange], withholds: bool) {
    let Timestamp { monotonic: now, wall } = time::now();
    let soon = now + COUNTDOWN_DELAY;
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
        Change::RowsReleased => rows_released(board, entry, soon),
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
fn revert((kept, pending): (&[PendingChange], &[PendingChange])) {
    end_wait(None);
    if let Some(lane) = REFILLING.take() {
        with_board(|board| board.abandon_refill(lane, process::id()));
        broadcast();
    }
    if let Some(entry) = BUILDING.take() {
        with_board(|board| board.end_build(entry, process::id()));
    }
    let now = time::monotonic();
    let (soon, later) = (now + COUNTDOWN_DELAY, now + ROW_RETRY_DELAY);
    make(pending.iter().rev(), |board, entry, pending| match &pending.change {
        Change::Own(ticket) => board.undo_claim(*ticket),
        Change::Finish(ticket, _) | Change::Release(ticket, _) | Change::Revoke(ticket) => {
            board.undo_end(*ticket, Monotonic::MIN);
        }
        Change::Expire(ticket) => board.undo_end(*ticket, later),
        Change::Cancel(offer) => offer.put(board, entry),
        Change::RowsReleased => rows_released(board, entry, soon),
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
    let offered = |it: &PendingChange| match &it.change {
        Change::Offer(offer) | Change::OfferRun(offer) | Change::Forward(offer) => {
            Some(offer.rank.id)
        }
        _ => None,
    };
    if !kept.iter().any(|it| offered(it).is_some()) {
        return;
    }
    for it in undone {
        let of_ticket = |ticket: Ticket| {
            with_board(|board| {
                let entry = board.find_entry(it.database, it.extension)?;
                board.slot_at(ticket.slot, entry).map(|slot| slot.id)
            })
        };
        let id = match &it.change {
            Change::Cancel(offer) => Some(offer.rank.id),
            Change::Finish(ticket, _) => of_ticket(*ticket),
            _ => None,
        };
        if let Some(id) = id.filter(|id| kept.iter().any(|it| offered(it) == Some(*id))) {
            with_board(|board| {
                if let Some(entry) = board.find_entry(it.database, it.extension) {
                    board.undo_offer(entry, id);
                }
            });
        }
    }
}

fn rows_released(board: &mut Board, entry: u32, soon: Monotonic) {
    let entry = board.entry_mut(entry);
    entry.countdown_at = entry.countdown_at.min(soon);
}

/// Makes the changes under short holds of the lock, and wakes the scheduler when a lease ends or a
/// task falls due earlier than the time it sleeps until. A database that has no entry any more is
/// skipped.
fn make<'p>(
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

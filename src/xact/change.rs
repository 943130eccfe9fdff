//! What a transaction may do to the board when it ends.

use board::{
    Board, Counts, FreedPlace, GroupHash, Id, LaneName, Micros, Name, Offered, QUEUE_MAX,
    QueueSettings, Rank, RowHint, Ticket, WORKER_MAX, Wall,
};
use std::rc::Rc;

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
    pub(super) fn note_group(&self, board: &mut Board, entry: u32) {
        if board.keeps_order_named(entry, &self.queue) {
            board.note_group(entry, &self.queue, self.group);
        }
    }

    /// Offers the task, or leaves it to the scheduler to bring it forward.
    pub(super) fn put(&self, board: &mut Board, entry: u32) {
        if self.behind || board.keeps_order_named(entry, &self.queue) {
            board.note_group(entry, &self.queue, self.group);
        } else {
            self.queue(board, entry);
        }
    }

    pub(super) fn queue(&self, board: &mut Board, entry: u32) {
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
    /// A task that keeps its position in its group, though it waits for its time, has changed or
    /// gone.
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
    pub(super) fn is_use(&self) -> bool {
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
    pub(super) fn must_be_durable(&self) -> bool {
        matches!(self, Change::Expire(_) | Change::Settled(_) | Change::OfferRun(_))
    }
}

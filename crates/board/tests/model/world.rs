//! The state of the model: the table, the expected board, and the operations in progress.

use std::collections::{BTreeMap, BTreeSet};

use board::{
    Board, BuildState, FreedPlace, GroupHash, Id, LaneAudit, LaneName, Micros, Monotonic,
    NeedsRefill, Rank, State, Ticket, Timestamp, TokenHash, Wall,
};

pub const MAX_DATABASES: u32 = 2;
pub const QUEUES: u8 = 2;
pub const ACTIONS: u8 = 3;
/// The first is that of tasks without a group.
pub const GROUPS: u8 = 3;

/// A task of a database.
pub type Key = (u32, Id);

/// Database, queue, action, group.
pub type LaneKey = (u32, u8, u8, u8);

/// Database, queue.
pub type QueueKey = (u32, u8);

/// Database, queue, worker.
pub type WorkerKey = (u32, u8, Vec<u8>);

/// A live task as the table has it, committed.
#[derive(Clone, Debug)]
pub struct Row {
    pub lane: LaneKey,
    pub rank: Rank,
    pub timeout: Micros,
    pub ready: bool,
}

/// A task as the board should have it.
#[derive(Clone, Debug)]
pub struct Card {
    pub lane: LaneKey,
    pub rank: Rank,
    pub timeout: Micros,
    pub state: State,
    pub previous_state: State,
    pub holder: i32,
    /// Its lease has expired, and it is being ended since.
    pub expiring: bool,
    /// The valid token.
    pub token_hash: Option<TokenHash>,
    pub deadline: Monotonic,
    pub deadline_at: Wall,
    pub since_at: Wall,
    pub length: Micros,
    pub progress: f64,
    pub in_history: bool,
    pub persisted: bool,
    /// The transaction that claimed it has not ended.
    pub uncommitted: bool,
    /// The process that runs this transaction.
    pub claimed_by: i32,
    pub worker: Vec<u8>,
    /// It was offered again since its transaction began.
    pub again: bool,
    /// The generation of its tickets: moves on with each arrival, reservation and expiry.
    pub epoch: u64,
    /// The acts that may end an operation on it.
    pub reserved_by: u64,
    pub settling_by: u64,
}

/// A transaction's right to end what it began with a task.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    pub key: Key,
    pub ticket: Ticket,
    pub serial: u64,
    pub epoch: u64,
    /// The place of its queue that an ending makes free.
    pub place: Option<FreedPlace>,
}

/// The effect of an ending when it commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Finish,
    Requeue,
    /// Ready again, and its worker is told.
    Revoke,
    /// Live, but not ready until it is fired.
    Delay,
    /// It was not ready in the table.
    Stray,
}

#[derive(Clone, Copy, Debug)]
pub struct End {
    pub outcome: Outcome,
    pub expired: bool,
}

/// An act of an open transaction.
#[derive(Clone, Debug)]
pub enum Act {
    Reserve { right: Right, ready: bool },
    Settle { right: Right, end: End },
}

#[derive(Clone, Debug, Default)]
pub struct Transaction {
    pub acts: Vec<Act>,
    /// Committed and visible, but its callbacks did not run yet.
    pub committed: bool,
}

#[derive(Clone, Debug)]
pub struct Refill {
    pub pid: i32,
    /// The lane's place on the board.
    pub at: u32,
    pub lane: LaneKey,
    /// All tasks before this rank were read.
    pub read: Rank,
    pub rows: Vec<(Rank, Micros)>,
    pub placed: usize,
    pub full: bool,
    /// The lowest rank left to the table since the refill began.
    pub left: Rank,
}

/// The board after the last call.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub lanes: BTreeMap<LaneKey, LaneAudit>,
    pub used: u32,
}

/// How often each case occurred: a property proves nothing if no sequence exercises it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub evicted: u64,
    pub left: u64,
    pub strays: u64,
    pub known: u64,
    pub expired: u64,
    pub stale: u64,
    pub refilled: u64,
    pub interrupted: u64,
    pub handed: u64,
    pub withdrawn: u64,
    /// Expired, and withheld until that is durable.
    pub withheld: u64,
    /// Extended after expiry, while a transaction ended it.
    pub revived: u64,
    /// Reservations that expired.
    pub lapsed: u64,
    /// As many ran as may.
    pub limited: u64,
    /// Owned in the place of one whose lease the same transaction ends.
    pub handed_on: u64,
    /// Tasks that went while a transaction ended their leases.
    pub overtaken: u64,
    /// Not extended, since others run in its place.
    pub superseded: u64,
    /// Leases of a worker that was released.
    pub released: u64,
    /// Workers whose records others got.
    pub forgotten: u64,
    /// Handed out before a task that is older, since that one's group had its turn.
    pub in_turn: u64,
    /// As many of a group with a ready task ran as may.
    pub parked: u64,
    /// Owned in the place of one of its group whose lease the same transaction ends.
    pub handed_in_group: u64,
    /// Workers that were told that a lease had ended without them.
    pub told: u64,
    /// Workers that were told to stop.
    pub drained: u64,
}

pub struct World<'b> {
    pub board: Board<'b>,
    pub rows: BTreeMap<Key, Row>,
    pub cards: BTreeMap<Key, Card>,
    /// When each worker last called, by the board's clock.
    pub workers: BTreeMap<WorkerKey, Wall>,
    /// Workers of which a lease ended without them, which they were not told yet, by the record
    /// that knows.
    pub signals: BTreeSet<WorkerKey>,
    /// Workers that are asked to stop.
    pub draining: BTreeSet<WorkerKey>,
    pub transactions: BTreeMap<i32, Transaction>,
    pub refills: Vec<Refill>,
    /// Lanes that a process may still mean to refill.
    pub wanted: Vec<(LaneKey, NeedsRefill)>,
    /// Commits whose callbacks did not run yet.
    pub puts: Vec<Key>,
    pub gones: Vec<Key>,
    /// The last turns of the groups that have lanes, and of the tasks in none.
    pub turns: BTreeMap<(QueueKey, u8), u64>,
    /// How many tasks of a queue may run.
    pub limits: BTreeMap<QueueKey, u32>,
    /// How many of each of its groups.
    pub group_limits: BTreeMap<QueueKey, u32>,
    /// Queues of which a task went while a transaction ended its lease: that transaction owns no
    /// more than it could without the ending.
    pub overtaken: BTreeSet<QueueKey>,
    /// Expired leases whose end is not durable yet.
    pub withheld: Vec<Right>,
    /// Rights that were used; true for a reservation.
    pub spent: Vec<(Right, bool)>,
    pub tokens: Vec<(Key, TokenHash)>,
    /// The tasks that were handed out, in this order.
    pub handed: Vec<Key>,
    pub ended: [u32; MAX_DATABASES as usize],
    pub now: Timestamp,
    pub last: Snapshot,
    pub tally: Tally,
    serial: u64,
}

pub fn queue_name(queue: u8) -> Vec<u8> {
    format!("queue {queue}").into_bytes()
}

pub fn action_name(action: u8) -> Vec<u8> {
    format!("action {action}").into_bytes()
}

pub fn group_of(group: u8) -> Option<GroupHash> {
    (group > 0).then(|| GroupHash::from(group))
}

pub fn scheduler_of(entry: u32) -> i32 {
    90 + entry as i32
}

impl<'b> World<'b> {
    pub fn on(board: Board<'b>) -> World<'b> {
        let mut world = World {
            board,
            rows: BTreeMap::new(),
            cards: BTreeMap::new(),
            workers: BTreeMap::new(),
            signals: BTreeSet::new(),
            draining: BTreeSet::new(),
            transactions: BTreeMap::new(),
            refills: Vec::new(),
            wanted: Vec::new(),
            puts: Vec::new(),
            gones: Vec::new(),
            turns: BTreeMap::new(),
            limits: BTreeMap::new(),
            group_limits: BTreeMap::new(),
            overtaken: BTreeSet::new(),
            withheld: Vec::new(),
            spent: Vec::new(),
            tokens: Vec::new(),
            handed: Vec::new(),
            ended: [0; MAX_DATABASES as usize],
            now: Timestamp { monotonic: Monotonic(1_000), wall: Wall(1_000_000) },
            last: Snapshot::default(),
            tally: Tally::default(),
            serial: 0,
        };
        for entry in 0..MAX_DATABASES {
            world.register(entry);
            world.board.entry_mut(entry).build_state = BuildState::Built;
        }
        world.last = world.take_snapshot();
        world
    }

    pub fn register(&mut self, entry: u32) {
        assert_eq!(self.board.register(1_000 + entry, 1), Some(entry));
        self.board.entry_mut(entry).scheduler = scheduler_of(entry);
    }

    pub fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// The keys of rows that a transaction in flight has locked.
    pub fn locked(&self) -> BTreeSet<Key> {
        let acts = self.transactions.values().filter(|it| !it.committed).flat_map(|it| &it.acts);
        acts.filter_map(|act| match act {
            Act::Settle { right, .. } => Some(right.key),
            Act::Reserve { .. } => None,
        })
        .collect()
    }

    pub fn is_ready(&self, key: Key) -> bool {
        self.rows.get(&key).is_some_and(|row| row.ready)
    }

    /// The lanes that have something ready in the table.
    pub fn ready_lanes(&self, entry: u32) -> BTreeSet<LaneKey> {
        let rows = self.rows.values().filter(|row| row.ready && row.lane.0 == entry);
        rows.map(|row| row.lane).collect()
    }

    pub fn named<T>(&mut self, lane: LaneKey, call: impl FnOnce(&mut Board, LaneName) -> T) -> T {
        let (queue, action) = (queue_name(lane.1), action_name(lane.2));
        let group = group_of(lane.3);
        call(&mut self.board, LaneName { queue: &queue, action: &action, group })
    }
}

impl Tally {
    pub fn all(&self) -> [(&'static str, u64); 24] {
        [
            ("evicted", self.evicted),
            ("left", self.left),
            ("strays", self.strays),
            ("known", self.known),
            ("expired", self.expired),
            ("stale", self.stale),
            ("refilled", self.refilled),
            ("interrupted", self.interrupted),
            ("handed", self.handed),
            ("withdrawn", self.withdrawn),
            ("withheld", self.withheld),
            ("revived", self.revived),
            ("lapsed", self.lapsed),
            ("limited", self.limited),
            ("handed_on", self.handed_on),
            ("overtaken", self.overtaken),
            ("superseded", self.superseded),
            ("released", self.released),
            ("forgotten", self.forgotten),
            ("in_turn", self.in_turn),
            ("parked", self.parked),
            ("handed_in_group", self.handed_in_group),
            ("told", self.told),
            ("drained", self.drained),
        ]
    }
}

impl std::ops::Add for Tally {
    type Output = Tally;
    fn add(self, it: Tally) -> Tally {
        Tally {
            evicted: self.evicted + it.evicted,
            left: self.left + it.left,
            strays: self.strays + it.strays,
            known: self.known + it.known,
            expired: self.expired + it.expired,
            stale: self.stale + it.stale,
            refilled: self.refilled + it.refilled,
            interrupted: self.interrupted + it.interrupted,
            handed: self.handed + it.handed,
            withdrawn: self.withdrawn + it.withdrawn,
            withheld: self.withheld + it.withheld,
            revived: self.revived + it.revived,
            lapsed: self.lapsed + it.lapsed,
            limited: self.limited + it.limited,
            handed_on: self.handed_on + it.handed_on,
            overtaken: self.overtaken + it.overtaken,
            superseded: self.superseded + it.superseded,
            released: self.released + it.released,
            forgotten: self.forgotten + it.forgotten,
            in_turn: self.in_turn + it.in_turn,
            parked: self.parked + it.parked,
            handed_in_group: self.handed_in_group + it.handed_in_group,
            told: self.told + it.told,
            drained: self.drained + it.drained,
        }
    }
}

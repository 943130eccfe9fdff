//! A small board with one built database, and short names for its operations.

use board::{
    ActionFilter, Board, BuildState, Claim, Claimed, Expired, LaneName, Micros, Monotonic,
    NeedsRefill, Next, Rank, Sizes, Ticket, Timestamp, TokenHash, Wall,
};

use super::Memory;

/// No lease length of the task's own.
pub const NONE: Micros = Micros::ZERO;
pub const WORK: LaneName = LaneName { queue: b"work", action: b"do", group: None };
pub const NOW: Timestamp = Timestamp { monotonic: Monotonic(1_000), wall: Wall(5_000_000) };

pub fn small(slots: usize, lanes: usize) -> Memory {
    let mut memory = Memory::new(Sizes {
        slots,
        slot_buckets: 8,
        lanes,
        lane_buckets: 8,
        queues: lanes + 256 + 2,
        queue_buckets: 8,
        waiters: 4,
        wait_lists: 2,
        counted: 3,
        transactions: 4,
    });
    let mut board = memory.board();
    assert_eq!(board.register(1, 1), Some(0));
    board.entry_mut(0).build_state = BuildState::Built;
    memory
}

pub fn rank(id: u128) -> Rank {
    Rank { id, created: Wall(0), priority: 0 }
}

pub fn lane<'a>(action: &'a [u8]) -> LaneName<'a> {
    LaneName { queue: b"work", action, group: None }
}

pub fn claim(monotonic: i64, length: Option<i64>) -> Claim<'static> {
    let (now, length) = (at(monotonic), length.map(Micros));
    Claim { worker: b"worker", holder: 7, now, length, fallback: Micros(100), longest: Micros::MAX }
}

pub fn at(monotonic: i64) -> Timestamp {
    Timestamp { monotonic: Monotonic(monotonic), ..NOW }
}

pub fn token_hash(number: u8) -> TokenHash {
    [number; 16]
}

/// Reserves the next task.
pub fn take(board: &mut Board, number: u8) -> Claimed {
    match board.next_task(0, b"work", None) {
        Next::Task(at) => board.reserve(at, &claim(NOW.monotonic.0, None), token_hash(number)),
        front => panic!("no task, but {front:?}"),
    }
}

pub fn own(board: &mut Board, number: u8) -> Claimed {
    let taken = take(board, number);
    board.commit_claim(taken.ticket);
    taken
}

pub fn lane_to_refill(board: &mut Board, queue: &[u8]) -> NeedsRefill {
    match board.next_task(0, queue, None) {
        Next::NeedsRefill(wanted) => wanted,
        front => panic!("no lane to refill, but {front:?}"),
    }
}

/// Takes the lease that expires first, at the end of time.
pub fn take_expired(board: &mut Board) -> Option<Expired> {
    board.take_expired(0, Monotonic(i64::MAX - 1))
}

/// As `take_expired`; fails unless a lease was taken.
pub fn take_expired_lease(board: &mut Board) -> Ticket {
    match take_expired(board).expect("a lease that is due") {
        Expired::Lease(ticket, _) => ticket,
        Expired::Reservation => panic!("a reservation"),
    }
}

pub fn expire(board: &mut Board) {
    match take_expired(board).expect("a lease that is due") {
        Expired::Lease(ticket, _) => board.requeue(ticket, true),
        Expired::Reservation => {}
    }
}

pub fn action_to_refill(board: &mut Board, action: &[u8]) -> NeedsRefill {
    board.survey(0, lane(action), None, Rank::FIRST);
    match board.next_task(0, b"work", Some(&[action])) {
        Next::NeedsRefill(wanted) => wanted,
        front => panic!("no lane to refill, but {front:?}"),
    }
}

/// Whether a process that waits for one of two actions may be woken for the other.
pub fn same_hash(a: &[u8], b: &[u8]) -> bool {
    ActionFilter::new(Some(&[a])).admits(b)
}

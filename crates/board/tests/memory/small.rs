//! A small board with one open house, and short names for what is done with it.

use board::{Board, Claim, Door, Dry, Front, LaneName, Moment, Rank, Seal, Sizes, Taken};

use super::Memory;

pub const WORK: LaneName = LaneName { queue: b"work", action: b"do" };
pub const NOW: Moment = Moment { monotonic: 1_000, wall: 5_000_000 };

pub fn small(slots: usize, lanes: usize) -> Memory {
    let mut memory = Memory::new(Sizes {
        slots,
        slot_buckets: 8,
        lanes,
        lane_buckets: 8,
        waiters: 4,
        waiter_buckets: 2,
    });
    let mut board = memory.board();
    assert_eq!(board.enter_house(1, 1), Some(0));
    board.house_mut(0).door = Door::Open;
    memory
}

pub fn rank(id: u128) -> Rank {
    Rank { id, created: 0, priority: 0 }
}

pub fn lane<'a>(action: &'a [u8]) -> LaneName<'a> {
    LaneName { queue: b"work", action }
}

pub fn claim(monotonic: i64, length: Option<i64>) -> Claim<'static> {
    let now = Moment { monotonic, ..NOW };
    Claim { worker: b"worker", holder: 7, now, length, fallback: 100 }
}

pub fn seal(number: u8) -> Seal {
    [number; 16]
}

/// Reserves what comes next.
pub fn take(board: &mut Board, number: u8) -> Taken {
    match board.front_of(0, b"work", None) {
        Front::Task(at) => board.reserve(at, &claim(NOW.monotonic, None), seal(number)),
        front => panic!("no task, but {front:?}"),
    }
}

pub fn own(board: &mut Board, number: u8) -> Taken {
    let taken = take(board, number);
    board.confirm(taken.ticket);
    taken
}

pub fn dry(board: &mut Board, queue: &[u8]) -> Dry {
    match board.front_of(0, queue, None) {
        Front::Dry(dry) => dry,
        front => panic!("not dry, but {front:?}"),
    }
}

pub fn expire(board: &mut Board) {
    let (ticket, _) = board.take_due(0, i64::MAX - 1, 9).expect("a lease that is due");
    board.requeue(ticket, true);
}

pub fn dry_of(board: &mut Board, action: &[u8]) -> Dry {
    board.survey(0, lane(action));
    match board.front_of(0, b"work", Some(&[action])) {
        Front::Dry(dry) => dry,
        front => panic!("not dry, but {front:?}"),
    }
}

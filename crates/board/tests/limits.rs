//! The capacity of a board, its memory, and the cost of an operation.

mod memory;

use board::{
    Board, BuildState, Claim, Expired, LaneName, Micros, Monotonic, Next, Offered, Rank, Sizes,
    Slot, Timestamp, Wall,
};

use memory::Memory;

const SLOTS: usize = 131_072;

fn large() -> Memory {
    let mut memory = Memory::new(Sizes::of(SLOTS, 100));
    let mut board = memory.board();
    assert_eq!(board.register(1, 1), Some(0));
    board.entry_mut(0).build_state = BuildState::Built;
    memory
}

fn rank(priority: u32, created: i64, id: u128) -> Rank {
    Rank { id: id + 1, created: Wall(created), priority }
}

fn put(board: &mut Board, queue: &str, action: &str, rank: Rank) -> Offered {
    board.offer(
        0,
        LaneName { queue: queue.as_bytes(), action: action.as_bytes(), group: None },
        rank,
        Micros::ZERO,
    )
}

/// Reserves the next task of a queue and returns its rank.
fn take(board: &mut Board, queue: &str, length: i64) -> Option<Rank> {
    let now = Timestamp { monotonic: Monotonic(0), wall: Wall(0) };
    let claim = Claim {
        worker: b"w",
        holder: 1,
        now,
        length: Some(Micros(length)),
        fallback: Micros(1),
        longest: Micros::MAX,
    };
    match board.next_task(0, queue.as_bytes(), None) {
        Next::Task(at) => {
            let rank = board.slot_at(at, 0).expect("a task").rank();
            let taken = board.reserve(at, &claim, [0; 16]);
            board.commit_claim(taken.ticket);
            Some(rank)
        }
        Next::Empty => None,
        front => panic!("neither task nor empty: {front:?}"),
    }
}

/// A permutation of 0..n, `n` a power of two.
fn scattered(at: usize, n: usize) -> usize {
    at.wrapping_mul(0x9e37_79b1) % n
}

#[test]
fn a_slot_takes_at_most_144_bytes_and_all_of_the_board_1_300_a_slot() {
    let bytes = Memory::new(Sizes { counted: 1, ..Sizes::of(SLOTS, 100) }).bytes();
    println!("a slot: {} bytes; the board: {} a slot", size_of::<Slot>(), bytes.div_ceil(SLOTS));
    assert!(size_of::<Slot>() <= 144);
    assert!(bytes.div_ceil(SLOTS) <= 1_300);
}

#[test]
fn one_board_holds_ten_thousand_queues() {
    let mut memory = large();
    let mut board = memory.board();
    for round in 0..3 {
        for at in 0..16_384 {
            let queue = scattered(at, 16_384);
            let rank = rank(round, 0, (queue * 4 + round as usize) as u128);
            let name = format!("queue {queue}");
            if queue < 10_000 {
                assert_eq!(put(&mut board, &name, "do", rank), Offered::Queued);
            }
        }
    }
    assert_eq!(board.usage().slots_used, 30_000);
    assert_eq!(board.usage().lanes_used, 10_000);
    assert_eq!(board.searched(0), 0);
    board.audit();
    for queue in 0..10_000 {
        let name = format!("queue {queue}");
        let priorities: Vec<u32> = std::iter::from_fn(|| take(&mut board, &name, 1_000))
            .map(|rank| rank.priority)
            .collect();
        assert_eq!(priorities, [2, 1, 0]);
    }
    while let Some(Expired::Lease(ticket, _)) = board.take_expired(0, Monotonic(2_000)) {
        board.commit_end(ticket);
    }
    assert_eq!((board.usage().slots_used, board.usage().lanes_used), (0, 0));
    board.audit();
}

#[test]
fn ten_thousand_actions_of_one_queue_come_in_one_order() {
    let mut memory = large();
    let mut board = memory.board();
    for at in 0..32_768 {
        let task = scattered(at, 32_768);
        let action = format!("action {}", task % 10_000);
        let rank = rank(task as u32 % 7, (task / 7 % 11) as i64, task as u128);
        assert_eq!(put(&mut board, "work", &action, rank), Offered::Queued);
    }
    assert_eq!(board.usage().lanes_used, 10_000);
    assert!(board.audit().depth <= 60);
    let all: Vec<Rank> = std::iter::from_fn(|| take(&mut board, "work", 1_000)).collect();
    assert_eq!(all.len(), 32_768);
    assert!(all.is_sorted());
}

/// I4, B113: a full board does not starve a quiet queue.
#[test]
fn a_full_board_does_not_starve_a_quiet_queue() {
    let mut memory = large();
    let mut board = memory.board();
    for task in 0..2 * SLOTS {
        put(&mut board, "loud", "do", rank(9, 0, task as u128));
    }
    assert_eq!(board.usage().slots_used as usize, SLOTS);
    assert_eq!(put(&mut board, "quiet", "do", rank(0, 9, 1 << 100)), Offered::Queued);
    // Better tasks of the loud queue evict its own.
    for task in 0..1_000 {
        assert_eq!(put(&mut board, "loud", "do", rank(10, 0, (1 << 90) + task)), Offered::Queued);
    }
    assert_eq!(board.usage().slots_used as usize, SLOTS);
    assert_eq!(take(&mut board, "quiet", 1_000), Some(rank(0, 9, 1 << 100)));
    assert_eq!(take(&mut board, "loud", 1_000), Some(rank(10, 0, 1 << 90)));
    board.audit();
}

/// I4: each of many queues gets its share of a full board.
#[test]
fn every_queue_of_many_gets_its_share_of_a_full_board() {
    let mut memory = large();
    let mut board = memory.board();
    for queue in 0..64 {
        for task in 0..4_096 {
            let id = (queue as u128) << 64 | task;
            put(&mut board, &format!("queue {queue}"), "do", rank(queue, 0, id));
        }
    }
    let lanes = board.audit().lanes;
    assert_eq!(lanes.len(), 64);
    assert!(lanes.iter().all(|lane| lane.queued.len() == SLOTS / 64));
}

/// The depth of the tree of 100,000 tasks that are offered in the order of `rank_of`.
fn depth_of(rank_of: impl Fn(usize) -> Rank) -> usize {
    let mut memory = large();
    let mut board = memory.board();
    for at in 0..100_000 {
        assert_eq!(put(&mut board, "work", "do", rank_of(at)), Offered::Queued);
    }
    board.audit().depth
}

/// I8: no order of 100,000 tasks makes a deep tree.
#[test]
fn no_order_of_a_hundred_thousand_tasks_makes_a_deep_tree() {
    let half = |at: usize| if at.is_multiple_of(2) { at } else { 200_000 - at };
    let orders: [(&str, &dyn Fn(usize) -> Rank); 7] = [
        ("rising", &|at| rank(0, at as i64, at as u128)),
        ("falling", &|at| rank(0, -(at as i64), at as u128)),
        ("from both ends", &|at| rank(0, half(at) as i64, at as u128)),
        ("by id alone", &|at| rank(0, 0, at as u128)),
        ("scattered", &|at| rank(0, scattered(at, SLOTS) as i64, at as u128)),
        ("bits reversed", &|at| rank((at as u32).reverse_bits(), 0, at as u128)),
        ("in blocks", &|at| rank(at as u32 % 317, at as i64 / 317, at as u128)),
    ];
    for (name, order) in orders {
        let depth = depth_of(order);
        println!("{name}: {depth}");
        assert!(depth <= 60, "{name}: {depth}");
    }
}

/// The weight that the board derives from an index without a seed. Ids chosen by it make the tree a
/// list.
fn mix(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// I8: with the seed, no choice of ids makes a deep tree.
#[test]
fn without_the_seed_no_choice_of_ids_makes_a_deep_tree() {
    let depth = |seed: u32, tasks: u32| {
        let mut memory = large();
        let mut board = memory.board();
        board.set_seed(seed);
        for at in 0..tasks {
            put(&mut board, "work", "do", rank(mix(at), 0, at.into()));
        }
        board.audit().depth
    };
    assert_eq!(depth(0, 1_000), 1_000, "this is how the places are weighed");
    for seed in [1, 0x5eed_5eed, u32::MAX] {
        assert!(depth(seed, 20_000) <= 60);
    }
}

/// I8: no order of 100,000 leases makes a deep tree of deadlines.
#[test]
fn no_order_of_a_hundred_thousand_leases_makes_a_deep_timer() {
    for length in [|at: i64| 1_000 + at, |at: i64| 1_000_000 - at, |_: i64| 1_000] {
        let mut memory = large();
        let mut board = memory.board();
        for at in 0..100_000 {
            put(&mut board, "work", "do", rank(0, at, at as u128));
        }
        for at in 0..100_000 {
            take(&mut board, "work", length(at)).expect("a task");
        }
        let depth = board.audit().depth;
        assert!(depth <= 60, "{depth}");
        let mut last = Monotonic::MIN;
        while let Some(Expired::Lease(ticket, slot)) = board.take_expired(0, Monotonic(1_000_000)) {
            assert!(last <= slot.deadline);
            last = slot.deadline;
            board.commit_end(ticket);
        }
        assert_eq!(board.usage().slots_used, 0);
    }
}

//! How much of a board one database may hold.

mod memory;

use board::{
    Board, BuildState, Claim, DatabaseEntry, Expired, Extended, LaneName, Lease, Micros, Monotonic,
    Next, Offered, Rank, Sizes, Ticket, Timestamp, Wall,
};

use memory::Memory;

const SLOTS: usize = 1_024;
const SHARE: usize = SLOTS / 64;

/// A board with so many databases that are served.
fn served(databases: u32) -> Memory {
    let mut memory = Memory::new(Sizes::of(SLOTS, 100));
    let mut board = memory.board();
    for entry in 0..databases {
        assert_eq!(board.register(1 + entry, 1), Some(entry));
        board.entry_mut(entry).build_state = BuildState::Built;
        board.entry_mut(entry).note_use();
    }
    memory
}

fn rank(task: usize) -> Rank {
    Rank { id: 1 + task as u128, created: Wall(task as i64), priority: 0 }
}

/// Offers tasks, each in its own lane or all in one.
fn offer(board: &mut Board, entry: u32, tasks: usize, many_lanes: bool) {
    for task in 0..tasks {
        let action = if many_lanes { format!("{task}") } else { String::new() };
        let lane = LaneName { queue: b"work", action: action.as_bytes(), group: None };
        board.offer(entry, lane, rank(task), Micros::ZERO);
    }
}

/// Leases what there is room for, of tasks that the table has all; how many.
fn own(board: &mut Board, entry: u32) -> usize {
    let now = Timestamp { monotonic: Monotonic(0), wall: Wall(0) };
    let length = Some(Micros(1_000));
    let (fallback, longest) = (Micros(1), Micros::MAX);
    let claim = Claim { worker: b"w", holder: 1, now, length, fallback, longest };
    let (mut owned, mut refills) = (0, 0);
    loop {
        match board.next_task(entry, b"work", None) {
            Next::Task(at) if board.fits(&mut board.room_of(entry)) => {
                let taken = board.reserve(at, &claim, [0; 16]);
                board.commit_claim(taken.ticket);
                (owned, refills) = (owned + 1, 0);
            }
            Next::NeedsRefill(dry) => {
                let action = String::from_utf8_lossy(dry.action.as_bytes()).into_owned();
                let rows: Vec<(Rank, Micros)> = match action.parse() {
                    Ok(task) => vec![(rank(task), Micros::ZERO)],
                    Err(_) => (0..2 * SLOTS).map(|task| (rank(task), Micros::ZERO)).collect(),
                };
                let rows = rows.into_iter().filter(|(rank, _)| *rank >= dry.cursor).take(64);
                let rows: Vec<(Rank, Micros)> = rows.collect();
                assert!(board.begin_refill(&dry, 9));
                board.refill(entry, dry.lane, 9, &rows);
                board.end_refill(dry.lane, 9, rows.last().map_or(Rank::END, |it| it.0.next()));
                // Lanes that find no slot lose their tasks to each other.
                refills += 1;
                if refills > 100 || !board.fits(&mut board.room_of(entry)) {
                    break;
                }
            }
            _ => break,
        }
    }
    board.audit();
    owned
}

/// Takes a lease that has expired.
fn expire(board: &mut Board, entry: u32) -> (Ticket, Lease) {
    match board.take_expired(entry, Monotonic(2_000)) {
        Some(Expired::Lease(ticket, lease)) => (ticket, lease),
        other => panic!("no lease: {other:?}"),
    }
}

#[test]
fn each_database_is_left_its_share() {
    let mut memory = served(3);
    let mut board = memory.board();
    offer(&mut board, 0, 2 * SLOTS, false);
    assert_eq!(own(&mut board, 0), SLOTS - 2 * SHARE);
    assert_eq!(own(&mut board, 0), 0);
    for entry in [1, 2] {
        offer(&mut board, entry, 100, false);
        assert_eq!(own(&mut board, entry), SHARE);
        assert_eq!(own(&mut board, entry), 0);
    }
    assert_eq!(board.usage().slots_used as usize, SLOTS);
}

#[test]
fn a_database_that_is_not_served_is_left_nothing() {
    let mut memory = served(3);
    let mut board = memory.board();
    // In the midst of being restored, and paused.
    *board.entry_mut(1) = DatabaseEntry::unbuilt(2, 1);
    board.entry_mut(2).set_paused(true);
    offer(&mut board, 0, 2 * SLOTS, false);
    assert_eq!(own(&mut board, 0), SLOTS);
}

/// What is leased beyond the share counts once; what ends is anybody's again.
#[test]
fn what_two_databases_hold_counts_for_the_third() {
    let mut memory = served(3);
    let mut board = memory.board();
    offer(&mut board, 1, 500, false);
    assert_eq!(own(&mut board, 1), 500);
    offer(&mut board, 0, SLOTS, false);
    assert_eq!(own(&mut board, 0), SLOTS - 500 - SHARE);
    for _ in 0..100 {
        let (ticket, _) = expire(&mut board, 1);
        assert_eq!(own(&mut board, 0), 0, "one that is being ended is not free yet");
        board.commit_end(ticket);
        assert_eq!(own(&mut board, 0), 1);
    }
}

#[test]
fn a_full_board_leaves_a_new_database_nothing_until_something_ends() {
    let mut memory = served(1);
    let mut board = memory.board();
    offer(&mut board, 0, 2 * SLOTS, false);
    assert_eq!(own(&mut board, 0), SLOTS);
    assert_eq!(board.register(2, 1), Some(1));
    board.entry_mut(1).build_state = BuildState::Built;
    board.entry_mut(1).note_use();
    offer(&mut board, 1, 1, false);
    assert_eq!(own(&mut board, 1), 0);
    for _ in 0..SHARE {
        let (ticket, _) = expire(&mut board, 0);
        board.commit_end(ticket);
        let more = own(&mut board, 0);
        assert_eq!(more, 0, "that is the other's");
    }
    offer(&mut board, 1, SLOTS, false);
    assert_eq!(own(&mut board, 1), SHARE);
}

#[test]
fn an_expired_lease_is_not_extended_into_others_share() {
    let mut memory = served(2);
    let mut board = memory.board();
    offer(&mut board, 0, 2 * SLOTS, false);
    assert_eq!(own(&mut board, 0), SLOTS - SHARE);
    let (ticket, slot) = expire(&mut board, 0);
    board.requeue(ticket, true);
    let now = Timestamp { monotonic: Monotonic(3_000), wall: Wall(3_000) };
    let extend = |board: &mut Board, id| board.extend(0, id, &[0; 16], now, None, None);
    // The place that it gave up is free still.
    assert!(matches!(extend(&mut board, slot.id), Extended::Yes(_)));
    let (ticket, slot) = expire(&mut board, 0);
    board.requeue(ticket, true);
    board.register(3, 1);
    board.entry_mut(2).build_state = BuildState::Built;
    board.entry_mut(2).note_use();
    assert_eq!(extend(&mut board, slot.id), Extended::No);
    board.audit();
}

/// I4: lanes of which nothing is leased make room for others, the one that is idle longest first.
#[test]
fn idle_lanes_make_room() {
    let mut memory = served(2);
    let mut board = memory.board();
    let lanes = board.usage().lanes as usize;
    offer(&mut board, 0, lanes, true);
    assert_eq!(board.usage().lanes_used as usize, lanes);
    assert_eq!(board.searched(0), 0);
    for task in 0..100 {
        let queue = format!("queue {task}");
        let lane = LaneName { queue: queue.as_bytes(), action: b"", group: None };
        assert_eq!(board.offer(1, lane, rank(task), Micros::ZERO), Offered::Queued);
        assert!(matches!(board.next_task(1, queue.as_bytes(), None), Next::Task(_)));
    }
    assert_eq!((board.searched(0), board.searched(1)), (1, 0));
    assert!(matches!(board.next_task(0, b"work", None), Next::Search));
    let left = board.audit().lanes.into_iter().filter(|it| it.entry == 0);
    let left: Vec<Vec<u8>> = left.map(|it| it.action).collect();
    assert!(!left.contains(&b"99".to_vec()) && left.contains(&b"100".to_vec()));
}

/// A queue that found no room is left its share by one that has its own, until some time has
/// passed.
#[test]
fn a_queue_that_was_refused_is_left_its_share() {
    let mut memory = served(1);
    let mut board = memory.board();
    offer(&mut board, 0, 2 * SLOTS, false);
    let left = |board: &mut Board, queue: Option<u32>, now: i64| {
        let mut room = board.room_for(0, queue, Monotonic(now));
        std::iter::from_fn(|| board.fits(&mut room).then_some(())).count()
    };
    assert_eq!(own(&mut board, 0), SLOTS);
    let greedy = board.find_queue(0, b"work");
    board.note_refused(0, greedy, Monotonic(0));
    for ended in 1..=3 * SHARE {
        let (ticket, _) = expire(&mut board, 0);
        board.commit_end(ticket);
        assert_eq!(
            left(&mut board, greedy, 0),
            ended,
            "a queue that has its share is left nothing"
        );
    }
    board.note_refused(0, None, Monotonic(0));
    assert_eq!(left(&mut board, greedy, 59_999_999), 2 * SHARE);
    assert_eq!(left(&mut board, None, 0), 3 * SHARE);
    assert_eq!(left(&mut board, greedy, 60_000_000), 3 * SHARE);
}

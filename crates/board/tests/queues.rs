//! Queues on the board: settings, and what is handed out under them.

mod memory;

use board::{
    ActionFilter, Blocked, Board, Bucket, LaneName, Micros, Monotonic, Next, Offered,
    QueueSettings, Rank, WaitFor, Wall,
};
use memory::Memory;
use memory::small::*;

const WITH_SETTINGS: QueueSettings = QueueSettings { version: 1, ..QueueSettings::NONE };

fn queue(name: &[u8]) -> LaneName<'_> {
    LaneName { queue: name, action: b"do", group: None }
}

fn configure(board: &mut Board, entry: u32, name: &[u8], settings: &QueueSettings) -> bool {
    let now = NOW.monotonic;
    board.configure(entry, name, settings, now, Bucket::Full)
}

/// Why a queue hands out nothing.
fn blocked(board: &mut Board, entry: u32, name: &[u8]) -> Option<Blocked> {
    let queue = board.find_queue(entry, name);
    board.blocked(entry, queue, NOW.monotonic, None)
}

fn wait(board: &mut Board, process: u32, name: &[u8]) {
    board.wait_for(0, process, WaitFor::Work { queues: &[name], filter: ActionFilter::ANY });
}

/// The processes that are to be woken.
fn signalled(board: &mut Board) -> Vec<u32> {
    std::iter::from_fn(|| board.next_signalled()).collect()
}

/// Notes the end of what blocked a queue, or all of the database, `step` lanes at a time.
fn release(board: &mut Board, name: Option<&[u8]>, step: u32) {
    let mut from = Some(0);
    while let Some(at) = from {
        from = board.release_lanes(0, name, at, step);
    }
}

#[test]
fn settings_of_a_higher_version_count() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let paused = QueueSettings { version: 2, paused: true, ..QueueSettings::NONE };
    assert!(configure(&mut board, 0, b"work", &paused));
    assert!(configure(&mut board, 0, b"work", &WITH_SETTINGS));
    assert_eq!(blocked(&mut board, 0, b"work"), Some(Blocked::Paused));
    let resumed = QueueSettings { version: 3, paused: false, ..paused };
    assert!(configure(&mut board, 0, b"work", &resumed));
    assert_eq!(blocked(&mut board, 0, b"work"), None);
    board.audit();
}

/// Settings that were dropped with their queue leave no version behind, and keep a queue with
/// lanes.
#[test]
fn dropped_settings_count_from_the_first_version_on_again() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let paused = QueueSettings {
        version: 7,
        paused: true,
        max_ready: 3,
        max_running_per_group: 1,
        ..QueueSettings::NONE
    };
    assert!(configure(&mut board, 0, b"work", &paused));
    let offered = board.offer(0, queue(b"busy"), rank(1), Micros::ZERO);
    assert_eq!(offered, Offered::Queued);
    assert!(configure(&mut board, 0, b"busy", &paused));
    for name in [&b"work"[..], b"busy", b"none"] {
        board.drop_settings(0, name, NOW.monotonic);
        assert_eq!(blocked(&mut board, 0, name), None);
    }
    assert!(!board.keeps_order_named(0, b"work") && !board.refuses());
    assert_eq!(board.find_queue(0, b"work"), None);
    assert!(board.find_queue(0, b"busy").is_some(), "it has a lane");
    let first = QueueSettings { version: 1, ..paused };
    assert!(configure(&mut board, 0, b"busy", &first));
    assert_eq!(blocked(&mut board, 0, b"busy"), Some(Blocked::Paused));
    board.audit();
}

#[test]
fn settings_outlive_the_lanes_of_their_queue() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let settings = QueueSettings { version: 1, paused: true, ..QueueSettings::NONE };
    assert!(configure(&mut board, 0, b"work", &settings));
    board.offer(0, WORK, rank(1), NONE);
    board.audit();
    board.remove_task(0, 1);
    board.audit();
    assert_eq!(board.usage().lanes_used, 0);
    board.offer(0, WORK, rank(2), NONE);
    assert_eq!(blocked(&mut board, 0, b"work"), Some(Blocked::Paused));
}

#[test]
fn as_many_queues_have_settings_as_there_is_room_for() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    assert!(configure(&mut board, 0, b"one", &WITH_SETTINGS));
    assert!(board.pin_queue(0, b"two"));
    assert!(!board.pin_queue(0, b"three"));
    assert!(!configure(&mut board, 0, b"three", &WITH_SETTINGS));
    // Both have settings already.
    assert!(board.pin_queue(0, b"one") && configure(&mut board, 0, b"two", &WITH_SETTINGS));
    board.unpin_queue(0, b"one");
    board.unpin_queue(0, b"two");
    board.audit();
    assert!(!board.pin_queue(0, b"three"));
    // Lanes have room of their own.
    for action in [b"a", b"b", b"c", b"d"] {
        assert_eq!(board.offer(0, lane(action), rank(action[0].into()), NONE), Offered::Queued);
    }
    board.audit();
}

#[test]
fn a_pin_that_ends_without_settings_leaves_no_queue() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    assert!(board.pin_queue(0, b"one") && board.pin_queue(0, b"one"));
    board.unpin_queue(0, b"one");
    assert!(board.pin_queue(0, b"two"));
    assert!(!board.pin_queue(0, b"three"), "one pin of the first is left");
    board.unpin_queue(0, b"one");
    assert!(board.pin_queue(0, b"three"));
    board.audit();
}

/// B104
#[test]
fn only_critical_queues_hand_out_tasks() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let critical = QueueSettings { version: 1, critical: true, ..QueueSettings::NONE };
    assert!(configure(&mut board, 0, b"critical", &critical));
    board.offer(0, queue(b"critical"), rank(1), NONE);
    board.offer(0, queue(b"plain"), rank(2), NONE);
    board.entry_mut(0).critical_only = true;
    assert_eq!(blocked(&mut board, 0, b"critical"), None);
    for name in [b"plain".as_slice(), b"unknown"] {
        assert_eq!(blocked(&mut board, 0, name), Some(Blocked::NotCritical));
    }
    board.entry_mut(0).critical_only = false;
    assert_eq!(blocked(&mut board, 0, b"plain"), None);
    assert!(matches!(board.next_task(0, b"unknown", None), Next::Empty));
}

/// A task that may not be handed out wakes no process and is not announced; the end of the reason
/// wakes as many as there are tasks.
#[test]
fn a_blocked_queue_wakes_no_process_until_it_is_released() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let paused = QueueSettings { version: 1, paused: true, ..QueueSettings::NONE };
    configure(&mut board, 0, b"work", &paused);
    (0..3).for_each(|process| wait(&mut board, process, b"work"));
    board.offer(0, WORK, rank(1), NONE);
    board.offer(0, WORK, rank(2), NONE);
    release(&mut board, Some(b"work"), 2);
    assert_eq!((signalled(&mut board), board.next_round(0)), (vec![], Monotonic::NEVER));

    let resumed = QueueSettings { version: 2, paused: false, ..paused };
    configure(&mut board, 0, b"work", &resumed);
    release(&mut board, Some(b"other"), 2);
    assert_eq!(signalled(&mut board), []);
    release(&mut board, Some(b"work"), 2);
    assert_eq!(signalled(&mut board), [0, 1]);
    assert_ne!(board.next_round(0), Monotonic::NEVER);
    board.audit();
}

#[test]
fn the_end_of_critical_only_releases_all_queues() {
    let mut memory = small(8, 8);
    let mut board = memory.board();
    board.entry_mut(0).critical_only = true;
    for (process, name) in [b"a", b"b", b"c"].into_iter().enumerate() {
        board.offer(0, queue(name), rank(process as u128), NONE);
        wait(&mut board, process as u32, name);
    }
    assert_eq!(signalled(&mut board), []);
    board.entry_mut(0).critical_only = false;
    release(&mut board, None, 2);
    assert_eq!(signalled(&mut board), [0, 1, 2]);
    board.audit();
}

#[test]
fn the_lease_length_of_the_queue_comes_after_the_tasks() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let settings = QueueSettings { version: 1, timeout: Micros(50), ..QueueSettings::NONE };
    configure(&mut board, 0, b"work", &settings);
    for (id, own, asked, expected) in
        [(1, 0, None, 50), (2, 30, None, 30), (3, 30, Some(20), 20), (4, 0, Some(20), 20)]
    {
        board.offer(0, WORK, rank(id), Micros(own));
        let Next::Task(at) = board.next_task(0, b"work", None) else { panic!("a task") };
        board.reserve(at, &claim(0, asked), [0; 16]);
        assert_eq!(board.slot_of(0, id).expect("a slot").length, Micros(expected));
    }
}

#[test]
fn clearing_a_database_forgets_its_settings_and_no_others() {
    let mut memory = Memory::new(board::Sizes {
        slots: 4,
        slot_buckets: 8,
        lanes: 4,
        lane_buckets: 8,
        queues: 4 + 256 + 4,
        queue_buckets: 8,
        waiters: 1,
        wait_lists: 1,
        counted: 1,
        transactions: 1,
    });
    let mut board = memory.board();
    let paused = QueueSettings { version: 1, paused: true, ..QueueSettings::NONE };
    for database in 0..2 {
        assert_eq!(board.register(1 + database, 1), Some(database));
        assert!(configure(&mut board, database, b"work", &paused));
        assert!(board.pin_queue(database, b"pinned"));
        board.offer(database, WORK, Rank { id: 1 + u128::from(database), ..rank(0) }, NONE);
    }
    board.audit();
    let mut from = Some(0);
    while let Some(at) = from {
        from = board.clear_entry(0, at, 1);
    }
    board.audit();
    assert_eq!(blocked(&mut board, 0, b"work"), None);
    assert_eq!(blocked(&mut board, 1, b"work"), Some(Blocked::Paused));
}

/// B130: whatever the clock does, a task is submitted later than all before, and not before the
/// table allows that time; what another board may have given is not given again.
#[test]
fn tasks_are_submitted_one_after_the_other() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let (mut last, mut until) = (Wall::MIN, Wall(0));
    for round in 0..1_000u32 {
        let now = Wall(5_000 + i64::from(round) * 7 - i64::from(round % 9) * 2_000);
        let count = round % 5 + 1;
        match board.take_created(0, now, count) {
            Ok(first) => {
                assert!(first > last, "in order");
                assert_eq!(first, now.max(last + Micros(1)));
                last = first + Micros(i64::from(count) - 1);
                assert!(last < until, "allowed");
            }
            Err(wanted) => {
                assert!(wanted >= until);
                board.allow_created(0, until, wanted + Micros(700));
                until = wanted + Micros(700);
            }
        }
    }
    assert!(last > Wall(10_000));
    // After a restart the board knows only what the table says.
    board.remove(0);
    assert_eq!(board.register(1, 1), Some(0));
    assert!(board.take_created(0, Wall(5_000), 1).is_err());
    board.allow_created(0, until, until + Micros(700));
    assert_eq!(board.take_created(0, Wall(5_000), 2), Ok(until + Micros(1)));
}

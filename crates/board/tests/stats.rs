//! What is counted of queues.

mod memory;

use board::{Board, Bucket, Counted, Counts, Event, Gauges, Monotonic, Next, QueueSettings, Wall};
use memory::small::{NONE, WORK, claim, rank, small};

const WALL: Wall = Wall(77);

fn ready(count: i64) -> Counts {
    Counts { ready: count, ..Counts::NONE }
}

/// Counts what transaction `number` submitted to queue `work`.
fn commit(board: &mut Board, number: u32, tasks: i64) {
    board.count(0, b"work", &ready(tasks), number, WALL);
}

fn gauges(board: &Board, queue: &[u8]) -> Option<Gauges> {
    let mut all = (0..board.stats_end()).filter_map(|at| board.stats_at(at, 0));
    board.gauges(0, all.find(|it| it.queue() == queue))
}

fn known(board: &Board, queue: &[u8]) -> Option<i64> {
    gauges(board, queue).map(|it| it.ready)
}

/// A recount under way; `open` had not ended, and transaction 100 had not begun.
fn recount(board: &mut Board, open: &[u32]) -> u32 {
    board.begin_recount(0, 9, 100, open).expect("no process counts")
}

#[test]
fn a_recount_finds_each_task_once() {
    let mut memory = small(4, 2);
    let mut board = memory.board();
    commit(&mut board, 50, 1_000);
    assert_eq!(known(&board, b"work"), None, "not counted yet");
    let number = recount(&mut board, &[98, 99]);
    // Its callback ran late: the snapshot saw it.
    commit(&mut board, 97, 5);
    commit(&mut board, 98, 20);
    commit(&mut board, 100, 300);
    assert_eq!(known(&board, b"work"), None, "not counted yet");
    assert!(board.add_recounted(0, number, b"work", Gauges { ready: 7, waiting: 2 }, WALL));
    board.end_recount(9, true);
    assert_eq!(gauges(&board, b"work"), Some(Gauges { ready: 327, waiting: 2 }));
    // The recount is over: all that commits now is new.
    commit(&mut board, 99, 1);
    assert_eq!(known(&board, b"work"), Some(328));
    assert_eq!(known(&board, b"other"), Some(0));
}

#[test]
fn numbers_of_transactions_go_in_a_circle() {
    let mut memory = small(4, 2);
    let mut board = memory.board();
    let number = board.begin_recount(0, 9, 5, &[3]).expect("no process counts");
    commit(&mut board, u32::MAX - 1, 10);
    commit(&mut board, 3, 1);
    commit(&mut board, 6, 2);
    board.end_recount(9, true);
    assert_eq!((known(&board, b"work"), number > 0), (Some(3), true));
}

#[test]
fn one_process_counts_at_a_time_and_a_failed_one_is_followed_by_another() {
    let mut memory = small(4, 2);
    let mut board = memory.board();
    assert!(board.wants_recount(0));
    let first = recount(&mut board, &[]);
    assert!(!board.wants_recount(0));
    assert_eq!(board.begin_recount(0, 8, 200, &[]), None);
    board.end_recount(8, true);
    assert_eq!(board.counter(), 9, "another process ends nothing");
    board.add_recounted(0, first, b"work", Gauges { ready: 7, waiting: 0 }, WALL);
    board.end_recount(9, false);
    assert!(board.wants_recount(0));
    let second = recount(&mut board, &[]);
    assert!(!board.add_recounted(0, first, b"work", Gauges { ready: 7, waiting: 0 }, WALL));
    assert!(board.add_recounted(0, second, b"work", Gauges { ready: 8, waiting: 0 }, WALL));
    board.end_recount(9, true);
    assert_eq!(known(&board, b"work"), Some(8), "of the first one nothing is left");
    assert!(!board.wants_recount(0));
}

#[test]
fn more_open_transactions_than_there_is_room_for_are_refused() {
    let mut memory = small(4, 2);
    let mut board = memory.board();
    assert_eq!(board.begin_recount(0, 9, 100, &[1; 5]), None);
    assert!(board.begin_recount(0, 9, 100, &[1; 4]).is_some());
}

#[test]
fn announced_tasks_take_room_until_their_transaction_ends() {
    let mut memory = small(4, 2);
    let mut board = memory.board();
    let limited = QueueSettings { version: 1, max_ready: 10, ..QueueSettings::NONE };
    let announce = |board: &mut Board, count| board.announce_ready(0, b"work", count, WALL);
    assert_eq!(announce(&mut board, 1_000), None, "there is no limit");
    board.configure(0, b"work", &limited, Monotonic(1), Bucket::Full);
    assert_eq!(announce(&mut board, 1_000), Some(true), "nothing is refused until all is counted");
    board.unannounce_ready(0, b"work", 1_000);
    let number = recount(&mut board, &[]);
    board.add_recounted(0, number, b"work", Gauges { ready: 4, waiting: 50 }, WALL);
    board.end_recount(9, true);
    assert_eq!(announce(&mut board, 6), Some(true));
    assert_eq!(announce(&mut board, 1), Some(false));
    board.offer(0, WORK, rank(1), NONE);
    let Next::Task(task) = board.next_task(0, b"work", None) else { panic!("a task") };
    board.reserve(task, &claim(0, None), [0; 16]);
    assert_eq!(announce(&mut board, 1), Some(true), "a running task is not ready");
    assert_eq!(announce(&mut board, 1), Some(false));
    board.unannounce_ready(0, b"work", 1);
    // The commit: announced ones become ready ones.
    board.count(0, b"work", &Counts { ready: 6, announced: 6, ..Counts::NONE }, 101, WALL);
    assert_eq!(known(&board, b"work"), Some(10));
    assert_eq!(announce(&mut board, 2), Some(false));
    board.count(0, b"work", &ready(-1), 102, WALL);
    assert_eq!(announce(&mut board, 2), Some(true));
}

#[test]
fn events_stay_until_they_are_written() {
    let mut memory = small(4, 2);
    let mut board = memory.board();
    let mut counts = Counts::NONE;
    counts.events.note(Event::Submitted, 3);
    board.count(0, b"work", &counts, 0, WALL);
    board.count(0, b"work", &counts, 0, Wall(99));
    let read = |board: &Board| {
        (0..board.stats_end())
            .filter_map(|at| board.stats_at(at, 0))
            .map(|it| (it.queue().to_vec(), it.events.counts[Event::Submitted as usize], it.since))
            .collect::<Vec<_>>()
    };
    assert_eq!(read(&board), [(b"work".to_vec(), 6, WALL)]);
    board.note_written(0, b"work", &counts.events);
    board.free_empty_stats(0, 0, 10);
    assert_eq!(read(&board)[0].1, 3);
    board.note_written(0, b"work", &counts.events);
    assert_eq!(read(&board).len(), 1);
    board.free_empty_stats(0, 0, 10);
    assert_eq!(read(&board), []);
}

#[test]
fn events_of_a_dropped_queue_are_forgotten() {
    let mut memory = small(4, 2);
    let mut board = memory.board();
    let mut counts = ready(2);
    counts.events.note(Event::Submitted, 2);
    board.count(0, b"work", &counts, 1, WALL);
    board.forget_events(0, b"work", Wall(88));
    let it = *board.stats_at(0, 0).expect("it has tasks");
    assert_eq!((it.events.counts[0], it.since), (0, Wall(88)));
    counts.ready = -2;
    board.count(0, b"work", &counts, 2, WALL);
    board.forget_events(0, b"work", Wall(99));
    board.forget_events(0, b"none", Wall(99));
    assert!(!board.has_stats(0, b"work"), "it has nothing");
    board.audit();
}

#[test]
fn queues_beyond_the_room_are_unknown_until_there_is_some_again() {
    let mut memory = small(4, 2);
    let mut board = memory.board();
    recount(&mut board, &[]);
    board.end_recount(9, true);
    for queue in [b"a", b"b", b"c", b"d"] {
        board.count(0, queue, &ready(1), 101, WALL);
    }
    assert_eq!([b"c", b"d"].map(|queue| known(&board, queue)), [Some(1), None]);
    assert!(!board.wants_recount(0));
    board.count(0, b"a", &ready(-1), 102, WALL);
    board.free_empty_stats(0, 0, 10);
    assert!(board.wants_recount(0));
    let number = recount(&mut board, &[]);
    for queue in [b"b", b"c", b"d"] {
        board.add_recounted(0, number, queue, Gauges { ready: 1, waiting: 0 }, WALL);
    }
    board.end_recount(9, true);
    assert_eq!([b"a", b"d"].map(|queue| known(&board, queue)), [Some(0), Some(1)]);
}

#[test]
fn databases_are_counted_apart_and_leave_nothing_behind() {
    let mut memory = small(4, 2);
    let mut board = memory.board();
    assert_eq!(board.register(2, 1), Some(1));
    recount(&mut board, &[]);
    board.count(1, b"work", &ready(5), 50, WALL);
    commit(&mut board, 50, 5);
    board.end_recount(9, true);
    assert_eq!(known(&board, b"work"), Some(0), "the recount saw it");
    let (number, counted) = (board.begin_recount(1, 9, 100, &[]), board.entry(1).counted);
    assert_eq!((number.is_some(), counted), (true, Counted::UnderWay));
    commit(&mut board, 50, 5);
    assert_eq!(known(&board, b"work"), Some(5), "the recount is another database's");
    board.remove(0);
    let left = (0..board.stats_end()).filter(|at| board.stats_at(*at, 0).is_some()).count();
    assert_eq!(left, 0);
    assert!((0..board.stats_end()).any(|at| board.stats_at(at, 1).is_some()));
}

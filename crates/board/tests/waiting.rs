//! Which processes are woken, and for which queues the scheduler sends notifications.

mod memory;

use board::{
    ActionFilter, Board, BuildState, LaneName, Micros, Monotonic, Next, NotifyRound, Rank, Sizes,
    WaitFor, Wall, WorkerEvent,
};
use memory::Memory;
use memory::small::{
    NONE, WORK, action_to_refill, claim, expire, own, rank, same_hash, small, take, token_hash,
};

fn signalled(board: &mut Board) -> Vec<u32> {
    std::iter::from_fn(|| board.next_signalled()).collect()
}

fn wait(board: &mut Board, process: u32) {
    wait_for(board, process, &[b"work"], None);
}

fn wait_for(board: &mut Board, process: u32, queues: &[&[u8]], actions: Option<&[&[u8]]>) {
    let filter = ActionFilter::new(actions);
    board.wait_for(0, process, WaitFor::Work { queues, filter });
}

fn offer(board: &mut Board, queue: &[u8], action: &[u8], id: u128) {
    board.offer(0, LaneName { queue, action, group: None }, rank(id), NONE);
}

/// The names for which a round sends notifications.
fn round(board: &mut Board, now: i64) -> Option<Vec<String>> {
    let NotifyRound { lanes, .. } = board.begin_round(0, Monotonic(now), Micros(10))?;
    (0..lanes).for_each(|_| board.wake_in_round(0));
    let names: Vec<_> = std::iter::from_fn(|| board.next_queue_to_announce(0)).collect();
    board.audit();
    Some(names.iter().map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned()).collect())
}

fn work() -> Option<Vec<String>> {
    Some(vec!["work".to_owned()])
}

#[test]
fn each_task_wakes_the_process_that_has_waited_longest() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    for process in [2, 0, 3, 1] {
        wait(&mut board, process);
    }
    offer(&mut board, b"work", b"do", 1);
    assert_eq!(signalled(&mut board), [2]);
    offer(&mut board, b"work", b"do", 1);
    assert_eq!(signalled(&mut board), [], "the board knew it already");
    offer(&mut board, b"other", b"", 2);
    assert_eq!(signalled(&mut board), [], "another queue's");
    offer(&mut board, b"work", b"do", 3);
    offer(&mut board, b"work", b"do", 4);
    assert_eq!(signalled(&mut board), [0, 3]);
    assert_eq!(board.waiting(), (1, 3));
    board.audit();
}

#[test]
fn a_process_that_was_woken_and_ends_passes_its_wake_up_on() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    (0..3).for_each(|process| wait(&mut board, process));
    offer(&mut board, b"work", b"do", 1);
    board.end_wait(0, None);
    assert_eq!(signalled(&mut board), [1], "woken, and its latch not set yet");
    // It ends after it joined the queue again and before it looked.
    wait(&mut board, 1);
    board.end_wait(1, None);
    assert_eq!(signalled(&mut board), [2]);
    board.end_wait(2, None);
    assert_eq!((signalled(&mut board), board.waiting()), (vec![], (0, 0)));
    board.end_wait(2, None);
    board.audit();
}

#[test]
fn a_process_that_comes_too_late_waits_on_behind_the_others() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    (0..2).for_each(|process| wait(&mut board, process));
    offer(&mut board, b"work", b"do", 1);
    assert_eq!(signalled(&mut board), [0]);
    own(&mut board, 1);
    wait(&mut board, 0);
    board.found_nothing(0);
    assert_eq!(signalled(&mut board), [], "there is no task to wake another for");
    wait(&mut board, 1);
    offer(&mut board, b"work", b"do", 2);
    assert_eq!(signalled(&mut board), [1]);
    board.audit();
}

#[test]
fn each_way_to_make_a_task_ready_wakes_a_process() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    offer(&mut board, b"work", b"do", 1);
    let taken = take(&mut board, 1);
    wait(&mut board, 0);
    board.undo_claim(taken.ticket);
    assert_eq!(signalled(&mut board), [0], "a rollback of owning");
    let taken = own(&mut board, 2);
    wait(&mut board, 0);
    let (ticket, _) = board.begin_end(0, 1, &token_hash(2), 7).expect("a lease");
    board.requeue(ticket, false);
    assert_eq!(signalled(&mut board), [0], "a retry");
    board.commit_claim(taken.ticket);
    own(&mut board, 3);
    wait(&mut board, 0);
    expire(&mut board);
    assert_eq!(signalled(&mut board), [0], "an expiry");
    own(&mut board, 4);
    wait(&mut board, 0);
    board.survey(0, WORK, None, Rank::FIRST);
    assert_eq!(signalled(&mut board), [0], "the table may have a task");
    board.audit();
}

#[test]
fn a_process_is_not_woken_for_actions_that_it_would_not_own() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    wait_for(&mut board, 0, &[b"work"], Some(&[b"print", b"scan"]));
    wait_for(&mut board, 1, &[b"work"], Some(&[]));
    wait_for(&mut board, 2, &[b"work"], Some(&[b"do", b"print"]));
    assert!(!same_hash(b"do", b"print") && !same_hash(b"do", b"scan"));
    offer(&mut board, b"work", b"do", 1);
    assert_eq!(signalled(&mut board), [2]);
    offer(&mut board, b"work", b"do", 2);
    assert_eq!(signalled(&mut board), []);
    offer(&mut board, b"work", b"scan", 3);
    assert_eq!(signalled(&mut board), [0]);
    assert!(round(&mut board, 0).is_some());
    assert!(round(&mut board, 10).is_some(), "it looks whether another waits for it");
    assert_eq!(board.next_round(0), Monotonic::NEVER, "no further round looks at it");
    assert_eq!(signalled(&mut board), []);
    board.audit();
}

/// Another action with the same hash.
fn false_action(of: &[u8], but: &str) -> String {
    let mut names = (0..).map(|n| format!("action {n}"));
    names.find(|name| same_hash(name.as_bytes(), of) && name != but).expect("one in 128")
}

#[test]
fn a_process_woken_for_another_action_passes_its_wake_up_on() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    let one = false_action(b"do", "");
    let other = false_action(b"do", &one);
    wait_for(&mut board, 0, &[b"work"], Some(&[one.as_bytes()]));
    wait_for(&mut board, 1, &[b"work"], Some(&[other.as_bytes()]));
    wait_for(&mut board, 2, &[b"work"], Some(&[b"do"]));
    offer(&mut board, b"work", b"do", 1);
    assert_eq!(signalled(&mut board), [0]);
    wait_for(&mut board, 0, &[b"work"], Some(&[one.as_bytes()]));
    board.found_nothing(0);
    assert_eq!(signalled(&mut board), [1]);
    wait_for(&mut board, 1, &[b"work"], Some(&[other.as_bytes()]));
    board.found_nothing(1);
    assert_eq!(signalled(&mut board), [2]);
    board.audit();
}

#[test]
fn processes_woken_for_another_action_come_to_rest() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    let one = false_action(b"do", "");
    offer(&mut board, b"work", b"do", 1);
    for process in 0..2 {
        wait_for(&mut board, process, &[b"work"], Some(&[one.as_bytes()]));
    }
    offer(&mut board, b"work", b"do", 2);
    let (mut woken, mut now) = (Vec::new(), 0);
    while board.next_round(0) != Monotonic::NEVER {
        round(&mut board, now);
        now += 10;
        for process in signalled(&mut board) {
            woken.push(process);
            wait_for(&mut board, process, &[b"work"], Some(&[one.as_bytes()]));
            board.found_nothing(process);
        }
        assert!(now < 100, "rounds come to an end: {woken:?}");
    }
    assert_eq!(woken, [0, 1], "each was woken once");
    board.audit();
}

/// I8: a round looks at a bounded number of waiters under the lock.
#[test]
fn one_hold_of_the_lock_looks_at_64_waiters() {
    const WAITERS: u32 = 200;
    let mut memory = Memory::new(Sizes::of(1_024, WAITERS as usize));
    let mut board = memory.board();
    assert_eq!(board.register(1, 1), Some(0));
    board.entry_mut(0).build_state = BuildState::Built;
    assert!(!same_hash(b"do", b"print"));
    for process in 0..WAITERS {
        let actions: [&[u8]; 1] = if process < 190 { [b"print"] } else { [b"do"] };
        wait_for(&mut board, process, &[b"work"], Some(&actions));
    }
    for id in 1..=3 {
        offer(&mut board, b"work", b"do", id);
    }
    assert_eq!(signalled(&mut board), []);
    assert_eq!(board.next_round(0), Monotonic::MIN, "the scheduler goes on at once");
    assert!(board.wants_scheduler(0));
    let mut woken = Vec::new();
    // The lock is free in between: other processes join, leave, and are woken.
    for hold in 1.. {
        let mut board = memory.board();
        let more = board.go_on_waking(0);
        woken.extend(signalled(&mut board));
        board.audit();
        if !more {
            assert_eq!((hold, woken), (3, vec![190, 191, 192]));
            break;
        }
        let mut board = memory.board();
        board.end_wait(hold, None);
        wait_for(&mut board, hold, &[b"other"], None);
    }
    // The next task does not begin at the front again.
    let mut board = memory.board();
    offer(&mut board, b"work", b"do", 4);
    assert_eq!(signalled(&mut board), [193]);
    // The waiter after which it would continue has left: it begins at the front.
    memory.board().end_wait(189, None);
    let mut board = memory.board();
    offer(&mut board, b"work", b"do", 5);
    assert_eq!((signalled(&mut board), board.go_on_waking(0)), (vec![], true));
}

#[test]
fn a_process_woken_in_one_queue_waits_in_no_other() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    wait_for(&mut board, 0, &[b"a", b"b", b"c"], None);
    wait_for(&mut board, 1, &[b"c", b"b"], None);
    wait_for(&mut board, 2, &[b"c"], None);
    offer(&mut board, b"b", b"", 1);
    offer(&mut board, b"c", b"", 2);
    assert_eq!(signalled(&mut board), [0, 1]);
    offer(&mut board, b"a", b"", 3);
    assert_eq!(signalled(&mut board), [], "the process that waits for it is awake");
    assert_eq!(board.waiting(), (1, 2));
    board.audit();
}

#[test]
fn a_process_that_finds_work_elsewhere_passes_its_wake_up_on() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    wait_for(&mut board, 0, &[b"a", b"work"], None);
    wait_for(&mut board, 1, &[b"work"], None);
    offer(&mut board, b"work", b"do", 1);
    offer(&mut board, b"a", b"", 2);
    assert_eq!(signalled(&mut board), [0]);
    wait_for(&mut board, 0, &[b"a", b"work"], None);
    let found = board.find_slot(0, 2).map(|at| board.lane_of(at));
    board.end_wait(0, found);
    assert_eq!(signalled(&mut board), [1]);
    board.audit();
}

#[test]
fn a_process_that_is_woken_twice_while_it_looks_loses_neither_wake_up() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    let one = false_action(b"do", "");
    wait_for(&mut board, 0, &[b"work", b"a"], Some(&[one.as_bytes()]));
    wait_for(&mut board, 1, &[b"work"], None);
    offer(&mut board, b"work", b"do", 1);
    assert_eq!(signalled(&mut board), [0]);
    wait_for(&mut board, 0, &[b"work", b"a"], Some(&[one.as_bytes()]));
    // It has looked into the first queue when the second gets a task.
    offer(&mut board, b"a", one.as_bytes(), 2);
    assert_eq!(signalled(&mut board), [0]);
    assert!(!board.go_on_waking(0));
    assert_eq!(signalled(&mut board), [1]);
    board.audit();
}

#[test]
fn while_all_slots_are_leased_rounds_wake_processes_to_look_again() {
    let mut memory = small(1, 4);
    let mut board = memory.board();
    offer(&mut board, b"work", b"do", 1);
    own(&mut board, 1);
    wait(&mut board, 0);
    let wanted = action_to_refill(&mut board, b"do");
    assert_eq!(signalled(&mut board), [0]);
    for now in [0, 10, 20] {
        wait(&mut board, 0);
        board.found_no_room(0, wanted.lane_ref());
        assert_eq!(signalled(&mut board), []);
        round(&mut board, now);
        let woken = signalled(&mut board);
        assert_eq!(woken, if now == 0 { vec![] } else { vec![0] }, "at {now}");
    }
    board.audit();
}

#[test]
fn the_end_of_a_task_wakes_all_that_wait_for_it() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    board.wait_for(0, 0, WaitFor::Settled(7));
    board.wait_for(0, 1, WaitFor::Settled(8));
    board.wait_for(0, 2, WaitFor::Settled(7));
    wait(&mut board, 3);
    board.note_settled(0, 7);
    assert_eq!(signalled(&mut board), [0, 2]);
    board.end_wait(0, None);
    assert_eq!(signalled(&mut board), [], "there is no wake-up to pass on");
    board.remove_task(0, 8);
    assert_eq!(signalled(&mut board), [1], "deleted");
    let round = board.begin_round(0, Monotonic(0), Micros(10));
    assert_eq!(round, Some(NotifyRound { lanes: 0, queues: 0, unsent: true }));
    assert_eq!((board.next_settled(0), board.next_settled(0)), (Some(7), None));
    assert_eq!(board.next_round(0), Monotonic::NEVER);
    board.audit();
}

/// I11: the scheduler notifies each queue once a round, even after its lanes are gone.
#[test]
fn a_queue_is_notified_once_a_round_even_without_its_lanes() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    assert_eq!((board.next_round(0), round(&mut board, 0)), (Monotonic::NEVER, None));
    assert!(!board.wants_scheduler(0));
    for id in 1..4 {
        offer(&mut board, b"work", b"do", id);
        assert_eq!(board.wants_scheduler(0), id == 1, "the scheduler is woken once");
        board.remove_task(0, id);
    }
    assert_eq!(board.usage().lanes_used, 0);
    assert_eq!(round(&mut board, 100), work());
    assert_eq!((board.next_round(0), round(&mut board, 200)), (Monotonic::NEVER, None));
    offer(&mut board, b"work", b"do", 9);
    assert_eq!((board.next_round(0), round(&mut board, 105)), (Monotonic(110), None));
    assert_eq!(round(&mut board, 110), work());
    board.audit();
}

#[test]
fn when_much_happens_there_are_fewer_rounds() {
    let mut memory = small(64, 4);
    let mut board = memory.board();
    for id in 1..=32 {
        offer(&mut board, b"work", b"do", id);
    }
    assert!(round(&mut board, 100).is_some());
    offer(&mut board, b"work", b"do", 33);
    assert_eq!(board.next_round(0), Monotonic(180));
    assert!(round(&mut board, 180).is_some());
    offer(&mut board, b"work", b"do", 34);
    assert_eq!(board.next_round(0), Monotonic(190));
}

/// I11: a queue whose notification cannot be sent now is notified later.
#[test]
fn a_queue_that_cannot_be_notified_now_is_notified_later() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    offer(&mut board, b"work", b"do", 1);
    let unsent = Some(NotifyRound { lanes: 0, queues: 1, unsent: true });
    assert_eq!(board.begin_round(0, Monotonic(0), Micros(10)), unsent);
    board.audit();
    assert_eq!(round(&mut board, 10), work());
}

#[test]
fn while_a_lane_has_something_each_round_wakes_another() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    (0..4).for_each(|process| wait(&mut board, process));
    offer(&mut board, b"work", b"do", 1);
    assert_eq!(signalled(&mut board), [0]);
    assert_eq!(round(&mut board, 0), work());
    assert_eq!(signalled(&mut board), [], "the first round only sends notifications");
    assert_eq!(round(&mut board, 5), None);
    assert_eq!(round(&mut board, 10), Some(vec![]));
    assert_eq!(signalled(&mut board), [1]);
    assert_eq!(round(&mut board, 20), Some(vec![]));
    assert_eq!(signalled(&mut board), [2]);
    own(&mut board, 1);
    assert_eq!(round(&mut board, 30), Some(vec![]));
    assert_eq!((signalled(&mut board), board.next_round(0)), (vec![], Monotonic::NEVER));
    board.audit();
}

#[test]
fn in_a_closed_database_no_process_is_woken() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    wait(&mut board, 0);
    board.entry_mut(0).set_paused(true);
    offer(&mut board, b"work", b"do", 1);
    assert_eq!((signalled(&mut board), board.next_round(0)), (vec![], Monotonic::NEVER));
    board.entry_mut(0).set_paused(false);
    board.survey(0, WORK, None, Rank::FIRST);
    assert_eq!(signalled(&mut board), [0]);
    board.entry_mut(0).set_paused(true);
    wait(&mut board, 1);
    board.end_wait(0, None);
    assert!(round(&mut board, 10).is_some() && round(&mut board, 20).is_some());
    assert_eq!((signalled(&mut board), board.next_round(0)), (vec![], Monotonic::NEVER));
    board.audit();
}

#[test]
fn removing_a_database_wakes_its_waiters_and_leaves_no_notification() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    wait(&mut board, 1);
    board.wait_for(0, 2, WaitFor::Settled(7));
    wait(&mut board, 3);
    offer(&mut board, b"work", b"do", 1);
    assert_eq!(signalled(&mut board), [1]);
    board.note_settled(0, 8);
    let mut from = Some(0);
    while let Some(at) = from {
        from = board.clear_entry(0, at, 3);
    }
    board.audit();
    board.remove(0);
    assert_eq!(signalled(&mut board), [2, 3]);
    board.audit();
}

#[test]
fn a_task_without_a_lane_wakes_a_process() {
    let mut memory = small(8, 1);
    let mut board = memory.board();
    offer(&mut board, b"other", b"", 1);
    let Next::Task(at) = board.next_task(0, b"other", None) else { panic!("a task") };
    board.reserve(at, &claim(0, None), token_hash(1));
    wait_for(&mut board, 0, &[b"work"], Some(&[b"print"]));
    wait_for(&mut board, 1, &[b"work"], Some(&[b"do"]));
    offer(&mut board, b"work", b"do", 2);
    assert_eq!(board.searched(0), 1);
    assert_eq!(signalled(&mut board), [1]);
    board.audit();
}

#[test]
fn a_lane_that_makes_room_for_another_wakes_a_process_first() {
    let mut memory = small(8, 1);
    let mut board = memory.board();
    (0..2).for_each(|process| wait(&mut board, process));
    offer(&mut board, b"work", b"do", 1);
    assert_eq!(signalled(&mut board), [0]);
    offer(&mut board, b"other", b"", 2);
    assert_eq!(board.searched(0), 1);
    assert_eq!(signalled(&mut board), [1], "this one finds the task, whatever the first one does");
    board.audit();
}

#[test]
fn queues_beyond_the_limit_are_not_notified() {
    let mut memory = Memory::new(Sizes::of(4_096, 4));
    let mut board = memory.board();
    assert_eq!(board.register(1, 1), Some(0));
    board.entry_mut(0).build_state = BuildState::Built;
    for id in 0..1_000u32 {
        offer(&mut board, format!("queue {id}").as_bytes(), b"", id.into());
        board.remove_task(0, id.into());
    }
    board.audit();
    assert_eq!(round(&mut board, 0).map(|names| names.len()), Some(256));
    for id in 0..2_000 {
        board.note_settled(0, id);
    }
    board.audit();
    let settled = std::iter::from_fn(|| board.next_settled(0)).count();
    assert_eq!(settled, (4_096 + 2 * 4) / 4);
    board.audit();
}

fn wait_as(board: &mut Board, process: u32, worker: &[u8], queues: &[&[u8]]) {
    board.wait_for(0, process, WaitFor::Event { queues, filter: ActionFilter::ANY, worker });
}

#[test]
fn a_lease_that_ends_without_its_worker_wakes_the_worker() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    for id in 1..=3 {
        offer(&mut board, b"work", b"do", id);
    }
    let taken: Vec<_> = (1..=3).map(|_| own(&mut board, 1)).collect();
    // It joins the wait list of its queue, and its own.
    wait_as(&mut board, 0, b"worker", &[b"other", b"work"]);
    wait_as(&mut board, 1, b"another", &[b"other"]);
    wait_as(&mut board, 2, b"worker", &[b"other"]);
    board.audit();
    board.remove_task(0, taken[0].id);
    assert_eq!(signalled(&mut board), [0, 2], "each process of the worker");
    for process in [0, 2] {
        wait_as(&mut board, process, b"worker", &[b"other"]);
        let event = board.take_event(0, process, b"worker", &[]);
        assert_eq!(event, Some(WorkerEvent::Signal));
        assert_eq!(board.take_event(0, process, b"worker", &[]), None, "once");
    }
    assert_eq!(board.take_event(0, 1, b"another", &[]), None);
    expire(&mut board);
    assert_eq!(signalled(&mut board), [0, 2], "an expiry");
    board.audit();
}

#[test]
fn a_worker_that_does_not_wait_is_told_when_it_does() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    offer(&mut board, b"work", b"do", 1);
    let taken = own(&mut board, 1);
    board.note_worker(0, b"", b"worker", Wall(0));
    board.remove_task(0, taken.id);
    assert_eq!(signalled(&mut board), []);
    wait_as(&mut board, 0, b"worker", &[b"work"]);
    assert_eq!(board.take_event(0, 0, b"worker", &[]), Some(WorkerEvent::Signal));
    board.end_wait(0, None);
    board.audit();
}

#[test]
fn a_worker_that_drains_is_woken_and_told_each_time() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    wait_as(&mut board, 0, b"worker", &[b"work"]);
    assert!(!board.note_worker(0, b"work", b"worker", Wall(0)));
    board.drain_worker(0, b"worker", true, Wall(0));
    assert_eq!(signalled(&mut board), [0]);
    board.drain_worker(0, b"worker", true, Wall(0));
    assert_eq!(signalled(&mut board), [], "it was told");
    for _ in 0..2 {
        wait_as(&mut board, 0, b"worker", &[b"work"]);
        assert_eq!(board.take_event(0, 0, b"worker", &[]), Some(WorkerEvent::Drain));
    }
    assert!(board.note_worker(0, b"work", b"worker", Wall(0)) && board.drains(0, b"worker"));
    assert!(!board.drains(0, b"other"));
    board.drain_worker(0, b"worker", false, Wall(0));
    assert!(!board.drains(0, b"worker"));
    board.audit();
}

#[test]
fn a_process_whose_wait_lists_are_one_is_woken_once() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    let queues = [&b"work"[..]; 16];
    wait_as(&mut board, 0, b"worker", &queues);
    wait_as(&mut board, 1, b"worker", &queues);
    board.drain_worker(0, b"worker", true, Wall(0));
    assert_eq!(signalled(&mut board), [0, 1]);
    board.audit();
}

//! Limits of queues: `max_running` and `max_per_second`.

mod memory;

use board::{
    ActionFilter, Blocked, Board, Bucket, Expired, Extended, Freed, Micros, Monotonic, Next,
    QueueSettings, RunningPlace, Ticket, WaitFor,
};
use memory::small::*;

const SECOND: i64 = 1_000_000;

fn limit(board: &mut Board, version: u64, max_running: u32, max_per_second: f64, now: i64) {
    let settings = QueueSettings { version, max_running, max_per_second, ..QueueSettings::NONE };
    let configured = board.configure(0, b"work", &settings, Monotonic(now), Bucket::Full);
    assert!(configured);
}

fn blocked(board: &mut Board, now: i64, freed: Freed) -> Option<Blocked> {
    let queue = board.find_queue(0, b"work");
    board.blocked(0, queue, Monotonic(now), freed)
}

/// The place whose lack blocks the queue.
fn full(board: &mut Board) -> RunningPlace {
    match blocked(board, 0, None) {
        Some(Blocked::MaxRunning(place)) => place,
        why => panic!("not full: {why:?}"),
    }
}

fn is_free(board: &mut Board) -> bool {
    blocked(board, 0, None).is_none()
}

/// Begins to end a lease; with the place that this makes free.
fn end(board: &mut Board, id: u128, number: u8) -> (Ticket, Option<RunningPlace>) {
    let (ticket, slot) = board.begin_end(0, id, &token_hash(number), 7).expect("a good token");
    (ticket, board.freed_place(&slot).map(|it| it.queue))
}

fn wait(board: &mut Board, process: u32, filter: ActionFilter) {
    board.wait_for(0, process, WaitFor::Work { queues: &[b"work"], filter });
}

fn signalled(board: &mut Board) -> Vec<u32> {
    while board.go_on_waking(0) {}
    std::iter::from_fn(|| board.next_signalled()).collect()
}

fn release(board: &mut Board) {
    assert_eq!(board.release_lanes(0, Some(b"work"), 0, 64), None);
}

fn offer(board: &mut Board, ids: std::ops::RangeInclusive<u128>) {
    ids.for_each(|id| _ = board.offer(0, WORK, rank(id), NONE));
}

/// I4
#[test]
fn no_more_tasks_run_than_may_and_each_end_makes_room() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    limit(&mut board, 1, 2, 0.0, 0);
    offer(&mut board, 1..=8);
    let ends: [fn(&mut Board, Ticket); 5] = [
        |board, ticket| board.commit_end(ticket),
        |board, ticket| board.requeue(ticket, false),
        |board, ticket| board.requeue(ticket, true),
        |board, ticket| board.withhold(ticket),
        |board, _| board.remove_task(0, 1),
    ];
    for end_it in ends {
        let first = own(&mut board, 1);
        assert!(is_free(&mut board));
        let second = take(&mut board, 2);
        full(&mut board);
        let (ticket, place) = end(&mut board, first.id, 1);
        assert_eq!(place, Some(full(&mut board)), "it runs until that commits");
        end_it(&mut board, ticket);
        board.audit();
        if board.slot_of(0, first.id).is_some_and(|slot| slot.is_ended_by(7)) {
            board.commit_end(ticket);
        }
        assert!(is_free(&mut board));
        board.undo_claim(second.ticket);
        board.publish(ticket);
        board.remove_task(0, 1);
        board.offer(0, WORK, rank(1), NONE);
        board.audit();
    }
}

/// I4
#[test]
fn reservations_and_leases_that_expire_make_room() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    limit(&mut board, 1, 1, 0.0, 0);
    offer(&mut board, 1..=2);
    let reserved = take(&mut board, 1);
    full(&mut board);
    assert!(matches!(take_expired(&mut board), Some(Expired::Reservation)));
    assert!(is_free(&mut board));
    board.undo_claim(reserved.ticket);
    own(&mut board, 2);
    let ticket = take_expired_lease(&mut board);
    full(&mut board);
    board.requeue(ticket, true);
    assert!(is_free(&mut board));
    board.audit();
}

/// I2
#[test]
fn a_transaction_owns_in_the_place_of_what_it_ends() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    limit(&mut board, 1, 1, 0.0, 0);
    offer(&mut board, 1..=3);
    own(&mut board, 1);
    let (ending, place) = end(&mut board, 1, 1);
    let place = place.expect("a place");
    full(&mut board);
    assert_eq!(blocked(&mut board, 0, Some((place, 1))), None);
    let second = take(&mut board, 2);
    assert!(blocked(&mut board, 0, Some((place, 1))).is_some(), "one for one");
    // Rolled back, the newest first.
    board.undo_claim(second.ticket);
    full(&mut board);
    board.undo_end(ending, Monotonic::MIN);
    full(&mut board);
    assert!(board.slot_of(0, 1).is_some_and(|slot| slot.has_lease()));

    let (ending, place) = end(&mut board, 1, 1);
    assert_eq!(blocked(&mut board, 0, place.map(|it| (it, 1))), None);
    let second = take(&mut board, 3);
    board.commit_end(ending);
    board.commit_claim(second.ticket);
    full(&mut board);
    let (ending, _) = end(&mut board, 2, 3);
    board.commit_end(ending);
    assert!(is_free(&mut board));
    board.audit();
}

/// I2
#[test]
fn a_place_counts_no_more_once_the_task_is_gone() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    limit(&mut board, 1, 1, 0.0, 0);
    offer(&mut board, 1..=3);
    own(&mut board, 1);
    let (_, place) = end(&mut board, 1, 1);
    // Another transaction cancels the task and commits first; a third one owns in its place.
    board.remove_task(0, 1);
    assert!(is_free(&mut board));
    own(&mut board, 2);
    let freed = place.map(|it| (it, 1));
    assert!(matches!(blocked(&mut board, 0, freed), Some(Blocked::MaxRunning(_))));
    board.audit();
}

#[test]
fn a_late_worker_goes_on_only_where_there_is_room() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    limit(&mut board, 1, 1, 0.0, 0);
    offer(&mut board, 1..=2);
    let extend = |board: &mut Board, id, number| {
        board.extend(0, id, &token_hash(number), at(9_000), None, None)
    };
    own(&mut board, 1);
    assert!(matches!(extend(&mut board, 1, 1), Extended::Yes(_)), "the place is its own still");
    expire(&mut board);
    assert!(matches!(extend(&mut board, 1, 1), Extended::Yes(_)), "no other runs");
    full(&mut board);
    expire(&mut board);
    let first = board.slot_of(0, 1).expect("a slot").rank();
    let Some(Ok(withdrawn)) = board.withdraw(0, WORK, first, NONE, 8) else { panic!("room") };
    own(&mut board, 2);
    assert_eq!(extend(&mut board, 1, 1), Extended::No, "another runs");
    board.undo_end(withdrawn, Monotonic::MIN);
    assert_eq!(extend(&mut board, 1, 1), Extended::No);
    // A late return works, and makes nothing free.
    let (late, place) = end(&mut board, 1, 1);
    assert_eq!(place, None);
    board.commit_end(late);
    full(&mut board);
    assert!(matches!(extend(&mut board, 2, 2), Extended::Yes(_)));
    board.audit();
}

/// A place that comes free wakes one process; without one, no process is woken and no duty
/// falls due.
#[test]
fn a_place_that_comes_free_wakes_one_process() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    limit(&mut board, 1, 1, 0.0, 0);
    offer(&mut board, 1..=1);
    own(&mut board, 1);
    board.begin_round(0, Monotonic(0), Micros(10));
    while board.next_queue_to_announce(0).is_some() {}
    (0..4).for_each(|process| wait(&mut board, process, ActionFilter::ANY));
    offer(&mut board, 2..=5);
    assert_eq!(signalled(&mut board), []);
    assert_eq!(board.next_round(0), Monotonic::NEVER);
    let (ending, _) = end(&mut board, 1, 1);
    assert_eq!(signalled(&mut board), []);
    board.commit_end(ending);
    assert_eq!(signalled(&mut board), [0]);
    let lane = board.lane_of(board.find_slot(0, 2).expect("a slot"));
    board.end_wait(0, Some(lane));
    let second = take(&mut board, 2);
    assert_eq!(signalled(&mut board), []);
    board.undo_claim(second.ticket);
    assert_eq!(signalled(&mut board), [1]);
    // A process that ends passes its wake-up on.
    board.end_wait(1, None);
    assert_eq!(signalled(&mut board), [2]);
    own(&mut board, 2);
    board.end_wait(2, None);
    assert_eq!(signalled(&mut board), [], "there is no place any more");
    board.audit();
}

#[test]
fn a_higher_limit_wakes_as_many_as_there_are_places() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    limit(&mut board, 1, 1, 0.0, 0);
    offer(&mut board, 1..=8);
    own(&mut board, 1);
    (0..4).for_each(|process| wait(&mut board, process, ActionFilter::ANY));
    limit(&mut board, 2, 4, 0.0, 0);
    release(&mut board);
    assert_eq!(signalled(&mut board), [0, 1, 2]);
    limit(&mut board, 3, 2, 0.0, 0);
    release(&mut board);
    (0..3).for_each(|process| wait(&mut board, process, ActionFilter::ANY));
    own(&mut board, 2);
    full(&mut board);
    limit(&mut board, 4, 0, 0.0, 0);
    release(&mut board);
    assert_eq!(signalled(&mut board), [3, 0, 1, 2]);
    board.audit();
}

/// A place is any lane's: where no process waits for the best task's action, one is woken that
/// waits for the next best.
#[test]
fn a_place_wakes_a_process_that_can_use_it() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    limit(&mut board, 1, 1, 0.0, 0);
    board.offer(0, lane(b"do"), rank(1), NONE);
    own(&mut board, 1);
    wait(&mut board, 0, ActionFilter::new(Some(&[b"c"])));
    wait(&mut board, 1, ActionFilter::new(Some(&[b"b"])));
    for (id, action) in [(2, b"a"), (3, b"b"), (4, b"c")] {
        board.offer(0, lane(action), rank(id), NONE);
    }
    assert_eq!(signalled(&mut board), []);
    let (ending, _) = end(&mut board, 1, 1);
    board.commit_end(ending);
    assert_eq!(signalled(&mut board), [1], "b's task comes before c's");
    board.audit();
}

/// How many tasks a queue hands out now.
fn burst(board: &mut Board, now: i64) -> u32 {
    let mut count = 0;
    while blocked(board, now, None).is_none() {
        let Next::Task(at) = board.next_task(0, b"work", None) else { panic!("a task") };
        let claim = claim(now, None);
        let claimed = board.reserve(at, &claim, token_hash(1));
        board.commit_claim(claimed.ticket);
        count += 1;
    }
    assert_eq!(blocked(board, now, None), Some(Blocked::MaxPerSecond));
    count
}

/// I4
#[test]
fn a_queue_hands_out_as_many_tasks_a_second_as_may_be() {
    for (rate, seconds, expected) in
        [(4.0, 1.0, 4), (4.0, 0.25, 1), (4.0, 0.2, 0), (4.0, 9.0, 4), (0.5, 2.0, 1), (0.5, 1.9, 0)]
    {
        let mut memory = small(64, 4);
        let mut board = memory.board();
        offer(&mut board, 1..=64);
        limit(&mut board, 1, 0, rate, 0);
        assert_eq!(burst(&mut board, 0), 1.max(rate as u32), "a full bucket");
        let later = (seconds * SECOND as f64) as i64;
        assert_eq!(burst(&mut board, later), expected, "{rate} a second, after {seconds} s");
        board.audit();
    }
    // Counted often, fractions add up.
    let mut memory = small(64, 4);
    let mut board = memory.board();
    offer(&mut board, 1..=64);
    limit(&mut board, 1, 0, 3.0, 0);
    let all: u32 = (0..=10_000).map(|step| burst(&mut board, step * 1_000)).sum();
    assert!((32..=33).contains(&all), "{all} in ten seconds");
}

/// I2
#[test]
fn an_ownership_that_rolls_back_gives_its_permit_back() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    offer(&mut board, 1..=3);
    limit(&mut board, 1, 0, 1.0, 0);
    let undone = take(&mut board, 1);
    assert_eq!(blocked(&mut board, 0, None), Some(Blocked::MaxPerSecond));
    board.undo_claim(undone.ticket);
    assert_eq!(blocked(&mut board, 0, None), None);
    own(&mut board, 1);
    board.undo_claim(undone.ticket);
    assert_eq!(blocked(&mut board, 0, None), Some(Blocked::MaxPerSecond), "an old ticket");
    assert_eq!(blocked(&mut board, SECOND, None), None);
    let stray = take(&mut board, 2);
    assert_eq!(blocked(&mut board, SECOND, None), Some(Blocked::MaxPerSecond));
    board.drop_stray(stray.ticket, true);
    assert_eq!(blocked(&mut board, SECOND, None), None);
    board.audit();
}

#[test]
fn after_a_restart_there_are_no_permits() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    offer(&mut board, 1..=1);
    let settings = QueueSettings { version: 1, max_per_second: 10.0, ..QueueSettings::NONE };
    board.configure(0, b"work", &settings, Monotonic(0), Bucket::Empty);
    assert_eq!(blocked(&mut board, 99_000, None), Some(Blocked::MaxPerSecond));
    assert_eq!(blocked(&mut board, 100_000, None), None);
}

#[test]
fn a_new_rate_keeps_what_was_earned_at_the_old_one() {
    let mut memory = small(64, 4);
    let mut board = memory.board();
    offer(&mut board, 1..=64);
    limit(&mut board, 1, 0, 8.0, 0);
    assert_eq!(burst(&mut board, 0), 8);
    limit(&mut board, 2, 0, 2.0, SECOND / 2);
    assert_eq!(burst(&mut board, SECOND / 2), 2, "four were earned, two is the most");
    limit(&mut board, 3, 0, 10.0, 2 * SECOND);
    assert_eq!(burst(&mut board, 2 * SECOND), 2, "not ten at once");
    assert_eq!(burst(&mut board, 2 * SECOND + SECOND / 10), 1);
    limit(&mut board, 4, 0, 0.0, 3 * SECOND);
    assert_eq!(blocked(&mut board, 3 * SECOND, None), None);
    board.audit();
}

/// The next permit is a duty of the scheduler, which wakes one process for each; without tasks it
/// has none.
#[test]
fn a_permit_wakes_one_process_at_its_time() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    limit(&mut board, 1, 0, 1.0, 0);
    offer(&mut board, 1..=1);
    own(&mut board, 1);
    assert!(blocked(&mut board, 0, None).is_some());
    assert_eq!(board.next_permit(0), Monotonic::NEVER, "no task waits");
    (0..3).for_each(|process| wait(&mut board, process, ActionFilter::ANY));
    offer(&mut board, 2..=4);
    assert_eq!((signalled(&mut board), board.next_permit(0)), (vec![], Monotonic(SECOND)));
    assert_eq!(board.next_duty(0).min(Monotonic(SECOND)), board.next_duty(0));
    assert!(!board.release_permit(0, Monotonic(SECOND - 1)));
    assert_eq!(signalled(&mut board), []);
    assert!(board.release_permit(0, Monotonic(SECOND)));
    assert!(!board.release_permit(0, Monotonic(SECOND)));
    assert_eq!(signalled(&mut board), [0]);
    let lane = board.lane_of(board.find_slot(0, 2).expect("a slot"));
    board.end_wait(0, Some(lane));
    assert_eq!(burst(&mut board, SECOND), 1);
    assert_eq!(board.next_permit(0), Monotonic(2 * SECOND), "others wait still");
    assert!(board.release_permit(0, Monotonic(2 * SECOND)));
    assert_eq!(signalled(&mut board), [1]);
    // Without a limit nothing is awaited.
    assert_eq!(burst(&mut board, 2 * SECOND), 1);
    limit(&mut board, 2, 0, 0.0, 2 * SECOND);
    assert_eq!(board.next_permit(0), Monotonic::NEVER);
    board.audit();
}

#[test]
fn an_unlimited_queue_has_any_number() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    offer(&mut board, 1..=8);
    for number in 1..=8 {
        assert!(is_free(&mut board));
        own(&mut board, number);
    }
    // The limit counts what ran before it was set.
    limit(&mut board, 1, 8, 0.0, 0);
    full(&mut board);
    limit(&mut board, 2, 9, 0.0, 0);
    assert!(is_free(&mut board));
}

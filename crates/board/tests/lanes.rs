//! Lanes: tasks that are left to the table, and how they return to the board.

mod memory;

use board::{Extended, LaneName, Micros, Monotonic, Next, Offered, Rank};

use memory::small::*;

/// I4: a task whose ending commits and delays it, and that fires before the board learns of that,
/// is not stranded.
#[test]
fn a_task_fired_before_the_board_learns_of_its_ending_is_not_stranded() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    own(&mut board, 1);
    let (ticket, _) = board.begin_end(0, 1, &token_hash(1), 7).expect("a good token");
    // The ending committed and delays the task; the scheduler fires it before the board learns of
    // that.
    assert_eq!(board.offer(0, WORK, rank(1), NONE), Offered::Known);
    board.commit_end(ticket);
    assert!(lane_to_refill(&mut board, b"work").cursor <= rank(1));
}

/// I4: a task that is offered while another process takes it for a stray is not stranded.
#[test]
fn a_task_offered_while_it_is_taken_for_a_stray_is_not_stranded() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    let taken = take(&mut board, 1);
    // Its row was not ready under the snapshot, but is by now.
    assert_eq!(board.offer(0, WORK, rank(1), NONE), Offered::Known);
    board.drop_stray(taken.ticket, false);
    assert!(lane_to_refill(&mut board, b"work").cursor <= rank(1));
}

/// I4, I5: a stray is looked for again only if its transaction may hide it from itself.
#[test]
fn a_stray_that_may_be_hidden_is_read_again() {
    for hidden in [true, false] {
        let mut memory = small(4, 4);
        let mut board = memory.board();
        for id in [1, 2] {
            board.offer(0, WORK, rank(id), NONE);
        }
        let stray = take(&mut board, 1);
        board.drop_stray(stray.ticket, hidden);
        let next = board.next_task(0, b"work", None);
        assert_eq!(matches!(next, Next::NeedsRefill(_)), hidden, "{next:?}");
        board.audit();
    }
}

/// I4: a lane is complete only if no task was left to the table since its refill began.
#[test]
fn a_lane_is_complete_only_if_nothing_was_left_to_the_table_since_its_refill_began() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.survey(0, WORK);
    let first = lane_to_refill(&mut board, b"work");
    assert!(board.begin_refill(&first, 5));
    assert!(!board.begin_refill(&first, 6), "one refiller at a time");
    assert!(matches!(board.next_task(0, b"work", None), Next::Refilling));
    assert!(board.refill(0, first.lane, 5, &[(rank(1), NONE), (rank(3), NONE)]));
    assert_eq!(
        board.offer(0, WORK, rank(2), NONE),
        Offered::LeftToTable,
        "committed after the snapshot"
    );
    board.end_refill(first.lane, 5, Rank::END);
    own(&mut board, 1);
    assert_eq!(lane_to_refill(&mut board, b"work").cursor, rank(2));
}

/// I4: after an abandoned refill the lane needs one as before.
#[test]
fn after_an_abandoned_refill_the_lane_needs_one_as_before() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.survey(0, WORK);
    let first = lane_to_refill(&mut board, b"work");
    assert!(board.begin_refill(&first, 5));
    board.refill(0, first.lane, 5, &[(rank(1), NONE)]);
    board.abandon_refill(first.lane, 5);
    let again = lane_to_refill(&mut board, b"work");
    assert_eq!(again.cursor, first.cursor);
    assert!(board.begin_refill(&again, 6));
    board.end_refill(first.lane, 5, Rank::END);
    assert!(
        matches!(board.next_task(0, b"work", None), Next::Refilling),
        "the first refiller has lost the lane"
    );
    board.end_refill(again.lane, 6, Rank::END);
    own(&mut board, 1);
}

#[test]
fn a_late_refiller_does_not_refill_another_lane_at_the_same_index() {
    let mut memory = small(4, 1);
    let mut board = memory.board();
    board.survey(0, WORK);
    let late = lane_to_refill(&mut board, b"work");
    // The only lane is spilled for another one, which needs a refill, too.
    assert!(board.survey(0, LaneName { queue: b"rest", action: b"do" }));
    let new = lane_to_refill(&mut board, b"rest");
    assert_eq!((late.lane, late.cursor), (new.lane, new.cursor));
    assert!(!board.begin_refill(&late, 5));
    assert!(board.begin_refill(&new, 5));
}

#[test]
fn a_lane_under_refill_keeps_no_other_from_being_spilled() {
    let mut memory = small(4, 2);
    let mut board = memory.board();
    board.survey(0, lane(b"first"));
    board.survey(0, lane(b"second"));
    let Next::NeedsRefill(first) = board.next_task(0, b"work", Some(&[b"first"])) else { panic!() };
    assert!(board.begin_refill(&first, 5));
    assert!(board.survey(0, lane(b"third")), "the second is spilled");
    assert_eq!(board.entry(0).lanes_spilled, 1);
    let actions: Vec<_> = board.audit().lanes.into_iter().map(|it| it.action).collect();
    assert_eq!(actions, [b"first".to_vec(), b"third".to_vec()]);
}

/// I8: clearing a database in small steps removes all of its slots and lanes.
#[test]
fn a_cleared_database_leaves_no_slot_or_lane_however_small_the_steps() {
    for step in 1..12 {
        let mut memory = small(8, 4);
        let mut board = memory.board();
        assert_eq!(board.register(2, 1), Some(1));
        // The lanes of the first database have low indexes, and its slots have high ones.
        board.survey(0, lane(b"first"));
        board.survey(0, lane(b"second"));
        for id in 1..=6 {
            board.offer(1, WORK, rank(id), NONE);
        }
        board.ensure_slot(0, lane(b"first"), rank(7), NONE).expect("room");
        board.ensure_slot(0, lane(b"second"), rank(8), NONE).expect("room");
        let mut from = Some(0);
        while let Some(at) = from {
            from = board.clear_entry(0, at, step);
        }
        board.remove(0);
        let lanes = board.audit().lanes;
        assert_eq!(lanes.len(), 1, "the other entry's lane stays: {lanes:?}");
        assert_eq!((lanes[0].entry, lanes[0].queued.len()), (1, 6));
    }
}

/// I4: a board full of leases takes no task and evicts no lease.
#[test]
fn a_board_full_of_leases_takes_no_task_and_evicts_none() {
    let mut memory = small(2, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    board.offer(0, WORK, rank(2), NONE);
    own(&mut board, 1);
    own(&mut board, 2);
    assert_eq!(board.ensure_slot(0, lane(b"other"), rank(3), NONE), None);
    assert_eq!(board.offer(0, lane(b"other"), rank(4), NONE), Offered::LeftToTable);
    assert_eq!(board.usage().slots_used, 2);
    let lanes = board.audit().lanes;
    assert_eq!(lanes.iter().map(|it| it.slots).sum::<u32>(), 2);
}

#[test]
fn a_task_asked_for_by_id_finds_room_on_a_board_full_of_queued_ones() {
    let mut memory = small(2, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    board.offer(0, WORK, rank(2), NONE);
    let at = board.ensure_slot(0, WORK, rank(3), NONE).expect("room");
    let taken = board.reserve(at, &claim(1_000, None), token_hash(1));
    board.undo_claim(taken.ticket);
    own(&mut board, 2);
    assert_eq!(lane_to_refill(&mut board, b"work").cursor, rank(2), "the evicted comes first");
    board.audit();
}

/// I12: databases do not see each other's tasks.
#[test]
fn databases_do_not_see_each_others_tasks() {
    let mut memory = small(8, 8);
    let mut board = memory.board();
    assert_eq!(board.register(1, 2), Some(1), "another creation is another entry (I12)");
    board.offer(0, WORK, rank(1), NONE);
    assert!(matches!(board.next_task(1, b"work", None), Next::Empty));
    assert_eq!(board.offer(1, WORK, rank(1), NONE), Offered::Queued);
    own(&mut board, 1);
    assert_eq!(board.extend(1, 1, &token_hash(1), at(1_000), None, None), Extended::No);
    assert_eq!(board.next_expiry(1), Monotonic::NEVER);
    board.remove_task(1, 1);
    assert!(board.slot_of(0, 1).is_some() && board.slot_of(1, 1).is_none());
}

#[test]
fn on_a_full_board_an_empty_lane_finds_the_room_that_was_promised() {
    for loud in 4..=8 {
        let mut memory = small(8, 4);
        let mut board = memory.board();
        for id in 1..=8 {
            let action: &[u8] = if id <= loud { b"loud" } else { b"other" };
            assert_eq!(board.offer(0, lane(action), rank(id), NONE), Offered::Queued);
        }
        let wanted = action_to_refill(&mut board, b"quiet");
        let room = board.room();
        assert_eq!(u128::from(room), loud / 2);
        assert!(board.begin_refill(&wanted, 5));
        let tasks: Vec<(Rank, Micros)> =
            (0..room).map(|at| (rank(100 + u128::from(at)), NONE)).collect();
        assert!(board.refill(0, wanted.lane, 5, &tasks));
    }
}

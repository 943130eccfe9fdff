//! Leases: tokens, tickets and deadlines.

mod memory;

use board::{
    Board, Claimed, Expired, Extended, Micros, Monotonic, Next, Offered, PersistedLease, Rank,
    Refusal, RowHint, State, Wall,
};

use memory::small::*;

#[test]
fn an_extension_without_a_length_has_the_length_the_lease_was_taken_with() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    own(&mut board, 1);
    assert!(matches!(
        board.extend(0, 1, &token_hash(1), at(2_000), Some(Micros(5)), None),
        Extended::Yes(_)
    ));
    assert_eq!(board.next_expiry(0), Monotonic(2_005));
    assert!(matches!(board.extend(0, 1, &token_hash(1), at(2_000), None, None), Extended::Yes(_)));
    assert_eq!(board.next_expiry(0), Monotonic(2_100));
}

#[test]
fn a_late_owner_keeps_the_task_until_another_worker_owns_it() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    own(&mut board, 1);
    expire(&mut board);
    assert!(matches!(board.extend(0, 1, &token_hash(1), at(9_000), None, None), Extended::Yes(_)));
    expire(&mut board);
    own(&mut board, 2);
    assert_eq!(board.extend(0, 1, &token_hash(1), at(9_000), None, None), Extended::No);
    assert!(matches!(board.begin_end(0, 1, &token_hash(1), 7), Err(Refusal::Stale)));
    let (ticket, _) = board.begin_end(0, 1, &token_hash(2), 7).expect("the last token");
    board.commit_end(ticket);
    assert!(matches!(board.next_task(0, b"work", None), Next::Empty));
}

#[test]
fn a_late_owner_who_extends_while_the_task_is_being_ended_has_it_if_that_rolls_back() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    own(&mut board, 1);
    expire(&mut board);
    let withdrawn = board.withdraw(0, WORK, rank(1), NONE, 8).expect("room");
    let ticket = withdrawn.expect("no worker owns it");
    assert!(matches!(board.extend(0, 1, &token_hash(1), at(9_000), None, None), Extended::Yes(_)));
    board.undo_end(ticket, Monotonic::MIN);
    assert!(matches!(board.next_task(0, b"work", None), Next::Empty), "it is not offered");
    assert_eq!(board.next_expiry(0), Monotonic(9_100));
    assert!(board.begin_end(0, 1, &token_hash(1), 7).is_ok());
    board.audit();
}

/// I3: whether a scheduler, a second scheduler, or a caller without a scheduler ends an expired
/// lease, its worker can neither extend nor return it.
#[test]
fn an_expired_lease_that_is_being_ended_is_neither_extended_nor_returned() {
    for scheduler in [0, 9, 7] {
        let mut memory = small(4, 4);
        let mut board = memory.board();
        board.entry_mut(0).scheduler = scheduler;
        board.offer(0, WORK, rank(1), NONE);
        own(&mut board, 1);
        let ticket = take_expired_lease(&mut board);
        let extended = board.extend(0, 1, &token_hash(1), at(9_000), None, None);
        assert_eq!(extended, Extended::Busy);
        assert!(matches!(board.begin_end(0, 1, &token_hash(1), 7), Err(Refusal::Busy)));
        let withdrawn = board.withdraw(0, WORK, rank(1), NONE, 8).expect("room");
        assert_eq!(withdrawn, Err(Refusal::Busy));
        // Another scheduler looks for expired leases before that is over.
        board.entry_mut(0).scheduler = 10;
        assert!(matches!(board.begin_end(0, 1, &token_hash(1), 7), Err(Refusal::Busy)));
        board.requeue(ticket, true);
        let extended = board.extend(0, 1, &token_hash(1), at(9_000), None, None);
        assert!(matches!(extended, Extended::Yes(_)));
        board.audit();
    }
}

/// I1: until the end of its lease is durable, no other worker owns a task; its own worker may.
#[test]
fn only_its_last_worker_has_a_withheld_task() {
    type Take = fn(&mut board::Board) -> Option<board::Ticket>;
    let takes: [Take; 3] = [
        |board| {
            let extended = board.extend(0, 1, &token_hash(1), at(9_000), None, None);
            assert!(matches!(extended, Extended::Yes(_)));
            None
        },
        |board| Some(board.begin_end(0, 1, &token_hash(1), 7).expect("a good token").0),
        |board| Some(board.withdraw(0, WORK, rank(1), NONE, 8).expect("room").expect("free")),
    ];
    for take in takes {
        let mut memory = small(4, 4);
        let mut board = memory.board();
        board.offer(0, WORK, rank(1), NONE);
        own(&mut board, 1);
        let ticket = take_expired_lease(&mut board);
        board.withhold(ticket);
        assert!(matches!(board.next_task(0, b"work", None), Next::Empty));
        assert!(!board.slot_of(0, 1).expect("a slot").has_lease());
        let ends = take(&mut board);
        board.audit();
        // The worker calls too late.
        board.publish(ticket);
        assert!(matches!(board.next_task(0, b"work", None), Next::Empty));
        if let Some(ends) = ends {
            board.undo_end(ends, Monotonic::MIN);
            assert!(matches!(board.next_task(0, b"work", None), Next::Task(_)));
        }
        board.audit();
    }
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    own(&mut board, 1);
    let ticket = take_expired_lease(&mut board);
    board.withhold(ticket);
    board.publish(ticket);
    assert!(matches!(board.next_task(0, b"work", None), Next::Task(_)));
    board.audit();
}

#[test]
fn a_task_that_its_lane_has_not_come_to_can_be_withdrawn() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.survey(0, WORK, None, Rank::FIRST);
    let ticket =
        board.withdraw(0, WORK, rank(1), NONE, 8).expect("room").expect("no worker owns it");
    let again = board.withdraw(0, WORK, rank(1), NONE, 9).expect("a slot");
    assert!(matches!(again, Err(Refusal::Ending)));
    board.undo_end(ticket, Monotonic::MIN);
    assert!(board.slot_of(0, 1).is_none(), "left to the table, where it was");
    let ticket =
        board.withdraw(0, WORK, rank(2), NONE, 8).expect("room").expect("no worker owns it");
    board.commit_end(ticket);
    assert!(board.slot_of(0, 2).is_none());
    board.audit();
}

#[test]
fn a_token_is_void_once_its_task_was_given_back() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    own(&mut board, 1);
    let (ticket, _) = board.begin_end(0, 1, &token_hash(1), 7).expect("a good token");
    board.requeue(ticket, false);
    assert_eq!(board.extend(0, 1, &token_hash(1), at(1_000), None, None), Extended::No);
    assert!(matches!(board.begin_end(0, 1, &token_hash(1), 7), Err(Refusal::Stale)));
}

#[test]
fn a_task_owned_and_settled_in_one_transaction_goes_back_at_its_rollback() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    let taken = take(&mut board, 1);
    assert!(
        matches!(board.begin_end(0, 1, &token_hash(1), 8), Err(Refusal::Reserved(7))),
        "no other transaction can"
    );
    let (ticket, _) = board.begin_end(0, 1, &token_hash(1), 7).expect("its own transaction can");
    board.undo_end(ticket, Monotonic::MIN);
    board.undo_claim(taken.ticket);
    assert_eq!(board.slot_of(0, 1).expect("a slot").state(), State::Queued);
    assert_eq!(board.next_expiry(0), Monotonic::NEVER);
    board.audit();
}

/// A task whose reservation has expired while its transaction is open.
fn expired_reservation(board: &mut Board) -> Claimed {
    board.offer(0, WORK, rank(1), NONE);
    let late = take(board, 1);
    assert!(matches!(take_expired(board), Some(Expired::Reservation)));
    assert_eq!(state(board), State::Queued);
    late
}

fn state(board: &mut Board) -> State {
    board.slot_of(0, 1).expect("a slot").state()
}

/// I2: a reservation that expired is an expired lease once its transaction commits.
#[test]
fn a_reservation_that_expired_is_an_expired_lease_if_its_transaction_commits() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let late = expired_reservation(&mut board);
    assert!(take_expired(&mut board).is_none(), "there is no lease to end");
    board.commit_claim(late.ticket);
    assert!(matches!(board.next_task(0, b"work", None), Next::Empty));
    let expired = take_expired(&mut board);
    assert!(matches!(expired, Some(Expired::Lease(_, slot)) if !slot.in_history()));
    board.audit();
}

/// I2: a reservation that expired leaves no trace once its transaction rolls back.
#[test]
fn a_reservation_that_expired_never_was_if_its_transaction_rolls_back() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let late = expired_reservation(&mut board);
    board.undo_claim(late.ticket);
    board.commit_claim(late.ticket);
    assert_eq!(board.extend(0, 1, &token_hash(1), at(2_000), None, None), Extended::No);
    assert!(matches!(board.next_task(0, b"work", None), Next::Task(_)));
    assert_eq!(board.next_expiry(0), Monotonic::NEVER);
    board.audit();
}

#[test]
fn a_reservation_that_expired_is_back_if_it_is_extended() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let late = expired_reservation(&mut board);
    assert!(matches!(board.begin_end(0, 1, &token_hash(1), 8), Err(Refusal::Reserved(7))));
    assert!(matches!(board.extend(0, 1, &token_hash(1), at(2_000), None, None), Extended::Yes(_)));
    assert_eq!(state(&mut board), State::Reserved);
    board.undo_claim(late.ticket);
    assert_eq!(state(&mut board), State::Queued);
    board.audit();
}

/// The token suffices to extend a reserved task, on any connection.
#[test]
fn a_reserved_task_is_extended_before_its_transaction_ends() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    let taken = take(&mut board, 1);
    assert_eq!(board.slot_of(0, 1).expect("a slot").reserved_by(), Some(7));
    assert_eq!(board.extend(0, 1, &token_hash(2), at(2_000), None, None), Extended::No);
    assert!(matches!(
        board.extend(0, 1, &token_hash(1), at(2_000), None, Some(0.5)),
        Extended::Yes(_)
    ));
    assert_eq!((state(&mut board), board.next_expiry(0)), (State::Reserved, Monotonic(2_100)));
    board.commit_claim(taken.ticket);
    let slot = board.slot_of(0, 1).expect("a slot");
    assert_eq!((slot.progress, slot.reserved_by()), (0.5, None));
    board.audit();
}

/// While another transaction withdraws a task whose reservation has expired, its worker extends the
/// reservation.
#[test]
fn a_reservation_extended_beside_an_ending_is_its_transactions_again() {
    for commits in [true, false] {
        let mut memory = small(4, 4);
        let mut board = memory.board();
        let late = expired_reservation(&mut board);
        let ticket = board.withdraw(0, WORK, rank(1), NONE, 8).expect("room").expect("queued");
        assert!(matches!(
            board.extend(0, 1, &token_hash(1), at(2_000), None, None),
            Extended::Yes(_)
        ));
        board.undo_end(ticket, Monotonic::MIN);
        assert_eq!(board.slot_of(0, 1).expect("a slot").reserved_by(), Some(7));
        assert!(matches!(board.begin_end(0, 1, &token_hash(1), 8), Err(Refusal::Reserved(7))));
        board.audit();

        let ticket = {
            let (ending, _) = board.begin_end(0, 1, &token_hash(1), 7).expect("its own");
            board.undo_end(ending, Monotonic::MIN);
            assert!(matches!(take_expired(&mut board), Some(Expired::Reservation)));
            board.withdraw(0, WORK, rank(1), NONE, 8).expect("room").expect("queued")
        };
        assert!(matches!(
            board.extend(0, 1, &token_hash(1), at(3_000), None, None),
            Extended::Yes(_)
        ));
        // The claim ends before the other transaction does.
        if commits {
            board.commit_claim(late.ticket)
        } else {
            board.undo_claim(late.ticket)
        }
        board.undo_end(ticket, Monotonic::MIN);
        let expected = if commits { State::Leased } else { State::Queued };
        assert_eq!(state(&mut board), expected);
        board.audit();
    }
}

#[test]
fn a_reservation_that_expired_beside_an_ending_that_rolls_back_expires_after_it() {
    for commits in [true, false] {
        let mut memory = small(4, 4);
        let mut board = memory.board();
        let late = expired_reservation(&mut board);
        let ticket = board.withdraw(0, WORK, rank(1), NONE, 8).expect("room").expect("it is free");
        if commits {
            board.commit_claim(late.ticket);
        } else {
            board.undo_claim(late.ticket);
        }
        board.undo_end(ticket, Monotonic::MIN);
        assert_eq!(matches!(take_expired(&mut board), Some(Expired::Lease(..))), commits);
        board.audit();
    }
}

/// I5: a stray whose reservation expired is removed.
#[test]
fn a_stray_whose_reservation_expired_is_gone() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let late = expired_reservation(&mut board);
    board.drop_stray(late.ticket, true);
    assert!(board.slot_of(0, 1).is_none());
    board.audit();
}

/// I3: once another worker owns the task of an expired reservation, the reservation's transaction
/// has no right to it.
#[test]
fn a_reservation_that_expired_is_the_next_owners_not_its_transactions() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    let late = expired_reservation(&mut board);
    let new = take(&mut board, 2);
    board.commit_claim(late.ticket);
    board.undo_claim(late.ticket);
    board.drop_stray(late.ticket, true);
    assert_eq!(board.slot_of(0, 1).expect("a slot").state(), State::Reserved);
    board.commit_claim(new.ticket);
    assert_eq!(board.slot_of(0, 1).expect("a slot").state(), State::Leased);
}

#[test]
fn a_lease_that_was_extended_meanwhile_is_not_quarantined_until_an_earlier_time() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    own(&mut board, 1);
    assert!(matches!(
        board.extend(0, 1, &token_hash(1), at(1_000), Some(Micros(9_000)), None),
        Extended::Yes(_)
    ));
    board.defer_expiry(0, 1, Monotonic(5_000));
    assert_eq!(board.next_expiry(0), Monotonic(10_000));
    board.defer_expiry(0, 1, Monotonic(15_000));
    assert_eq!(board.next_expiry(0), Monotonic(15_000));
}

#[test]
fn a_scheduler_that_ended_is_known_to_be_gone() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.entry_mut(0).scheduler = 9;
    assert!(!board.note_scheduler_ended(2));
    assert_eq!(board.entry(0).scheduler, 9);
    assert!(board.note_scheduler_ended(1));
    assert_eq!(board.entry(0).scheduler, 0);
}

/// I3, I8: tickets from before a crash have no effect.
#[test]
fn tickets_from_before_a_crash_do_nothing() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    for id in 1..=3 {
        board.offer(0, WORK, rank(id), NONE);
    }
    let reserved = take(&mut board, 1);
    let leased = own(&mut board, 2);
    let (ending, _) = board.begin_end(0, 2, &token_hash(2), 7).expect("a good token");
    for id in 4..=6 {
        board.offer(0, lane(b"other"), rank(id), NONE);
    }
    let wanted = action_to_refill(&mut board, b"other");
    assert!(board.begin_refill(&wanted, 5));

    for round in 0..2 {
        board.clear();
        board.register(1, 1);
        if round == 1 {
            for id in 1..=4 {
                assert_eq!(board.offer(0, WORK, rank(id), NONE), Offered::Queued);
            }
            own(&mut board, 3);
            own(&mut board, 4);
            let _ = board.begin_end(0, 1, &token_hash(3), 7).expect("a good token");
        }
        let before = board.audit().lanes;
        board.undo_claim(reserved.ticket);
        board.commit_claim(reserved.ticket);
        board.drop_stray(reserved.ticket, true);
        assert!(!board.is_leased(leased.ticket) && !board.note_persisted(leased.ticket));
        board.undo_end(ending, Monotonic(0));
        board.requeue(ending, true);
        board.commit_end(ending);
        assert!(!board.begin_refill(&wanted, 5));
        assert!(!board.refill(0, wanted.lane, 5, &[(rank(9), NONE)]));
        board.abandon_refill(wanted.lane, 5);
        board.end_refill(wanted.lane, 5, Rank::END);
        assert_eq!(board.audit().lanes, before);
    }
}

#[test]
fn a_persisted_lease_is_counted_once_when_it_ends() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    let taken = own(&mut board, 1);
    assert!(board.note_persisted(taken.ticket));
    let (ticket, _) = board.begin_end(0, 1, &token_hash(1), 7).expect("a good token");
    assert!(!board.note_persisted(taken.ticket), "it is being ended");
    board.undo_end(ticket, Monotonic(0));
    assert_eq!(board.entry(0).ended_persisted, 0);
    let (ticket, _) = board.begin_end(0, 1, &token_hash(1), 7).expect("a good token");
    board.requeue(ticket, false);
    assert_eq!(board.entry(0).ended_persisted, 1);
    own(&mut board, 2);
    board.remove_task(0, 1);
    assert_eq!(board.entry(0).ended_persisted, 1);
}

/// I1: a restored lease has one full length and its old token.
#[test]
fn a_restored_lease_has_one_full_length_and_its_old_token() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.survey(0, WORK, None, Rank::FIRST);
    let at = board.ensure_slot(0, WORK, rank(1), NONE).expect("room");
    let (since_at, length) = (Wall(4_000_000), Micros(777));
    let lease = PersistedLease {
        token_hash: token_hash(1),
        worker: b"w",
        since_at,
        length,
        progress: 0.5,
        in_history: true,
    };
    board.restore(at, &lease, NOW);
    let slot = *board.slot_of(0, 1).expect("a slot");
    assert!(slot.has_lease() && slot.is_persisted() && slot.in_history());
    assert_eq!((slot.deadline, slot.since_at), (NOW.monotonic + length, since_at));
    assert_eq!((slot.progress, board.lease(&slot).worker.as_bytes()), (0.5, &b"w"[..]));
    assert!(board.begin_end(0, 1, &token_hash(1), 7).is_ok());
}

#[test]
fn a_lease_that_ended_and_goes_on_is_not_persisted() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    let taken = own(&mut board, 1);
    assert!(board.is_leased(taken.ticket));
    expire(&mut board);
    assert!(matches!(board.extend(0, 1, &token_hash(1), at(9_000), None, None), Extended::Yes(_)));
    // Its end wrote the task's row, so the lease's row is void.
    assert!(!board.is_leased(taken.ticket) && !board.note_persisted(taken.ticket));
    assert!(!board.slot_of(0, 1).expect("a slot").is_persisted());
}

#[test]
fn a_withdrawn_task_is_its_transactions_alone() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    let ticket = board.withdraw(0, WORK, rank(1), NONE, 7).expect("room").expect("a ready task");
    assert!(matches!(board.next_task(0, b"work", None), Next::Empty));
    assert!(matches!(board.withdraw(0, WORK, rank(1), NONE, 8), Some(Err(Refusal::Ending))));
    let slot = board.slot_of(0, 1).expect("a slot");
    assert!(slot.is_ended_by(7) && !slot.is_ended_by(8));
    board.undo_end(ticket, Monotonic::MIN);
    own(&mut board, 1);
    assert!(
        matches!(board.withdraw(0, WORK, rank(1), NONE, 7), Some(Err(Refusal::Stale))),
        "owned"
    );
}

#[test]
fn a_task_that_the_board_did_not_know_is_withdrawn_as_well() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.survey(0, WORK, None, Rank::FIRST);
    let ticket = board.withdraw(0, WORK, rank(9), NONE, 7).expect("room").expect("a ready task");
    assert_eq!(board.slot_of(0, 9).expect("a slot").state(), State::Ending);
    board.commit_end(ticket);
    assert!(board.slot_of(0, 9).is_none());
}

#[test]
fn a_task_due_before_the_scheduler_means_to_wake_wakes_it() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.entry_mut(0).wake_at = Monotonic(2_000);
    board.entry_mut(0).wall_offset = Micros(1_000_000);
    assert!(board.entry_mut(0).note_use() && !board.entry_mut(0).note_use());
    board.note_due(0, Wall(1_002_000));
    assert!(!board.wants_scheduler(0));
    board.note_due(0, Wall(1_001_500));
    assert!(board.wants_scheduler(0));
    board.note_due(0, Wall(1_009_000));
    assert_eq!(board.next_duty(0), Monotonic(1_500), "the earliest counts");
    board.entry_mut(0).wall_offset = Micros(1_001_000);
    assert_eq!(board.next_duty(0), Monotonic(500), "the wall clock was set forward");
    board.entry_mut(0).set_paused(true);
    assert!(!board.wants_scheduler(0), "nothing fires in a paused database");
    board.entry_mut(0).set_paused(false);
    board.offer(0, WORK, rank(1), NONE);
    own(&mut board, 1);
    board.entry_mut(0).next_due = Wall::NEVER;
    assert!(board.next_queue_to_announce(0).is_some(), "a notification is pending");
    assert_eq!(board.next_duty(0), board.next_expiry(0), "no task waits");
}

/// Where a task's row is, as far as the board was told, stays with the task and not with its slot.
#[test]
fn place_of_a_row_is_the_tasks() {
    let mut memory = small(1, 4);
    let mut board = memory.board();
    let row = RowHint { block: 70_000, offset: 3 };
    board.note_row(0, 1, row);
    board.offer(0, WORK, rank(1), NONE);
    board.note_row(0, 1, row);
    let taken = take(&mut board, 1);
    assert_eq!(taken.row, row);
    board.undo_claim(taken.ticket);
    let taken = take(&mut board, 1);
    assert_eq!(taken.row, row);
    board.commit_claim(taken.ticket);
    let (ticket, lease) = board.begin_end(0, 1, &token_hash(1), 7).expect("a good token");
    assert_eq!(lease.row, row);
    board.commit_end(ticket);
    board.offer(0, WORK, rank(2), NONE);
    assert_eq!(take(&mut board, 2).row, RowHint::default());
}

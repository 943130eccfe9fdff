//! Workers: their leases, when they last called, and how their records are shared out.

mod memory;

use board::{
    Board, BuildState, Claim, Expired, LaneName, Micros, Monotonic, Next, ReleaseCursor, Sizes,
    Timestamp, Wall,
};

use memory::Memory;
use memory::small::{NONE, WORK, expire, own, rank, small, token_hash};

const HOUR: Micros = Micros::from_secs(3_600);
const NOW: Wall = memory::small::NOW.wall;

/// The workers of a database: name, queue, how many tasks they have, and when they last called.
fn workers(board: &Board, entry: u32) -> Vec<(String, String, u32, Wall)> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let all = (0..board.workers_end()).filter_map(|at| board.worker_at(at, entry));
    let mut all: Vec<_> = all
        .map(|(it, _)| {
            let (name, queue) = (text(it.name.as_bytes()), text(it.queue.as_bytes()));
            (name, queue, it.running, it.last_seen)
        })
        .collect();
    all.sort();
    all
}

fn names(board: &Board, entry: u32) -> Vec<String> {
    workers(board, entry).into_iter().map(|it| it.0).collect()
}

/// The next task of a queue, for a worker.
fn own_as(board: &mut Board, entry: u32, queue: &[u8], worker: &[u8], length: i64) {
    let now = Timestamp { monotonic: Monotonic(0), wall: NOW };
    let length = Some(Micros(length));
    let claim = Claim { worker, holder: 7, now, length, fallback: NONE, longest: Micros::MAX };
    let Next::Task(at) = board.next_task(entry, queue, None) else { panic!("no task") };
    let claimed = board.reserve(at, &claim, token_hash(1));
    board.commit_claim(claimed.ticket);
}

fn offer(board: &mut Board, entry: u32, queue: &[u8], ids: std::ops::Range<u128>) {
    for id in ids {
        board.offer(entry, LaneName { queue, action: b"", group: None }, rank(id), NONE);
    }
}

/// Releases a worker; how many leases it had, and under how many holds of the lock.
fn release(board: &mut Board, worker: &[u8]) -> (usize, usize) {
    let (mut tickets, mut holds) = (Vec::new(), 0);
    let mut next = Some(ReleaseCursor::default());
    while let Some(cursor) = next {
        holds += 1;
        next = board.take_leases(0, worker, 7, cursor, 64, |ticket, lease| {
            assert_eq!(lease.worker.as_bytes(), worker);
            tickets.push(ticket);
        });
    }
    let count = tickets.len();
    tickets.into_iter().for_each(|ticket| board.revoke(ticket));
    (count, holds)
}

#[test]
fn a_worker_is_known_from_its_first_call_until_an_hour_after_its_last() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.note_worker(0, b"work", b"w", NOW);
    let later = NOW + Micros(5);
    board.note_worker(0, b"work", b"w", later);
    assert_eq!(workers(&board, 0), [("w".into(), "work".into(), 0, later)]);
    let it = *board.worker_at(0, 0).expect("a worker").0;
    assert!(!it.is_forgotten(later + HOUR - Micros(1)) && it.is_forgotten(later + HOUR));
    board.note_worker(0, b"work", b"new", later + HOUR);
    assert_eq!(names(&board, 0), ["new"], "its record is used again");
    board.audit();
}

#[test]
fn a_worker_with_tasks_is_never_forgotten() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    let taken = own(&mut board, 1);
    let it = *board.worker_at(0, 0).expect("a worker").0;
    assert!(!it.is_forgotten(Wall::NEVER));
    board.note_worker(0, b"work", b"new", NOW + HOUR * 2);
    assert_eq!(names(&board, 0), ["new", "worker"]);
    // Its token is good until another worker owns the task.
    expire(&mut board);
    let it = *board.worker_at(0, 0).expect("a worker").0;
    assert!((it.running, it.is_forgotten(NOW + HOUR)) == (0, true));
    board.note_worker(0, b"work", b"other", NOW + HOUR * 2);
    assert_eq!(names(&board, 0), ["new", "other", "worker"], "not shown, and kept");
    let slot = *board.slot_of(0, taken.id).expect("a slot");
    assert_eq!(board.lease(&slot).worker.as_bytes(), b"worker");
    board.audit();
}

#[test]
fn calls_with_a_token_show_that_the_worker_lives() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    own(&mut board, 1);
    let now = Timestamp { monotonic: Monotonic(1_010), wall: NOW + Micros(10) };
    board.extend(0, 1, &token_hash(2), now, None, None);
    assert_eq!(workers(&board, 0)[0].3, NOW, "a token that is not valid is not the worker's");
    board.extend(0, 1, &token_hash(1), now, None, None);
    assert_eq!(workers(&board, 0)[0].3, now.wall);
    let (ticket, lease) = board.begin_end(0, 1, &token_hash(1), 7).expect("a lease");
    board.note_seen(ticket.slot, NOW + Micros(20));
    assert_eq!(lease.worker.as_bytes(), b"worker");
    board.commit_end(ticket);
    let seen = ("worker".into(), "work".into(), 0, NOW + Micros(20));
    assert_eq!(workers(&board, 0), [seen]);
    board.audit();
}

/// A call for tasks never fails for want of a record: the idle ones go, of the database that has
/// the most of them, the one that is idle longest first.
#[test]
fn each_task_can_have_a_worker_of_its_own() {
    const SLOTS: u32 = 64;
    let mut memory = small(SLOTS as usize, 4);
    let mut board = memory.board();
    assert_eq!(board.register(2, 1), Some(1));
    board.entry_mut(1).build_state = BuildState::Built;
    for at in 0..SLOTS {
        let entry = u32::from(at >= 40);
        board.note_worker(entry, b"work", format!("idle {at:02}").as_bytes(), NOW);
    }
    // It is not the one that is idle longest any more.
    board.note_worker(0, b"work", b"idle 00", NOW);
    board.note_worker(1, b"work", b"one more", NOW);
    assert!(!names(&board, 0).contains(&"idle 01".into()), "of the database with the most");
    assert_eq!((names(&board, 0).len(), names(&board, 1).len()), (39, 25));
    offer(&mut board, 0, b"work", 1..1 + u128::from(SLOTS));
    for at in 0..SLOTS {
        own_as(&mut board, 0, b"work", format!("busy {at:02}").as_bytes(), 1_000);
        board.audit();
    }
    assert!(names(&board, 0).iter().all(|it| it.starts_with("busy")), "{:?}", names(&board, 0));
    assert_eq!(names(&board, 1).len(), 0);
    // There is no record for it, and it has no task.
    board.note_worker(1, b"work", b"late", NOW);
    assert_eq!((names(&board, 0).len(), names(&board, 1).len()), (SLOTS as usize, 0));
    let mut expired = 0;
    while let Some(Expired::Lease(ticket, lease)) = board.take_expired(0, Monotonic(2_000)) {
        assert!(lease.worker.as_bytes().starts_with(b"busy"));
        board.commit_end(ticket);
        expired += 1;
    }
    assert_eq!(expired, SLOTS);
    board.note_worker(1, b"work", b"late", NOW);
    assert_eq!(names(&board, 1), ["late"]);
    board.audit();
}

#[test]
fn names_of_every_length_are_told_apart() {
    let mut memory = small(256, 256);
    let mut board = memory.board();
    for length in 1..=128 {
        let queue = vec![b'q'; 1 + length % 48];
        offer(&mut board, 0, &queue, length as u128..length as u128 + 1);
        own_as(&mut board, 0, &queue, &vec![b'w'; length], 1_000);
    }
    board.note_worker(0, b"q", &[b'w'; 128], NOW);
    assert_eq!(workers(&board, 0).len(), 129, "a worker has a record for each queue");
    for length in 1..=128 {
        let worker = vec![b'w'; length];
        let slot = *board.slot_of(0, length as u128).expect("a slot");
        assert_eq!(board.lease(&slot).worker.as_bytes(), worker);
        assert_eq!(release(&mut board, &worker).0, 1);
    }
    board.audit();
}

/// Its leases are in several queues, and those of others cost it nothing.
#[test]
fn releasing_a_worker_costs_its_leases_only() {
    const OTHERS: u128 = 100_000;
    let mut memory = Memory::new(Sizes::of(131_072, 100));
    let mut board = memory.board();
    assert_eq!(board.register(1, 1), Some(0));
    board.entry_mut(0).build_state = BuildState::Built;
    offer(&mut board, 0, b"work", 1..1 + OTHERS);
    (0..OTHERS).for_each(|_| own_as(&mut board, 0, b"work", b"other", 1_000));
    assert_eq!(release(&mut board, b"none"), (0, 1));
    for queue in [b"work", b"more", b"rest"] {
        let from = OTHERS + 1 + 10 * u128::from(queue[0]);
        offer(&mut board, 0, queue, from..from + 10);
        (0..10).for_each(|_| own_as(&mut board, 0, queue, b"w", 2_000));
    }
    assert_eq!(release(&mut board, b"w"), (30, 1));
    assert_eq!(release(&mut board, b"w"), (0, 1));
    let (released, holds) = release(&mut board, b"other");
    assert_eq!((released, holds), (OTHERS as usize, OTHERS as usize / 64 + 1));
    assert!(workers(&board, 0).iter().all(|it| it.2 == 0));
    board.audit();
}

/// The first lease to expire is taken first, whichever worker has it.
#[test]
fn leases_of_many_workers_expire_in_the_order_of_their_deadlines() {
    const WORKERS: u32 = 10_000;
    let mut memory = Memory::new(Sizes::of(32_768, 100));
    let mut board = memory.board();
    assert_eq!(board.register(1, 1), Some(0));
    board.entry_mut(0).build_state = BuildState::Built;
    offer(&mut board, 0, b"work", 1..1 + 3 * u128::from(WORKERS));
    for at in 0..3 * WORKERS {
        let worker = format!("worker {}", at % WORKERS);
        let length = at.wrapping_mul(0x9e37_79b1) % 100_000;
        own_as(&mut board, 0, b"work", worker.as_bytes(), i64::from(length));
    }
    assert_eq!(names(&board, 0).len(), WORKERS as usize);
    let depth = board.audit().depth;
    assert!(depth <= 60, "{depth}");
    let (mut last, mut count) = (Monotonic::MIN, 0);
    while let Some(Expired::Lease(ticket, lease)) = board.take_expired(0, Monotonic(100_000)) {
        assert!(last <= lease.deadline);
        last = lease.deadline;
        board.requeue(ticket, true);
        count += 1;
    }
    assert_eq!(count, 3 * WORKERS);
    board.audit();
}

#[test]
fn the_workers_of_a_database_go_with_it() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    assert_eq!(board.register(2, 1), Some(1));
    board.entry_mut(1).build_state = BuildState::Built;
    offer(&mut board, 0, b"work", 1..3);
    own_as(&mut board, 0, b"work", b"busy", 1_000);
    board.note_worker(0, b"work", b"idle", NOW);
    board.note_worker(1, b"work", b"other", NOW);
    board.entry_mut(0).build_state = BuildState::Unbuilt;
    let mut from = Some(0);
    while let Some(at) = from {
        from = board.clear_entry(0, at, 1);
        board.audit();
    }
    assert_eq!((names(&board, 0).len(), names(&board, 1)), (0, vec!["other".into()]));
    board.remove(0);
    board.audit();
}

//! Who is woken, and what the clock announces.

mod memory;

use board::{
    Board, BuildState, LaneName, Micros, Monotonic, Next, NotifyRound, Rank, Sizes, WaitFor, Wall,
};
use memory::Memory;
use memory::small::{NONE, NOW, WORK, claim, own, rank, small, take, token_hash};
use proptest::prelude::*;

fn signalled(board: &mut Board) -> Vec<u32> {
    std::iter::from_fn(|| board.next_signalled()).collect()
}

fn wait(board: &mut Board, process: u32) {
    board.wait_for(0, process, WaitFor::Work(b"work"));
}

/// The names that a round announces.
fn round(board: &mut Board, now: i64) -> Option<Vec<String>> {
    let NotifyRound { queues, .. } = board.begin_round(0, Monotonic(now), Micros(10))?;
    let news = (0..queues).filter_map(|_| board.next_queue_to_notify(0, true)).collect::<Vec<_>>();
    board.audit();
    Some(news.iter().map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned()).collect())
}

#[test]
fn each_task_wakes_one_who_has_waited_longest() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    for process in [2, 0, 3, 1] {
        wait(&mut board, process);
    }
    board.offer(0, WORK, rank(1), NONE);
    assert_eq!(signalled(&mut board), [2]);
    board.offer(0, WORK, rank(1), NONE);
    assert_eq!(signalled(&mut board), [], "the board knew it already");
    board.offer(0, LaneName { queue: b"other", action: b"" }, rank(2), NONE);
    assert_eq!(signalled(&mut board), [], "another queue's");
    board.offer(0, WORK, rank(3), NONE);
    board.offer(0, WORK, rank(4), NONE);
    assert_eq!(signalled(&mut board), [0, 3]);
    assert_eq!(board.waiting(), (1, 3));
    board.audit();
}

#[test]
fn whoever_was_woken_and_fails_passes_it_on() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    (0..3).for_each(|process| wait(&mut board, process));
    board.offer(0, WORK, rank(1), NONE);
    board.stop_waiting(0);
    assert_eq!(signalled(&mut board), [1], "woken, not told yet");
    board.stop_waiting(1);
    assert_eq!(signalled(&mut board), [2]);
    board.stop_waiting(2);
    assert_eq!((signalled(&mut board), board.waiting()), (vec![], (0, 0)));
    board.stop_waiting(2);
    board.audit();
}

#[test]
fn whoever_was_woken_for_nothing_waits_on_behind_the_others() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    (0..2).for_each(|process| wait(&mut board, process));
    board.offer(0, WORK, rank(1), NONE);
    assert_eq!(signalled(&mut board), [0]);
    own(&mut board, 1);
    wait(&mut board, 0);
    wait(&mut board, 1);
    board.offer(0, WORK, rank(2), NONE);
    assert_eq!(signalled(&mut board), [1]);
    board.audit();
}

#[test]
fn whatever_makes_a_task_ready_wakes_one() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
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
    memory::small::expire(&mut board);
    assert_eq!(signalled(&mut board), [0], "an expiry");
    own(&mut board, 4);
    wait(&mut board, 0);
    board.survey(0, WORK);
    assert_eq!(signalled(&mut board), [0], "the table may have something");
    board.audit();
}

#[test]
fn the_end_of_a_task_wakes_all_who_wait_for_it() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    board.wait_for(0, 0, WaitFor::Settled(7));
    board.wait_for(0, 1, WaitFor::Settled(8));
    board.wait_for(0, 2, WaitFor::Settled(7));
    wait(&mut board, 3);
    board.note_settled(0, 7);
    assert_eq!(signalled(&mut board), [0, 2]);
    board.stop_waiting(0);
    assert_eq!(signalled(&mut board), [], "there is nothing to pass on");
    board.remove_task(0, 8);
    assert_eq!(signalled(&mut board), [1], "deleted");
    assert_eq!(
        board.begin_round(0, Monotonic(0), Micros(10)),
        Some(NotifyRound { queues: 0, unsent: true })
    );
    assert_eq!((board.next_settled(0), board.next_settled(0)), (Some(7), None));
    assert_eq!(board.next_round(0), Monotonic::NEVER);
    board.audit();
}

/// I11
#[test]
fn a_queue_is_announced_once_a_round_even_without_its_lanes() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    assert_eq!((board.next_round(0), round(&mut board, 0)), (Monotonic::NEVER, None));
    assert!(!board.wants_scheduler(0));
    for id in 1..4 {
        board.offer(0, WORK, rank(id), NONE);
        assert_eq!(board.wants_scheduler(0), id == 1, "the clock is called once");
        board.remove_task(0, id);
    }
    assert_eq!(board.usage().lanes_used, 0);
    assert_eq!(round(&mut board, 100), Some(vec!["work".to_owned()]));
    assert_eq!((board.next_round(0), round(&mut board, 200)), (Monotonic::NEVER, None));
    board.offer(0, WORK, rank(9), NONE);
    assert_eq!((board.next_round(0), round(&mut board, 105)), (Monotonic(110), None));
    assert_eq!(round(&mut board, 110), Some(vec!["work".to_owned()]));
    board.audit();
}

#[test]
fn when_much_happens_there_are_fewer_rounds() {
    let mut memory = small(64, 4);
    let mut board = memory.board();
    for id in 1..=32 {
        board.offer(0, WORK, rank(id), NONE);
    }
    assert!(round(&mut board, 100).is_some());
    board.offer(0, WORK, rank(33), NONE);
    assert_eq!(board.next_round(0), Monotonic(180));
    assert!(round(&mut board, 180).is_some());
    board.offer(0, WORK, rank(34), NONE);
    assert_eq!(board.next_round(0), Monotonic(190));
}

/// I11
#[test]
fn what_cannot_be_told_now_is_told_later() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    board.begin_round(0, Monotonic(0), Micros(10)).expect("news");
    assert!(board.next_queue_to_notify(0, false).is_none());
    board.audit();
    assert_eq!(round(&mut board, 10), Some(vec!["work".to_owned()]));
}

#[test]
fn while_a_queue_has_something_each_round_wakes_another() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    (0..4).for_each(|process| wait(&mut board, process));
    board.offer(0, WORK, rank(1), NONE);
    assert_eq!(signalled(&mut board), [0]);
    assert_eq!(round(&mut board, 0).map(|news| news.len()), Some(1));
    assert_eq!(signalled(&mut board), [], "the first round only announces");
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
fn in_a_closed_database_the_rounds_wake_nobody() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    board.entry_mut(0).set_paused(true);
    board.offer(0, WORK, rank(1), NONE);
    wait(&mut board, 0);
    assert!(round(&mut board, 0).is_some());
    assert_eq!((signalled(&mut board), board.next_round(0)), (vec![], Monotonic::NEVER));
    board.entry_mut(0).set_paused(false);
    board.survey(0, WORK);
    assert_eq!(signalled(&mut board), [0]);
}

#[test]
fn a_house_that_is_vacated_leaves_nobody_waiting_and_nothing_to_tell() {
    let mut memory = small(8, 4);
    let mut board = memory.board();
    wait(&mut board, 1);
    board.wait_for(0, 2, WaitFor::Settled(7));
    board.offer(0, LaneName { queue: b"other", action: b"" }, rank(1), NONE);
    board.note_settled(0, 8);
    let mut from = Some(0);
    while let Some(at) = from {
        from = board.clear_entry(0, at, 3);
    }
    board.audit();
    board.remove(0);
    assert_eq!(signalled(&mut board), [1, 2]);
    board.audit();
}

#[test]
fn more_queues_than_are_kept_for_their_news_lose_them() {
    let mut memory = Memory::new(Sizes::of(4_096, 4));
    let mut board = memory.board();
    assert_eq!(board.register(1, 1), Some(0));
    board.entry_mut(0).build_state = BuildState::Built;
    for id in 0..1_000u32 {
        let queue = format!("queue {id}");
        board.offer(0, LaneName { queue: queue.as_bytes(), action: b"" }, rank(id.into()), NONE);
        board.remove_task(0, id.into());
    }
    board.audit();
    assert_eq!(round(&mut board, 0).map(|news| news.len()), Some(256));
    for id in 0..2_000 {
        board.note_settled(0, id);
    }
    board.audit();
    let told = std::iter::from_fn(|| board.next_settled(0)).count();
    assert_eq!(told, 1_024);
    board.audit();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Offered { queue: u8, id: u128 },
    Take { queue: u8 },
    Wait { process: u32, queue: u8 },
    Stop { process: u32 },
    Tell,
    NotifyRound,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let queue = 0..3_u8;
    let process = 0..6_u32;
    let step = prop_oneof![
        4 => (queue.clone(), 0..12_u128).prop_map(|(queue, id)| Step::Offered { queue, id }),
        3 => queue.clone().prop_map(|queue| Step::Take { queue }),
        4 => (process.clone(), queue).prop_map(|(process, queue)| Step::Wait { process, queue }),
        2 => process.prop_map(|process| Step::Stop { process }),
        2 => Just(Step::Tell),
        1 => Just(Step::NotifyRound),
    ];
    prop::collection::vec(step, 1..60)
}

const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];

/// The same in the plainest way: who waits, in order; who was woken and looks next.
#[derive(Default)]
struct Plain {
    ready: Vec<(u8, u128)>,
    waiting: Vec<(u32, u8)>,
    woken: Vec<(u32, u8)>,
    told: Vec<u32>,
}

impl Plain {
    fn wake(&mut self, queue: u8) {
        if let Some(at) = self.waiting.iter().position(|it| it.1 == queue) {
            let it = self.waiting.remove(at);
            self.woken.push(it);
            self.told.push(it.0);
        }
    }

    fn leave_to_table(&mut self, process: u32) -> Option<u8> {
        self.waiting.retain(|it| it.0 != process);
        self.told.retain(|it| *it != process);
        let woken = self.woken.iter().position(|it| it.0 == process)?;
        Some(self.woken.remove(woken).1)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn waking_goes_as_the_plain_model_says(steps in steps()) {
        let mut memory = Memory::new(Sizes { slots: 16, slot_buckets: 8, lanes: 3, lane_buckets: 2, waiters: 6, waiter_buckets: 2 });
        let mut board = memory.board();
        board.register(1, 1);
        board.entry_mut(0).build_state = BuildState::Built;
        let mut plain = Plain::default();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Offered { queue, id } => {
                    let rank = Rank { id: id * 3 + u128::from(queue), created: Wall(0), priority: 0 };
                    board.offer(0, LaneName { queue: NAMES[queue as usize], action: b"" }, rank, NONE);
                    if !plain.ready.contains(&(queue, id)) {
                        plain.ready.push((queue, id));
                        plain.wake(queue);
                    }
                }
                Step::Take { queue } => {
                    if let Next::Task(at) = board.next_task(0, NAMES[queue as usize], None) {
                        let taken = board.reserve(at, &claim(NOW.monotonic.0, None), token_hash(1));
                        board.remove_task(0, taken.id);
                        plain.ready.retain(|it| *it != (queue, taken.id / 3));
                    } else {
                        prop_assert!(plain.ready.iter().all(|it| it.0 != queue));
                    }
                }
                Step::Wait { process, queue } => {
                    board.wait_for(0, process, WaitFor::Work(NAMES[queue as usize]));
                    if !plain.waiting.contains(&(process, queue)) {
                        plain.leave_to_table(process);
                        plain.waiting.push((process, queue));
                    }
                }
                Step::Stop { process } => {
                    board.stop_waiting(process);
                    if let Some(queue) = plain.leave_to_table(process) {
                        plain.wake(queue);
                    }
                }
                Step::Tell => prop_assert_eq!(signalled(&mut board), std::mem::take(&mut plain.told)),
                Step::NotifyRound => {
                    // Whoever waits though there is something is woken after some rounds, whatever was before.
                    let most = plain.waiting.len() as i64 + 2;
                    for _ in 0..most {
                        now += 10;
                        round(&mut board, now);
                    }
                    for queue in 0..3 {
                        while plain.ready.iter().any(|it| it.0 == queue) && plain.waiting.iter().any(|it| it.1 == queue) {
                            plain.wake(queue);
                        }
                    }
                    let (mut now_called, mut told) = (signalled(&mut board), std::mem::take(&mut plain.told));
                    now_called.sort_unstable();
                    told.sort_unstable();
                    prop_assert_eq!(now_called, told);
                }
            }
            board.audit();
            prop_assert_eq!(board.waiting(), (plain.waiting.len() as u32, plain.woken.len() as u32));
        }
    }
}

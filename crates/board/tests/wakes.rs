//! Random sequences of offers and waits: each task wakes the right process, and no process waits
//! while a task that it would own is ready.

mod memory;

use std::collections::BTreeMap;

use board::{ActionFilter, Board, BuildState, LaneName, Micros, Monotonic, Next, Sizes, WaitFor};
use memory::Memory;
use memory::small::{NONE, NOW, claim, rank, token_hash};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const QUEUES: [&[u8]; 2] = [b"a", b"b"];
const PROCESSES: u32 = 6;

/// Four actions; the first and the second have the same hash.
fn actions() -> &'static [Vec<u8>; 4] {
    static ACTIONS: std::sync::OnceLock<[Vec<u8>; 4]> = std::sync::OnceLock::new();
    ACTIONS.get_or_init(|| {
        let first = b"first".to_vec();
        let filter = ActionFilter::new(Some(&[&first]));
        let mut names = (0..).map(|n| format!("action {n}").into_bytes());
        let mut another = |same| names.find(|name| filter.admits(name) == same).expect("an action");
        let (second, third) = (another(true), another(false));
        [first, second, third, another(false)]
    })
}

/// A queue and an action.
type Lane = (usize, usize);

/// The queues, in order, and the actions that a process waits for; `None` means all actions.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Wish {
    queues: Vec<usize>,
    actions: Option<Vec<usize>>,
}

#[derive(Clone, Debug)]
enum Step {
    Offer {
        lane: Lane,
        id: u128,
    },
    /// A process that does not wait owns the lane's next task.
    Own {
        lane: Lane,
    },
    /// A process joins its queues, and looks at once or later.
    Wait {
        process: u32,
        wish: Wish,
        looks: bool,
    },
    /// A process that waits, or was woken, looks for tasks.
    Look {
        process: u32,
    },
    /// A process ends, in any state.
    Fail {
        process: u32,
    },
    Round,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lane = || (0..QUEUES.len(), 0..4_usize);
    let process = || 0..PROCESSES;
    let queues = prop::sample::subsequence(vec![0, 1], 1..=2).prop_shuffle();
    let some = prop::sample::subsequence(vec![0, 1, 2, 3], 0..=4);
    let wish = (queues, prop::option::weighted(0.7, some))
        .prop_map(|(queues, actions)| Wish { queues, actions });
    let step = prop_oneof![
        5 => (lane(), 0..4_u128).prop_map(|(lane, id)| Step::Offer { lane, id }),
        1 => lane().prop_map(|lane| Step::Own { lane }),
        7 => (process(), wish, prop::bool::weighted(0.8)).prop_map(
            |(process, wish, looks)| Step::Wait { process, wish, looks }
        ),
        4 => process().prop_map(|process| Step::Look { process }),
        1 => process().prop_map(|process| Step::Fail { process }),
        2 => Just(Step::Round),
    ];
    prop::collection::vec(step, 1..80)
}

/// What the model knows of a process.
#[derive(Clone, Debug)]
enum Process {
    Idle,
    /// Waits, and whether it has looked since it joined.
    Waiting {
        wish: Wish,
        looked: bool,
    },
    Woken {
        wish: Wish,
    },
}

struct World {
    memory: Memory,
    /// Whether a process that finds a task owns it at once.
    prompt: bool,
    processes: Vec<Process>,
    /// The waiting processes, in the order in which they joined.
    wait_list: Vec<u32>,
    ready: BTreeMap<Lane, Vec<u128>>,
    now: i64,
    /// How often a process was woken for an action that it does not want.
    false_wakes: u64,
    passed_on: u64,
}

fn filter(wish: &Wish) -> ActionFilter {
    let all = actions();
    let names: Option<Vec<&[u8]>> =
        wish.actions.as_ref().map(|some| some.iter().map(|it| &all[*it][..]).collect());
    ActionFilter::new(names.as_deref())
}

fn seems_to_want(wish: &Wish, (queue, action): Lane) -> bool {
    wish.queues.contains(&queue) && filter(wish).admits(&actions()[action])
}

fn wants(wish: &Wish, (queue, action): Lane) -> bool {
    wish.queues.contains(&queue) && wish.actions.as_ref().is_none_or(|some| some.contains(&action))
}

impl World {
    fn new(prompt: bool) -> World {
        let sizes = Sizes {
            slots: 64,
            slot_buckets: 8,
            lanes: 16,
            lane_buckets: 4,
            queues: 16 + 256 + 2,
            queue_buckets: 4,
            waiters: PROCESSES as usize,
            wait_lists: 2,
            counted: 1,
            transactions: 1,
        };
        let mut memory = Memory::new(sizes);
        let mut board = memory.board();
        assert_eq!(board.register(1, 1), Some(0));
        board.entry_mut(0).build_state = BuildState::Built;
        World {
            memory,
            prompt,
            processes: vec![Process::Idle; PROCESSES as usize],
            wait_list: Vec::new(),
            ready: BTreeMap::new(),
            now: 0,
            false_wakes: 0,
            passed_on: 0,
        }
    }

    /// Runs an operation under one lock, and then the scheduler's part. Returns the processes that
    /// were woken, in order.
    fn hold<T>(&mut self, operation: impl FnOnce(&mut Board) -> T) -> (T, Vec<u32>) {
        let answer = operation(&mut self.memory.board());
        while self.memory.board().go_on_waking(0) {}
        let mut board = self.memory.board();
        let woken: Vec<u32> = std::iter::from_fn(|| board.next_signalled()).collect();
        board.audit();
        for process in &woken {
            let Process::Waiting { wish, .. } = &self.processes[*process as usize] else {
                panic!("process {process} was woken and does not wait")
            };
            let seems = self.lanes().any(|lane| seems_to_want(wish, lane));
            assert!(seems, "process {process} was woken without a task: {wish:?}");
            let is_false = !self.lanes().any(|lane| wants(wish, lane));
            self.processes[*process as usize] = Process::Woken { wish: wish.clone() };
            self.wait_list.retain(|it| it != process);
            self.false_wakes += u64::from(is_false);
        }
        let count = |is: fn(&Process) -> bool| self.processes.iter().filter(|it| is(it)).count();
        let waiting = count(|it| matches!(it, Process::Waiting { .. }));
        let awake = count(|it| matches!(it, Process::Woken { .. }));
        assert_eq!(self.memory.board().waiting(), (waiting as u32, awake as u32));
        assert_eq!(self.wait_list.len(), waiting);
        (answer, woken)
    }

    /// The lanes that have a task.
    fn lanes(&self) -> impl Iterator<Item = Lane> {
        self.ready.iter().filter(|(_, tasks)| !tasks.is_empty()).map(|(lane, _)| *lane)
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Offer { lane, id } => self.offer(*lane, *id),
            Step::Own { lane } => self.own(*lane),
            Step::Wait { process, wish, looks } => {
                self.wait(*process, wish);
                if *looks {
                    self.look(*process);
                }
            }
            Step::Look { process } => self.look(*process),
            Step::Fail { process } => {
                self.leave(*process);
                let woken = self.hold(|board| board.end_wait(*process, None)).1;
                self.passed_on += woken.len() as u64;
            }
            Step::Round if !self.prompt => self.round(),
            Step::Round => {}
        }
    }

    fn offer(&mut self, lane: Lane, id: u128) {
        let tasks = self.ready.entry(lane).or_default();
        let known = tasks.contains(&id);
        if !known {
            tasks.push(id);
            tasks.sort_unstable();
        }
        let first =
            self.wait_list.iter().find(|process| match &self.processes[**process as usize] {
                Process::Waiting { wish, .. } => seems_to_want(wish, lane),
                _ => false,
            });
        let first = first.copied().filter(|_| !known);
        let rank = rank(id * 100 + (lane.0 * 4 + lane.1) as u128);
        let name = LaneName { queue: QUEUES[lane.0], action: &actions()[lane.1], group: None };
        let woken = self.hold(|board| board.offer(0, name, rank, NONE)).1;
        assert_eq!(woken.first().copied(), first, "the one that has waited longest is woken");
    }

    fn own(&mut self, lane: Lane) {
        let (queue, action) = (QUEUES[lane.0], actions()[lane.1].as_slice());
        let owned = self.hold(|board| match board.next_task(0, queue, Some(&[action])) {
            Next::Task(at) => {
                let claimed = board.reserve(at, &claim(NOW.monotonic.0, None), token_hash(1));
                board.remove_task(0, claimed.id);
                Some(claimed.id)
            }
            Next::Empty => None,
            next => panic!("neither a task nor empty: {next:?}"),
        });
        let tasks = self.ready.entry(lane).or_default();
        let expected = (!tasks.is_empty()).then(|| tasks.remove(0));
        assert_eq!(owned.0.map(|id| id / 100), expected);
    }

    fn join(&mut self, process: u32, wish: &Wish) {
        let queues: Vec<&[u8]> = wish.queues.iter().map(|it| QUEUES[*it]).collect();
        let wait = WaitFor::Work { queues: &queues, filter: filter(wish) };
        self.memory.board().wait_for(0, process, wait);
    }

    fn wait(&mut self, process: u32, wish: &Wish) {
        self.join(process, wish);
        // The board knows the actions only by their filter.
        let keeps = match &self.processes[process as usize] {
            Process::Waiting { wish: before, .. } => {
                before.queues == wish.queues && filter(before) == filter(wish)
            }
            _ => false,
        };
        if !keeps {
            self.wait_list.retain(|it| *it != process);
            self.wait_list.push(process);
        }
        self.processes[process as usize] = Process::Waiting { wish: wish.clone(), looked: false };
        self.hold(|_| ());
    }

    fn leave(&mut self, process: u32) {
        self.processes[process as usize] = Process::Idle;
        self.wait_list.retain(|it| *it != process);
    }

    /// Joins the queues, then looks into one after the other.
    fn look(&mut self, process: u32) {
        let wish = match &self.processes[process as usize] {
            Process::Idle => return,
            Process::Waiting { wish, .. } | Process::Woken { wish } => wish.clone(),
        };
        self.wait(process, &wish);
        let found = wish.queues.iter().find_map(|queue| {
            let of_queue = self.lanes().filter(|lane| lane.0 == *queue && wants(&wish, *lane));
            of_queue.min_by_key(|lane| (self.ready[lane][0], lane.1))
        });
        let woken = match found {
            None => {
                self.processes[process as usize] = Process::Waiting { wish, looked: true };
                self.hold(|board| board.found_nothing(process)).1
            }
            Some(lane) => {
                self.leave(process);
                let action = actions()[lane.1].as_slice();
                let woken = self.hold(|board| {
                    let next = board.next_task(0, QUEUES[lane.0], Some(&[action]));
                    let Next::Task(at) = next else { panic!("no task: {next:?}") };
                    let found = board.lane_of(at);
                    board.end_wait(process, Some(found));
                });
                if self.prompt {
                    self.own(lane);
                }
                woken.1
            }
        };
        self.passed_on += woken.len() as u64;
    }

    fn round(&mut self) {
        self.now += 10;
        let now = self.now;
        self.hold(|board| {
            if let Some(round) = board.begin_round(0, Monotonic(now), Micros(10)) {
                (0..round.lanes).for_each(|_| board.wake_in_round(0));
                while board.next_queue_to_announce(0).is_some() {}
            }
        });
    }

    /// Each process that was woken, or has joined and not looked yet, looks, and owns each task
    /// that it finds.
    fn drain(&mut self) {
        let lazy = !std::mem::replace(&mut self.prompt, true);
        for pass in 0.. {
            assert!(pass < 100, "the board comes to rest");
            let eager = (0..PROCESSES).find(|process| match &self.processes[*process as usize] {
                Process::Woken { .. } => true,
                Process::Waiting { looked, .. } => !looked,
                Process::Idle => false,
            });
            match eager {
                Some(process) => self.look(process),
                None if lazy && self.memory.board().next_round(0) != Monotonic::NEVER => {
                    self.round();
                }
                None => break,
            }
        }
        for process in &self.wait_list {
            let Process::Waiting { wish, .. } = &self.processes[*process as usize] else {
                continue;
            };
            let left = self.lanes().find(|lane| wants(wish, *lane));
            assert_eq!(left, None, "process {process} waits beside a task");
        }
    }
}

fn run(prompt: bool) {
    let cases = if cfg!(debug_assertions) { 500 } else { 3_000 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let counts = std::cell::Cell::new([0, 0]);
    let played = TestRunner::new(config).run(&steps(), |steps| {
        let mut world = World::new(prompt);
        steps.iter().for_each(|step| world.apply(step));
        world.drain();
        let [false_wakes, passed_on] = counts.get();
        counts.set([false_wakes + world.false_wakes, passed_on + world.passed_on]);
        Ok(())
    });
    if let Err(error) = played {
        panic!("{error}");
    }
    println!("{:?}", counts.get());
    assert!(counts.get().iter().all(|count| *count >= u64::from(cases) / 100), "{counts:?}");
}

/// If each process owns the tasks it finds, wake-ups alone suffice: no round is needed.
#[test]
fn no_process_waits_beside_a_task_when_all_own_what_they_find() {
    run(true);
}

/// If processes do not own the tasks they find, rounds wake the others, and come to an end.
#[test]
fn no_process_waits_beside_a_task_that_others_leave() {
    run(false);
}

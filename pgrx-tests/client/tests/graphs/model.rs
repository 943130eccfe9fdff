//! Random graphs with random ends, from eight connections, compared with a naive model.

use client::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const GRAPHS: usize = 1_000;
const SESSIONS: usize = 8;

/// The way in which the owner of a task ends it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Complete,
    Abort,
    /// Retried this many times, then completed.
    Retry(i32),
    /// Retried until no try is left.
    Exhaust,
    /// Never returned: its only lease expires.
    Expire,
    Cancel,
}

struct Task {
    id: Uuid,
    after: Vec<usize>,
    run: bool,
    fate: Fate,
    /// Cancelled by another session, or replaced.
    cancelled: bool,
    deleted: bool,
    keyed: bool,
}

#[derive(Default)]
struct Graph(Vec<Task>);

#[derive(Clone, PartialEq, Debug)]
enum End {
    Completed,
    Aborted,
    Cancelled,
    Deleted,
}

impl Graph {
    /// How each task ends, and with how many failed predecessors it ran, if it ran. Repeats until
    /// no further end follows.
    fn ends(&self) -> Vec<(End, Option<i32>)> {
        let mut ends: Vec<Option<(End, Option<i32>)>> = vec![None; self.0.len()];
        while ends.contains(&None) {
            let told = ends.iter().flatten().count();
            for at in 0..ends.len() {
                ends[at] = ends[at].clone().or_else(|| self.end(&self.0[at], &ends));
            }
            assert!(ends.iter().flatten().count() > told, "a cycle was accepted");
        }
        ends.into_iter().flatten().collect()
    }

    fn end(&self, task: &Task, ends: &[Option<(End, Option<i32>)>]) -> Option<(End, Option<i32>)> {
        let has_failed =
            |at: &&usize| matches!(ends[**at], Some((End::Aborted | End::Cancelled, _)));
        let failed = task.after.iter().filter(has_failed).count() as i32;
        if task.deleted {
            Some((End::Deleted, None))
        } else if task.cancelled {
            Some((End::Cancelled, None))
        } else if failed > 0 && !task.run {
            Some((End::Aborted, None))
        } else if task.after.iter().any(|at| ends[*at].is_none()) {
            None
        } else {
            let end = match task.fate {
                Fate::Complete | Fate::Retry(_) => End::Completed,
                Fate::Abort | Fate::Exhaust | Fate::Expire => End::Aborted,
                Fate::Cancel => End::Cancelled,
            };
            Some((end, Some(failed)))
        }
    }

    /// Deletes tasks of a graph that has not begun; returns how many are deleted.
    fn delete(&mut self, at: usize) -> i32 {
        self.0[at].deleted = true;
        let mut gone = 1;
        loop {
            let orphan = (0..self.0.len()).find(|n| {
                let task = &self.0[*n];
                let is_gone = |after: &usize| self.0[*after].deleted;
                !task.deleted && !task.after.is_empty() && task.after.iter().all(is_gone)
            });
            let Some(orphan) = orphan else { return gone };
            self.0[orphan].deleted = true;
            gone += 1;
        }
    }
}

/// State that all sessions share.
struct World {
    graphs: Vec<Mutex<Graph>>,
    places: Mutex<HashMap<Uuid, (usize, usize)>>,
    /// Graphs that no client changes any more.
    left_alone: AtomicUsize,
    counts: Mutex<HashMap<&'static str, usize>>,
}

impl World {
    fn note(&self, what: &'static str) {
        *self.counts.lock().unwrap().entry(what).or_default() += 1;
    }

    fn add(&self, graph: usize, task: Task) -> usize {
        let mut it = self.graphs[graph].lock().unwrap();
        let at = it.0.len();
        self.places.lock().unwrap().insert(task.id, (graph, at));
        it.0.push(task);
        at
    }
}

struct Player<'w> {
    s: Session,
    random: StdRng,
    world: &'w World,
}

impl Player<'_> {
    fn chance(&mut self, share: f64) -> bool {
        self.random.random_bool(share)
    }

    fn task(&mut self, others: usize, keyed: bool) -> Task {
        let fate = match self.random.random_range(0..20) {
            0..2 => Fate::Abort,
            2 => Fate::Exhaust,
            3 => Fate::Expire,
            4 if !keyed => Fate::Cancel,
            5..7 => Fate::Retry(self.random.random_range(1..3)),
            _ => Fate::Complete,
        };
        let mut after: Vec<usize> = (0..others).filter(|_| self.random.random_bool(0.3)).collect();
        after.truncate(4);
        let run = self.chance(0.4);
        Task { id: Uuid::new_v4(), after, run, fate, cancelled: false, deleted: false, keyed }
    }

    /// The arguments of submit.
    fn arguments(&self, graph: usize, task: &Task) -> Value {
        let it = self.world.graphs[graph].lock().unwrap();
        let after: Vec<Uuid> = task.after.iter().map(|at| it.0[*at].id).collect();
        let mut arguments = json!({
            "queue": "q", "id": task.id, "after": after,
            "on_failure": if task.run { "run" } else { "abort" }
        });
        match task.fate {
            Fate::Exhaust => arguments["max_tries"] = json!(2),
            Fate::Expire => arguments["max_tries"] = json!(1),
            _ => {}
        }
        if task.keyed {
            arguments["key"] = json!(format!("{graph}"));
            arguments["on_conflict"] = json!("replace");
        }
        arguments
    }

    /// Submits a graph in one batch, in any order, and sometimes deletes tasks of it at once.
    fn plant(&mut self, graph: usize) {
        let mut batch = Vec::new();
        for n in 0..self.random.random_range(3..10) {
            let task = self.task(n, n == 2);
            batch.push(self.arguments(graph, &task));
            self.world.add(graph, task);
        }
        let turn = self.random.random_range(0..batch.len());
        batch.rotate_left(turn);
        let deletes = self.chance(0.2);
        if deletes {
            self.s.run("begin");
        }
        self.s.execute("select * from scylla.submit_tasks($1)", &[&json!(batch)]).unwrap();
        if deletes {
            let at = self.random.random_range(0..batch.len());
            let (id, gone) = {
                let mut it = self.world.graphs[graph].lock().unwrap();
                (it.0[at].id, it.delete(at))
            };
            assert_eq!(self.s.delete(&[id]), gone);
            self.world.note("deleted");
            self.s.run("commit");
        }
    }

    fn pick(&mut self, graph: usize) -> (usize, Uuid, bool) {
        let it = self.world.graphs[graph].lock().unwrap();
        let at = self.random.random_range(0..it.0.len());
        (at, it.0[at].id, it.0[at].keyed)
    }

    /// Does one random operation on a graph while other sessions work on it.
    fn meddle(&mut self, graph: usize) {
        let rolls_back = self.chance(0.3);
        if rolls_back {
            self.s.run("begin");
        }
        let (one, other) = (self.pick(graph), self.pick(graph));
        match self.random.random_range(0..10) {
            0..2 if rolls_back => drop(self.s.delete(&[one.1])),
            0..4 if !one.2 || rolls_back => {
                let answer: Result<bool, _> =
                    self.s.try_value("select scylla.cancel($1)", &[&one.1]);
                match answer.map_err(|error| code(&error)) {
                    Ok(true) if !rolls_back => {
                        self.world.graphs[graph].lock().unwrap().0[one.0].cancelled = true;
                        self.world.note("cancelled");
                    }
                    Ok(_) => {}
                    Err(state) => assert_eq!(state, "P0002"),
                }
            }
            0..6 => self.replace(graph, rolls_back),
            _ => match self.s.link(one.1, other.1).map_err(|error| code(&error)) {
                Ok(_) if !rolls_back => {
                    let after = &mut self.world.graphs[graph].lock().unwrap().0[other.0].after;
                    if !after.contains(&one.0) {
                        after.push(one.0);
                        self.world.note("linked");
                    }
                }
                Ok(_) => {}
                Err(state) => {
                    assert!(["22023", "55000", "P0002"].contains(&state.as_str()), "{state}");
                    self.world.note(if state == "22023" { "cycles" } else { "too late" });
                }
            },
        }
        if rolls_back {
            self.s.run("rollback");
            self.world.note("rolled back");
        }
    }

    /// Submits one more task under the key of the graph.
    fn replace(&mut self, graph: usize, rolls_back: bool) {
        let others = self.world.graphs[graph].lock().unwrap().0.len();
        let task = self.task(others, true);
        let (arguments, id) = (self.arguments(graph, &task), task.id);
        let bearers: Vec<(usize, Uuid)> = {
            let it = self.world.graphs[graph].lock().unwrap();
            it.0.iter().enumerate().filter(|it| it.1.keyed).map(|(at, it)| (at, it.id)).collect()
        };
        let known = !rolls_back;
        if known {
            self.world.places.lock().unwrap().insert(id, (graph, others));
            self.world.graphs[graph].lock().unwrap().0.push(task);
        }
        let sql = "select outcome from scylla.submit_tasks($1, false)";
        let outcome: String = self.s.value(sql, &[&json!([arguments])]);
        if !known {
            return;
        }
        if outcome == "inserted" {
            for (at, bearer) in bearers {
                let look = "select coalesce((select status from scylla.tasks where id = $1), '')";
                if self.s.value::<String>(look, &[&bearer]) == "cancelled" {
                    self.world.graphs[graph].lock().unwrap().0[at].cancelled = true;
                }
            }
            self.world.note("replaced");
        } else {
            self.world.graphs[graph].lock().unwrap().0[others].deleted = true;
            self.world.note("not replaced");
        }
    }

    /// Owns some tasks and ends each as its fate says. False when no task was ready.
    fn work(&mut self) -> bool {
        let in_block = self.chance(0.2);
        if in_block {
            self.s.run("begin");
        }
        let most = self.random.random_range(1..5);
        let leases = self.s.own_with("w", "q", most, "timeout => '10 minutes'");
        if in_block && self.chance(0.5) {
            self.s.run("rollback");
            return true;
        }
        if in_block {
            self.s.run("commit");
        }
        for lease in &leases {
            let (fate, after) = {
                let (graph, at) = self.world.places.lock().unwrap()[&lease.id];
                let it = self.world.graphs[graph].lock().unwrap();
                let after: Vec<Uuid> = it.0[at].after.iter().map(|at| it.0[*at].id).collect();
                (it.0[at].fate, after)
            };
            if !after.is_empty() {
                let live = "select count(*) from scylla.task where id = any ($1)";
                assert_eq!(self.s.value::<i64>(live, &[&after]), 0, "{} came early", lease.id);
            }
            if self.chance(0.1) {
                self.s.run("begin");
                self.finish(lease, fate);
                self.s.run("rollback");
            }
            self.finish(lease, fate);
        }
        !leases.is_empty()
    }

    fn finish(&mut self, lease: &Lease, fate: Fate) {
        let outcome = match fate {
            Fate::Complete => "completed",
            Fate::Abort => "aborted",
            Fate::Retry(times) if lease.tries > times => "completed",
            Fate::Retry(_) | Fate::Exhaust => "retry",
            Fate::Expire => {
                self.s.extend_with(lease, "timeout => '1 ms'");
                return;
            }
            Fate::Cancel => {
                self.s.execute("select scylla.cancel($1)", &[&lease.id]).unwrap();
                return;
            }
        };
        if let Err(error) = self.s.return_task(lease, outcome) {
            assert_eq!(code(&error), "55000", "only if another client has cancelled it: {error:?}");
            self.world.note("worked for nothing");
        }
    }
}

#[test]
fn random_graphs_end_as_a_naive_model_says() {
    let seed: u64 = std::env::var("SCYLLA_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    println!("SCYLLA_SEED={seed}");
    let database = database();
    let world = World {
        graphs: (0..GRAPHS).map(|_| Mutex::default()).collect(),
        places: Mutex::default(),
        left_alone: AtomicUsize::new(0),
        counts: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for n in 0..SESSIONS {
            let (s, world) = (database.connect(), &world);
            let random = StdRng::seed_from_u64(seed.wrapping_add(n as u64));
            scope.spawn(move || {
                let mut player = Player { s, random, world };
                for graph in (n..GRAPHS).step_by(SESSIONS) {
                    player.plant(graph);
                    for _ in 0..4 {
                        if player.chance(0.5) {
                            player.meddle(graph);
                        } else {
                            player.work();
                        }
                    }
                    world.left_alone.fetch_add(1, Ordering::SeqCst);
                }
                let live = "select count(*) from scylla.task";
                eventually(seconds(60), "all have ended", || {
                    while player.work() {}
                    let done = world.left_alone.load(Ordering::SeqCst) == GRAPHS;
                    (done && player.s.count(live) == 0).then_some(())
                });
            });
        }
    });
    let mut s = database.connect();
    let rows = s.query("select id, status, num_failures from scylla.tasks", &[]).unwrap();
    let ended: HashMap<Uuid, (String, i32)> =
        rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect();
    let mut total = 0;
    for (n, graph) in world.graphs.iter().enumerate() {
        let graph = graph.lock().unwrap();
        for (at, (task, (end, failures))) in graph.0.iter().zip(graph.ends()).enumerate() {
            let said = format!("{end:?}").to_lowercase();
            let (status, num_failures) =
                ended.get(&task.id).cloned().unwrap_or_else(|| ("deleted".into(), 0));
            let what = format!("graph {n}, task {at} ({:?}, after {:?})", task.fate, task.after);
            assert_eq!(status, said, "{what}");
            if let Some(failures) = failures {
                assert_eq!(num_failures, failures, "{what}");
            }
            total += usize::from(end != End::Deleted);
        }
    }
    assert_eq!(ended.len(), total);
    assert_eq!(s.count("select count(*) from scylla.countdown"), 0);
    let counts = world.counts.into_inner().unwrap();
    println!("{counts:?}");
    for what in ["deleted", "cancelled", "replaced", "linked", "cycles", "rolled back"] {
        assert!(counts.get(what).is_some_and(|n| *n > 20), "{what}: {counts:?}");
    }
}

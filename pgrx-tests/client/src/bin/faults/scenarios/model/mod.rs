//! Random calls over real connections, each compared with what a naive model says: B51, B74, I3.

mod naive;

use crate::run::Run;
use client::*;
use naive::{Draft, Model, OnConflict, Status, Task};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const CALLS: usize = 50;
const THREADS: usize = 4;
const SESSIONS: usize = 3;
/// A plain queue, one of groups, and one in which two tasks run at a time.
const QUEUES: usize = 3;
const GROUPED: usize = 1;
const LIMITED: usize = 2;

pub fn compare(run: &mut Run) -> String {
    let server = Server::start(&["fsync = off"]);
    let database = server.database();
    let (next, calls) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures: Mutex<Vec<String>> = Mutex::default();
    let (seed, times) = (run.seed, run.times);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let sessions: Vec<Session> = (0..SESSIONS).map(|_| database.connect()).collect();
                let mut player = Player::new(sessions);
                loop {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    if n >= times || !failures.lock().unwrap().is_empty() {
                        break;
                    }
                    player.begin(n, seed);
                    for call in 0..CALLS {
                        calls.fetch_add(1, Ordering::SeqCst);
                        if let Err(why) = player.step() {
                            let why = format!("sequence {n}, call {call}: {why}");
                            failures.lock().unwrap().push(why);
                            break;
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures[0]);
    (0..times).for_each(|_| run.made_one());
    database.connect().counts_agree(seconds(30));
    server.assert_log_is_clean();
    format!("{} calls as the model says", calls.load(Ordering::SeqCst))
}

/// One sequence of calls, in queues of its own.
struct Player {
    sessions: Vec<Session>,
    random: StdRng,
    n: usize,
    model: Model,
    /// Leases that were taken, also those that ended by a call.
    leases: Vec<(Uuid, Uuid)>,
}

/// An answer in words, that of the server and that of the model.
type Answers = (String, String);

fn said<T: std::fmt::Debug>(answer: Result<T, postgres::Error>) -> String {
    match answer {
        Ok(value) => format!("{value:?}").to_lowercase(),
        Err(error) => code(&error),
    }
}

fn meant<T: std::fmt::Debug>(answer: Result<T, &'static str>) -> String {
    match answer {
        Ok(value) => format!("{value:?}").to_lowercase(),
        Err(code) => code.to_owned(),
    }
}

impl Player {
    fn new(sessions: Vec<Session>) -> Player {
        let (model, leases) = Default::default();
        Player { sessions, random: StdRng::seed_from_u64(0), n: 0, model, leases }
    }

    fn begin(&mut self, n: usize, seed: u64) {
        self.random = StdRng::seed_from_u64(seed ^ (n as u64) << 32);
        self.n = n;
        self.model = Model { limits: vec![(LIMITED, 2)], ..Model::default() };
        self.leases.clear();
        let queue = self.queue(LIMITED);
        let limit = format!("select scylla.configure_queue('{queue}', max_running => 2)");
        self.sessions[0].run(&limit);
    }

    fn queue(&self, at: usize) -> String {
        format!("model {} {at}", self.n)
    }

    fn worker(&mut self) -> String {
        format!("worker {} {}", self.n, self.random.random_range(0..3))
    }

    fn session(&mut self) -> &mut Session {
        let at = self.random.random_range(0..self.sessions.len());
        &mut self.sessions[at]
    }

    /// A task of the sequence, or one that does not exist.
    fn any(&mut self) -> Uuid {
        let count = self.model.tasks.len();
        match self.random.random_range(0..=count) {
            at if at < count => self.model.tasks[at].id,
            _ => Uuid::from_u128(self.random.random()),
        }
    }

    fn chance(&mut self, share: f64) -> bool {
        self.random.random_bool(share)
    }

    /// Makes one call; an error when the server and the model differ.
    fn step(&mut self) -> Result<(), String> {
        let dice = self.random.random_range(0..100);
        let (what, (server, model)) = match dice {
            0..20 => ("submit", self.submit()),
            20..40 => ("own_tasks", self.own()),
            40..60 => ("return_task", self.return_task()),
            60..66 => ("extend", self.extend()),
            66..69 => ("a lease that expires", self.expire()),
            69..74 => ("cancel", self.cancel()),
            74..79 => ("delay", self.delay()),
            79..85 => ("add_dependencies", self.link()),
            85..88 => ("delete_tasks", self.delete()),
            88..91 => ("resubmit", self.resubmit()),
            91..93 => ("release_worker", self.release_worker()),
            93..95 => ("cancel_group", self.cancel_group()),
            95..97 => ("pause", self.pause()),
            _ => ("a rollback", self.roll_back()),
        };
        if server != model {
            let rows = self.difference().unwrap_or_default();
            return Err(format!("{what}: the server said {server}, the model {model}; {rows}"));
        }
        // A dependent whose row the scheduler has locked is counted down a moment later.
        let ends = Instant::now() + patience(seconds(5));
        while let Some(why) = self.difference() {
            if Instant::now() > ends {
                return Err(format!("{what}: {why}"));
            }
            sleep(milliseconds(5));
        }
        Ok(())
    }

    fn draft(&mut self) -> Draft {
        let queue = self.random.random_range(0..QUEUES);
        let keyed = self.chance(0.3);
        let mut after = Vec::new();
        while !keyed && after.len() < 3 && self.chance(0.35) {
            let id = self.any();
            if !after.contains(&id) {
                after.push(id);
            }
        }
        let on_conflict = [OnConflict::Error, OnConflict::Ignore, OnConflict::Replace]
            [self.random.random_range(0..3)];
        let groups = ["a", "b", "c"];
        let group = (queue == GROUPED && self.chance(0.8))
            .then(|| groups[self.random.random_range(0..3)].to_owned());
        let task = Task {
            // sometimes one that is taken
            id: if self.chance(0.05) { self.any() } else { Uuid::from_u128(self.random.random()) },
            queue,
            priority: self.random.random_range(0..3),
            key: keyed.then(|| format!("k{}", self.random.random_range(0..3))),
            group,
            after,
            named: Vec::new(),
            runs_after_failure: self.chance(0.5),
            max_tries: [0, 0, 1, 2][self.random.random_range(0..4)],
            is_delayed: self.chance(0.15),
            status: Status::Waiting,
            worker: None,
            token: None,
            tries: 0,
            failures: 0,
            errors: Vec::new(),
            history: Vec::new(),
        };
        let mut draft = Draft { task, on_conflict };
        draft.task.after.retain(|it| *it != draft.task.id);
        draft
    }

    fn submit(&mut self) -> Answers {
        let draft = self.draft();
        let answer = self.call_submit(&draft);
        (said(answer), meant(self.model.submit(draft)))
    }

    fn call_submit(&mut self, draft: &Draft) -> Result<Uuid, postgres::Error> {
        let Draft { task, on_conflict } = draft;
        let sql = "select scylla.submit($1, id => $2, priority => $3, key => $4, group_key => $5,
                       after => $6, on_failure => $7, max_tries => $8, on_conflict => $9,
                       run_at => case when $10 then now() + '1 hour' end, timeout => '1 hour')";
        let queue = self.queue(task.queue);
        let on_failure = if task.runs_after_failure { "run" } else { "abort" };
        let on_conflict = format!("{on_conflict:?}").to_lowercase();
        let (after, max_tries) = (task.after.clone(), task.max_tries);
        self.session().try_value(
            sql,
            &[
                &queue,
                &task.id,
                &task.priority,
                &task.key,
                &task.group,
                &after,
                &on_failure,
                &max_tries,
                &on_conflict,
                &task.is_delayed,
            ],
        )
    }

    fn own(&mut self) -> Answers {
        let (at, most) = (self.random.random_range(0..QUEUES), self.random.random_range(1..4));
        let (queue, worker) = (self.queue(at), self.worker());
        let leases = self.session().own(&worker, &queue, most);
        let expected = self.model.available(at, most as usize);
        let ids: Vec<Uuid> = leases.iter().map(|lease| lease.id).collect();
        let mut answers = (format!("{ids:?}"), String::new());
        if at == GROUPED {
            // The groups take turns, so that the number is known, and the first of each group.
            answers = (ids.len().to_string(), expected.to_string());
            for (nth, id) in ids.iter().enumerate() {
                let left: Vec<&Task> = self
                    .model
                    .ready(at)
                    .into_iter()
                    .filter(|it| !ids[..nth].contains(&it.id))
                    .collect();
                let task = left.iter().find(|it| it.id == *id);
                let Some(task) = task else { return (format!("{id}"), "not that one".into()) };
                let first = left.iter().find(|it| it.group == task.group).expect("itself");
                if first.id != *id || task.priority != left[0].priority {
                    answers = (format!("{id}"), format!("{} first", first.id));
                }
            }
        } else {
            let wanted: Vec<Uuid> =
                self.model.ready(at).iter().take(expected).map(|task| task.id).collect();
            answers.1 = format!("{wanted:?}");
        }
        if answers.0 == answers.1 {
            for lease in leases {
                self.model.own(lease.id, lease.token, &worker);
                self.leases.push((lease.id, lease.token));
            }
        }
        answers
    }

    fn lease(&mut self) -> (Uuid, Uuid) {
        match self.leases.len() {
            0 => (self.any(), Uuid::new_v4()),
            // those of late are valid more often
            count => self.leases[self.random.random_range(count.saturating_sub(6)..count)],
        }
    }

    fn return_task(&mut self) -> Answers {
        let (id, token) = self.lease();
        let outcome =
            ["completed", "completed", "aborted", "retry", "yield"][self.random.random_range(0..5)];
        let pause = outcome == "retry" && self.chance(0.3);
        let error = (outcome == "aborted").then(an_error);
        let sql = "select scylla.return_task($1, $2, $3, error => $4,
                       run_at => case when $5 then now() + '1 hour' end)";
        let answer: Result<String, _> =
            self.session().try_value(sql, &[&id, &token, &outcome, &error, &pause]);
        // a string prints its quotes
        let model = self.model.return_task(id, token, outcome, pause);
        (said(answer).replace('"', ""), meant(model))
    }

    fn extend(&mut self) -> Answers {
        let (id, token) = self.lease();
        let sql = "select scylla.extend($1, $2)";
        let answer: Result<bool, _> = self.session().try_value(sql, &[&id, &token]);
        (said(answer), meant(Ok(self.model.extend(id, token))))
    }

    fn expire(&mut self) -> Answers {
        let (id, token) = self.lease();
        let is_valid = self.model.extend(id, token);
        let sql = "select scylla.extend($1, $2, '1 us')";
        let answer: bool = self.session().value(sql, &[&id, &token]);
        if is_valid && answer {
            let look = "select count(*) from scylla.tasks where id = $1 and status <> 'running'
                        and history -> -1 ->> '_typ' = 'TaskTimeout'";
            eventually(seconds(30), "the lease expires", || {
                (self.session().value::<i64>(look, &[&id]) == 1).then_some(())
            });
            self.model.expire(id);
            // A late worker could go on.
            self.leases.retain(|lease| lease.1 != token);
        }
        (format!("{answer}"), format!("{is_valid}"))
    }

    fn cancel(&mut self) -> Answers {
        let id = self.any();
        let answer: Result<bool, _> = self.session().try_value("select scylla.cancel($1)", &[&id]);
        (said(answer), meant(self.model.cancel(id)))
    }

    fn delay(&mut self) -> Answers {
        let (id, far) = (self.any(), self.chance(0.5));
        let sql =
            "select scylla.delay($1, now() + case when $2 then interval '1 hour' else '-1 s' end)";
        let answer: Result<bool, _> = self.session().try_value(sql, &[&id, &far]);
        (said(answer), meant(self.model.delay(id, far)))
    }

    fn link(&mut self) -> Answers {
        let (after, run) = (self.any(), self.any());
        let answer = self.session().link(after, run);
        (said(answer), meant(self.model.link(after, run)))
    }

    fn delete(&mut self) -> Answers {
        let ids = [self.any(), self.any()];
        let answer = self.session().delete(&ids);
        (format!("{answer}"), format!("{}", self.model.delete(&ids)))
    }

    fn resubmit(&mut self) -> Answers {
        let id = self.any();
        let answer: Vec<Option<Uuid>> =
            self.session().value("select scylla.resubmit($1)", &[&vec![id]]);
        (format!("{}", answer[0].is_some()), format!("{}", self.model.resubmit(id, answer[0])))
    }

    fn release_worker(&mut self) -> Answers {
        let worker = self.worker();
        let answer: i32 = self.session().value("select scylla.release_worker($1)", &[&worker]);
        let released: Vec<Uuid> = (self.model.tasks.iter())
            .filter(|it| it.worker.as_ref() == Some(&worker))
            .filter_map(|it| it.token)
            .collect();
        self.leases.retain(|lease| !released.contains(&lease.1));
        (format!("{answer}"), format!("{}", self.model.release_worker(&worker)))
    }

    fn cancel_group(&mut self) -> Answers {
        let queue = self.queue(GROUPED);
        let sql = "select scylla.cancel_group($1, 'a')";
        let answer: i64 = self.session().value(sql, &[&queue]);
        (format!("{answer}"), format!("{}", self.model.cancel_group(GROUPED, "a")))
    }

    fn pause(&mut self) -> Answers {
        let at = self.random.random_range(0..QUEUES);
        let queue = self.queue(at);
        let is_known = at == LIMITED || self.model.tasks.iter().any(|it| it.queue == at);
        if !is_known {
            return Answers::default();
        }
        let call = if self.model.paused.contains(&at) { "resume" } else { "pause" };
        self.session().run(&format!("select scylla.{call}('{queue}')"));
        match call {
            "pause" => self.model.paused.push(at),
            _ => self.model.paused.retain(|it| *it != at),
        }
        Answers::default()
    }

    /// Some calls in a transaction that is rolled back, whatever they answer: nothing of them is
    /// left.
    fn roll_back(&mut self) -> Answers {
        self.sessions[0].run("begin");
        for _ in 0..self.random.random_range(1..4) {
            self.sessions[0].run("savepoint before");
            let answer = self.one_that_rolls_back();
            if answer.is_err() || self.chance(0.3) {
                self.sessions[0].run("rollback to before");
            }
        }
        self.sessions[0].run("rollback");
        Answers::default()
    }

    fn one_that_rolls_back(&mut self) -> Result<(), postgres::Error> {
        let (id, other) = (self.any(), self.any());
        let (held, token) = self.lease();
        let draft = self.draft();
        let (at, worker) = (self.random.random_range(0..QUEUES), self.worker());
        let queue = self.queue(at);
        let dice = self.random.random_range(0..7);
        if dice == 0 {
            let Draft { task, .. } = draft;
            let sql = "select scylla.submit($1, id => $2, after => $3)";
            let queue = self.queue(task.queue);
            return self.sessions[0]
                .try_value::<Uuid>(sql, &[&queue, &task.id, &task.after])
                .map(drop);
        }
        let s = &mut self.sessions[0];
        match dice {
            1 => s.try_own(&worker, &queue, 2, "timeout => '1 hour'").map(drop),
            2 => s.try_value::<bool>("select scylla.cancel($1)", &[&id]).map(drop),
            3 => s.try_value::<i32>("select scylla.delete_tasks($1)", &[&vec![id]]).map(drop),
            4 => s.link(id, other).map(drop),
            5 => s.try_value::<bool>("select scylla.delay($1, now())", &[&id]).map(drop),
            _ => s
                .try_value::<String>("select scylla.return_task($1, $2)", &[&held, &token])
                .map(drop),
        }
    }

    /// How the tables differ from the model, if they do.
    fn difference(&mut self) -> Option<String> {
        let mut wanted: Vec<String> = self.model.tasks.iter().map(told).collect();
        wanted.sort();
        let sql = "select format('%s %s %s %s %s %s %s %s', id, status, tries, num_failures,
                       coalesce(key, '-'), coalesce(owner, '-'),
                       array(select e ->> 'code' from jsonb_array_elements(errors) e),
                       array(select h ->> '_typ' from jsonb_array_elements(history) h))
                   from scylla.tasks where queue = any ($1)";
        let queues: Vec<String> = (0..QUEUES).map(|at| self.queue(at)).collect();
        let rows = self.session().query(sql, &[&queues]).expect("the view");
        let mut found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        found.sort();
        if found == wanted {
            return None;
        }
        let only = |some: &[String], others: &[String]| -> Vec<String> {
            some.iter().filter(|it| !others.contains(it)).cloned().collect()
        };
        Some(format!("server {:?}, model {:?}", only(&found, &wanted), only(&wanted, &found)))
    }
}

/// A task as the query above tells of it.
fn told(task: &Task) -> String {
    let status = format!("{:?}", task.status).to_lowercase();
    format!(
        "{} {status} {} {} {} {} {{{}}} {{{}}}",
        task.id,
        task.tries,
        task.failures,
        task.key.as_deref().unwrap_or("-"),
        task.worker.as_deref().unwrap_or("-"),
        task.errors.join(","),
        task.history.join(",")
    )
}

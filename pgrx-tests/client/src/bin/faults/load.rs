//! One client under load: submits, owns, extends, returns, cancels and waits at random, one by one
//! and many at once. It reconnects after every lost connection and keeps its leases.

use crate::history::log::{Answer, Call, Place, Record};
use crate::queues::{QUEUES, TICKS};
use client::{Database, Lease, Session, Uuid, an_error, code, milliseconds, sleep};
use postgres::Error;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HELD: usize = 40;

/// Whether a call has no answer: the connection was lost, the statement was cancelled or waited
/// longer than it may, or there was no space on disk.
fn is_cut_off(error: &Error) -> bool {
    client::is_lost(error) || ["57014", "55P03", "53100"].contains(&code(error).as_str())
}

struct Held {
    lease: Lease,
    length: Duration,
    /// When the client may return it: some leases must live through crashes.
    until: Instant,
}

pub struct Load<'a> {
    client: usize,
    database: &'a Database,
    random: StdRng,
    records: Vec<Record>,
    held: Vec<Held>,
    /// Its own tasks, some of which it cancels.
    submitted: Vec<Uuid>,
    /// Errors that no crash explains.
    pub surprises: Vec<String>,
}

impl<'a> Load<'a> {
    pub fn new(client: usize, database: &'a Database, seed: u64) -> Load<'a> {
        let random = StdRng::seed_from_u64(seed + client as u64);
        let (records, held, submitted, surprises) = Default::default();
        Load { client, database, random, records, held, submitted, surprises }
    }

    /// Runs until told to stop. Returns the records of its calls and the unexpected errors.
    pub fn run(mut self, stop: &AtomicBool) -> (Vec<Record>, Vec<String>) {
        while !stop.load(Ordering::Relaxed) {
            let Some(mut s) = self.connect(stop) else { break };
            while !stop.load(Ordering::Relaxed) {
                match self.step(&mut s) {
                    Ok(()) => sleep(milliseconds(self.random.random_range(0..4))),
                    Err(error) if is_cut_off(&error) => break,
                    Err(error) => {
                        self.surprises.push(format!("client {}: {error:?}", self.client));
                        break;
                    }
                }
            }
        }
        let mut s = self.database.connect();
        while let Some(held) = self.held.pop() {
            if let Err(error) = self.return_task(&mut s, held, "completed") {
                self.surprises.push(format!("at the end: {error:?}"));
            }
        }
        (self.records, self.surprises)
    }

    fn connect(&mut self, stop: &AtomicBool) -> Option<Session> {
        while !stop.load(Ordering::Relaxed) {
            match self.database.try_connect() {
                Ok(s) => return Some(s),
                Err(_) => sleep(milliseconds(20)),
            }
        }
        None
    }

    fn step(&mut self, s: &mut Session) -> Result<(), Error> {
        let dice = self.random.random_range(0..100);
        match dice {
            0..18 => self.submit(s),
            18..22 => self.submit_batch(s),
            22..44 if self.held.len() < HELD => self.own(s),
            44..54 => self.extend(s),
            54..62 => self.beat(s),
            62..64 => self.wait(s),
            64..67 => self.cancel(s),
            67..68 => self.cancel_many(s),
            68..71 => self.own_and_roll_back(s),
            71..75 => self.own_and_complete_in_one_transaction(s),
            75..77 => complete_ticks(s),
            77..85 => self.return_many(s),
            _ => self.return_any(s),
        }
    }

    /// Classifies an error: a lost connection is returned to the caller, an error of the contract
    /// is an answer.
    fn answer<T>(result: Result<T, Error>, allowed: &[&str]) -> (Answer<T>, Option<Error>) {
        match result {
            Ok(value) => (Answer::Yes(value), None),
            Err(error) if is_cut_off(&error) => (Answer::Unknown, Some(error)),
            Err(error) if allowed.contains(&code(&error).as_str()) => {
                (Answer::Refused(code(&error)), None)
            }
            Err(error) => (Answer::Refused(code(&error)), Some(error)),
        }
    }

    fn remember(&mut self, began: Instant, call: Call) {
        self.records.push(Record { client: self.client, began, ended: Instant::now(), call });
    }

    fn place(&mut self) -> Place {
        let queue = &QUEUES[self.random.random_range(0..QUEUES.len())];
        Place { queue: queue.name, group: self.random.random_range(0..queue.groups) }
    }

    fn submit(&mut self, s: &mut Session) -> Result<(), Error> {
        let (id, place, priority) =
            (Uuid::new_v4(), self.place(), self.random.random_range(0..5_i64));
        let group = place.group.to_string();
        let max_tries = self.random.random_bool(0.1).then_some(2);
        let began = Instant::now();
        let sql =
            "select scylla.submit($1, id => $2, priority => $3, max_tries => $4, group_key => $5)";
        let call = s.try_value::<Uuid>(sql, &[&place.queue, &id, &priority, &max_tries, &group]);
        let (answer, error) = Self::answer(call, &[]);
        let answer = match answer {
            Answer::Yes(_) => Answer::Yes(()),
            Answer::Refused(code) => Answer::Refused(code),
            Answer::Unknown => Answer::Unknown,
        };
        self.remember(began, Call::Submit { id, place, answer });
        self.submitted.push(id);
        error.map_or(Ok(()), Err)
    }

    fn submit_batch(&mut self, s: &mut Session) -> Result<(), Error> {
        let ids: Vec<Uuid> = (0..self.random.random_range(1..20)).map(|_| Uuid::new_v4()).collect();
        let place = self.place();
        let group = place.group.to_string();
        let began = Instant::now();
        let sql = "select count(*) from scylla.submit_tasks((select jsonb_agg(jsonb_build_object('queue', $1::text, 'group_key', $2::text, 'id', i)) from unnest($3::uuid[]) i))";
        let (answer, error) =
            Self::answer(s.try_value::<i64>(sql, &[&place.queue, &group, &ids]), &[]);
        for id in ids {
            let answer =
                if matches!(answer, Answer::Yes(_)) { Answer::Yes(()) } else { Answer::Unknown };
            self.remember(began, Call::Submit { id, place, answer });
        }
        error.map_or(Ok(()), Err)
    }

    fn own(&mut self, s: &mut Session) -> Result<(), Error> {
        let (queue, n) = (self.place().queue, self.random.random_range(1..6));
        let of_any = self.random.random_bool(0.3);
        let length = [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(15)]
            [self.random.random_range(0..3)];
        let began = Instant::now();
        let options = format!("timeout => '{} s'", length.as_secs());
        let worker = self.worker();
        let leases = if of_any {
            s.try_own_any(&worker, &QUEUES.map(|it| it.name), n, &options)?
        } else {
            s.try_own(&worker, queue, n, &options)?
        };
        for lease in leases {
            self.remember(began, Call::Own { id: lease.id, token: lease.token, length });
            let keep = if length.as_secs() == 15 && self.random.random_bool(0.3) { 9 } else { 0 };
            self.held.push(Held { lease, length, until: began + Duration::from_secs(keep) });
        }
        Ok(())
    }

    /// Extends a lease by its original length, or forgets a lease that is lost.
    fn extend(&mut self, s: &mut Session) -> Result<(), Error> {
        if self.held.is_empty() {
            return Ok(());
        }
        let at = self.random.random_range(0..self.held.len());
        let Held { lease, length, .. } = &self.held[at];
        let (id, token, length) = (lease.id, lease.token, *length);
        let began = Instant::now();
        let (answer, error) =
            Self::answer(s.try_value::<bool>("select scylla.extend($1, $2)", &[&id, &token]), &[]);
        if answer == Answer::Yes(false) {
            self.held.swap_remove(at);
        }
        self.remember(began, Call::Extend { id, token, length, answer });
        error.map_or(Ok(()), Err)
    }

    fn worker(&self) -> String {
        format!("client-{}", self.client)
    }

    /// Extends all leases by their original lengths, and forgets those that are lost.
    fn beat(&mut self, s: &mut Session) -> Result<(), Error> {
        let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
            self.held.iter().map(|it| (it.lease.id, it.lease.token)).unzip();
        let began = Instant::now();
        let sql = "select coalesce(array_agg(state = 'held' order by n), '{}')
                   from scylla.heartbeat($1, $2, $3) with ordinality h (id, state, deadline, n)";
        let call = s.try_value::<Vec<bool>>(sql, &[&self.worker(), &ids, &tokens]);
        let (answer, error) = Self::answer(call, &[]);
        for at in (0..ids.len()).rev() {
            let answer = match &answer {
                Answer::Yes(held) => Answer::Yes(held[at]),
                Answer::Refused(code) => Answer::Refused(code.clone()),
                Answer::Unknown => Answer::Unknown,
            };
            let length = self.held[at].length;
            if answer == Answer::Yes(false) {
                self.held.swap_remove(at);
            }
            self.remember(began, Call::Extend { id: ids[at], token: tokens[at], length, answer });
        }
        error.map_or(Ok(()), Err)
    }

    fn wait(&mut self, s: &mut Session) -> Result<(), Error> {
        let queues = QUEUES.map(|it| it.name).to_vec();
        s.query_one("call scylla.wait_for_event($1, $2, '20 ms')", &[&self.worker(), &queues])
            .map(drop)
    }

    fn outcome(&mut self) -> &'static str {
        match self.random.random_range(0..100) {
            0..70 => "completed",
            70..80 => "aborted",
            80..90 => "retry",
            _ => "yield",
        }
    }

    /// The places of the leases that may be returned now.
    fn free(&self) -> Vec<usize> {
        let now = Instant::now();
        (0..self.held.len()).filter(|at| self.held[*at].until <= now).collect()
    }

    fn return_any(&mut self, s: &mut Session) -> Result<(), Error> {
        let free = self.free();
        if free.is_empty() {
            return Ok(());
        }
        let held = self.held.swap_remove(free[self.random.random_range(0..free.len())]);
        let outcome = self.outcome();
        self.return_task(s, held, outcome)
    }

    /// Returns some tasks at once, each with an outcome of its own.
    fn return_many(&mut self, s: &mut Session) -> Result<(), Error> {
        let free: Vec<usize> = self.free().into_iter().rev().take(6).collect();
        let held: Vec<Held> = free.into_iter().map(|at| self.held.swap_remove(at)).collect();
        let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
            held.iter().map(|it| (it.lease.id, it.lease.token)).unzip();
        let outcomes: Vec<&str> = held.iter().map(|_| self.outcome()).collect();
        let errors: Vec<_> = outcomes.iter().map(|it| (*it == "aborted").then(an_error)).collect();
        let began = Instant::now();
        let sql = "select scylla.return_many($1, $2, $3, errors => $4)";
        let call = s.try_value::<Vec<Option<String>>>(sql, &[&ids, &tokens, &outcomes, &errors]);
        let (answer, error) = Self::answer(call, &["55006"]);
        for (at, (id, token)) in ids.into_iter().zip(tokens).enumerate() {
            let answer = match &answer {
                Answer::Yes(statuses) => match &statuses[at] {
                    Some(status) => Answer::Yes(status.clone()),
                    None => Answer::Refused("55000".to_owned()),
                },
                Answer::Refused(code) => Answer::Refused(code.clone()),
                Answer::Unknown => Answer::Unknown,
            };
            self.remember(began, Call::Return { id, token, answer });
        }
        error.map_or(Ok(()), Err)
    }

    fn return_task(&mut self, s: &mut Session, held: Held, outcome: &str) -> Result<(), Error> {
        let began = Instant::now();
        let (answer, error) =
            Self::answer(s.return_task(&held.lease, outcome), &["55000", "55006"]);
        let (id, token) = (held.lease.id, held.lease.token);
        self.remember(began, Call::Return { id, token, answer });
        error.map_or(Ok(()), Err)
    }

    fn cancel(&mut self, s: &mut Session) -> Result<(), Error> {
        let Some(id) = self.submitted.pop() else { return Ok(()) };
        let began = Instant::now();
        // A task whose submission was not acknowledged may not exist.
        let (answer, error) =
            Self::answer(s.try_value::<bool>("select scylla.cancel($1)", &[&id]), &["P0002"]);
        self.remember(began, Call::Cancel { id, answer });
        error.map_or(Ok(()), Err)
    }

    /// Submits tasks of an action of their own, and cancels them by it. None of them is live after
    /// that.
    fn cancel_many(&mut self, s: &mut Session) -> Result<(), Error> {
        let ids: Vec<Uuid> = (0..8).map(|_| Uuid::new_v4()).collect();
        let (place, action) = (self.place(), ids[0].to_string());
        let group = place.group.to_string();
        let began = Instant::now();
        let sql = "select count(*) from scylla.submit_tasks((select jsonb_agg(jsonb_build_object('queue', $1::text, 'group_key', $2::text, 'action', $3::text, 'id', i)) from unnest($4::uuid[]) i))";
        let call = s.try_value::<i64>(sql, &[&place.queue, &group, &action, &ids]);
        let (submitted, error) = Self::answer(call, &[]);
        let submitted =
            if matches!(submitted, Answer::Yes(_)) { Answer::Yes(()) } else { Answer::Unknown };
        for id in &ids {
            self.remember(began, Call::Submit { id: *id, place, answer: submitted.clone() });
        }
        if let Some(error) = error {
            return Err(error);
        }
        let began = Instant::now();
        let filter = "jsonb_build_object('queue', $1::text, 'action', $2::text)";
        let sql = format!("select scylla.cancel_matching({filter})");
        let call = s.try_value::<i64>(&sql, &[&place.queue, &action]);
        let (_, error) = Self::answer(call, &[]);
        // It tells how many, not which.
        for id in ids {
            self.remember(began, Call::Cancel { id, answer: Answer::Unknown });
        }
        if let Some(error) = error {
            return Err(error);
        }
        let live = format!(
            "select count(*) from scylla.list_tasks({filter})
             where status in ('waiting', 'ready', 'running')"
        );
        let live = s.try_value::<i64>(&live, &[&place.queue, &action])?;
        if live > 0 {
            self.surprises.push(format!("{live} tasks of action {action} are left"));
        }
        Ok(())
    }

    fn own_and_roll_back(&mut self, s: &mut Session) -> Result<(), Error> {
        let queue = self.place().queue;
        s.batch_execute("begin")?;
        s.try_own("undone", queue, 3, "timeout => '15 s'")?;
        s.batch_execute("rollback")
    }

    /// The answers count from the commit on.
    fn own_and_complete_in_one_transaction(&mut self, s: &mut Session) -> Result<(), Error> {
        let queue = self.place().queue;
        let began = Instant::now();
        s.batch_execute("begin")?;
        let mut leases = s.try_own("at once", queue, 2, "timeout => '15 s'")?;
        // Each call locks rows in the order of ids: so does a transaction of several, or a
        // cancellation of many may deadlock with it.
        leases.sort_by_key(|lease| lease.id);
        let sql = "select scylla.return_task($1, $2, 'aborted', error => $3)";
        for lease in &leases {
            let answer = s.try_value::<String>(sql, &[&lease.id, &lease.token, &an_error()]);
            // another client has cancelled it since
            if answer.as_ref().is_err_and(|error| code(error) == "55000") {
                return s.batch_execute("rollback");
            }
            answer?;
        }
        let (committed, error) = Self::answer(s.batch_execute("commit"), &[]);
        for lease in leases {
            let answer = if committed == Answer::Yes(()) {
                Answer::Yes("aborted".to_owned())
            } else {
                Answer::Unknown
            };
            self.remember(began, Call::Return { id: lease.id, token: lease.token, answer });
        }
        error.map_or(Ok(()), Err)
    }
}

fn complete_ticks(s: &mut Session) -> Result<(), Error> {
    let sql = "select scylla.return_tasks(array_agg(id), array_agg(token))
               from scylla.own_tasks('ticks', $1, 10)";
    s.query_one(sql, &[&TICKS]).map(drop)
}

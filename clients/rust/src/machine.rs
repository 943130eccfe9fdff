//! What a worker does: owns tasks, runs their handlers, keeps their leases, and returns what they
//! give.
//!
//! `Machine::run` has all the state. What takes time, calls to the server and handlers, runs in
//! tasks of tokio, which send it an `Event` when they have ended. The machine and its calls have a
//! thread and a runtime of their own: a handler that blocks its thread keeps no heartbeat from
//! being sent.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, SystemTime},
};

use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc},
    time::{Instant, sleep, sleep_until, timeout},
};
use uuid::Uuid;

use crate::{
    error::{DatabaseError, Error},
    events::{Event, Report},
    handle::{Counts, Stop},
    handler::run_handler,
    lease::{FOREVER, Lease},
    link::{Failure, Link, Waiter},
    outcome::{End, Ended, Kind, Outcome},
    setup::Setup,
    statements::{Beat, Owned, Unfit, check_server, heartbeat, status, wait},
    task::{Cause, Task},
    values::{pause, random},
};

/// How many tasks one statement returns or owns.
const BATCH: usize = 500;
/// How many results wait for no more.
const ENOUGH: usize = 100;
/// How long a worker is full before it waits for signals only.
const FULL_PAUSE: Duration = Duration::from_millis(100);
/// How long a handler has to end after it was stopped.
const STOP_PAUSE: Duration = Duration::from_secs(3);
/// How long a worker that stops tries to hand back what it has.
const LAST_CALLS: Duration = Duration::from_millis(1_500);

/// A wait that is under way.
struct Wait {
    signals_only: bool,
    interrupt: Arc<Notify>,
}

#[derive(Clone, Copy)]
enum Draining {
    No,
    /// Handlers may end on their own.
    Grace {
        until: Instant,
    },
    /// They are told to.
    Stopping {
        until: Instant,
    },
    /// What is left is handed back.
    Returning {
        until: Instant,
    },
    Done,
}

/// A worker that runs.
pub(crate) struct Machine {
    setup: Arc<Setup>,
    /// Where the handlers run.
    handlers: Handle,
    link: Arc<Link>,
    sender: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    /// How many exchanges there can be at once: one connection of the pool is the heartbeat's.
    most_exchanges: usize,
    /// By token: all leases that are not known to have ended.
    leases: HashMap<Uuid, Lease>,
    /// Owned and not begun: at most `prefetch`.
    backlog: VecDeque<Uuid>,
    /// Begun, and not yet told to the handlers' runtime.
    begun: Vec<(Report, Box<Task>)>,
    running: usize,
    done: VecDeque<Ended>,
    done_at: Instant,
    /// Results that are on their way.
    settling: usize,
    /// Tasks that may come with the exchanges under way.
    asked: usize,
    exchanges: usize,
    /// There may be ready tasks.
    work: bool,
    /// Before that nothing is owned, since the server has refused it.
    own_at: Instant,
    own_refusals: u32,
    up: bool,
    was_up: bool,
    beating: bool,
    /// A lease has ended without this worker.
    signalled: bool,
    /// How much the server's clock is ahead of this machine's, in seconds.
    clock: f64,
    waiter: Option<Waiter>,
    waiting: Option<Wait>,
    wait_at: Instant,
    wait_failures: u32,
    full_since: Option<Instant>,
    /// How many times in a row the server spoke of work and gave none.
    empty_hints: u32,
    draining: Draining,
    /// When something is to be looked at again.
    tick_at: Instant,
}

impl Machine {
    pub fn new(setup: Setup, handlers: Handle) -> Self {
        let size = setup.concurrency.min(4);
        let application =
            format!("scylla-pg rust/{} {}", env!("CARGO_PKG_VERSION"), setup.handle.name());
        let link =
            Link::new(setup.connector.named(application), size, setup.call_timeout, setup.prepares);
        let (sender, events) = mpsc::unbounded_channel();
        let now = Instant::now();
        Self {
            setup: Arc::new(setup),
            handlers,
            link: Arc::new(link),
            sender,
            events,
            most_exchanges: size.saturating_sub(1).max(1),
            leases: HashMap::new(),
            backlog: VecDeque::new(),
            begun: vec![],
            running: 0,
            done: VecDeque::new(),
            done_at: now,
            settling: 0,
            asked: 0,
            exchanges: 0,
            work: true,
            own_at: now,
            own_refusals: 0,
            up: false,
            was_up: false,
            beating: false,
            signalled: false,
            clock: 0.0,
            waiter: None,
            waiting: None,
            wait_at: now,
            wait_failures: 0,
            full_since: None,
            empty_hints: 0,
            draining: Draining::No,
            tick_at: now + FOREVER,
        }
    }

    pub async fn run(mut self) -> Result<(), Error> {
        let mut stop = self.setup.handle.subscribe();
        let mut events = Vec::with_capacity(BATCH);
        if self.setup.handle.state() != Stop::No {
            self.drain(); // it was told before it began
        }
        self.connect(0);
        loop {
            tokio::select! {
                biased;
                Ok(()) = stop.changed() => self.drain(),
                () = sleep_until(self.tick_at) => self.tick(),
                _ = self.events.recv_many(&mut events, BATCH) => {
                    for event in events.drain(..) {
                        self.on(event)?;
                    }
                }
            }
            self.run_begun();
            self.pump();
            self.step_drain();
            if let Draining::Done = self.draining {
                break;
            }
        }
        self.close().await;
        Ok(())
    }

    fn name(&self) -> &str {
        self.setup.handle.name()
    }

    fn count(&self, count: impl FnOnce(&Counts) -> &AtomicU64) {
        self.setup.handle.count(count);
    }

    fn on(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Reached(attempt, answer) => self.reached(attempt, answer)?,
            Event::Beat { tokens, shares, asked_at, attempt, answer } => {
                self.beaten(tokens, shares, asked_at, attempt, answer);
            }
            Event::Exchanged { batch, most, asked_at, answer } => {
                self.exchanged(batch, most, asked_at, answer)
            }
            Event::LookedUp { ended, status } => self.looked_up(&ended, status.as_deref()),
            Event::ReturnAgain(ended) => {
                self.settling -= 1;
                self.done.push_back(ended);
            }
            Event::Handled(token, end) => self.handled(token, end),
            Event::Woke(waiter, answer) => self.woke(waiter, answer),
        }
        Ok(())
    }

    /// Runs something that takes time, and that tells how it has ended.
    fn spawn(&self, work: impl Future<Output = Event> + Send + 'static) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            // an error: the worker has ended
            let _ = sender.send(work.await);
        });
    }

    fn look_again(&mut self, at: Instant) {
        self.tick_at = self.tick_at.min(at);
    }

    // ---- CONNECT and DOWN ----

    fn connect(&self, attempt: u32) {
        let link = self.link.clone();
        self.spawn(async move {
            if attempt > 0 {
                sleep(pause(attempt - 1)).await;
            }
            Event::Reached(attempt, check_server(&link).await)
        });
    }

    fn reached(&mut self, attempt: u32, answer: Result<(), Unfit>) -> Result<(), Error> {
        match answer {
            // with nothing held, too: from then on the server keeps signals for this worker
            Ok(()) => self.beat(Some(attempt)),
            Err(Unfit::Incompatible(why)) if !self.was_up => return Err(Error::Incompatible(why)),
            Err(Unfit::Incompatible(why)) => {
                tracing::error!("worker {}: {why}", self.name()); // an upgrade may be under way
                self.connect(attempt + 1);
            }
            Err(Unfit::Failed(failure)) => self.not_reached(attempt, &failure),
        }
        Ok(())
    }

    fn not_reached(&self, attempt: u32, failure: &Failure) {
        if matches!(attempt, 0 | 4) || attempt % 20 == 19 {
            tracing::warn!("worker {}: no connection yet: {failure}", self.name());
        }
        self.connect(attempt + 1);
    }

    fn is_up(&mut self) {
        if self.was_up {
            self.count(|counts| &counts.reconnects);
        }
        tracing::info!("worker {} serves {}", self.name(), self.setup.queues.join(", "));
        (self.up, self.was_up, self.work) = (true, true, true);
    }

    /// The server, or a connection, is gone. Handlers go on.
    fn lost(&mut self, why: &str) {
        if !self.up {
            return;
        }
        tracing::warn!("worker {}: connection lost: {why}", self.name());
        self.up = false;
        self.link.clear();
        self.connect(1);
    }

    // ---- FETCH and SETTLE ----

    fn free(&self) -> usize {
        self.setup.capacity.saturating_sub(self.leases.len() + self.asked)
    }

    fn is_draining(&self) -> bool {
        !matches!(self.draining, Draining::No)
    }

    /// Starts what there is a reason for.
    fn pump(&mut self) {
        let now = Instant::now();
        while self.up && self.exchanges < self.most_exchanges {
            let settle = self.settle_is_due(now);
            let may_own = !self.is_draining() && self.own_at <= now;
            let fetch = may_own && self.work && self.free() > 0;
            if !settle && !fetch {
                break;
            }
            let batch = self.next_batch(now);
            let most = if may_own { BATCH.min(self.free() + batch.len()) } else { 0 };
            self.exchange(batch, most, now);
        }
        if self.own_at > now {
            self.look_again(self.own_at);
        }
        self.wait(now);
    }

    fn settle_is_due(&mut self, now: Instant) -> bool {
        if self.done.is_empty() {
            return false;
        }
        let at = self.done_at + self.setup.coalesce;
        if self.done.len() >= ENOUGH || self.running == 0 || self.is_draining() || at <= now {
            return true;
        }
        self.look_again(at);
        false
    }

    fn next_batch(&mut self, now: Instant) -> Vec<Ended> {
        let most = match self.done.front() {
            Some(first) if first.alone => 1,
            _ => self.done.iter().take(BATCH).take_while(|ended| !ended.alone).count(),
        };
        self.done_at = now; // of those that are left
        self.done.drain(..most).collect()
    }

    /// Returns a batch and owns up to `most` tasks, in one statement.
    fn exchange(&mut self, batch: Vec<Ended>, most: usize, asked_at: Instant) {
        self.exchanges += 1;
        self.settling += batch.len();
        self.asked += most.saturating_sub(batch.len());
        let (setup, link) = (self.setup.clone(), self.link.clone());
        self.spawn(async move {
            let answer = setup.exchange.run(&link, &batch, most).await;
            Event::Exchanged { batch, most, asked_at, answer }
        });
    }

    fn exchanged(
        &mut self,
        batch: Vec<Ended>,
        most: usize,
        asked_at: Instant,
        answer: Result<(Vec<Option<String>>, Vec<Owned>), Failure>,
    ) {
        self.exchanges -= 1;
        self.settling -= batch.len();
        self.asked -= most.saturating_sub(batch.len());
        match answer {
            Ok((statuses, owned)) => {
                self.settled(batch, statuses);
                if most > 0 {
                    self.owned(owned, most, asked_at);
                }
            }
            Err(Failure::Gone(why)) => {
                for ended in batch.into_iter().rev() {
                    self.done.push_front(Ended { doubtful: true, ..ended });
                }
                self.work = true;
                self.lost(&why);
            }
            Err(Failure::Refused(error)) => self.refused(batch, most, error),
        }
    }

    fn settled(&mut self, batch: Vec<Ended>, statuses: Vec<Option<String>>) {
        for (ended, status) in batch.into_iter().zip(statuses) {
            match status {
                Some(status) => self.count_ended(&ended, &status),
                None if ended.doubtful => self.look_up(ended),
                None => self.count_lost(&ended),
            }
        }
    }

    fn count_ended(&mut self, ended: &Ended, status: &str) {
        self.leases.remove(&ended.token);
        self.count(|counts| match ended.outcome.kind {
            _ if status == "aborted" => &counts.aborted,
            Kind::Completed => &counts.completed,
            Kind::Aborted => &counts.aborted,
            Kind::Retry => &counts.retried,
            Kind::Yield => &counts.yielded,
        });
    }

    fn count_lost(&mut self, ended: &Ended) {
        self.leases.remove(&ended.token);
        self.count(|counts| &counts.lost);
        tracing::info!(
            "worker {}: the lease of task {} was lost, its result is dropped",
            self.name(),
            ended.id
        );
    }

    /// Asks whether a return whose answer was lost had worked: the task counts once.
    fn look_up(&mut self, ended: Ended) {
        self.settling += 1;
        self.leases.remove(&ended.token);
        let (setup, link) = (self.setup.clone(), self.link.clone());
        self.spawn(async move {
            for attempt in 0.. {
                match status(&link, setup.handle.name(), &ended).await {
                    Ok(status) => return Event::LookedUp { ended, status },
                    // it was deleted, or is not to be seen
                    Err(Failure::Refused(error)) if !is_temporary(&error) => break,
                    Err(_) => sleep(pause(attempt)).await,
                }
            }
            Event::LookedUp { ended, status: None }
        });
    }

    fn looked_up(&mut self, ended: &Ended, status: Option<&str>) {
        self.settling -= 1;
        let kind = ended.outcome.kind;
        let again = matches!(kind, Kind::Retry | Kind::Yield);
        match status {
            Some(status) if status == kind.name() => self.count_ended(ended, status),
            Some(status) if again && matches!(status, "ready" | "waiting" | "aborted") => {
                self.count_ended(ended, status);
            }
            _ => self.count_lost(ended),
        }
    }

    /// The statement failed as a whole: nothing is returned, nothing owned.
    fn refused(&mut self, mut batch: Vec<Ended>, most: usize, error: DatabaseError) {
        let now = Instant::now();
        if most > 0 {
            // what can be returned must not wait for what cannot be owned
            tracing::warn!("worker {}: no tasks for now: {error}", self.name());
            self.own_at = now + pause(self.own_refusals);
            self.own_refusals += 1;
            self.work = true;
        } else if batch.len() > 1 {
            batch.iter_mut().for_each(|ended| ended.alone = true);
        } else if let Some(ended) = batch.pop() {
            return self.refused_alone(ended, error, now);
        }
        for ended in batch.into_iter().rev() {
            self.done.push_front(ended);
        }
    }

    fn refused_alone(&mut self, mut ended: Ended, error: DatabaseError, now: Instant) {
        let cannot_be_stored =
            error.sqlstate().is_some_and(|code| code.starts_with("22") || code.starts_with("54"));
        if cannot_be_stored && !(ended.alone && ended.outcome.error.is_some()) {
            // the try has failed, and says why
            ended.alone = true;
            ended.outcome = Outcome::retry("invalid_result", error.to_string());
            return self.done.push_front(ended);
        }
        if self.leases.get(&ended.token).is_none_or(|lease| lease.fence < now) {
            tracing::error!("worker {}: could not return task {}: {error}", self.name(), ended.id);
            return self.count_lost(&ended);
        }
        tracing::warn!("worker {}: cannot return task {} yet: {error}", self.name(), ended.id);
        self.settling += 1;
        self.spawn(async move {
            sleep(pause(3)).await;
            Event::ReturnAgain(ended)
        });
    }

    fn owned(&mut self, owned: Vec<Owned>, most: usize, asked_at: Instant) {
        self.own_refusals = 0;
        self.work = owned.len() == most;
        if let Some(first) = owned.first() {
            self.empty_hints = 0;
            self.clock = match first.now.duration_since(SystemTime::now()) {
                Ok(ahead) => ahead.as_secs_f64(),
                Err(behind) => -behind.duration().as_secs_f64(),
            };
        }
        for owned in owned {
            self.count(|counts| &counts.owned);
            let token = owned.token;
            let lease = Lease::new(owned, asked_at);
            self.look_again(lease.next(asked_at));
            self.leases.insert(token, lease);
            if self.is_draining() {
                self.end(token, Outcome::hand_back());
            } else if self.running < self.setup.concurrency {
                self.start(token);
            } else {
                self.backlog.push_back(token);
            }
        }
    }

    // ---- handlers ----

    fn start(&mut self, token: Uuid) {
        let Some(lease) = self.leases.get_mut(&token) else { return };
        let Some(task) = lease.pending.take() else { return };
        self.running += 1;
        lease.limit = self.setup.limit_of(&task.action).map(|limit| Instant::now() + limit);
        let next = lease.next(Instant::now());
        self.look_again(next);
        self.begun.push((Report::new(self.sender.clone(), token), task));
    }

    /// Runs what has begun, where the handlers run: from there, to start one more costs little.
    fn run_begun(&mut self) {
        if self.begun.is_empty() {
            return;
        }
        let (setup, begun) = (self.setup.clone(), std::mem::take(&mut self.begun));
        self.handlers.spawn(async move {
            for (report, task) in begun {
                let handler = setup.handler_of(&task.action).cloned();
                tokio::spawn(async move { report.ended(run_handler(handler, task).await) });
            }
        });
    }

    /// A handler has ended: whatever it gave, its place is free.
    fn handled(&mut self, token: Uuid, end: End) {
        self.running -= 1;
        if let Some(lease) = self.leases.get_mut(&token).filter(|lease| !lease.ended) {
            if lease.cause.is_none() && lease.fence < Instant::now() {
                // a process that was frozen comes here before it looks at the fence
                lease.cause = Some(Cause::LeaseLost);
            }
            match end.outcome(lease.cause, self.clock) {
                Some(outcome) => self.end(token, outcome),
                None => self.forget(token),
            }
        }
        while self.running < self.setup.concurrency
            && let Some(next) = self.backlog.pop_front()
        {
            self.start(next);
        }
    }

    fn end(&mut self, token: Uuid, outcome: Outcome) {
        let Some(lease) = self.leases.get_mut(&token) else { return };
        lease.ended = true;
        lease.drop_at = None;
        if self.done.is_empty() {
            self.done_at = Instant::now();
        }
        let ended = Ended {
            id: lease.id,
            token,
            outcome,
            owned_at: lease.owned_at,
            doubtful: false,
            alone: false,
        };
        self.done.push_back(ended);
    }

    /// A lease is over, and its handler too.
    fn forget(&mut self, token: Uuid) {
        let Some(lease) = self.leases.remove(&token) else { return };
        self.count(|counts| {
            if lease.cause == Some(Cause::Cancelled) { &counts.cancelled } else { &counts.lost }
        });
    }

    /// Stops a handler. The first cause counts, but that the lease is over overrules.
    fn stop(&mut self, token: Uuid, cause: Cause, now: Instant) {
        let Some(lease) = self.leases.get_mut(&token) else { return };
        if lease.ended || lease.is_over() || (lease.cause.is_some() && !cause.ends_lease()) {
            return;
        }
        lease.cause = Some(cause);
        if lease.pending.is_some() {
            self.backlog.retain(|other| *other != token);
            return self.forget(token);
        }
        if lease.control.stop(cause) {
            let drop_at =
                if cause == Cause::LeaseLost { lease.end.max(now) } else { now + STOP_PAUSE };
            lease.drop_at = Some(drop_at);
            self.look_again(drop_at);
        }
    }

    // ---- BEAT and FENCE ----

    /// Looks at all leases.
    fn tick(&mut self) {
        let now = Instant::now();
        self.tick_at = now + FOREVER;
        let mut beat = std::mem::take(&mut self.signalled);
        let mut stops = vec![];
        for (&token, lease) in &mut self.leases {
            if lease.drop_at.is_some_and(|at| at <= now) {
                lease.drop_at = None;
                lease.control.drop_handler(lease.cause.unwrap_or(Cause::LeaseLost));
            }
            if !lease.ended && !lease.is_over() {
                if lease.fence <= now {
                    stops.push((token, Cause::LeaseLost));
                } else if lease.cause.is_none() && lease.limit.is_some_and(|at| at <= now) {
                    stops.push((token, Cause::TimeLimit));
                }
            }
            beat |= !lease.is_over() && lease.beat_at <= now;
        }
        for (token, cause) in stops {
            self.stop(token, cause, now);
        }
        if beat && !self.up {
            // the first call when the server is there again
        } else if beat && !self.beating {
            self.beat(None);
        } else if beat {
            self.signalled = true; // after the one that is under way
        }
        let next = self.leases.values().map(|lease| lease.next(now)).min();
        self.look_again(next.unwrap_or(now + FOREVER));
    }

    /// One heartbeat for all leases.
    fn beat(&mut self, attempt: Option<u32>) {
        let (mut ids, mut tokens, mut shares) = (vec![], vec![], vec![]);
        let mut length = FOREVER;
        for (&token, lease) in &self.leases {
            if !lease.is_over() {
                ids.push(lease.id);
                tokens.push(token);
                shares.push(lease.control.state().progress.take());
                length = length.min(lease.length);
            }
        }
        if ids.is_empty() && attempt.is_none() {
            return;
        }
        self.beating = true;
        let (setup, link) = (self.setup.clone(), self.link.clone());
        let limit = (length / 6).clamp(Duration::from_millis(20), setup.call_timeout);
        let asked_at = Instant::now();
        self.spawn(async move {
            let answer = heartbeat(&link, limit, setup.handle.name(), &ids, &tokens, &shares).await;
            Event::Beat { tokens, shares, asked_at, attempt, answer }
        });
    }

    fn beaten(
        &mut self,
        tokens: Vec<Uuid>,
        shares: Vec<Option<f64>>,
        asked_at: Instant,
        attempt: Option<u32>,
        answer: Result<Vec<Beat>, Failure>,
    ) {
        let now = Instant::now();
        self.beating = false;
        match answer {
            Ok(beats) => {
                for (token, beat) in tokens.into_iter().zip(beats) {
                    self.told(token, &beat, asked_at, now);
                }
                if attempt.is_some() {
                    self.is_up();
                }
                if self.signalled {
                    self.look_again(now);
                }
                return;
            }
            Err(ref failure) => {
                for (token, share) in tokens.into_iter().zip(shares) {
                    let Some(lease) = self.leases.get_mut(&token) else { continue };
                    let mut state = lease.control.state();
                    state.progress = state.progress.or(share);
                    lease.beat_at = lease.beat_at.max(now + 2 * FULL_PAUSE);
                }
                if let Some(attempt) = attempt {
                    return self.not_reached(attempt, failure);
                }
            }
        }
        match answer {
            Err(Failure::Gone(why)) => self.lost(&why),
            Err(Failure::Refused(error)) => {
                tracing::warn!("worker {}: heartbeat refused: {error}", self.name())
            }
            Ok(_) => {}
        }
        self.look_again(now + 2 * FULL_PAUSE);
    }

    /// What the server says of a lease.
    fn told(&mut self, token: Uuid, beat: &Beat, asked_at: Instant, now: Instant) {
        let Some(lease) = self.leases.get_mut(&token) else { return };
        match beat.state.as_str() {
            "held" => {
                lease.extend(beat.deadline, beat.now, asked_at);
                let next = lease.next(now);
                self.look_again(next);
            }
            // the answer to its return says what became of it
            _ if lease.ended => lease.beat_at = now + FOREVER,
            "lost" => self.stop(token, Cause::LeaseLost, now),
            _ => self.stop(token, Cause::Cancelled, now),
        }
    }

    // ---- WAIT ----

    fn wants_work(&self) -> bool {
        !self.work && !self.is_draining() && self.free() > 0
    }

    /// Waits for work, for signals and for a request to stop; a worker that has enough to do, not
    /// for work.
    fn wait(&mut self, now: Instant) {
        let wants = self.up && self.wants_work();
        if let Some(waiting) = &mut self.waiting {
            if wants && std::mem::take(&mut waiting.signals_only) {
                waiting.interrupt.notify_one();
            }
            return;
        }
        if !self.up {
            return;
        }
        let at = if wants {
            self.full_since = None;
            self.wait_at
        } else {
            self.wait_at.max(*self.full_since.get_or_insert(now) + FULL_PAUSE)
        };
        if at > now {
            return self.look_again(at);
        }
        let interrupt = Arc::new(Notify::new());
        self.waiting = Some(Wait { signals_only: !wants, interrupt: interrupt.clone() });
        let (setup, link, waiter) = (self.setup.clone(), self.link.clone(), self.waiter.take());
        self.spawn(async move {
            let actions = if wants { setup.actions.as_deref() } else { Some(&[][..]) };
            let name = setup.handle.name();
            let (waiter, event) =
                wait(&link, waiter, name, &setup.queues, actions, setup.wait, &interrupt).await;
            Event::Woke(waiter, event)
        });
    }

    fn woke(&mut self, waiter: Option<Waiter>, answer: Result<Option<String>, Failure>) {
        let now = Instant::now();
        self.waiting = None;
        self.waiter = waiter;
        let event = match answer {
            Ok(event) => event,
            Err(failure) => {
                self.wait_at = now + pause(self.wait_failures);
                self.wait_failures += 1;
                return match failure {
                    Failure::Gone(why) => self.lost(&why),
                    Failure::Refused(error) => {
                        tracing::warn!("worker {}: cannot wait for work: {error}", self.name());
                    }
                };
            }
        };
        self.wait_failures = 0;
        match event.as_deref() {
            Some("work") => {
                self.work = true;
                self.empty_hints += 1;
                if self.empty_hints > 2 {
                    // others were quicker, or a limit keeps the tasks back
                    let most = 0.005 * f64::from(1 << self.empty_hints.min(8));
                    self.wait_at = now + Duration::from_secs_f64(random() * most);
                }
            }
            Some("signal") => {
                self.signalled = true;
                self.look_again(now);
            }
            Some("drain") => {
                if !self.is_draining() {
                    tracing::info!("worker {} is asked to stop", self.name());
                }
                self.setup.handle.stop();
                self.wait_at = now + FULL_PAUSE; // it is told each time
            }
            _ => {}
        }
    }

    // ---- DRAIN ----

    fn drain(&mut self) {
        if self.is_draining() {
            return;
        }
        tracing::info!("worker {} stops: {} handlers run", self.name(), self.running);
        let now = Instant::now();
        self.draining = Draining::Grace { until: now + self.setup.grace };
        self.look_again(now);
        for token in std::mem::take(&mut self.backlog) {
            self.end(token, Outcome::hand_back());
        }
    }

    fn step_drain(&mut self) {
        let now = Instant::now();
        let at_once = self.setup.handle.state() == Stop::Now;
        let unreturned = self.done.len() + self.settling + self.asked;
        match self.draining {
            Draining::Grace { .. } | Draining::Stopping { .. }
                if unreturned + self.running == 0 =>
            {
                self.draining = Draining::Done;
            }
            Draining::Grace { until } if at_once || until <= now => {
                for token in self.leases.keys().copied().collect::<Vec<_>>() {
                    self.stop(token, Cause::Shutdown, now);
                }
                let until = if at_once { now } else { now + STOP_PAUSE };
                self.draining = Draining::Stopping { until };
            }
            Draining::Stopping { until } if at_once || until <= now || self.running == 0 => {
                let left = self.leases.iter().filter(|(_, lease)| !lease.ended && !lease.is_over());
                for token in left.map(|(token, _)| *token).collect::<Vec<_>>() {
                    self.end(token, Outcome::hand_back());
                }
                let until = if at_once { now } else { until };
                self.draining = Draining::Returning { until: until + LAST_CALLS };
                self.look_again(now); // to return them
            }
            Draining::Returning { until } if unreturned == 0 || until <= now => {
                if unreturned > 0 {
                    tracing::error!("worker {}: {unreturned} tasks not handed back", self.name());
                }
                self.draining = Draining::Done;
            }
            _ => {}
        }
        if let Draining::Grace { until }
        | Draining::Stopping { until }
        | Draining::Returning { until } = self.draining
        {
            self.look_again(until);
        }
    }

    /// Ends the handlers that are left, and the connections in good order.
    async fn close(mut self) {
        for lease in self.leases.values() {
            lease.control.drop_handler(lease.cause.unwrap_or(Cause::Shutdown));
        }
        if let Some(waiting) = self.waiting.take().filter(|_| self.up) {
            waiting.interrupt.notify_one();
            let woken = async {
                while !matches!(self.events.recv().await, None | Some(Event::Woke(..))) {}
            };
            let _ = timeout(Duration::from_secs(1), woken).await;
        }
        self.link.close();
        tracing::info!("worker {} has stopped", self.name());
    }
}

/// Whether the server has refused a call that may work soon.
fn is_temporary(error: &DatabaseError) -> bool {
    matches!(error.sqlstate(), Some("57P03" | "53300" | "40001" | "40P01"))
}

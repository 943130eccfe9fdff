//! Takes the snapshots of a database: one poller for all viewers.

use super::database::Database;
use super::snapshot::{HISTORY_SECONDS, POINTS, Point, Queue, Snapshot, Worker, percentiles};
use crate::failure::Failure;
use crate::metrics::collect::{self, Counters, Schedule};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

/// From one look to the next: with viewers, without, and when the server is away.
const WATCHED: Duration = Duration::from_secs(1);
const UNWATCHED: Duration = Duration::from_secs(5);
const AWAY: Duration = Duration::from_millis(500);
/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Rates are over so many seconds, percentiles over so many minutes.
const RATE_SECONDS: f64 = 5.0;
const PERCENTILE_MINUTES: usize = 5;

const WORKERS: &str = "
select worker, queue, running::bigint, last_seen::text, next_deadline::text, meta::text, draining
from scylla.workers order by worker, queue";

/// Changes when what a page of the task shows does.
macro_rules! stamp {
    () => {
        "hashtextextended(concat_ws(' ', t.status, t.owner, t.deadline, t.progress, t.tries, t.num_failures, t.run_at, t.updated, t.priority), 0)::text"
    };
}
pub(super) use stamp;

const TASKS: &str =
    concat!("select t.id, ", stamp!(), " from scylla.tasks t where t.id = any ($1)");

type Histograms = [Vec<i64>; 2];

/// What is remembered of a queue between two looks.
#[derive(Default)]
struct Past {
    counts: VecDeque<(f64, [i64; 3])>,
    histograms: VecDeque<Histograms>,
    history: Arc<VecDeque<Point>>,
    last: [i64; 3],
}

#[derive(Default)]
struct Poller {
    client: Option<Client>,
    past: HashMap<String, Past>,
    snapshot: Snapshot,
    look: u64,
    schedules: Vec<Schedule>,
    point: Option<Instant>,
    minute: Option<Instant>,
}

/// Never returns.
pub async fn poll(database: Arc<Database>, ticks: watch::Sender<u64>) {
    let mut poller = Poller::default();
    loop {
        let began = Instant::now();
        let result = match timeout(PATIENCE, poller.look(&database)).await {
            Ok(result) => result,
            Err(_) => Err(Failure::new("the server does not answer")),
        };
        // The numbers of before stay: they are better than none, and the page says how it is.
        poller.snapshot.error = result.err().map(|failure| {
            poller.client = None;
            failure.message
        });
        database.snapshot.send_replace(Arc::new(poller.snapshot.clone()));
        ticks.send_modify(|tick| *tick += 1);
        database.prune();
        let pause = match poller.snapshot.error {
            Some(_) => AWAY,
            None if ticks.receiver_count() > 0 => WATCHED,
            None => UNWATCHED,
        };
        if pause == UNWATCHED {
            // The first viewer sees all as it is.
            poller.look = 0;
            let _ = timeout(pause, database.wake.notified()).await;
        } else {
            sleep_until((began + pause).into()).await;
        }
    }
}

/// Whether so much time has passed, and then from now on again.
fn is_time(last: &mut Option<Instant>, every: Duration) -> bool {
    let now = Instant::now();
    let is_time = last.is_none_or(|then| now.duration_since(then) >= every);
    if is_time {
        *last = Some(now);
    }
    is_time
}

impl Poller {
    async fn look(&mut self, database: &Database) -> Result<(), Failure> {
        let client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => {
                self.look = 0;
                database.connect(&database.observer).await?
            }
        };
        // Few statements: what changes slowly is not read each time.
        let all = (&i64::MAX as &(dyn ToSql + Sync), Type::INT8);
        if self.look.is_multiple_of(5) {
            let row = client.query_opt(collect::HEALTH, &[]).await?;
            self.snapshot.health = row.map(|row| collect::health(&row));
        }
        if self.look.is_multiple_of(4) {
            self.see_workers(&client.query(WORKERS, &[]).await?);
        }
        if database.has_metrics && self.look.is_multiple_of(30) {
            let rows = client.query_typed(collect::SCHEDULES, std::slice::from_ref(&all)).await?;
            self.schedules = rows.iter().map(collect::schedule).collect();
        }
        let watched = database.watched();
        if !watched.is_empty() && self.look.is_multiple_of(2) {
            let rows = client.query(TASKS, &[&watched]).await?;
            self.snapshot.tasks = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        }
        let rows = client.query_typed(collect::QUEUES, &[all]).await?;
        self.see_queues(&rows);
        self.look += 1;
        self.client = Some(client);
        Ok(())
    }

    fn see_workers(&mut self, rows: &[Row]) {
        let worker = |row: &Row| Worker {
            name: row.get(0),
            queue: row.get(1),
            running: row.get(2),
            last_seen: row.get(3),
            next_deadline: row.get(4),
            meta: row.get(5),
            draining: row.get(6),
        };
        self.snapshot.workers = rows.iter().map(worker).collect();
    }

    fn see_queues(&mut self, rows: &[Row]) {
        let is_point =
            is_time(&mut self.point, Duration::from_secs(HISTORY_SECONDS / POINTS as u64));
        let is_minute = is_time(&mut self.minute, Duration::from_secs(60));
        let mut past = std::mem::take(&mut self.past);
        let numbers: Vec<collect::Queue> = rows.iter().map(collect::queue).collect();
        let queues = rows.iter().zip(&numbers).map(|(row, it)| {
            let mut of = past.remove(&it.name).unwrap_or_default();
            let queue = queue(it, row.get("now"), &mut of, is_point, is_minute);
            self.past.insert(it.name.clone(), of);
            queue
        });
        self.snapshot.queues = queues.collect();
        self.snapshot.numbers = self.snapshot.health.clone().map(|health| {
            Arc::new(collect::Snapshot {
                health,
                leased: rows.first().and_then(|row| row.get("leased")).unwrap_or(0),
                queues: numbers,
                schedules: self.schedules.clone(),
                queues_omitted: 0,
                schedules_omitted: 0,
            })
        });
    }
}

fn queue(
    numbers: &collect::Queue,
    now: f64,
    past: &mut Past,
    is_point: bool,
    is_minute: bool,
) -> Queue {
    let (counts, histograms) = match &numbers.counters {
        Some(it) => counted(it),
        None => Default::default(),
    };
    // A queue that was dropped counts from the beginning.
    if past.counts.back().is_some_and(|(_, then)| then[0] > counts[0]) {
        *past = Past::default();
    }
    let is_new = past.counts.is_empty();
    past.counts.push_back((now, counts));
    while past.counts.len() > 2 && past.counts[1].0 < now - RATE_SECONDS {
        past.counts.pop_front();
    }
    let (then, before) = past.counts[0];
    let seconds = (now - then).max(0.001);
    let rates = [0, 1, 2].map(|n| (counts[n] - before[n]).max(0) as f64 / seconds);
    if is_minute || past.histograms.is_empty() {
        past.histograms.push_back(histograms.clone());
        if past.histograms.len() > PERCENTILE_MINUTES {
            past.histograms.pop_front();
        }
    }
    let recent = |n: usize| {
        let before = &past.histograms[0][n];
        let since = histograms[n].iter().enumerate();
        let since = since.map(|(step, count)| count - before.get(step).unwrap_or(&0));
        percentiles(&since.map(|count| count.max(0)).collect::<Vec<_>>())
    };
    let (waited, ran) = (recent(0), recent(1));
    let [waiting, ready, running] = numbers.tasks;
    if is_new {
        past.last = counts;
    }
    if is_point {
        let every = HISTORY_SECONDS as f64 / POINTS as f64;
        let rate = |n: usize| (counts[n] - past.last[n]).max(0) as f64 / every;
        let point = Point {
            ready: ready.unwrap_or(0) as f64,
            submitted: rate(0),
            settled: rate(1),
            aborted: rate(2),
        };
        past.last = counts;
        let history = Arc::make_mut(&mut past.history);
        history.push_back(point);
        if history.len() > POINTS {
            history.pop_front();
        }
    }
    let limit = |n: usize| numbers.limits[n].map(|it| it as i64);
    Queue {
        name: numbers.name.clone(),
        waiting,
        ready,
        running,
        oldest: numbers.oldest_ready,
        paused: numbers.paused,
        critical: numbers.critical,
        max_running: limit(0),
        max_ready: limit(2),
        rates,
        waited,
        ran,
        workers: numbers.workers,
        history: past.history.clone(),
    }
}

/// How many tasks were submitted, settled and aborted, and the histograms.
fn counted(counters: &Counters) -> ([i64; 3], Histograms) {
    let [submitted, _, completed, aborted, cancelled, ..] = counters.events[..] else {
        return Default::default();
    };
    let settled = completed + aborted + cancelled;
    let histograms = [&counters.ready_to_owned, &counters.owned_to_settled];
    ([submitted, settled, aborted], histograms.map(|it| it.counts.clone()))
}

//! Takes the snapshots of a database: one poller for all viewers.

use super::database::Database;
use super::snapshot::{
    HISTORY_SECONDS, Health, POINTS, Point, Queue, Snapshot, Worker, percentiles,
};
use crate::failure::Failure;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};
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

const QUEUES: &str = "
select q.queue, q.waiting::bigint, q.ready::bigint, q.running::bigint,
    extract(epoch from q.oldest_ready)::float8 as oldest, q.paused, q.critical,
    q.max_running::bigint, q.max_ready::bigint, coalesce(s.submitted, 0)::bigint as submitted,
    coalesce(s.completed + s.aborted + s.cancelled, 0)::bigint as settled,
    coalesce(s.aborted, 0)::bigint as aborted, s.ready_to_owned, s.owned_to_settled,
    extract(epoch from clock_timestamp())::float8 as now
from scylla.queues q left join scylla.stats s on s.queue = q.queue
order by q.queue";

const WORKERS: &str = "
select worker, queue, running::bigint, last_seen::text, next_deadline::text, meta::text, draining,
    last_seen > clock_timestamp() - interval '1 minute' as active
from scylla.workers order by worker, queue";

const HEALTH: &str = "
select version, open, scheduler_pid, extract(epoch from oldest_due)::float8, board_size, board_used, xmin_age, xmin_holder
from scylla.health";

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
    workers: HashMap<String, i64>,
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
        if self.look.is_multiple_of(5) {
            self.snapshot.health = client.query_opt(HEALTH, &[]).await?.map(|row| health(&row));
        }
        if self.look.is_multiple_of(3) {
            self.see_workers(&client.query(WORKERS, &[]).await?);
        }
        let rows = client.query(QUEUES, &[]).await?;
        self.see_queues(&rows);
        self.look += 1;
        self.client = Some(client);
        Ok(())
    }

    fn see_workers(&mut self, rows: &[Row]) {
        self.workers.clear();
        self.snapshot.workers.clear();
        for row in rows {
            let queue: Option<String> = row.get(1);
            if let (Some(queue), Some(true)) = (&queue, row.get("active")) {
                *self.workers.entry(queue.clone()).or_default() += 1;
            }
            self.snapshot.workers.push(Worker {
                name: row.get(0),
                queue,
                running: row.get(2),
                last_seen: row.get(3),
                next_deadline: row.get(4),
                meta: row.get(5),
                draining: row.get(6),
            });
        }
    }

    fn see_queues(&mut self, rows: &[Row]) {
        let is_point =
            is_time(&mut self.point, Duration::from_secs(HISTORY_SECONDS / POINTS as u64));
        let is_minute = is_time(&mut self.minute, Duration::from_secs(60));
        let mut past = std::mem::take(&mut self.past);
        let queues = rows.iter().map(|row| {
            let name: String = row.get(0);
            let mut of = past.remove(&name).unwrap_or_default();
            let queue = self.queue(row, &mut of, is_point, is_minute);
            self.past.insert(name, of);
            queue
        });
        let queues = queues.collect();
        self.snapshot.queues = queues;
    }

    fn queue(&self, row: &Row, past: &mut Past, is_point: bool, is_minute: bool) -> Queue {
        let now: f64 = row.get("now");
        let counts = ["submitted", "settled", "aborted"].map(|name| row.get::<_, i64>(name));
        let histograms = ["ready_to_owned", "owned_to_settled"]
            .map(|name| row.get::<_, Option<Vec<i64>>>(name).unwrap_or_default());
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
        let ready: Option<i64> = row.get(2);
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
        let name: String = row.get(0);
        Queue {
            workers: self.workers.get(&name).copied().unwrap_or(0),
            name,
            waiting: row.get(1),
            ready,
            running: row.get(3),
            oldest: row.get("oldest"),
            paused: row.get("paused"),
            critical: row.get("critical"),
            max_running: row.get(7),
            max_ready: row.get(8),
            rates,
            waited,
            ran,
            history: past.history.clone(),
        }
    }
}

fn health(row: &Row) -> Health {
    Health {
        version: row.get(0),
        open: row.get(1),
        scheduler: row.get(2),
        overdue: row.get(3),
        board_size: row.get(4),
        board_used: row.get(5),
        xmin_age: row.get(6),
        xmin_holder: row.get(7),
    }
}

//! Clients that end, stall, or get in each other's way.

use crate::run::Run;
use client::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long after its deadline a lease may go on at most until another worker gets the task.
const LATE: Duration = seconds(1);

pub fn end_between_own_and_return(run: &mut Run) -> String {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", run.times as i32);
    // When the call began and ended, and the lease's length.
    let mut owned: HashMap<Uuid, (Instant, Instant, Duration)> = HashMap::new();
    while owned.len() < run.times {
        let length = milliseconds(run.random.random_range(4_000..8_000));
        let options = format!("timeout => '{} ms'", length.as_millis());
        let mut silent = database.connect();
        let began = Instant::now();
        let leases = silent.own_with("silent", "q", run.random.random_range(1..10), &options);
        let ended = Instant::now();
        // The connection ends as that of a client which was killed, without a farewell.
        s.value::<bool>("select pg_terminate_backend($1)", &[&silent.pid]);
        for lease in leases {
            // Others come back while this goes on.
            if owned.insert(lease.id, (began, ended, length)).is_some() {
                panic!("a task was owned again by the silent client, which does not wait");
            }
            run.made_one();
        }
        if owned.values().any(|(began, _, length)| began.elapsed() + milliseconds(200) > *length) {
            break;
        }
    }
    let (mut lateness, wanted) = (Vec::new(), owned.len());
    let ends = Instant::now() + patience(seconds(15));
    let mut again = 0;
    while again < wanted {
        assert!(Instant::now() < ends, "{again} of {wanted} tasks came back");
        for lease in s.own_with("heir", "q", 1000, "timeout => '1 h'") {
            let now = Instant::now();
            let Some((began, ended, length)) = owned.remove(&lease.id) else { continue };
            let early = (began + length).saturating_duration_since(now);
            assert!(early.is_zero(), "a lease of {length:?} ended {early:?} early");
            lateness.push(now.saturating_duration_since(ended + length));
            again += 1;
        }
        sleep(milliseconds(5));
    }
    // A busy machine may delay some of them.
    lateness.sort_unstable();
    let (usual, slowest) = (lateness[wanted / 2], lateness[wanted - 1]);
    assert!(usual <= LATE, "a task came back {usual:?} after its lease, as most did");
    format!("{wanted} leases ended, the latest {} ms after its deadline", slowest.as_millis())
}

pub fn stall_past_the_lease(run: &mut Run) -> String {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", run.times as i32);
    let mut stale = s.own_with("stalled", "q", run.times as i32, "timeout => '300 ms'");
    assert_eq!(stale.len(), run.times);
    sleep(milliseconds(1_500));
    let heirs = s.own_with("heir", "q", run.times as i32, "timeout => '1 h'");
    assert_eq!(heirs.len(), run.times, "all leases have expired");
    stale.shuffle(&mut run.random);
    for lease in &stale {
        let extended: bool = s.value("select scylla.extend($1, $2)", &[&lease.id, &lease.token]);
        assert!(!extended, "a stale token extended a lease");
        for outcome in ["completed", "aborted", "retry", "yield"] {
            let refused = failure(s.return_task(lease, outcome), outcome).code().code().to_owned();
            assert!(["55000", "55006"].contains(&refused.as_str()), "{outcome}: {refused}");
        }
        run.made_one();
    }
    for lease in &heirs {
        s.return_task(lease, "completed").expect("the new token is good");
    }
    let completed = s.count("select count(*) from scylla.tasks where status = 'completed'");
    assert_eq!(completed, run.times as i64);
    format!("{} stale calls were refused", 5 * run.times)
}

const CLIENTS: u64 = 16;

pub fn overlap_batches(run: &mut Run) -> String {
    let database = database();
    let ids = database.connect().submit_many("q", 400);
    let (left, deadlocks) = (AtomicUsize::new(run.times), AtomicUsize::new(0));
    let waits = AtomicUsize::new(0);
    let seed = run.seed;
    std::thread::scope(|scope| {
        for n in 0..CLIENTS {
            let (database, ids, left) = (&database, &ids, &left);
            let (deadlocks, waits) = (&deadlocks, &waits);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed ^ n);
                let mut s = database.connect();
                let take = |left: usize| left.checked_sub(1);
                while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                    let mut some: Vec<Uuid> = (0..random.random_range(2..60))
                        .map(|_| ids[random.random_range(0..ids.len())])
                        .collect();
                    some.shuffle(&mut random);
                    let answer = batch(&mut s, &mut random, &some);
                    match answer.as_ref().map_err(code) {
                        Ok(()) => {}
                        Err(code) if code == "40P01" => {
                            _ = deadlocks.fetch_add(1, Ordering::SeqCst)
                        }
                        // Another client has just settled or owned one of them.
                        Err(code)
                            if ["55000", "55006", "P0002", "42710"].contains(&code.as_str()) =>
                        {
                            waits.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(code) => panic!("{code}: {answer:?}"),
                    }
                }
            });
        }
    });
    run.made_one();
    let deadlocks = deadlocks.load(Ordering::SeqCst);
    assert_eq!(deadlocks, 0, "deadlocks");
    format!("{} batches, {} of them refused as a whole", run.times, waits.load(Ordering::SeqCst))
}

/// One call about many tasks in a random order.
fn batch(s: &mut Session, random: &mut StdRng, some: &[Uuid]) -> Result<(), postgres::Error> {
    match random.random_range(0..10) {
        0..4 => {
            let mut leases = s.try_own("w", "q", some.len() as i32, "timeout => '2 s'")?;
            leases.shuffle(random);
            let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
                leases.iter().map(|lease| (lease.id, lease.token)).unzip();
            s.try_value::<Vec<Option<bool>>>(
                "select scylla.extend_tasks($1, $2)",
                &[&ids, &tokens],
            )?;
            let outcome = ["yield", "retry"][random.random_range(0..2)];
            let sql = format!("select scylla.return_tasks($1, $2, '{outcome}')");
            s.try_value::<Vec<Option<String>>>(&sql, &[&ids, &tokens]).map(|_| ())
        }
        4..7 => {
            // The tasks are there again, in another order.
            let sql = "select count(*) from scylla.submit_tasks(
                           (select jsonb_agg(jsonb_build_object('queue', 'q', 'key', i)) from unnest($1::uuid[]) i), atomic => false)";
            s.try_value::<i64>(sql, &[&some]).map(|_| ())
        }
        _ => {
            let sql = "select scylla.cancel_tasks($1)";
            s.try_value::<Vec<Option<bool>>>(sql, &[&some]).map(|_| ())
        }
    }
}

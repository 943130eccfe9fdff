//! Shares of the board: a database cannot lease what the others need.

use client::*;

const BOARD: usize = 1_024;
/// What is kept free for each other database.
const SHARE: usize = BOARD / 64;

const FOR_EVER: &str = "timeout => '1000 years'";

fn board() -> Server {
    Server::start(&[&format!("scylla.board_size = {BOARD}"), "scylla.persist_leases_after = 0"])
}

/// Databases that have tasks, and a worker of their own.
fn served<const N: usize>(server: &Server) -> [Database; N] {
    std::array::from_fn(|_| {
        let database = server.database();
        let mut s = database.connect();
        s.submit_many("q", 100);
        let lease = s.own_one("q");
        s.complete(&lease);
        database
    })
}

/// Owns all that it gets, and is refused any more.
#[track_caller]
fn take_all(s: &mut Session) -> Vec<Lease> {
    let leases = s.own_with("w", "q", 100_000, FOR_EVER);
    let more = failure(s.try_own("w", "q", 1, FOR_EVER), "one more");
    assert_eq!(more.code().code(), "53400", "{more:?}");
    let id = s.text("select id::text from scylla.tasks where status = 'ready' limit 1");
    assert_eq!(s.refused(&format!("select scylla.own_task('{id}', 'w')")), "53400");
    leases
}

#[test]
fn one_database_leaves_the_others_their_share() {
    let server = board();
    let [first, second, third] = served(&server);
    let mut a = first.connect();
    a.submit_many("q", 2_000);
    let leases = take_all(&mut a);
    assert_eq!(leases.len(), BOARD - 2 * SHARE);
    for other in [&second, &third] {
        let leases = other.connect().own_with("w", "q", SHARE as i32, FOR_EVER);
        assert_eq!(leases.len(), SHARE, "in {}", other.name);
    }
    // what is returned goes to a database that has less than its share
    assert_eq!(
        failure(second.connect().try_own("w", "q", 1, FOR_EVER), "17").code().code(),
        "53400"
    );
    a.complete(&leases[0]);
    assert_eq!(second.connect().own_with("w", "q", 5, FOR_EVER).len(), 1);
    server.assert_log_is_clean();
}

/// A queue that was refused gets its share of what is returned.
#[test]
fn one_queue_leaves_the_others_their_share() {
    let server = board();
    let [database] = served(&server);
    let mut s = database.connect();
    s.submit_many("q", 2_000);
    s.submit_many("late", 100);
    let leases = take_all(&mut s);
    assert_eq!(leases.len(), BOARD);
    assert_eq!(failure(s.try_own("w", "late", 1, FOR_EVER), "late").code().code(), "53400");
    leases[..SHARE + 10].iter().for_each(|lease| s.complete(lease));
    assert_eq!(s.own_with("w", "q", 100, FOR_EVER).len(), 10);
    assert_eq!(s.own_with("w", "late", 100, FOR_EVER).len(), SHARE);
    server.assert_log_is_clean();
}

/// What was leased before a restart counts after it.
#[test]
fn restored_leases_count() {
    let server = board();
    let [first, second] = served(&server);
    let mut a = first.connect();
    a.submit_many("q", 2_000);
    let leases = take_all(&mut a);
    assert_eq!(leases.len(), BOARD - SHARE);
    let written = "select count(*) from scylla.lease";
    eventually(seconds(20), "the leases are written", || {
        (a.count(written) as usize == leases.len()).then_some(())
    });
    server.stop("fast");
    server.start_again();
    let mut a = first.connect();
    assert!(a.extend(&leases[0]));
    assert_eq!(failure(a.try_own("w", "q", 1, FOR_EVER), "one more").code().code(), "53400");
    let mut b = second.connect();
    assert_eq!(b.own_with("w", "q", SHARE as i32, FOR_EVER).len(), SHARE);
    server.assert_log_is_clean();
}

/// I4: also with a lane for each task.
#[test]
fn one_database_leaves_the_others_their_lanes() {
    let server = board();
    let [first, second] = served(&server);
    let mut a = first.connect();
    a.run("select from scylla.submit_tasks((select jsonb_agg(jsonb_build_object('queue', 'q', 'action', 'a' || i)) from generate_series(1, 3000) i))");
    a.own_with("w", "q", 100_000, FOR_EVER);
    let mut b = second.connect();
    b.run("select from scylla.submit_tasks((select jsonb_agg(jsonb_build_object('queue', 'b' || i)) from generate_series(1, 16) i))");
    for n in 1..=SHARE {
        b.own_one_with(&format!("b{n}"), FOR_EVER);
    }
    server.assert_log_is_clean();
}

/// I4: lanes without a lease make room.
#[test]
fn lanes_of_one_database_are_not_in_the_way_of_another() {
    let server = board();
    let [first, second] = served(&server);
    let mut b = second.connect();
    let many = "select from scylla.submit_tasks((select jsonb_agg(jsonb_build_object('queue', 'q' || i)) from generate_series(1, 3000) i))";
    first.connect().run(many);
    for n in 1..=50 {
        let queue = format!("b{n}");
        b.submit(&queue);
        b.own_one_with(&queue, FOR_EVER);
    }
    server.assert_log_is_clean();
}

/// I4: more queues than lanes, and each of them served at the first call.
#[test]
fn queues_that_find_no_lane_are_served() {
    let server = board();
    let [database] = served(&server);
    database.connect().run(
        "select from scylla.submit_tasks((
             select jsonb_agg(jsonb_build_object('queue', 'q' || i)) from generate_series(1, 3000) i))",
    );
    let workers = [0, 1, 2].map(|first| {
        let mut s = database.connect();
        std::thread::spawn(move || {
            for n in (1..=3_000).rev().skip(first).step_by(3) {
                let lease = s.own_one(&format!("q{n}"));
                s.complete(&lease);
            }
        })
    });
    workers.into_iter().for_each(|worker| worker.join().expect("no error"));
    server.assert_log_is_clean();
}

//! Servers that have too little of something: room for notifications, connections, processes,
//! memory, space on disk. I1, I10, I11, B114.

use crate::history::log::Fault;
use crate::run::Run;
use crate::victim::{Victim, judge, summary, under_load};
use client::*;
use rand::RngExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// How late what is due may be done.
const LATE: Duration = seconds(5);

/// A delayed task fires and a lease expires in time; how late the later of them was.
fn duties_are_done(s: &mut Session) -> Duration {
    s.submit("lease");
    let held = s.own_one_with("lease", "timeout => '300 ms'").id;
    let due = s.submit_with("time", "run_at => clock_timestamp() + interval '300 ms'");
    sleep(milliseconds(300));
    let began = Instant::now();
    let look = "select count(*) from scylla.tasks where id = any ($1) and status = 'ready'";
    let ids = vec![held, due];
    eventually(seconds(60), "a lease expires and a task fires", || {
        (s.value::<i64>(look, &[&ids]) == 2).then_some(())
    });
    s.run("select scylla.cancel_tasks(array(select id from scylla.task where queue in ('lease', 'time')))");
    let late = began.elapsed();
    assert!(late <= patience(LATE), "a duty was {late:?} late");
    late
}

/// Fills PostgreSQL's queue of notifications, which a listener in an open transaction keeps full.
pub fn fill_the_notification_queue(run: &mut Run) -> String {
    let server = Server::start(&["fsync = off"]);
    let database = server.database();
    let (mut s, mut listener) = (database.connect(), database.connect());
    listener.run("set idle_in_transaction_session_timeout = 0");
    // LISTEN takes effect at its commit.
    listener.run("listen other");
    listener.run("begin");
    listener.count("select count(*) from scylla.task");
    let mut n = 0;
    let refused = loop {
        n += 1;
        let many = format!(
            "select count(pg_notify('other', repeat('x', 7900) || n)) from generate_series({n}00000, {n}19999) n"
        );
        if let Err(error) = s.batch_execute(&many) {
            break code(&error);
        }
        assert!(n < 100, "the queue of notifications is not full after {} GB", n * 20 / 128);
    };
    let full = s.value::<f64>("select pg_notification_queue_usage()", &[]);
    assert!(full > 0.9, "{full}, {refused}");
    let mut latest = Duration::ZERO;
    for _ in 0..20 {
        s.submit_many("q", 50);
        s.submit_with("q", "post_result => true");
        let leases = s.own("w", "q", 100);
        assert_eq!(leases.len(), 51, "no submit fails");
        leases.iter().for_each(|lease| s.complete(lease));
        latest = latest.max(duties_are_done(&mut s));
    }
    // A client that goes on would have to read all of it.
    drop(listener);
    let mut hears = database.connect();
    hears.run("listen \"scylla.q\"");
    run.made_one();
    use postgres::fallible_iterator::FallibleIterator;
    // The scheduler makes room once a minute.
    eventually(seconds(60), "notifications are sent again", || {
        s.submit("q");
        let mut notifications = hears.notifications();
        notifications.timeout_iter(seconds(1)).next().expect("the connection lives")
    });
    format!("{:.0} % full; duties at most {} ms late", full * 100.0, latest.as_millis())
}

/// Five times as many connections as the server takes.
pub fn crowd_the_server(run: &mut Run) -> String {
    let server = Server::start(&["max_connections = 100", "superuser_reserved_connections = 0"]);
    let database = server.database();
    let mut s = database.connect();
    let (mut open, mut refused) = (Vec::new(), 0);
    for _ in 0..500 {
        match database.try_connect() {
            Ok(session) => open.push(session),
            Err(error) => {
                assert_eq!(code(&error), "53300");
                refused += 1;
            }
        }
    }
    run.made_one();
    let latest = (0..3).map(|_| duties_are_done(&mut s)).max().unwrap();
    for session in &mut open {
        session.submit("q");
        let lease = session.own_one("q");
        session.complete(&lease);
    }
    let count = open.len();
    assert!(count + refused == 500 && refused > 400, "{count} sessions");
    drop(open);
    server.assert_log_is_clean();
    format!("{count} sessions, {refused} refused; duties at most {} ms late", latest.as_millis())
}

/// More databases than the server has processes for: they are served by their callers, and the log
/// says what is missing.
pub fn use_up_the_processes(run: &mut Run) -> String {
    const DATABASES: usize = 6;
    let server = Server::start(&["max_worker_processes = 4", "max_parallel_workers = 0"]);
    let databases: Vec<Database> = (0..DATABASES).map(|_| server.database()).collect();
    let mut sessions: Vec<Session> = databases.iter().map(Database::connect).collect();
    let served = |server: &Server| {
        let look = "select count(*) from pg_stat_activity where backend_type = 'scylla scheduler'";
        server.connect().count(look) as usize
    };
    eventually(seconds(30), "all places are taken", || (served(&server) > 0).then_some(()));
    sleep(seconds(3));
    let count = served(&server);
    assert!(count < DATABASES, "{count} schedulers");
    for s in &mut sessions {
        let id = s.submit("q");
        s.own_one_with("q", "timeout => '100 ms'");
        let again =
            eventually(seconds(20), "a caller finds what is due", || s.own("w", "q", 1).pop());
        assert_eq!(again.id, id);
        s.complete(&again);
        s.run("select scylla.submit('sql waits', run_at => now() + interval '200 ms')");
        eventually(seconds(20), "a task fires", || s.own("w", "sql waits", 1).pop());
    }
    let hint = |line: &str| line.contains("HINT:") && line.contains("max_worker_processes");
    eventually(seconds(70), "the log says what is missing", || {
        server.log().lines().any(hint).then_some(())
    });
    let name = databases.iter().find(|it| !it.schedulers().is_empty()).map(|it| it.name.clone());
    drop(sessions);
    let left: Vec<Database> =
        databases.into_iter().filter(|it| Some(&it.name) != name.as_ref()).collect();
    eventually(seconds(40), "another database has the place", || {
        (served(&server) == count && left.iter().any(|it| !it.schedulers().is_empty()))
            .then_some(())
    });
    run.made_one();
    server.assert_log_is_clean();
    format!("{count} of {DATABASES} databases have a scheduler")
}

/// Specs of a gigabyte and arrays of millions, with and without the memory for them.
pub fn exhaust_memory(run: &mut Run) -> String {
    const CALLS: &[&str] = &[
        "scylla.submit('q', to_jsonb(repeat('x', 260000000)))",
        "scylla.submit('q', (repeat('[', 5000000) || repeat(']', 5000000))::jsonb)",
        "scylla.submit('q', to_jsonb(array_fill(repeat('x', 100000000), array[9])))",
        "scylla.submit(repeat('q', 1000000000))",
        "scylla.submit('q', after => array_fill(gen_random_uuid(), array[5000000]))",
        "scylla.submit_many('q', array_fill('{}'::jsonb, array[5000000]))",
        "scylla.submit_many('q', array_fill(to_jsonb(repeat('x', 900000)), array[1000]))",
        "scylla.submit_tasks((select jsonb_agg(n) from generate_series(1, 3000000) n))",
        "scylla.cancel_tasks(array_fill(gen_random_uuid(), array[5000000]))",
        "scylla.delete_tasks(array_fill(gen_random_uuid(), array[5000000]))",
        "scylla.extend_tasks(array_fill(gen_random_uuid(), array[5000000]), array_fill(gen_random_uuid(), array[5000000]))",
        "scylla.return_tasks(array_fill(gen_random_uuid(), array[100000]), array_fill(gen_random_uuid(), array[100000]), 'aborted', errors => array_fill(to_jsonb(repeat('x', 900)), array[100000]))",
        "scylla.add_dependencies(array_fill(gen_random_uuid(), array[5000000]), array_fill(gen_random_uuid(), array[5000000]))",
        "scylla.own_tasks('w', 'q', 2147483647, array_fill('a'::text, array[5000000]))",
        "scylla.delay('m', now(), 'q', repeat('x', 260000000))",
        "scylla.delay_messages('q', (select jsonb_agg(n) from generate_series(1, 3000000) n))",
        "scylla.run_sql(repeat(' ', 1000000000))",
        "scylla.next_runs('every 1 second', 2147483647)",
    ];
    let server = Server::start(&["fsync = off"]);
    let database = server.database();
    let mut watch = database.connect();
    let started = watch.text("select pg_postmaster_start_time()::text");
    let (mut refused, mut short) = (0, 0);
    for n in 0..run.times {
        let mut s = database.connect();
        s.run("select scylla.retry_worst_case(1, '0', '0'); set statement_timeout = '20 s'");
        let megabytes = if n < CALLS.len() { 3000 } else { run.random.random_range(5..1500) };
        spare_memory(s.pid, megabytes << 20);
        let sql = format!("select count(*) from {}", CALLS[n % CALLS.len()]);
        if let Err(error) = s.batch_execute(&sql) {
            let code = code(&error);
            let clean = ["53200", "54000", "22023", "54001", "57014"];
            assert!(clean.contains(&&*code), "{code} with {megabytes} MB: {sql}: {error:?}");
            refused += 1;
            short += usize::from(code == "53200");
        }
        limit_memory(s.pid, "unlimited");
        s.run("select scylla.cancel_tasks(array(select id from scylla.task))");
        run.made_one();
    }
    assert_eq!(watch.text("select pg_postmaster_start_time()::text"), started, "no restart");
    duties_are_done(&mut watch);
    server.assert_log_is_clean();
    format!("{refused} of {} calls refused, {short} of them for want of memory", run.times)
}

/// A file system in memory, which is unmounted with this value.
struct Mount(PathBuf);

impl Mount {
    /// Beside a server's folder, of so many megabytes; `None` when this user may not mount.
    fn new(server: &Server, name: &str, megabytes: u32) -> Option<Mount> {
        let file = server.path("PG_VERSION");
        let owner = std::fs::metadata(&file).ok()?.uid();
        let at = file.parent()?.with_extension(name);
        std::fs::create_dir_all(&at).ok()?;
        let size = format!("size={megabytes}m,mode=700,uid={owner}");
        let mut mount = Command::new("mount");
        let answer = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at).output();
        answer.ok()?.status.success().then_some(Mount(at))
    }

    /// Takes all the space there is.
    fn fill(&self) {
        let _ = std::io::copy(
            &mut std::io::repeat(1),
            &mut std::fs::File::create(self.0.join("filler")).expect("a file"),
        );
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("filler")).expect("the filler");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

const NO_MOUNT: &str = "only root may mount a file system that gets full";

/// How often the server's log tells of a full disk.
fn times_full(server: &Server) -> usize {
    server.log().matches("No space left on device").count()
}

/// The file system of a database's tables is full for a while.
pub fn fill_the_data(run: &mut Run) -> String {
    let victim = Victim::start(&["fsync = off"]);
    let Some(mount) = Mount::new(&victim.server, "data", 100) else { return run.skip(NO_MOUNT) };
    let mut s = victim.server.connect();
    s.run(&format!("create tablespace small location '{}'", mount.0.display()));
    s.run(&format!("alter database {} set tablespace small", victim.database.name));
    let (seen, ()) = under_load(&victim.database, run.seed, || {
        for _ in 0..run.times {
            mount.fill();
            sleep(milliseconds(run.random.random_range(2000..4000)));
            mount.free();
            sleep(seconds(2));
            run.made_one();
        }
    });
    let refused = times_full(&victim.server);
    assert!(refused > 0, "the disk was never full");
    let verdict = judge(&victim.database, &seen, &[]);
    victim.server.assert_log_is_clean();
    let text = format!("{refused} writes failed; {}", summary(&seen, &verdict));
    drop(victim);
    drop(mount);
    text
}

/// The file system of the write-ahead log is full for a while, which ends the server.
pub fn fill_the_log(run: &mut Run) -> String {
    let victim = Victim::start(&["max_wal_size = '64 MB'", "min_wal_size = '32 MB'"]);
    let Some(mount) = Mount::new(&victim.server, "wal", 150) else { return run.skip(NO_MOUNT) };
    victim.server.stop("fast");
    let (wal, there) = (victim.server.path("pg_wal"), mount.0.join("pg_wal"));
    let moved = format!("mv {0} {1} && ln -s {1} {0}", wal.display(), there.display());
    let status = Server::spawn("sh", &["-c", &moved]).wait().expect("sh");
    assert!(status.success(), "{moved}");
    victim.server.start_again();
    let mut bulk = victim.server.connect();
    bulk.run("create table bulk (t text)");
    drop(bulk);
    let (seen, faults) = under_load(&victim.database, run.seed, || {
        let mut faults = Vec::new();
        for _ in 0..run.times {
            mount.fill();
            let at = Instant::now();
            eventually(seconds(120), "the log is full", || {
                let mut s = victim.server.try_connect().ok();
                let bulk =
                    "insert into bulk select repeat('x', 1000) from generate_series(1, 20000)";
                s.as_mut().is_none_or(|s| s.batch_execute(bulk).is_err()).then_some(())
            });
            sleep(milliseconds(run.random.random_range(0..2000)));
            mount.free();
            victim.server.stop("immediate");
            victim.server.start_again();
            victim.server.wait_until_up();
            faults.push(Fault::Crash { at, up: Instant::now() });
            run.made_one();
            sleep(seconds(2));
        }
        faults
    });
    let verdict = judge(&victim.database, &seen, &faults);
    assert!(times_full(&victim.server) > 0, "the disk was never full");
    let text = format!("full {} times; {}", run.times, summary(&seen, &verdict));
    drop(victim);
    drop(mount);
    text
}

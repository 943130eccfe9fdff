//! Extensions and databases that come and go while they are served.

use crate::run::Run;
use client::*;
use rand::RngExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a command about a database may take, and a scheduler that has none any more.
const SOON: Duration = seconds(5);

/// Waits until each database has the scheduler that belongs there, and no other has one.
fn served_exactly(server: &Server, databases: &[&str]) {
    let look = "select coalesce(string_agg(distinct datname::text, ',' order by datname::text), '')
                from pg_stat_activity where backend_type like 'scylla%' and datname is not null";
    let mut s = server.connect();
    let wanted = databases.join(",");
    let mut last = String::new();
    let began = Instant::now();
    while began.elapsed() < patience(SOON) {
        last = s.text(look);
        if last == wanted {
            return;
        }
        sleep(milliseconds(20));
    }
    panic!("schedulers serve {last:?}, and should serve {wanted:?}");
}

/// Errors that a call gets while the extension, or the database, goes.
const GONE: &[&str] =
    &["55000", "57P03", "42P01", "42883", "3F000", "57P01", "0A000", "3D000", "40P01", "lost"];

/// What PostgreSQL says, with XX000, of any function that is dropped while it is called.
const DROPPED: &str = "cache lookup failed for function";

/// Whether a call may get this error while the extension goes.
fn is_of_gone(error: &Error) -> bool {
    GONE.contains(&code(error).as_str())
        || error.as_db_error().is_some_and(|it| it.message().starts_with(DROPPED))
}

/// Drops the extension. Its tables are locked in no order that calls could follow: of a deadlock,
/// either side may be the one that ends.
fn drop_extension(s: &mut Session) {
    while let Err(error) = s.batch_execute("drop extension scylla cascade") {
        assert_eq!(code(&error), "40P01", "{}", explain(&error));
    }
}

pub fn race_extensions(run: &mut Run) -> String {
    let server = Server::start(&[]);
    let database = server.bare_database();
    let (stop, calls) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let (database, stop, calls) = (&database, &stop, &calls);
                scope.spawn(move || {
                    let mut session = None::<Session>;
                    while !stop.load(Ordering::Relaxed) {
                        let Some(s) = session.as_mut() else {
                            session = database.try_connect().ok();
                            continue;
                        };
                        let answer = s.batch_execute("select scylla.submit('q')").and_then(|()| {
                            s.batch_execute("select * from scylla.own_tasks('w', 'q', 9)")
                        });
                        match answer {
                            Ok(()) => _ = calls.fetch_add(1, Ordering::Relaxed),
                            Err(error) if is_of_gone(&error) => {}
                            Err(error) => panic!("a call got {}", explain(&error)),
                        }
                        if s.is_dead() {
                            session = None;
                        }
                    }
                })
            })
            .collect();
        let raced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut s = database.connect();
            for n in 0..run.times {
                let before = calls.load(Ordering::Relaxed);
                s.run("create extension scylla");
                sleep(milliseconds(run.random.random_range(0..200)));
                if n % 2 == 0 {
                    let is_met = || calls.load(Ordering::Relaxed) > before;
                    eventually(SOON, "a call meets the extension", || is_met().then_some(()));
                }
                drop_extension(&mut s);
                sleep(milliseconds(run.random.random_range(0..20)));
                run.made_one();
            }
        }));
        stop.store(true, Ordering::Relaxed);
        callers.into_iter().for_each(|it| it.join().expect("a caller"));
        raced.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    served_exactly(&server, &[]);
    database.connect().run("create extension scylla");
    served_exactly(&server, &[&database.name]);
    server.assert_log_has_only(Some(&format!("client backend XX000 ERROR:  {DROPPED}")));
    format!("{} calls met the extension", calls.into_inner())
}

pub fn command_databases(run: &mut Run) -> String {
    let server = Server::start(&[]);
    let mut s = server.connect();
    let mut slowest = Duration::ZERO;
    for n in 0..run.times {
        let database = server.database();
        let mut caller = database.connect();
        caller.submit("q");
        caller.own("w", "q", 1);
        drop(caller);
        let (name, other) = (database.name.clone(), format!("other_{n}"));
        // What a DBA does: no FORCE, the scheduler leaves of itself.
        let (command, gone) = match n % 3 {
            0 => (format!("drop database {name}"), None),
            1 => (format!("alter database {name} rename to {other}"), Some(&other)),
            _ => (format!("create database {other} template {name}"), Some(&other)),
        };
        sleep(milliseconds(run.random.random_range(0..50)));
        let began = Instant::now();
        eventually(SOON, &command, || s.batch_execute(&command).ok());
        slowest = slowest.max(began.elapsed());
        if let Some(other) = gone {
            let began = Instant::now();
            eventually(SOON, "DROP DATABASE", || {
                s.batch_execute(&format!("drop database {other}")).ok()
            });
            slowest = slowest.max(began.elapsed());
        }
        drop(database);
        run.made_one();
    }
    served_exactly(&server, &[]);
    server.assert_log_is_clean();
    format!("the slowest command took {} ms", slowest.as_millis())
}

//! Depending on a task that is just ending.

use crate::assert_empty;
use client::*;
use std::sync::{Barrier, Mutex};

/// A dependent that is submitted or added while its predecessor is returned, cancelled or deleted
/// neither waits for ever nor runs too early.
#[test]
fn dependent_of_an_ending_task_is_neither_lost_nor_early() {
    const ROUNDS: usize = 3_000;
    let database = database();
    let mut s = database.connect();
    s.submit_many("p", ROUNDS as i32);
    let leases = s.own_with("w", "p", ROUNDS as i32, "timeout => '10 minutes'");
    let spare = s.submit_many("q", ROUNDS as i32);
    let barrier = Barrier::new(2);
    let made: Mutex<Vec<(Uuid, usize)>> = Mutex::default();
    std::thread::scope(|scope| {
        let (mut ender, mut dependent) = (database.connect(), database.connect());
        let (leases, barrier, made, spare) = (&leases, &barrier, &made, &spare);
        scope.spawn(move || {
            for (round, lease) in leases.iter().enumerate() {
                barrier.wait();
                match round % 4 {
                    0 => ender.complete(lease),
                    1 => drop(ender.return_task(lease, "aborted").unwrap()),
                    2 => assert!(ender.cancel(lease.id)),
                    _ => assert!([1, 2].contains(&ender.delete(&[lease.id]))),
                }
            }
        });
        scope.spawn(move || {
            let submit =
                dependent.prepare("select scylla.submit('q', after => array[$1::uuid])").unwrap();
            for (round, lease) in leases.iter().enumerate() {
                barrier.wait();
                if round % 8 < 4 {
                    let row = dependent.query_one(&submit, &[&lease.id]).unwrap();
                    made.lock().unwrap().push((row.get(0), round));
                } else {
                    dependent.link(lease.id, spare[round]).unwrap();
                    made.lock().unwrap().push((spare[round], round));
                }
            }
        });
    });
    eventually(seconds(5), "no task waits", || (s.tasks("waiting") == 0).then_some(()));
    let look = "select coalesce((select status from scylla.tasks where id = $1), 'deleted')";
    for (id, round) in made.into_inner().unwrap() {
        let status: String = s.value(look, &[&id]);
        let expected: &[&str] =
            [&["ready"][..], &["aborted"], &["aborted"], &["ready", "deleted"]][round % 4];
        assert!(expected.contains(&status.as_str()), "round {round}: {status}");
    }
    while let leases @ [_, ..] = &*s.own("w", "q", 5_000) {
        crate::return_all(&mut s, leases);
    }
    assert_empty(&mut s);
}

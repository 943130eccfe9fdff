//! Two sessions that each add a part of a cycle: exactly one is refused.

use crate::new_ids;
use client::*;
use rand::RngExt;
use std::sync::{Barrier, Mutex};

/// In 10,000 cycles of two and more tasks there is no deadlock, and exactly one session is refused.
#[test]
fn halves_of_a_cycle_from_two_sessions() {
    const ROUNDS: usize = 10_000;
    let database = database();
    let mut s = database.connect();
    let barrier = Barrier::new(2);
    let refused: Mutex<Vec<u8>> = Mutex::new(vec![0; ROUNDS]);
    // For each round: its tasks, and the edges that each side adds.
    let cycles: Vec<Vec<Uuid>> =
        (0..ROUNDS).map(|_| new_ids(rand::rng().random_range(2..6))).collect();
    for some in cycles.chunks(1_000) {
        let graph: Vec<_> = some.iter().flatten().map(|id| (*id, Vec::new())).collect();
        crate::submit_graph(&mut s, "q", &graph);
    }
    std::thread::scope(|scope| {
        for side in [0, 1] {
            let (mut s, cycles) = (database.connect(), &cycles);
            let (barrier, refused) = (&barrier, &refused);
            scope.spawn(move || {
                let add = s.prepare("select scylla.add_dependencies($1, $2)").unwrap();
                for (round, ids) in cycles.iter().enumerate() {
                    let cut = 1 + round % (ids.len() - 1);
                    let links = ids.iter().zip(ids.iter().cycle().skip(1));
                    let mine = links.enumerate().filter(|(n, _)| (*n < cut) == (side == 0));
                    let (after, run): (Vec<Uuid>, Vec<Uuid>) = mine.map(|(_, link)| link).unzip();
                    barrier.wait();
                    match s.query_one(&add, &[&after, &run]) {
                        Ok(row) => assert_eq!(row.get::<_, i32>(0), after.len() as i32),
                        Err(error) => {
                            assert_eq!(code(&error), "22023", "{error:?}");
                            refused.lock().unwrap()[round] += 1;
                        }
                    }
                }
            });
        }
    });
    let refused = refused.into_inner().unwrap();
    assert!(refused.iter().all(|n| *n == 1), "exactly one side of each");
}

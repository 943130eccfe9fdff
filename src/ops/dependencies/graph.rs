//! Walks over the graph of dependencies.

use crate::pg::datum::UUIDS;
use crate::pg::spi::{Session, statement};
use crate::pg::uuid::Uuid;
use crate::storage::edges::links_in;
use crate::storage::rows::ids;
use std::collections::HashMap;
use std::collections::HashSet;

statement!(FOLLOWERS, "dependencies/dependents", [UUIDS]);

/// The links behind some tasks: to those that wait for them, and on.
pub fn downstream(session: &Session, tasks: impl Iterator<Item = Uuid>) -> Vec<(Uuid, Uuid)> {
    let mut links = Vec::new();
    let mut wave: HashSet<Uuid> = tasks.collect();
    let mut seen = wave.clone();
    while !wave.is_empty() {
        pgrx::check_for_interrupts!();
        let rows = session.run(&FOLLOWERS, &[ids(wave.into_iter())]);
        let found: Vec<(Uuid, Uuid)> = links_in(&rows).collect();
        wave = found.iter().map(|(_, task)| *task).filter(|task| seen.insert(*task)).collect();
        links.extend(found);
    }
    links
}

/// Which tasks of some links (predecessor, task) wait in a circle, or for those that do.
pub fn in_circles(links: impl Iterator<Item = (Uuid, Uuid)>) -> HashSet<Uuid> {
    let links: HashSet<(Uuid, Uuid)> = links.collect();
    let mut waits_for: HashMap<Uuid, usize> = HashMap::new();
    let mut followers: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    for (after, task) in &links {
        *waits_for.entry(*task).or_default() += 1;
        followers.entry(*after).or_default().push(*task);
    }
    let mut free: Vec<Uuid> =
        followers.keys().copied().filter(|id| !waits_for.contains_key(id)).collect();
    while let Some(id) = free.pop() {
        for task in followers.get(&id).into_iter().flatten() {
            if let Some(left) = waits_for.get_mut(task) {
                *left -= 1;
                if *left == 0 {
                    waits_for.remove(task);
                    free.push(*task);
                }
            }
        }
    }
    waits_for.into_keys().collect()
}

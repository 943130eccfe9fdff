//! Walks over the graph of dependencies: everything downstream of a task, and cycles.

use crate::pg::datum::UUIDS;
use crate::pg::spi::{Session, statement};
use crate::pg::uuid::Uuid;
use crate::storage::edges::edges_in;
use crate::storage::rows::ids;
use std::collections::{HashMap, HashSet};

statement!(DEPENDENTS, "dependencies/dependents", [UUIDS]);

/// All edges that can be reached from `tasks`: to their dependents, to the dependents of these, and
/// on.
pub fn downstream(session: &Session, tasks: impl Iterator<Item = Uuid>) -> Vec<(Uuid, Uuid)> {
    let mut edges = Vec::new();
    let mut wave: HashSet<Uuid> = tasks.collect();
    let mut seen = wave.clone();
    while !wave.is_empty() {
        pgrx::check_for_interrupts!();
        let rows = session.run(&DEPENDENTS, &[ids(wave.into_iter())]);
        let found: Vec<(Uuid, Uuid)> = edges_in(&rows).collect();
        wave = found.iter().map(|(_, task)| *task).filter(|task| seen.insert(*task)).collect();
        edges.extend(found);
    }
    edges
}

/// The tasks on a cycle of `edges` (predecessor, task), or downstream of one.
pub fn in_cycles(edges: impl Iterator<Item = (Uuid, Uuid)>) -> HashSet<Uuid> {
    let edges: HashSet<(Uuid, Uuid)> = edges.collect();
    let mut waits_for: HashMap<Uuid, usize> = HashMap::new();
    let mut dependents: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    for (after, task) in &edges {
        *waits_for.entry(*task).or_default() += 1;
        dependents.entry(*after).or_default().push(*task);
    }
    let mut free: Vec<Uuid> =
        dependents.keys().copied().filter(|id| !waits_for.contains_key(id)).collect();
    while let Some(id) = free.pop() {
        for task in dependents.get(&id).into_iter().flatten() {
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

/// A cycle, found from one of the `stuck` tasks of some edges (predecessor, task): each task waits
/// for the next one, and the last for the first.
pub fn find_cycle(
    edges: impl Iterator<Item = (Uuid, Uuid)>,
    stuck: &HashSet<Uuid>,
    from: Uuid,
) -> Vec<Uuid> {
    // Each stuck task waits for a stuck one. The least one will do, and is always the same.
    let mut next: HashMap<Uuid, Uuid> = HashMap::new();
    for (after, task) in edges.filter(|(after, _)| stuck.contains(after)) {
        next.entry(task).and_modify(|it| *it = after.min(*it)).or_insert(after);
    }
    let (mut way, mut positions, mut task) = (Vec::new(), HashMap::new(), from);
    while !positions.contains_key(&task) {
        positions.insert(task, way.len());
        way.push(task);
        task = next.get(&task).copied().unwrap_or(task);
    }
    way.split_off(positions[&task])
}

//! Deleting: tasks go without a trace, and with them those that are left with nothing to wait for.

use crate::ops::dependencies::count_down::{Counts, let_go, take_up_for};
use crate::ops::dependencies::graph::downstream;
use crate::ops::locking::lock::Locked;
use crate::pg::datum::UUIDS;
use crate::pg::spi::statement;
use crate::pg::uuid::Uuid;
use crate::shmem::database::Home;
use crate::shmem::xact;
use crate::storage::edges::detach;
use crate::storage::rows::{ids, ids_of, session};
use std::collections::{BTreeSet, HashMap};

statement!(DELETE_LIVE, "finish/delete_live", [UUIDS]);
statement!(DELETE_FINISHED, "finish/delete_finished", [UUIDS]);

/// Deletes tasks; returns how many went, those that were left with nothing to wait for included.
pub fn delete(home: &Home, wanted: &[Uuid]) -> usize {
    let session = session(home);
    let wanted: BTreeSet<Uuid> = wanted.iter().copied().collect();
    // Whoever may go is locked in the order of the ids, as by everybody; then no link can be added.
    let mut reach = wanted.clone();
    let (locked, links) = loop {
        reach.extend(downstream(&session, wanted.iter().copied()).into_iter().map(|it| it.1));
        let locked = Locked::these(home, &session, &reach.iter().copied().collect::<Vec<_>>());
        // What settled before this may be all that somebody still seems to wait for.
        if take_up_for(home, &session, &locked.ids) {
            continue;
        }
        let links = downstream(&session, wanted.iter().copied());
        if links.iter().all(|(_, task)| reach.contains(task)) {
            break (locked, links);
        }
    };
    let mut followers: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    for (after, task) in links {
        followers.entry(after).or_default().push(task);
    }
    let mut left: HashMap<Uuid, usize> =
        locked.ids.iter().enumerate().map(|(at, id)| (*id, locked.pending(at))).collect();
    let mut wave: Vec<Uuid> = wanted.iter().copied().filter(|id| left.contains_key(id)).collect();
    let mut gone: BTreeSet<Uuid> = wave.iter().copied().collect();
    while let Some(id) = wave.pop() {
        for task in followers.get(&id).into_iter().flatten() {
            if let Some(left) = left.get_mut(task) {
                *left = left.saturating_sub(1);
                if *left == 0 && gone.insert(*task) {
                    wave.push(*task);
                }
            }
        }
    }
    let mut counts = Counts::default();
    if !gone.is_empty() {
        let gone: Vec<Uuid> = gone.iter().copied().collect();
        let places = gone.iter().filter_map(|id| locked.ids.binary_search(id).ok());
        xact::promise(home, places.map(|at| locked.leaves(at)));
        locked.unlink(&session, &gone);
        for (after, task) in detach(&session, gone.iter().copied()) {
            counts.note(after, task, false);
        }
        session.run(&DELETE_LIVE, &[ids(gone.into_iter())]);
    }
    let_go(home, &session, counts);
    gone.len() + ids_of(&session, &DELETE_FINISHED, wanted.into_iter()).len()
}

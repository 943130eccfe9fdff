//! Heartbeats: move a lease's deadline on the board. No row is written; a rollback does not undo
//! it.

use crate::extension::database::Database;
use crate::ops::lease::worker::NO_QUEUE;
use crate::pg::time;
use crate::pg::uuid::{Uuid, token_hash};
use crate::shmem::segment;
use crate::storage::rows::{LIVE, ids_of, session, settled};
use crate::{guc, xact};
use board::{CANCELLED, Extended, Micros, TokenHash, Wall};
use std::collections::{HashMap, HashSet};

/// A lease after a wish to extend it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kept {
    /// It has this deadline now; `None`: it never expires.
    Held(Option<Wall>),
    /// The token is not valid.
    Lost,
}

/// Moves the deadlines of leases to now + `length` (`None`: the length each was taken with). True
/// for each lease whose token is valid. `progress`: of each task, or nothing.
pub fn extend(
    db: &Database,
    leases: &[(Uuid, Uuid)],
    length: Option<Micros>,
    progress: &[Option<f64>],
) -> Vec<bool> {
    let kept = keep(db, leases, length, progress);
    kept.into_iter().map(|kept| kept != Kept::Lost).collect()
}

fn keep(
    db: &Database,
    leases: &[(Uuid, Uuid)],
    length: Option<Micros>,
    progress: &[Option<f64>],
) -> Vec<Kept> {
    let length = length.map(|length| length.min(guc::max_lease_timeout()));
    let hashed: Vec<(Uuid, TokenHash)> =
        leases.iter().map(|(id, token)| (*id, token_hash(*token))).collect();
    let mut kept = vec![Kept::Lost; hashed.len()];
    let ending = xact::ending();
    let positions: Vec<usize> = (0..hashed.len()).collect();
    let mut now = time::now();
    db.in_steps(
        &positions,
        |board, entry, at| {
            let (id, token_hash) = &hashed[at];
            let progress = progress.get(at).copied().flatten();
            let is_ending = |at: u32| {
                let slot = board.slot_at(at, entry);
                slot.is_some_and(|it| ending.has(it.ticket(at), id.0))
            };
            if !ending.is_empty() && board.find_slot(entry, id.0).is_some_and(is_ending) {
                return Some((Kept::Lost, None));
            }
            let kept = match board.extend(entry, id.0, token_hash, now, length, progress) {
                Extended::Yes(deadline) => Kept::Held(deadline),
                Extended::No => Kept::Lost,
                Extended::Busy => {
                    now = time::now();
                    return None;
                }
            };
            Some((kept, board.wants_scheduler(entry).then_some(entry)))
        },
        |at, (answer, woken)| {
            kept[at] = answer;
            woken.into_iter().for_each(segment::wake_scheduler);
        },
    );
    kept
}

/// What a worker is told of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseState {
    /// The lease is extended to this deadline; `None`: it never expires.
    Held(Option<Wall>),
    /// The task was cancelled.
    Cancelled,
    /// The task has completed, or was aborted.
    Settled,
    /// The task is live, and another worker owns it, or no worker does.
    Lost,
    /// There is no such task.
    Gone,
}

impl LeaseState {
    /// The state's word in SQL.
    pub fn word(self) -> &'static str {
        match self {
            LeaseState::Held(_) => "held",
            LeaseState::Cancelled => "cancelled",
            LeaseState::Settled => "settled",
            LeaseState::Lost => "lost",
            LeaseState::Gone => "gone",
        }
    }

    pub fn deadline(self) -> Option<Wall> {
        match self {
            LeaseState::Held(deadline) => deadline,
            _ => None,
        }
    }
}

/// As `extend`, and notes that the worker lives. Shows the state of each lease, in order.
pub fn heartbeat(
    db: &Database,
    worker: &[u8],
    leases: &[(Uuid, Uuid)],
    length: Option<Micros>,
    progress: &[Option<f64>],
    mut show: impl FnMut(Uuid, LeaseState),
) {
    let now = time::now().wall;
    db.on_board(|board, entry| board.note_worker(entry, NO_QUEUE, worker, now));
    let kept = keep(db, leases, length, progress);
    let is_lost = |(_, kept): &(&(Uuid, Uuid), &Kept)| **kept == Kept::Lost;
    let lost: Vec<Uuid> =
        leases.iter().zip(&kept).filter(is_lost).map(|((id, _), _)| *id).collect();
    let (live, ended) = ends(db, &lost);
    for ((id, _), kept) in leases.iter().zip(kept) {
        let state = match (kept, ended.get(id)) {
            (Kept::Held(deadline), _) => LeaseState::Held(deadline),
            _ if live.contains(id) => LeaseState::Lost,
            (_, Some(status)) if status == CANCELLED => LeaseState::Cancelled,
            (_, Some(_)) => LeaseState::Settled,
            (_, None) => LeaseState::Gone,
        };
        show(*id, state);
    }
}

/// Which of some tasks are live, and the statuses of those that have settled. A task that settles
/// between the two looks is found by the second.
fn ends(db: &Database, wanted: &[Uuid]) -> (HashSet<Uuid>, HashMap<Uuid, String>) {
    if wanted.is_empty() {
        return (HashSet::new(), HashMap::new());
    }
    let session = session(db);
    let live: HashSet<Uuid> = ids_of(&session, &LIVE, wanted.iter().copied()).into_iter().collect();
    let others: Vec<Uuid> = wanted.iter().copied().filter(|id| !live.contains(id)).collect();
    let ended = match others.is_empty() {
        true => HashMap::new(),
        false => settled(&session, others.into_iter()).into_iter().collect(),
    };
    (live, ended)
}

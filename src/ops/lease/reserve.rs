//! Reserving: takes tasks off the board for the current transaction, under short holds of the
//! board's lock (I8). The end of the transaction leases them or puts them back (I2).

use crate::extension::database::Database;
use crate::ops::supply::inline;
use crate::ops::supply::search::Found as Candidate;
use crate::pg::uuid::{Uuid, token_hash};
use crate::shmem::segment::{self, AT_ONCE};
use crate::xact::{self, Change};
use board::{Blocked, Board, Claim, Claimed, Freed, GroupPlace, Next, Room, State, TokenHash};

/// How many tasks of a queue with aging are taken under one hold of the lock: each takes a look at
/// the first task of each priority (I8).
const AGED_AT_ONCE: usize = 16;

/// Why taking from the board ended.
#[allow(clippy::large_enum_variant, reason = "taken apart at once")]
pub enum Stop {
    Enough,
    /// No scheduler ends leases whose deadline has passed.
    NoScheduler,
    /// The slots that are left are other databases' shares.
    Full,
    /// The board has no task at hand; `Next` says why.
    NoTask(Next),
    /// The queue hands out nothing now.
    Blocked(Blocked),
    /// The worker is asked to stop.
    Draining,
}

/// The result of reserving one task by its id.
pub enum Found {
    Draining,
    Blocked(Blocked),
    Full,
    Running,
    Task(Claimed),
}

/// Whether the reason for which a queue hands out nothing may not hold for this transaction, since
/// it ends some of the queue's leases. Notes how many in `freed`.
pub fn may_use_own(why: Blocked, freed: &mut Freed) -> bool {
    let Blocked::MaxRunning(place) = why else { return false };
    if freed.is_some_and(|known| known.0 == place) {
        return false;
    }
    let count = xact::endings_in(place);
    *freed = Some((place, count));
    count > 0
}

/// With many actions to look at, fewer tasks are taken under one hold of the lock (I8).
pub fn most_at_once(actions: Option<&[&[u8]]>) -> usize {
    let looks = actions.map_or(1, |actions| actions.len().max(1));
    (AT_ONCE * 16 / looks).clamp(1, AT_ONCE)
}

/// Tokens, each with its hash.
fn new_tokens(count: usize) -> Vec<(Uuid, TokenHash)> {
    (0..count).map(|_| Uuid::random()).map(|token| (token, token_hash(token))).collect()
}

/// Reserves tasks on the board under one hold of its lock, and registers what the end of the
/// transaction does with them.
pub fn take(
    db: &Database,
    (queue, actions): (&[u8], Option<&[&[u8]]>),
    wanted: usize,
    claim: &Claim,
    (freed, groups): (Freed, &[(GroupPlace, u32)]),
    served_inline: bool,
) -> (Vec<(Claimed, Uuid)>, u32, Stop) {
    let tokens = new_tokens(wanted);
    let mut taken = Vec::with_capacity(wanted);
    xact::reserve(wanted);
    let (entry, stop, wakes_scheduler) = db.on_board(|board, entry| {
        let drains = board.note_worker(entry, queue, claim.worker, claim.now.wall);
        let found = board.find_queue(entry, queue);
        let mut room = board.room_for(entry, found, claim.now.monotonic);
        let stop = loop {
            if drains {
                break Stop::Draining;
            }
            if !served_inline
                && board.entry(entry).scheduler == 0
                && inline::is_wanted(board, entry, claim.now)
            {
                break Stop::NoScheduler;
            }
            let Some((token, token_hash)) = tokens.get(taken.len()) else { break Stop::Enough };
            if taken.len() == AGED_AT_ONCE && found.is_some_and(|queue| board.ages(queue)) {
                break Stop::Enough;
            }
            if let Some(why) = board.blocked(entry, found, claim.now.monotonic, freed) {
                break Stop::Blocked(why);
            }
            let mut next = board.next_in_queue(entry, found, actions, claim.now.wall);
            if matches!(next, Next::Empty) {
                match board.next_in_freed(found, actions, groups) {
                    Next::Empty => {}
                    freed => next = freed,
                }
            }
            match next {
                Next::Task(_) if !board.fits(&mut room) => break Stop::Full,
                Next::Task(at) => taken.push((board.reserve(at, claim, *token_hash), *token)),
                next => break Stop::NoTask(next),
            }
        };
        if matches!(stop, Stop::Full) {
            board.note_refused(entry, found, claim.now.monotonic);
        }
        (entry, stop, board.wants_scheduler(entry))
    });
    xact::at_commit(db, taken.iter().map(|(taken, _)| Change::Own(taken.ticket)));
    if wakes_scheduler {
        segment::wake_scheduler(entry);
    }
    (taken, entry, stop)
}

/// Reserves a task that has a slot, unless it is pinned, or its group is full.
pub fn reserve(
    board: &mut Board,
    entry: u32,
    at: u32,
    claim: &Claim,
    token_hash: TokenHash,
    groups: &[(GroupPlace, u32)],
    room: &mut Room,
) -> Found {
    let is_queued = board.slot_at(at, entry).is_some_and(|it| it.state() == State::Queued);
    let found = match board.slot_blocked(at, groups) {
        _ if !is_queued => Found::Running,
        Some(why) => Found::Blocked(why),
        None if !board.fits(room) => Found::Full,
        None => return Found::Task(board.reserve(at, claim, token_hash)),
    };
    board.release_unpinned(at);
    found
}

/// As `take`, of tasks that were found in the table, in their order. Also returns whether the board
/// has no slot for one.
pub fn take_found(
    db: &Database,
    queue: &[u8],
    page: &[Candidate],
    wanted: usize,
    claim: &Claim,
    freed: &mut Freed,
) -> (Vec<(Claimed, Uuid)>, bool) {
    let groups = xact::endings_in_groups();
    let tokens = new_tokens(wanted.min(page.len()));
    let mut taken = Vec::with_capacity(tokens.len());
    xact::reserve(tokens.len());
    let (mut at, mut is_full) = (0, false);
    while at < page.len() && taken.len() < tokens.len() && !is_full {
        let end = page.len().min(at + AT_ONCE);
        let before = taken.len();
        let (entry, blocked, wakes_scheduler) = db.on_board(|board, entry| {
            let found = board.find_queue(entry, queue);
            let mut room = board.room_for(entry, found, claim.now.monotonic);
            let mut blocked = None;
            while at < end && taken.len() < tokens.len() {
                let found = board.find_queue(entry, queue);
                blocked = board.blocked(entry, found, claim.now.monotonic, *freed);
                if blocked.is_some() {
                    break;
                }
                let (it, (token, hash)) = (&page[at], tokens[taken.len()]);
                at += 1;
                let slot = board.ensure_slot(entry, it.lane(queue), it.rank, it.timeout);
                let Some(slot) = slot else {
                    is_full = true;
                    break;
                };
                board.note_row(entry, it.rank.id, it.row);
                match reserve(board, entry, slot, claim, hash, &groups, &mut room) {
                    Found::Task(claimed) => {
                        taken.push((claimed, token));
                        if let Some(group) = it.group {
                            let queue = board.find_queue(entry, queue);
                            board.set_next_group(queue, group.wrapping_add(1));
                        }
                    }
                    Found::Full => {
                        is_full = true;
                        break;
                    }
                    Found::Blocked(_) | Found::Draining | Found::Running => {}
                }
            }
            if is_full {
                board.note_refused(entry, board.find_queue(entry, queue), claim.now.monotonic);
            }
            (entry, blocked, board.wants_scheduler(entry))
        });
        xact::at_commit(db, taken[before..].iter().map(|(it, _)| Change::Own(it.ticket)));
        if wakes_scheduler {
            segment::wake_scheduler(entry);
        }
        match blocked {
            Some(why) if may_use_own(why, freed) => {}
            // The next look at the board tells the caller.
            Some(_) => break,
            None => {}
        }
    }
    (taken, is_full)
}

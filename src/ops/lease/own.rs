//! Owning: the best tasks leave the board for a worker; no row is written (I6).

use crate::error::{self, Error, Result};
use crate::guc;
use crate::ops::maintenance::inline;
use crate::ops::queues::max_tries::MaxTries;
use crate::ops::sql;
use crate::ops::supply::order::{self, Wait};
use crate::ops::supply::search::{self, Asked, Found as Candidate};
use crate::ops::supply::{Supplied, Supply};
use crate::pg::datum::{self, UUID};
use crate::pg::process;
use crate::pg::spi::statement;
use crate::pg::time;
use crate::pg::uuid::{Uuid, token_hash};
use crate::shmem::database::Database;
use crate::shmem::segment::{self, AT_ONCE, with_board};
use crate::shmem::xact::{self, Change};
use crate::storage::lookup::{OwnedColumns, TaskLookup};
use crate::storage::rows::{BoardKey, session, settled, share};
use board::{
    Blocked, Board, Claim, Claimed, Event, Events, Freed, GroupPlace, Micros, Next, Room, State,
    TokenHash, Wall,
};
use pgrx::pg_sys::{self, Datum};

statement!(FIND, "lease/find", [UUID]);

/// A task that a worker owns now. The data live until the next one is shown.
pub struct Owned {
    pub id: Uuid,
    pub token: Uuid,
    pub action: Option<Datum>,
    pub spec: Option<Datum>,
    pub priority: Option<Datum>,
    pub key: Option<Datum>,
    pub tries: i32,
    pub num_failures: Option<Datum>,
    /// `None`: the lease never expires.
    pub deadline: Option<Wall>,
    pub group_key: Option<Datum>,
    pub created: Option<Datum>,
    /// 0: no limit.
    pub max_tries: i32,
    pub meta: Option<Datum>,
}

/// How many rows are read under one snapshot.
const READ_AT_ONCE: usize = 1_024;

/// How many tasks of a queue with aging are taken under one hold of the lock: each takes a look at
/// the first task of each priority (I8).
const AGED_AT_ONCE: usize = 16;

/// How many groups in which a transaction makes room are looked at for each task (I8).
const GROUPS_AT_ONCE: usize = 16;

/// Why taking from the board ended.
#[allow(clippy::large_enum_variant, reason = "taken apart at once")]
enum Stop {
    Enough,
    /// No scheduler ends leases whose deadline has passed.
    NoScheduler,
    /// What is left of the board are other databases' shares.
    Full,
    /// The board has no task at hand; `Next` says why.
    NoTask(Next),
    /// The queue hands out nothing now.
    Blocked(Blocked),
    /// The worker is asked to stop.
    Draining,
}

/// The result of reserving one task by its id.
enum Found {
    Draining,
    Blocked(Blocked),
    Full,
    Running,
    Task(Claimed),
}

/// Leases up to `most` tasks of a queue to a worker, the best first, and shows each to `show`;
/// returns how many. `length`: of the leases; `None`: each task's own.
pub fn own_tasks(
    db: &Database,
    worker: &[u8],
    queue: &[u8],
    most: usize,
    actions: Option<&[&[u8]]>,
    length: Option<Micros>,
    mut show: impl FnMut(Owned),
) -> Result<usize> {
    let session = session(db);
    let mut supply = Supply::default();
    let (mut owned, mut served_inline) = (0, false);
    let (mut held, mut freed) = (Vec::new(), None);
    // What this transaction ends makes room in groups, once the others have nothing.
    let (mut groups, mut in_groups) = (Vec::new(), 0..0);
    let (mut looked_behind, mut wait) = (false, Wait::default());
    wait.until_in_order(db, queue);
    let mut claim = claim_now(worker, queue, length);
    while owned < most {
        pgrx::check_for_interrupts!();
        let wanted = (most - owned - held.len()).min(most_at_once(actions));
        let (taken, entry, stop) = {
            let freed = (freed, &groups[in_groups.clone()]);
            take(db, (queue, actions), wanted, &claim, freed, served_inline)
        };
        held.extend(taken);
        if matches!(stop, Stop::Enough) && held.len() < READ_AT_ONCE.min(most - owned) {
            continue;
        }
        if !held.is_empty() {
            supply.found();
            owned += hand_out(db, queue, std::mem::take(&mut held), &mut show);
        }
        match stop {
            Stop::Enough => {}
            Stop::NoScheduler => {
                served_inline = true;
                inline::serve_inline(db, entry);
            }
            Stop::NoTask(Next::Empty)
                if in_groups.end == 0 && {
                    groups = xact::endings_in_groups();
                    !groups.is_empty()
                } =>
            {
                in_groups = 0..groups.len().min(GROUPS_AT_ONCE);
            }
            Stop::NoTask(Next::Empty) if in_groups.end < groups.len() => {
                let end = groups.len().min(in_groups.end + GROUPS_AT_ONCE);
                in_groups = in_groups.end..end;
            }
            Stop::NoTask(next) => {
                let asked = Asked { queue, actions, most: most - owned };
                let supplied = match supply.bring(db, &session, entry, &asked, next) {
                    // What this transaction settles may let the next tasks of the groups come.
                    Supplied::Nothing if !std::mem::replace(&mut looked_behind, true) => {
                        Supplied::Found(order::bring_own(db, &session, queue, actions, None))
                    }
                    supplied => supplied,
                };
                match supplied {
                    Supplied::Again => claim = claim_now(worker, queue, length),
                    Supplied::Found(page) => {
                        claim = claim_now(worker, queue, length);
                        let (taken, is_full) =
                            take_found(db, queue, &page, asked.most, &claim, &mut freed);
                        if is_full && owned == 0 && taken.is_empty() {
                            return Err(full(db));
                        }
                        if !taken.is_empty() {
                            supply.found();
                            owned += hand_out(db, queue, taken, &mut show);
                        }
                        if is_full {
                            break;
                        }
                    }
                    Supplied::Nothing if owned == 0 && wait.wait(db, queue) => {
                        supply.found();
                        claim = claim_now(worker, queue, length);
                    }
                    Supplied::Nothing => break,
                }
            }
            Stop::Blocked(why) if may_use_own(why, &mut freed) => {}
            Stop::Blocked(_) => break,
            Stop::Full if owned == 0 => return Err(full(db)),
            Stop::Full | Stop::Draining => break,
        }
    }
    Ok(owned)
}

/// Leases one ready task by its id. `permit`: whether a task of a queue may be owned.
pub fn own_task(
    db: &Database,
    id: Uuid,
    worker: &[u8],
    length: Option<Micros>,
    permit: impl Fn(&[u8]) -> Result<()>,
    show: impl FnMut(Owned),
) -> Result<()> {
    let session = session(db);
    let mut wait = Wait::default();
    let rows = loop {
        let rows = session.run(&FIND, &[Some(id.datum())]);
        let is_behind = rows.len() > 0 && datum::number(rows.get(0, 7)) != 0;
        let queue = is_behind.then(|| datum::text(rows.get(0, 0)));
        let comes = |queue: &[u8]| {
            !order::bring_own(db, &session, queue, None, Some(id)).is_empty()
                || wait.wait(db, queue)
        };
        if !queue.as_deref().is_some_and(comes) {
            break rows;
        }
    };
    if rows.len() == 0 {
        let found = settled(&session, [id].into_iter()).pop();
        return Err(found.map_or_else(
            || error::no_such_task(id),
            |(id, status)| error::wrong_status(id, &status),
        ));
    }
    let place = BoardKey::at(&rows, 0, 0, id);
    permit(&place.queue)?;
    if datum::number(rows.get(0, 6)) == 0 {
        return Err(error::wrong_status(id, "waiting"));
    }
    if datum::number(rows.get(0, 7)) != 0 && search::is_free(db, id) {
        return Err(error::not_next(&place.queue));
    }
    let claim = claim_now(worker, &place.queue, length);
    let token = Uuid::random();
    let hashed = token_hash(token);
    xact::reserve(1);
    let mut freed = None;
    let groups = xact::endings_in_groups();
    let found = loop {
        let (found, early) = db.on_board(|board, entry| {
            if board.drains(entry, worker) {
                return (Found::Draining, (false, entry));
            }
            let queue = board.find_queue(entry, &place.queue);
            let found = match board.blocked(entry, queue, claim.now.monotonic, freed) {
                Some(why) => Found::Blocked(why),
                None => match board.ensure_slot(entry, place.lane(), place.rank, place.timeout) {
                    None => Found::Full,
                    Some(at) => {
                        let mut room = board.room_for(entry, queue, claim.now.monotonic);
                        reserve(board, entry, at, &claim, hashed, &groups, &mut room)
                    }
                },
            };
            if matches!(found, Found::Full) {
                board.note_refused(entry, queue, claim.now.monotonic);
            }
            (found, (board.wants_scheduler(entry), entry))
        });
        if early.0 {
            segment::wake_scheduler(early.1);
        }
        match found {
            Found::Blocked(why) if may_use_own(why, &mut freed) => {}
            found => break found,
        }
    };
    match found {
        Found::Draining => Err(error::worker_drains(worker)),
        Found::Blocked(why) => Err(error::blocked(why, &place.queue, &db.database_name())),
        Found::Full => Err(full(db)),
        Found::Running => Err(error::wrong_status(id, "running")),
        Found::Task(taken) => {
            xact::at_commit(db, [Change::Own(taken.ticket)]);
            // Settled between the two looks at its row.
            match hand_out(db, &place.queue, vec![(taken, token)], show) {
                0 => Err(error::wrong_status(id, "no longer ready")),
                _ => Ok(()),
            }
        }
    }
}

fn full(db: &Database) -> Error {
    error::board_full(&db.database_name())
}

/// Whether the reason for which a queue hands out nothing may not hold for this transaction, since
/// it ends some of the queue's leases. Notes how many in `freed`.
fn may_use_own(why: Blocked, freed: &mut Freed) -> bool {
    let Blocked::MaxRunning(place) = why else { return false };
    if freed.is_some_and(|known| known.0 == place) {
        return false;
    }
    let count = xact::endings_in(place);
    *freed = Some((place, count));
    count > 0
}

/// With many actions to look at, fewer tasks are taken under one hold of the lock (I8).
fn most_at_once(actions: Option<&[&[u8]]>) -> usize {
    let looks = actions.map_or(1, |actions| actions.len().max(1));
    (AT_ONCE * 16 / looks).clamp(1, AT_ONCE)
}

fn claim_now<'w>(worker: &'w [u8], queue: &[u8], length: Option<Micros>) -> Claim<'w> {
    let holder = process::id();
    let fallback = guc::lease_timeout();
    // The lease of an SQL command ends with its process.
    let longest = if queue == sql::QUEUE { Micros::MAX } else { guc::max_lease_timeout() };
    Claim { worker, holder, now: time::now(), length, fallback, longest }
}

/// Tokens, each with its hash.
fn new_tokens(count: usize) -> Vec<(Uuid, TokenHash)> {
    (0..count).map(|_| Uuid::random()).map(|token| (token, token_hash(token))).collect()
}

/// Reserves tasks on the board under one hold of its lock, and registers what the end of the
/// transaction does with them.
fn take(
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

/// Reserves a task that has a slot, unless it is held, or its group is full.
fn reserve(
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
    board.release_unheld(at);
    found
}

/// As `take`, of tasks that were found in the table, in their order. Also returns whether the board
/// has no slot for one.
fn take_found(
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

/// Checks what was taken against the table, under a snapshot taken after it left the board (I5),
/// and shows it in the board's order. Returns how many there were; strays leave the board.
fn hand_out(
    db: &Database,
    queue: &[u8],
    taken: Vec<(Claimed, Uuid)>,
    mut show: impl FnMut(Owned),
) -> usize {
    let Some(mut lookup) = TaskLookup::open(db, pg_sys::AccessShareLock) else {
        error::not_created().raise()
    };
    let now = time::now().wall;
    let mut tries = MaxTries::new(db, queue);
    let mut shown = 0;
    let mut events = Events::NONE;
    for (taken, token) in taken {
        match lookup.at(Uuid(taken.id), taken.row) {
            Some(seen) if is_of_queue(&seen, queue) => {
                let [.., ready_since] = seen;
                let waited = ready_since.map_or(Micros::ZERO, |since| now - datum::wall(since));
                events.note_wait(waited);
                let owned = owned(seen, taken, token, |own| tries.of(own));
                show(owned);
                shown += 1;
            }
            // Only what this transaction itself wrote can hide a row that others see. A row of
            // another queue, which has got the id meanwhile, is looked for again in its lane.
            other => {
                let hidden = other.is_some() || process::has_written();
                with_board(|board| board.drop_stray(taken.ticket, hidden));
            }
        }
    }
    lookup.close();
    if shown > 0 {
        events.note(Event::Owned, shown);
        xact::count(db, &share(queue), |counts| counts.events.add(&events));
    }
    shown
}

fn is_of_queue(seen: &OwnedColumns, queue: &[u8]) -> bool {
    // SAFETY: the queue is a text.
    seen[0].is_some_and(|it| unsafe { datum::slice(it) } == queue)
}

fn owned(
    seen: OwnedColumns,
    taken: Claimed,
    token: Uuid,
    max_tries: impl FnOnce(Option<i32>) -> i32,
) -> Owned {
    let [_, action, spec, priority, key, tries, num_failures, group_key, created, limit, meta, _] =
        seen;
    Owned {
        id: Uuid(taken.id),
        token,
        action,
        spec,
        priority,
        key,
        // The ownership that begins is counted, though the row learns of it at its end only.
        tries: datum::number(tries) as i32 + 1,
        num_failures,
        deadline: taken.deadline_at,
        group_key,
        created,
        max_tries: max_tries(limit.map(|it| it.value() as i32)),
        meta,
    }
}

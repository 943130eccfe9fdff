//! Owning: the best tasks leave the board for a worker; no row is written (I6).

use crate::error::{self, Error, Result};
use crate::extension::database::Database;
use crate::guc;
use crate::ops::lease::hand_out::{Owned, hand_out};
use crate::ops::lease::reserve::{
    Found, Stop, may_use_own, most_at_once, reserve, take, take_found,
};
use crate::ops::supply::inline;
use crate::ops::supply::order::{self, Wait};
use crate::ops::supply::search::{self, Asked};
use crate::ops::supply::{Supplied, Supply};
use crate::pg::datum::{self, UUID};
use crate::pg::process;
use crate::pg::spi::statement;
use crate::pg::time;
use crate::pg::uuid::{Uuid, token_hash};
use crate::shmem::segment;
use crate::shmem::sql_record;
use crate::storage::rows::{BoardKey, session, settled};
use crate::xact::{self, Change};
use board::{Claim, Micros, Next};

statement!(FIND, "lease/find", [UUID]);

/// How many rows are read under one snapshot.
const READ_AT_ONCE: usize = 1_024;

/// How many groups in which a transaction makes room are looked at for each task (I8).
const GROUPS_AT_ONCE: usize = 16;

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
    let (mut taken_so_far, mut freed) = (Vec::new(), None);
    // Leases that this transaction ends make room in their groups, used once others have nothing.
    let (mut groups, mut in_groups) = (Vec::new(), 0..0);
    let (mut looked_behind, mut wait) = (false, Wait::default());
    wait.until_in_order(db, queue);
    let mut claim = claim_now(worker, queue, length);
    while owned < most {
        pgrx::check_for_interrupts!();
        let wanted = (most - owned - taken_so_far.len()).min(most_at_once(actions));
        let (taken, entry, stop) = {
            let freed = (freed, &groups[in_groups.clone()]);
            take(db, (queue, actions), wanted, &claim, freed, served_inline)
        };
        taken_so_far.extend(taken);
        if matches!(stop, Stop::Enough) && taken_so_far.len() < READ_AT_ONCE.min(most - owned) {
            continue;
        }
        if !taken_so_far.is_empty() {
            supply.found();
            owned += hand_out(db, queue, std::mem::take(&mut taken_so_far), &mut show);
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
                    // Tasks that this transaction settles may let the next ones of their groups
                    // come.
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

/// Leases one ready task by its id. `authorize`: whether a task of a queue may be owned.
pub fn own_task(
    db: &Database,
    id: Uuid,
    worker: &[u8],
    length: Option<Micros>,
    authorize: impl Fn(&[u8]) -> Result<()>,
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
    let key = BoardKey::at(&rows, 0, 0, id);
    authorize(&key.queue)?;
    if datum::number(rows.get(0, 6)) == 0 {
        return Err(error::wrong_status(id, "waiting"));
    }
    if datum::number(rows.get(0, 7)) != 0 && search::is_free(db, id) {
        return Err(error::not_next(&key.queue));
    }
    let claim = claim_now(worker, &key.queue, length);
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
            let queue = board.find_queue(entry, &key.queue);
            let found = match board.blocked(entry, queue, claim.now.monotonic, freed) {
                Some(why) => Found::Blocked(why),
                None => match board.ensure_slot(entry, key.lane(), key.rank, key.timeout) {
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
        Found::Blocked(why) => Err(error::blocked(why, &key.queue, &db.database_name())),
        Found::Full => Err(full(db)),
        Found::Running => Err(error::wrong_status(id, "running")),
        Found::Task(taken) => {
            xact::at_commit(db, [Change::Own(taken.ticket)]);
            // Settled between the two looks at its row.
            match hand_out(db, &key.queue, vec![(taken, token)], show) {
                0 => Err(error::wrong_status(id, "no longer ready")),
                _ => Ok(()),
            }
        }
    }
}

fn full(db: &Database) -> Error {
    error::board_full(&db.database_name())
}

fn claim_now<'w>(worker: &'w [u8], queue: &[u8], length: Option<Micros>) -> Claim<'w> {
    let holder = process::id();
    let fallback = guc::lease_timeout();
    // The lease of an SQL command ends with its process.
    let longest = if queue == sql_record::QUEUE { Micros::MAX } else { guc::max_lease_timeout() };
    Claim { worker, holder, now: time::now(), length, fallback, longest }
}

//! Returning: a worker ends its leases, and the tasks settle or are ready again.

use crate::error::{self, Error, Result};
use crate::extension::database::Database;
use crate::ops::dependencies::count_down::settle_dependents;
use crate::ops::finish::begin::{Busy, begin_each};
use crate::ops::finish::retry;
use crate::pg::process;
use crate::pg::spi::Session;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::storage::ending::Ending;
use crate::storage::rows::{LOCK, Whereabouts, ids, session, whereabouts};
use crate::storage::settle::{release, settle};
use crate::xact::{self, Change};
use board::{Board, End, Lease, Outcome, READY, Refusal, TokenHash, Wall};
use pgrx::pg_sys::Datum;

/// One task to return, and what comes with it.
#[derive(Clone, Copy)]
pub struct Return {
    pub id: Uuid,
    pub token_hash: TokenHash,
    pub outcome: Outcome,
    pub result: Option<Datum>,
    pub error: Option<Datum>,
    /// When the task is to be tried again; `None`: after its pause.
    pub run_at: Option<Wall>,
}

impl Return {
    fn settles(&self) -> bool {
        matches!(self.outcome.end(), End::Settled(_))
    }

    /// One of the outcomes that end together with this one.
    fn kind(&self) -> Outcome {
        if self.settles() { Outcome::Completed } else { self.outcome }
    }
}

/// The endings of tasks that are returned, each with its position among the returns.
type Endings = Vec<(usize, Ending)>;

/// Returns tasks. For each, in order: its status now, or why its token is refused.
pub fn return_tasks(db: &Database, returns: &[Return]) -> Vec<Result<&'static str, Refusal>> {
    let mut answers = vec![Err(Refusal::Stale); returns.len()];
    // Every transaction locks rows in the order of their ids.
    let mut order: Vec<usize> = (0..returns.len()).collect();
    order.sort_by_key(|at| returns[*at].id);
    let mut endings = Vec::with_capacity(returns.len());
    begin_ends(db, returns, &order, |at, began| {
        let Return { id, result, error, outcome, .. } = returns[at];
        match began {
            Ok((lease, discards)) => {
                let is_discarded = discards && outcome == Outcome::Completed;
                let lease = Some(lease);
                endings.push((at, Ending { id, lease, result, error, is_discarded }));
            }
            Err(refusal) => answers[at] = Err(refusal),
        }
    });
    // A lease that the scheduler was ending comes after later ones.
    endings.sort_by_key(|(_, ending)| ending.id);
    let Some((first, _)) = endings.first() else { return answers };
    let session = session(db);
    let kind = returns[*first].kind();
    if endings.iter().all(|(at, _)| returns[*at].kind() == kind) {
        end(db, &session, kind, returns, endings, &mut answers);
        return answers;
    }
    // Tasks of one kind end together: their rows are locked before, in the order of all.
    session.run(&LOCK, &[ids(endings.iter().map(|(_, ending)| ending.id))]);
    for kind in [Outcome::Completed, Outcome::Retry, Outcome::Yield] {
        let (own, others) = endings.into_iter().partition(|(at, _)| returns[*at].kind() == kind);
        endings = others;
        end(db, &session, kind, returns, own, &mut answers);
    }
    answers
}

/// Ends leases, sorted by the ids of their tasks, with outcomes of one kind.
fn end(
    db: &Database,
    session: &Session,
    kind: Outcome,
    returns: &[Return],
    endings: Endings,
    answers: &mut [Result<&'static str, Refusal>],
) {
    if endings.is_empty() {
        return;
    }
    let (positions, endings): (Vec<usize>, Vec<Ending>) = endings.into_iter().unzip();
    let mut ended = match kind.end() {
        End::Settled(_) => {
            let status = |n: usize| match returns[positions[n]].outcome.end() {
                End::Settled(status) | End::Released(status) => status,
            };
            settle(db, session, status, &endings)
        }
        End::Released(event) => release(db, session, event, &endings),
    };
    settle_dependents(db, session, &ended);
    if kind.takes_run_at() {
        retry::postpone(db, session, &mut ended, |id| {
            let at = endings.binary_search_by_key(&id, |ending| ending.id).ok();
            at.and_then(|at| returns[positions[at]].run_at)
        });
    }
    ended.sort_unstable_by_key(|ended| ended.id);
    let find = |id: Uuid| {
        ended.binary_search_by_key(&id, |ended| ended.id).ok().map(|at| ended[at].status)
    };
    for (at, ending) in positions.into_iter().zip(&endings) {
        answers[at] = find(ending.id).ok_or(Refusal::Stale);
    }
    // Tasks that are not live, or not ready, must not go back into a lane.
    if let End::Released(_) = kind.end() {
        let gone = endings.iter().map(|ending| ending.id).filter(|id| find(*id) != Some(READY));
        xact::at_commit(db, gone.map(|id| Change::Gone(id.0)));
    }
}

/// Why the token of a single task was refused.
pub fn explain(db: &Database, id: Uuid, refusal: Refusal) -> Error {
    if let Refusal::Reserved(process) = refusal {
        return error::still_reserved(id, process);
    }
    match whereabouts(&session(db), id) {
        Whereabouts::Settled(status) => error::wrong_status(id, &status),
        Whereabouts::Nowhere => error::no_such_task(id),
        Whereabouts::Live if refusal == Refusal::Ending => error::being_returned(id),
        Whereabouts::Live => error::stale_token(id),
    }
}

/// A lease that this transaction ends, and whether its task is deleted when it completes.
type Begun = (Lease, bool);

/// Compares tokens and begins to end the leases (I7), each of which it shows by its position among
/// the returns, or why its token is refused.
fn begin_ends(
    db: &Database,
    returns: &[Return],
    order: &[usize],
    show: impl FnMut(usize, Result<Begun, Refusal>),
) {
    let me = process::id();
    let now = time::now().wall;
    let begin = |board: &mut Board, entry, at: usize| {
        let it = &returns[at];
        match board.begin_end(entry, it.id.0, &it.token_hash, me) {
            Err(Refusal::Busy) => Err(Busy),
            Err(refusal) => Ok((None, Err(refusal))),
            Ok((ticket, lease)) => {
                board.note_seen(ticket.slot, now);
                let change = if it.settles() { Change::Finish } else { Change::Release };
                let change = change(ticket, board.freed_place(&lease));
                Ok((Some(change), Ok((lease, board.discards(&lease)))))
            }
        }
    };
    begin_each(db, order, begin, show);
}

/// As `return_tasks`, for one task whose refusal is an error.
pub fn return_task(db: &Database, it: Return) -> Result<&'static str> {
    let answer = return_tasks(db, &[it]).pop().unwrap_or(Err(Refusal::Stale));
    answer.map_err(|refusal| explain(db, it.id, refusal))
}

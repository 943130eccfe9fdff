//! Returning: a worker ends its leases, and the tasks settle or are ready again.

use crate::error::{self, Error, Result};
use crate::moves::follow::follow;
use crate::moves::transfer::transfer;
use crate::moves::{LIVE, id_at, ids_of, retry, session, settled};
use crate::pg::datum::{
    self, BOOLS, FLOATS, JSONBS, Kind, TEXT, TEXTS, TIMESTAMPTZ, TIMESTAMPTZS, UUIDS,
};
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::time;
use crate::pg::uuid::{self, Uuid, seal};
use crate::shmem::database::Home;
use crate::shmem::segment;
use crate::shmem::xact::{self, AT_ONCE, Change};
use board::Backoff;
use board::{ABORTED, CANCELLED, COMPLETED, End, Outcome, READY, RETRIED};
use board::{Refusal, Seal, Slot, Ticket};
use pgrx::pg_sys::{self, Datum};

statement!(
    SETTLE,
    "finish/settle",
    [TEXT, TIMESTAMPTZ, UUIDS, TEXTS, TIMESTAMPTZS, BOOLS, FLOATS, JSONBS, JSONBS]
);
statement!(
    RELEASE,
    "finish/release",
    [TEXT, TIMESTAMPTZ, UUIDS, TEXTS, TIMESTAMPTZS, BOOLS, FLOATS, JSONBS]
);

/// One task to return, and what comes with it.
#[derive(Clone, Copy)]
pub struct Return {
    pub id: Uuid,
    pub token: Uuid,
    pub result: Option<Datum>,
    pub error: Option<Datum>,
}

/// An ownership that ends, as the tables are to tell of it.
pub struct Ending {
    pub id: Uuid,
    /// The lease, if there was one.
    pub lease: Option<Slot>,
    pub result: Option<Datum>,
    pub error: Option<Datum>,
}

impl Ending {
    /// Of a task that nobody owns.
    pub fn of(id: Uuid) -> Ending {
        Ending { id, lease: None, result: None, error: None }
    }

    /// The lease, if there was one that the history does not tell of.
    pub fn untold(&self) -> Option<&Slot> {
        self.lease.as_ref().filter(|lease| !lease.recorded)
    }

    /// How far the task is now.
    pub fn progress(&self, word: &str) -> f64 {
        if word == COMPLETED {
            1.0
        } else {
            self.lease.as_ref().map_or(0.0, |lease| lease.progress)
        }
    }
}

/// Returns tasks; what is to be retried not before `run_at`, if that is given. For each, in order: its status now, or why its token does not serve.
pub fn return_tasks(
    home: &Home,
    returns: &[Return],
    outcome: Outcome,
    run_at: Option<i64>,
) -> Vec<Result<&'static str, Refusal>> {
    let mut answers = vec![Err(Refusal::Stale); returns.len()];
    // Rows are locked in the order of their ids, by everybody.
    let mut order: Vec<usize> = (0..returns.len()).collect();
    order.sort_by_key(|at| returns[*at].id);
    let change = match outcome.end() {
        End::Settled(_) => Change::Finish,
        End::Released(_) => Change::Release,
    };
    let mut endings = Vec::with_capacity(returns.len());
    for some in order.chunks(AT_ONCE) {
        let sealed: Vec<(usize, Seal)> =
            some.iter().map(|at| (*at, seal(returns[*at].token))).collect();
        for (at, held) in hold(home, returns, &sealed, change) {
            let Return { id, result, error, .. } = returns[at];
            match held {
                Ok(lease) => endings.push((at, Ending { id, lease: Some(lease), result, error })),
                Err(refusal) => answers[at] = Err(refusal),
            }
        }
    }
    if endings.is_empty() {
        return answers;
    }
    let session = session(home);
    let (places, endings): (Vec<usize>, Vec<Ending>) = endings.into_iter().unzip();
    let mut ended = match outcome.end() {
        End::Settled(status) => settle(home, &session, status, &endings),
        End::Released(event) => release(&session, event, &endings),
    };
    follow(home, &session, &ended);
    if outcome == Outcome::Retry {
        retry::postpone(home, &session, &mut ended, run_at);
    }
    ended.sort_unstable_by_key(|ended| ended.id);
    let find = |id: Uuid| {
        ended.binary_search_by_key(&id, |ended| ended.id).ok().map(|at| ended[at].status)
    };
    for (at, ending) in places.into_iter().zip(&endings) {
        answers[at] = find(ending.id).ok_or(Refusal::Stale);
    }
    // What is no longer live, or not ready, must not go back into a lane.
    if let End::Released(_) = outcome.end() {
        let gone = endings.iter().map(|ending| ending.id).filter(|id| find(*id) != Some(READY));
        xact::promise(home, gone.map(|id| Change::Gone(id.0)));
    }
    answers
}

/// Why the token of a single task does not serve.
pub fn explain(home: &Home, id: Uuid, refusal: Refusal) -> Error {
    let session = session(home);
    if let Some((id, status)) = settled(&session, [id].into_iter()).pop() {
        error::wrong_status(id, &status)
    } else if ids_of(&session, &LIVE, [id].into_iter()).is_empty() {
        error::no_such_task(id)
    } else if refusal == Refusal::Settling {
        error::being_settled(id)
    } else {
        error::stale_token(id)
    }
}

/// How often a worker waits for the clock to make the first partitions, 20 ms at the most each time.
const MOST_WAITS: usize = 50;

/// Compares tokens and holds the slots (I7); waits for those that the clock has in hand.
fn hold(
    home: &Home,
    returns: &[Return],
    sealed: &[(usize, Seal)],
    change: fn(Ticket) -> Change,
) -> Vec<(usize, Result<Slot, Refusal>)> {
    // SAFETY: reads this process's id.
    let me = unsafe { pg_sys::MyProcPid };
    let mut held = Vec::with_capacity(sealed.len());
    let mut tickets = Vec::with_capacity(sealed.len());
    let mut left: Vec<(usize, Seal)> = sealed.to_vec();
    xact::reserve(sealed.len());
    let mut waits = 0;
    while !left.is_empty() {
        home.on_board(|board, house| {
            // The first tasks of all would begin their day in the default partition.
            if board.is_unprepared(house) && waits < MOST_WAITS {
                waits += 1;
                return;
            }
            left.retain(|(at, seal)| {
                let answer = board.settle(house, returns[*at].id.0, seal, me);
                let busy = matches!(answer, Err(Refusal::Busy));
                if !busy {
                    held.push((
                        *at,
                        answer.map(|(ticket, slot)| {
                            tickets.push(ticket);
                            slot
                        }),
                    ));
                }
                busy
            });
        });
        xact::promise(home, tickets.drain(..).map(change));
        if !left.is_empty() {
            segment::wait();
        }
    }
    held
}

/// What became of a task whose ownership, or whose life, ended.
pub struct Ended {
    pub id: Uuid,
    pub status: &'static str,
    /// Others wait for it.
    pub followed: bool,
    /// Its result may be waited for.
    pub post_result: bool,
    /// How long it is to pause before it is tried again, in microseconds.
    pub pause: i64,
}

impl Ended {
    pub fn is_settled(&self) -> bool {
        [COMPLETED, ABORTED, CANCELLED].contains(&self.status)
    }

    /// From a row whose last columns are whether others wait, and whether the result may be waited for.
    fn at(rows: &Rows, row: usize, status: &'static str, flags: usize) -> Ended {
        let [followed, post_result] =
            [0, 1].map(|offset| datum::number(rows.get(row, flags + offset)) != 0);
        Ended { id: id_at(rows, row, 0), status, followed, post_result, pause: 0 }
    }
}

/// Moves tasks to the finished ones; returns those that were live. The endings are in the order of
/// their ids.
pub fn settle(
    home: &Home,
    session: &Session,
    status: &'static str,
    endings: &[Ending],
) -> Vec<Ended> {
    let now = time::now().wall;
    let (mut ended, done) = transfer(home, status, now, endings);
    let left = &endings[done..];
    if !left.is_empty() {
        let mut arguments = arguments(status, now, left);
        let results = datum::array(JSONBS, left.iter().map(|ending| ending.result));
        arguments.insert(7, Some(results));
        let rows = session.run(&SETTLE, &arguments);
        ended.extend((0..rows.len()).map(|row| Ended::at(&rows, row, status, 1)));
    }
    ended
}

/// Makes tasks ready again, or aborts those that had their last try; returns those that were live.
pub fn release(session: &Session, event: &str, endings: &[Ending]) -> Vec<Ended> {
    let rows = session.run(&RELEASE, &arguments(event, time::now().wall, endings));
    let pause = |row| if event == RETRIED { pause_at(&rows, row) } else { 0 };
    let ended = |row| Ended::at(&rows, row, status_at(&rows, row), 2);
    (0..rows.len()).map(|row| Ended { pause: pause(row), ..ended(row) }).collect()
}

/// The pause before the next try, drawn by lot: the ownership that has just ended counts already.
fn pause_at(rows: &Rows, row: usize) -> i64 {
    let [interval, jitter] = [4, 5].map(|column| datum::interval_length(rows.get(row, column)));
    let retries = (datum::number(rows.get(row, 6)) as i32).saturating_sub(1).max(0);
    Backoff { interval, jitter }.pause(retries as u32, uuid::fraction())
}

fn status_at(rows: &Rows, row: usize) -> &'static str {
    if datum::string(rows.get(row, 1)) == READY { READY } else { ABORTED }
}

/// What the statements take, the arrays in the order of the endings.
fn arguments(word: &str, now: i64, endings: &[Ending]) -> Vec<Option<Datum>> {
    let rows: Vec<[Option<Datum>; 6]> = endings.iter().map(|ending| values(word, ending)).collect();
    let column =
        |(at, kind): (usize, Kind)| Some(datum::array(kind, rows.iter().map(|row| row[at])));
    let columns = [UUIDS, TEXTS, TIMESTAMPTZS, BOOLS, FLOATS, JSONBS];
    [Some(datum::varlena(word.as_bytes())), Some(Datum::from(now))]
        .into_iter()
        .chain(columns.into_iter().enumerate().map(column))
        .collect()
}

/// What the tables are told of an ending: id, worker, when the ownership began, whether the history
/// tells of it, progress, error.
fn values(word: &str, ending: &Ending) -> [Option<Datum>; 6] {
    let lease = ending.lease.as_ref();
    [
        Some(ending.id.datum()),
        lease.map(|it| datum::varlena(it.worker.as_bytes())),
        lease.map(|it| Datum::from(it.since_at)),
        Some(Datum::from(lease.is_some_and(|it| it.recorded))),
        Some(datum::float(ending.progress(word))),
        ending.error,
    ]
}

/// As `return_tasks`, for one task whose refusal is an error.
pub fn return_task(
    home: &Home,
    it: Return,
    outcome: Outcome,
    run_at: Option<i64>,
) -> Result<&'static str> {
    let answer = return_tasks(home, &[it], outcome, run_at).pop().unwrap_or(Err(Refusal::Stale));
    answer.map_err(|refusal| explain(home, it.id, refusal))
}

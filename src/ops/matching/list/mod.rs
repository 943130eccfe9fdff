//! A page of the tasks that match a filter, newest first, by reading a bounded number of rows.
//!
//! No index has all tasks in their order. So a page is merged from *sources*. A source is a part of
//! the tables that an index has in order: by submission or, for settled tasks, by the time they
//! settled. Each source has a bound: the tasks that it was not asked for yet lie behind it. A task
//! is the next of the page once no bound is before it. A task settles after its submission, so the
//! order of settling bounds the order of submission.
//!
//! After many tasks have settled, this would read all of them to find the few that were submitted
//! lately. Then settled tasks are read by their ids instead: an id that scylla has made begins with
//! the time of submission.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::matching::filter::{Filter, KINDS, Status, with_marks};
use crate::ops::query::inspect::{self, is_owned};
use crate::pg::datum::{self, BOOLS, FLOATS, Kind, OID, TEXTS, TIMESTAMPTZS, UUID, UUIDS};
use crate::pg::spi::snapshot::{self, Snapshot};
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::uuid::Uuid;
use crate::storage::privileges::{Granted, Privileges};
use crate::storage::rows::{id_at, ids, session};
use board::{Lease, Micros, Wall};
use pgrx::pg_sys::Datum;
use std::collections::{BinaryHeap, HashMap};

/// The text of a statement that gets the parameters of the filter.
macro_rules! text {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/list/", $file, ".sql"))
    };
}

mod read;
mod sources;

statement!(POSITION, "list/position", [UUID]);
statement!(
    LIVE_ROWS,
    "list/live_rows",
    [UUIDS, TEXTS, TIMESTAMPTZS, TIMESTAMPTZS, FLOATS, BOOLS, OID]
);
statement!(SETTLED_ROWS, "list/settled_rows", [UUIDS, TIMESTAMPTZS, OID]);

/// How many columns the view `tasks` has.
pub const COLUMNS: usize = 26;

/// How many tasks a page examines at most, beyond what it could return.
const EXAMINED_MAX: usize = 20_000;

/// How many it examines at first, without a status, before it reads settled tasks by their ids.
const EXAMINED_FIRST_MAX: usize = 2_000;

/// How many tasks are read of a source at first, and at most.
const CHUNK_MIN: usize = 16;
const CHUNK_MAX: usize = 4_096;

/// How much later than it settled a task may have been submitted: times of submission can be ahead
/// of the clock.
const AHEAD: Micros = Micros::from_secs(1);

/// How far the time with which an id begins may be from that of submission.
const ABOUT: Micros = Micros::from_millis(10);

/// A position in the order, the greatest first: of the time by which the list is ordered, of
/// submission, id.
type Key = (i64, i64, u128);

const FIRST: Key = (i64::MAX, i64::MAX, u128::MAX);

/// A task of the page, with the time at which it settled; `None`: it is live.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    key: Key,
    settled: Option<i64>,
}

impl Found {
    fn id(&self) -> Uuid {
        Uuid(self.key.2)
    }
}

/// The parts of the tables that are read in their order.
enum Part {
    /// Ready tasks without a group, of one action and priority.
    Lane {
        action: Vec<u8>,
        rank: i64,
    },
    /// Ready tasks of groups.
    Grouped,
    /// Ready tasks without a group, behind others.
    Behind,
    /// Those that wait, and keep their position in the order of their group or do not.
    Waiting {
        held: bool,
    },
    /// Those of the filter's group that were ready once, and are behind none, or are behind others.
    FirstOfGroup,
    BehindInGroup,
    /// Those that workers own, in their order, and how many of them were read.
    Owned {
        all: Vec<Key>,
        read: usize,
    },
    /// Settled ones of a queue.
    SettledIn,
    /// Settled ones of all queues that did not complete.
    Unsuccessful,
    /// Settled ones, by their ids.
    SettledById,
}

struct Source {
    part: Part,
    queue: Vec<u8>,
    /// No task that is not read yet has a greater key.
    bound: Key,
    /// The position of the last task that was read.
    at: Key,
    chunk: usize,
}

/// How the settled tasks of a page without a status are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Those first that settled last.
    First,
    /// By their ids.
    ById,
    /// As at first, on from there.
    Last,
}

/// A page that is being made.
struct Page<'p> {
    db: &'p Database,
    granted: &'p Granted,
    filter: &'p Filter,
    session: &'p Session,
    snapshot: Snapshot,
    /// The position of the last task of the page before.
    from: Key,
    most: usize,
    examined: usize,
    examined_most: usize,
    /// Whether the ids of all settled tasks that were read begin with their time of submission.
    has_timed_ids: bool,
    stage: Stage,
    /// Settled tasks, and where they come from, while they are read by their ids.
    aside: Vec<Source>,
    found_aside: Vec<Found>,
    sources: Vec<Source>,
    found: BinaryHeap<Found>,
    leases: HashMap<Uuid, Lease>,
}

/// The rows of a page, in their order: shown to `show` while they live.
pub fn page(
    db: &Database,
    granted: &Granted,
    filter: &Filter,
    after: Option<Uuid>,
    most: usize,
    mut show: impl FnMut([Option<Datum>; COLUMNS]),
) -> Result<()> {
    snapshot::prepare();
    let session = session(db);
    // Each task is in one table under one snapshot.
    session.begin();
    let snapshot = snapshot::latest(|_, _| ()).1.keep();
    let mut page = Page {
        db,
        granted,
        filter,
        session: &session,
        snapshot,
        from: FIRST,
        most,
        examined: 0,
        examined_most: match filter.status.is_none() && filter.key.is_none() {
            true => EXAMINED_FIRST_MAX.max(most.saturating_mul(2)),
            false => EXAMINED_MAX.max(most.saturating_mul(2)),
        },
        has_timed_ids: true,
        stage: Stage::First,
        aside: Vec::new(),
        found_aside: Vec::new(),
        sources: Vec::new(),
        found: BinaryHeap::new(),
        leases: HashMap::new(),
    };
    if let Some(id) = after {
        page.from = page.position(id)?;
    }
    page.find_sources()?;
    let chosen = page.merge()?;
    page.show(&chosen, &mut show);
    Ok(())
}

impl<'p> Page<'p> {
    fn is_by_settling(&self) -> bool {
        self.filter.status.is_some_and(Status::is_settled)
    }

    /// The key of a task.
    fn key(&self, id: Uuid, created: Wall, settled: Option<Wall>) -> Key {
        match settled.filter(|_| self.is_by_settling()) {
            Some(settled) => (settled.0, created.0, id.0),
            None => (created.0, i64::MAX, id.0),
        }
    }

    fn position(&self, id: Uuid) -> Result<Key> {
        let rows = self.session.run_under(&POSITION, &[Some(id.datum())], self.snapshot.as_ptr());
        if rows.len() == 0 {
            return Err(error::no_such_task(id));
        }
        let created = Wall(datum::number(rows.get(0, 0)));
        let settled = rows.get(0, 1).map(datum::wall);
        match self.filter.status {
            Some(status) if status.is_settled() && settled.is_none() => {
                Err(error::not_in_list(id, status.word()))
            }
            _ => Ok(self.key(id, created, settled)),
        }
    }

    /// Runs a statement that has the parameters of the filter, and others.
    fn run(
        &self,
        text: &str,
        marks: &[&str],
        kinds: &[Kind],
        others: &[Option<Datum>],
    ) -> Rows<'p> {
        let mut all_marks = self.filter.marks();
        all_marks.extend_from_slice(marks);
        let mut parameters = self.filter.parameters();
        parameters.extend_from_slice(others);
        self.session.run_variant(
            with_marks(text, &all_marks),
            &[&KINDS, kinds].concat(),
            &parameters,
            self.snapshot.as_ptr(),
        )
    }

    fn may_look(&self, queue: &[u8]) -> bool {
        self.filter.takes_queue(self.granted, &[Privileges::LOOK], queue)
    }

    /// How to ask for less.
    fn narrower(&self) -> &'static str {
        match (&self.filter.queue, self.filter.status) {
            (None, _) => "Add queue to the filter.",
            (Some(_), None) => "Add status to the filter, or action or key.",
            (Some(_), Some(_)) => "Add key or created_after to the filter, or action or group_key.",
        }
    }

    /// Notes those of some live tasks that the filter takes by their status and worker.
    fn add_found(&mut self, keys: &[Key]) {
        let ids = keys.iter().map(|key| key.2);
        let found = self.db.slots_of(ids, |board, slot| is_owned(slot).then(|| board.lease(slot)));
        for (key, lease) in keys.iter().zip(found) {
            if self.filter.takes_lease(lease.as_ref()) {
                self.found.push(Found { key: *key, settled: None });
                if let Some(lease) = lease {
                    self.leases.insert(Uuid(key.2), lease);
                }
            }
        }
    }

    /// Fails when so many tasks would have to be read at once, in no order.
    fn limit(&self, count: usize) -> Result<()> {
        match count > self.read_at_once_most() {
            true => Err(error::reads_too_much(count, self.narrower())),
            false => Ok(()),
        }
    }

    fn read_at_once_most(&self) -> usize {
        EXAMINED_MAX.max(self.most.saturating_mul(2))
    }

    /// The keys of the live tasks in rows of id, time of submission and whether the filter takes
    /// it.
    fn taken(&self, rows: &Rows) -> Vec<Key> {
        let key = |row| {
            let created = Wall(datum::number(rows.get(row, 1)));
            self.key(id_at(rows, row, 0), created, None)
        };
        let is_taken = |row: &usize| datum::number(rows.get(*row, 2)) != 0;
        (0..rows.len()).filter(is_taken).map(key).filter(|key| *key < self.from).collect()
    }

    /// Takes the greatest task that is found as long as no source can have a greater one, else
    /// reads on in the source that can.
    fn merge(&mut self) -> Result<Vec<Found>> {
        let mut chosen = Vec::with_capacity(self.most.min(EXAMINED_MAX));
        while chosen.len() < self.most {
            let ahead = (0..self.sources.len()).max_by_key(|at| self.sources[*at].bound);
            let bound = ahead.map(|at| self.sources[at].bound);
            let is_next =
                self.found.peek().is_some_and(|it| bound.is_none_or(|bound| it.key >= bound));
            match ahead {
                _ if is_next => {
                    chosen.extend(self.found.pop());
                    // What is read by other means from now on comes behind it.
                    self.from = chosen.last().map_or(self.from, |it: &Found| it.key);
                }
                Some(at) => {
                    self.read_on(at);
                    self.check_cost()?;
                }
                None => break,
            }
            pgrx::check_for_interrupts!();
        }
        Ok(chosen)
    }

    fn show(&self, chosen: &[Found], show: &mut impl FnMut([Option<Datum>; COLUMNS])) {
        let (settled, live): (Vec<&Found>, Vec<&Found>) =
            chosen.iter().partition(|it| it.settled.is_some());
        let role = Some(Datum::from(self.granted.role));
        let snapshot = self.snapshot.as_ptr();
        let leases: Vec<[Option<Datum>; 5]> = (live.iter())
            .map(|it| self.leases.get(&it.id()).map(inspect::columns).unwrap_or_default())
            .collect();
        let column = |kind, at: usize| Some(datum::array(kind, leases.iter().map(|it| it[at])));
        let live_rows = self.session.run_under(
            &LIVE_ROWS,
            &[
                ids(live.iter().map(|it| it.id())),
                column(TEXTS, 0),
                column(TIMESTAMPTZS, 1),
                column(TIMESTAMPTZS, 2),
                column(FLOATS, 3),
                column(BOOLS, 4),
                role,
            ],
            snapshot,
        );
        let times = settled.iter().map(|it| it.settled.map(|at| datum::timestamptz(Wall(at))));
        let settled_rows = self.session.run_under(
            &SETTLED_ROWS,
            &[ids(settled.iter().map(|it| it.id())), Some(datum::array(TIMESTAMPTZS, times)), role],
            snapshot,
        );
        let mut found_at: HashMap<Uuid, (&Rows, usize)> = HashMap::with_capacity(chosen.len());
        for rows in [&live_rows, &settled_rows] {
            found_at.extend((0..rows.len()).map(|row| (id_at(rows, row, 0), (rows, row))));
        }
        for it in chosen {
            if let Some((rows, row)) = found_at.get(&it.id()) {
                show(std::array::from_fn(|column| rows.get(*row, column)));
            }
        }
    }
}

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
use crate::ops::matching::filter::{BY_ID, Filter, KINDS, Status, with_marks};
use crate::ops::query::inspect::{self, is_owned};
use crate::ops::stats::queues;
use crate::pg::datum::{
    self, BIGINT, BOOLS, FLOATS, Kind, OID, TEXT, TEXTS, TIMESTAMPTZ, TIMESTAMPTZS, UUID, UUIDS,
};
use crate::pg::spi::snapshot::{self, Snapshot};
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::segment::{scan, with_board};
use crate::storage::privileges::{Access, Privileges};
use crate::storage::rows::{id_at, ids, session};
use board::{Lease, Micros, Wall};
use pgrx::pg_sys::Datum;
use std::collections::{BinaryHeap, HashMap};

macro_rules! text {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/list/", $file, ".sql"))
    };
}

statement!(PLACE, "list/place", [UUID]);
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

/// How many it examines by their ids.
const EXAMINED_BY_ID_MAX: usize = 50_000;

/// How many lanes, or queues, a page goes through at most.
const SOURCES_MAX: usize = 1_024;

/// How many tasks are read of a source at first, and at most.
const CHUNK_MIN: usize = 16;
const CHUNK_MAX: usize = 4_096;

/// How much later than it settled a task may have been submitted: times of submission can be ahead
/// of the clock.
const AHEAD: Micros = Micros::from_secs(1);

/// How far the time with which an id begins may be from that of submission.
const ABOUT: Micros = Micros::from_millis(10);

/// A place in the order, the greatest first: of the time by which the list is ordered, of
/// submission, id.
type Key = (i64, i64, u128);

const FIRST: Key = (i64::MAX, i64::MAX, u128::MAX);

/// A task of the page, with the time at which it settled; null: it is live.
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
    /// Those that wait, and keep a place or do not.
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

/// A kind of parts with live tasks.
struct LivePart {
    /// The statement that finds those that there are.
    text: &'static str,
    /// The part of an action and a number.
    part: fn(Vec<u8>, i64) -> Part,
    status: Status,
    is_without_group: bool,
}

const LIVE: &[LivePart] = &[
    LivePart {
        text: text!("lanes"),
        part: |action, rank| Part::Lane { action, rank },
        status: Status::Ready,
        is_without_group: true,
    },
    LivePart {
        text: text!("grouped"),
        part: |_, _| Part::Grouped,
        status: Status::Ready,
        is_without_group: false,
    },
    LivePart {
        text: text!("behind"),
        part: |_, _| Part::Behind,
        status: Status::Ready,
        is_without_group: true,
    },
    LivePart {
        text: text!("waiting"),
        part: |_, held| Part::Waiting { held: held != 0 },
        status: Status::Waiting,
        is_without_group: false,
    },
];

struct Source {
    part: Part,
    queue: Vec<u8>,
    /// No task that is not read yet has a greater key.
    bound: Key,
    /// The place of the last task that was read.
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
    access: &'p Access,
    filter: &'p Filter,
    session: Session,
    snapshot: Snapshot,
    /// The place of the last task of the page before.
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

/// The time with which an id begins that scylla has made.
fn time_of(id: Uuid) -> Option<Wall> {
    id.unix_millis().map(time::of_unix_millis)
}

/// The rows of a page, in their order: shown to `show` while they live.
pub fn page(
    db: &Database,
    access: &Access,
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
        access,
        filter,
        session,
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
        page.from = page.place(id)?;
    }
    page.find_sources()?;
    let chosen = page.merge()?;
    page.show(&chosen, &mut show);
    Ok(())
}

impl Page<'_> {
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

    fn place(&self, id: Uuid) -> Result<Key> {
        let rows = self.session.run_under(&PLACE, &[Some(id.datum())], self.snapshot.as_ptr());
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
    fn run(&self, text: &str, marks: &[&str], kinds: &[Kind], others: &[Option<Datum>]) -> Rows {
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
        self.filter.takes_queue(self.access, &[Privileges::LOOK], queue)
    }

    fn find_sources(&mut self) -> Result<()> {
        if self.filter.key.is_some() {
            return self.find_by_key();
        }
        if self.filter.takes_live() {
            if self.filter.is_of_owned() {
                self.add_owned();
            } else if let (Some(queue), Some(_)) = (&self.filter.queue, &self.filter.group_key) {
                let queue = queue.clone();
                self.find_never_ready()?;
                self.add(Part::FirstOfGroup, queue.clone(), FIRST.0);
                self.add(Part::BehindInGroup, queue, FIRST.0);
            } else {
                self.add_live()?;
            }
        }
        if self.filter.takes_settled() {
            self.add_settled()?;
        }
        Ok(())
    }

    /// Adds a source whose newest task has this time.
    fn add(&mut self, part: Part, queue: Vec<u8>, newest: i64) {
        let is_settled = matches!(part, Part::SettledIn | Part::Unsuccessful);
        // The order in which a source is read is that of the list, or that of the time of settling.
        let mut at = if is_settled && !self.is_by_settling() { FIRST } else { self.from };
        if let Some(before) = self.filter.created_before.filter(|_| !is_settled) {
            at = at.min((before.0, i64::MAX, 0));
        }
        let newest = if is_settled && !self.is_by_settling() {
            newest.saturating_add(AHEAD.0)
        } else {
            newest
        };
        let bound = at.min(self.from).min((newest, i64::MAX, u128::MAX));
        let chunk = self.most.clamp(CHUNK_MIN, CHUNK_MAX);
        self.sources.push(Source { part, queue, bound, at, chunk });
    }

    fn add_live(&mut self) -> Result<()> {
        let (first, last) = self.access.queues_to_look_at();
        for kind in LIVE {
            let has_none = kind.is_without_group && self.filter.group_key.is_some();
            if has_none || self.filter.status.is_some_and(|it| it != kind.status) {
                continue;
            }
            let others = [
                Some(datum::varlena(&first)),
                Some(datum::varlena(&last)),
                Some(Datum::from(SOURCES_MAX as i64 + 1)),
            ];
            let rows = self.run(kind.text, &[], &[TEXT, TEXT, BIGINT], &others);
            if rows.len() > SOURCES_MAX {
                return Err(error::too_many_lanes(SOURCES_MAX, self.fewer_lanes()));
            }
            for row in 0..rows.len() {
                let queue = datum::text(rows.get(row, 0));
                let action = datum::text(rows.get(row, 1));
                let [number, newest] = [2, 3].map(|it| datum::number(rows.get(row, it)));
                let part = (kind.part)(action, number);
                let is_wanted = match (&part, &self.filter.action) {
                    (Part::Lane { action, .. }, Some(wanted)) => action == wanted,
                    _ => true,
                };
                if is_wanted && self.may_look(&queue) {
                    self.add(part, queue, newest);
                }
            }
        }
        Ok(())
    }

    /// How to ask for fewer actions and priorities.
    fn fewer_lanes(&self) -> &'static str {
        match (&self.filter.queue, &self.filter.action) {
            (None, _) => "Add queue to the filter.",
            (Some(_), None) => "Add action to the filter, or key.",
            (Some(_), Some(_)) => "Add key to the filter, or a status other than ready.",
        }
    }

    /// How to ask for less.
    fn narrower(&self) -> &'static str {
        match (&self.filter.queue, self.filter.status) {
            (None, _) => "Add queue to the filter.",
            (Some(_), None) => "Add status to the filter, or action or key.",
            (Some(_), Some(_)) => "Add key or created_after to the filter, or action or group_key.",
        }
    }

    fn add_settled(&mut self) -> Result<()> {
        if let Some(queue) = self.filter.queue.clone() {
            self.add(Part::SettledIn, queue, FIRST.0);
            return Ok(());
        }
        let all_of_them = self.access.everywhere.has_any(Privileges::LOOK);
        if self.filter.status.is_some_and(|it| it != Status::Completed) && all_of_them {
            self.add(Part::Unsuccessful, Vec::new(), FIRST.0);
            return Ok(());
        }
        let known: Vec<Vec<u8>> =
            queues::all(self.db).into_keys().filter(|queue| self.may_look(queue)).collect();
        if known.len() > SOURCES_MAX {
            return Err(error::too_many_lanes(SOURCES_MAX, self.fewer_lanes()));
        }
        let names = known.iter().map(|it| Some(datum::varlena(it)));
        let names = Some(datum::array(TEXTS, names));
        let rows = self.run(text!("settled_queues"), &[], &[TEXTS], &[names]);
        for row in 0..rows.len() {
            let newest = datum::number(rows.get(row, 1));
            self.add(Part::SettledIn, datum::text(rows.get(row, 0)), newest);
        }
        Ok(())
    }

    /// Those that workers own, as the board knows them.
    fn add_owned(&mut self) {
        let Some(entry) = with_board(|board| self.db.find(board)) else { return };
        let mut all = Vec::new();
        let owned = scan(
            |board| board.slots_end(),
            |board, at| {
                let it = board.slot_at(at, entry).filter(|it| is_owned(it))?;
                Some((board.lease(it), board.queue_name_of(it), it.rank().created))
            },
        );
        for (lease, queue, created) in owned.flatten() {
            let key = (created.0, i64::MAX, lease.id);
            if self.may_look(queue.as_bytes())
                && self.filter.takes_lease(Some(&lease))
                && key < self.from
            {
                all.push(key);
                self.leases.insert(Uuid(lease.id), lease);
            }
        }
        all.sort_unstable_by(|one, other| other.cmp(one));
        self.add(Part::Owned { all, read: 0 }, Vec::new(), FIRST.0);
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

    /// Fails, or goes on in another way, when the page has cost as much as it may.
    fn check_cost(&mut self) -> Result<()> {
        let is_elsewhere = self.stage == Stage::ById && !self.has_timed_ids;
        if self.examined > self.examined_most || is_elsewhere {
            self.read_otherwise()?;
        }
        Ok(())
    }

    /// Goes on to read the settled tasks in another order; fails after the last one.
    fn read_otherwise(&mut self) -> Result<()> {
        let is_mixed = self.filter.status.is_none() && self.filter.key.is_none();
        let most = match self.stage {
            Stage::First if is_mixed && self.has_timed_ids => {
                self.stage = Stage::ById;
                self.set_aside();
                EXAMINED_BY_ID_MAX
            }
            Stage::First if is_mixed => {
                self.stage = Stage::Last;
                EXAMINED_MAX
            }
            Stage::ById => {
                self.stage = Stage::Last;
                self.take_back();
                EXAMINED_MAX
            }
            _ => return Err(error::reads_too_much(self.examined, self.narrower())),
        };
        self.examined = 0;
        self.examined_most = most.max(self.most.saturating_mul(2));
        Ok(())
    }

    /// Sets the settled tasks and their sources aside, and reads them by their ids.
    fn set_aside(&mut self) {
        let is_settled = |it: &mut Source| matches!(it.part, Part::SettledIn);
        self.aside.extend(self.sources.extract_if(.., is_settled));
        let found = std::mem::take(&mut self.found);
        let (settled, live): (Vec<Found>, Vec<Found>) =
            found.into_iter().partition(|it| it.settled.is_some());
        (self.found, self.found_aside) = (live.into(), settled);
        let first = Wall(self.from.0.saturating_add(ABOUT.0));
        let at = match self.from {
            FIRST => FIRST,
            _ => (0, 0, Uuid::last_timed(time::unix_millis(first)).0),
        };
        let chunk = self.most.clamp(CHUNK_MIN, CHUNK_MAX);
        let bound = self.from;
        self.sources.push(Source { part: Part::SettledById, queue: Vec::new(), bound, at, chunk });
    }

    /// Goes on with what was set aside, but for what the page has by now.
    fn take_back(&mut self) {
        self.sources.retain(|it| !matches!(it.part, Part::SettledById));
        self.sources.append(&mut self.aside);
        self.found.retain(|it| it.settled.is_none());
        let from = self.from;
        self.found.extend(self.found_aside.drain(..).filter(|it| it.key < from));
    }

    fn find_by_key(&mut self) -> Result<()> {
        let most = Some(Datum::from(self.read_at_once_most() as i64 + 1));
        let rows = self.run(text!("by_key"), &[], &[BIGINT], &[most]);
        self.limit(rows.len())?;
        let mut live = Vec::new();
        for row in 0..rows.len() {
            let id = id_at(&rows, row, 0);
            let created = Wall(datum::number(rows.get(row, 1)));
            let settled = rows.get(row, 2).map(datum::wall);
            let key = self.key(id, created, settled);
            let queue = datum::text(rows.get(row, 3));
            let matches = datum::number(rows.get(row, 4)) != 0;
            if !matches || key >= self.from || !self.may_look(&queue) {
                continue;
            }
            match settled {
                Some(at) if self.filter.takes_settled() => {
                    self.found.push(Found { key, settled: Some(at.0) });
                }
                None if self.filter.takes_live() => {
                    live.push(key);
                }
                _ => {}
            }
        }
        self.add_found(&live);
        Ok(())
    }

    fn find_never_ready(&mut self) -> Result<()> {
        if self.filter.status == Some(Status::Ready) {
            return Ok(());
        }
        let most = Some(Datum::from(self.read_at_once_most() as i64 + 1));
        let rows = self.run(text!("never_ready"), &[], &[BIGINT], &[most]);
        self.limit(rows.len())?;
        let keys = self.taken(&rows);
        self.add_found(&keys);
        Ok(())
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

    /// Reads on in a source.
    fn read_on(&mut self, at: usize) {
        let mut source = self.sources.swap_remove(at);
        let chunk = source.chunk;
        source.chunk = (2 * chunk).min(CHUNK_MAX);
        let has_more = match &mut source.part {
            Part::Owned { all, read } => {
                let some: Vec<Key> = all[*read..].iter().take(chunk).copied().collect();
                *read += some.len();
                source.bound = all.get(*read).copied().unwrap_or((i64::MIN, 0, 0));
                let has_more = *read < all.len();
                let wanted = ids(some.iter().map(|it| Uuid(it.2)));
                let rows = self.run(BY_ID, &[], &[UUIDS], &[wanted]);
                self.examined += some.len();
                let keys = self.taken(&rows);
                // Their leases are those by which they were taken.
                self.found.extend(keys.into_iter().map(|key| Found { key, settled: None }));
                has_more
            }
            Part::SettledIn | Part::Unsuccessful | Part::SettledById => {
                self.read_settled(&mut source, chunk)
            }
            _ => self.read_live(&mut source, chunk),
        };
        let ends = self.filter.created_after.is_some_and(|after| source.bound.0 <= after.0);
        if has_more && !ends {
            self.sources.push(source);
        }
    }

    fn read_live(&mut self, source: &mut Source, chunk: usize) -> bool {
        let (marks, action, number): (&[&str], &[u8], i64) = match &source.part {
            Part::Lane { action, rank } => (&["lane"], action, *rank),
            Part::Grouped => (&["grouped"], b"", 0),
            Part::Behind => (&["behind"], b"", 0),
            Part::Waiting { held } => (&["waiting"], b"", i64::from(*held)),
            Part::FirstOfGroup => (&["of_group", "first_of_group"], b"", 0),
            _ => (&["of_group", "behind_in_group"], b"", 0),
        };
        let others = [
            Some(datum::varlena(&source.queue)),
            Some(datum::varlena(action)),
            Some(Datum::from(number)),
            Some(datum::timestamptz(Wall(source.at.0))),
            Some(Uuid(source.at.2).datum()),
            Some(Datum::from(chunk as i64)),
        ];
        let kinds = [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT];
        let rows = self.run(text!("live"), marks, &kinds, &others);
        self.examined += rows.len();
        if let Some(last) = rows.len().checked_sub(1) {
            let created = Wall(datum::number(rows.get(last, 1)));
            source.at = self.key(id_at(&rows, last, 0), created, None);
            source.bound = source.bound.min(source.at);
        }
        let keys = self.taken(&rows);
        let has_more = rows.len() == chunk;
        rows.free();
        self.add_found(&keys);
        has_more
    }

    fn read_settled(&mut self, source: &mut Source, chunk: usize) -> bool {
        let is_by_id = matches!(source.part, Part::SettledById);
        let most = Some(Datum::from(chunk as i64));
        let rows = if is_by_id {
            let others = [Some(Uuid(source.at.2).datum()), most];
            self.run(text!("settled_by_id"), &[], &[UUID, BIGINT], &others)
        } else {
            let marks: &[&str] = match source.part {
                Part::SettledIn => &["one_queue"],
                _ => &[],
            };
            let others = [
                Some(datum::varlena(&source.queue)),
                Some(datum::timestamptz(Wall(source.at.0))),
                Some(datum::timestamptz(Wall(source.at.1))),
                Some(Uuid(source.at.2).datum()),
                most,
            ];
            let kinds = [TEXT, TIMESTAMPTZ, TIMESTAMPTZ, UUID, BIGINT];
            self.run(text!("settled"), marks, &kinds, &others)
        };
        for row in 0..rows.len() {
            let id = id_at(&rows, row, 0);
            let [created, settled] = [1, 2].map(|it| Wall(datum::number(rows.get(row, it))));
            source.at = (settled.0, created.0, id.0);
            let submitted = time_of(id);
            self.has_timed_ids &=
                submitted.is_some_and(|at| (created.0 - at.0).unsigned_abs() < ABOUT.0 as u64);
            let key = self.key(id, created, Some(settled));
            let matches = datum::number(rows.get(row, 4)) != 0;
            if matches && key < self.from && self.may_look(&datum::text(rows.get(row, 3))) {
                self.found.push(Found { key, settled: Some(settled.0) });
            }
        }
        let bound_at = |at: i64, by: Micros| (at.saturating_add(by.0), i64::MAX, u128::MAX);
        let read_to = match (self.is_by_settling(), time_of(Uuid(source.at.2))) {
            (true, _) => source.at,
            (false, submitted) if is_by_id => submitted.map_or(FIRST, |at| bound_at(at.0, ABOUT)),
            _ => bound_at(source.at.0, AHEAD),
        };
        source.bound = source.bound.min(read_to);
        let (count, has_more) = (rows.len(), rows.len() == chunk);
        rows.free();
        self.examined += count;
        has_more
    }

    fn show(&self, chosen: &[Found], show: &mut impl FnMut([Option<Datum>; COLUMNS])) {
        let (settled, live): (Vec<&Found>, Vec<&Found>) =
            chosen.iter().partition(|it| it.settled.is_some());
        let role = Some(Datum::from(self.access.role));
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
        let mut places: HashMap<Uuid, (&Rows, usize)> = HashMap::with_capacity(chosen.len());
        for rows in [&live_rows, &settled_rows] {
            places.extend((0..rows.len()).map(|row| (id_at(rows, row, 0), (rows, row))));
        }
        for it in chosen {
            if let Some((rows, row)) = places.get(&it.id()) {
                show(std::array::from_fn(|column| rows.get(*row, column)));
            }
        }
    }
}

//! Helpers for the rows of statements: ids, ranks, and what the board needs to know of a task.

use crate::error;
use crate::extension::database::Database;
use crate::extension::members;
use crate::pg::datum::{self, UUID, UUIDS};
use crate::pg::spi::{Rows, Session, Statement, statement};
use crate::pg::uuid::{Uuid, group_hash};
use crate::xact::Offer;
use board::{GroupHash, Id, LaneName, Micros, Rank, RowHint, Wall};
use pgrx::itemptr::{item_pointer_get_both, item_pointer_set_all};
use pgrx::pg_sys::{self, Datum, Oid};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// How many rows one transaction of the scheduler writes (I10).
pub const ROWS_PER_TX: usize = 1_000;

/// What is found in steps, in batches of about `ROWS_PER_TX`; none is empty.
pub fn batches<T>(mut steps: impl Iterator<Item = Vec<T>>) -> impl Iterator<Item = Vec<T>> {
    std::iter::from_fn(move || {
        let mut batch = Vec::new();
        while batch.len() < ROWS_PER_TX
            && let Some(some) = steps.next()
        {
            batch.extend(some);
        }
        (!batch.is_empty()).then_some(batch)
    })
}

statement!(pub FINISHED, "rows/finished", [UUIDS]);
statement!(pub LIVE, "rows/live", [UUIDS]);
statement!(pub LOCK, "rows/lock", [UUIDS]);
statement!(pub LOCK_UNLOCKED, "rows/lock_unlocked", [UUIDS]);
statement!(STATUS, "rows/status", [UUID]);

pub fn ids(ids: impl Iterator<Item = Uuid>) -> Option<Datum> {
    Some(datum::array(UUIDS, ids.map(|id| Some(id.datum()))))
}

/// Each item once, in order. A `BTreeSet` would abort the process when memory runs out inside of
/// it, and so would a `BTreeMap`.
pub fn distinct<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.sort_unstable();
    items.dedup();
    items
}

pub fn id_at(rows: &Rows, row: usize, column: usize) -> Uuid {
    // SAFETY: the statements' columns of ids are uuids and never null.
    unsafe { Uuid::read(rows.get(row, column).unwrap_or(Datum::from(0))) }
}

/// The ids that a statement with one array of ids returns.
pub fn ids_of(
    session: &Session,
    statement: &Statement,
    wanted: impl Iterator<Item = Uuid>,
) -> Vec<Uuid> {
    ids_in(&session.run(statement, &[ids(wanted)])).collect()
}

/// The ids of a first column.
pub fn ids_in(rows: &Rows) -> impl Iterator<Item = Uuid> {
    (0..rows.len()).map(|row| id_at(rows, row, 0))
}

/// An array of ids as PostgreSQL writes one, since arrays of arrays must not be ragged.
pub fn text_of_array(ids: &[Uuid]) -> Datum {
    let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    datum::varlena(format!("{{{}}}", ids.join(",")).as_bytes())
}

/// Reads with a statement `…/due` what is due from position `from` to time `until`, in the order of
/// time and id, at most `most`; and when the next one after `until` is due.
pub fn read_due<Id>(
    db: &Database,
    statement: &Statement,
    from: (Wall, Datum),
    until: Wall,
    most: usize,
    id_at: impl Fn(&Rows, usize) -> Id,
) -> (Vec<(Wall, Id)>, Option<Wall>) {
    let session = session(db);
    let rows = session.run(
        statement,
        &[
            Some(datum::timestamptz(from.0)),
            Some(from.1),
            Some(datum::timestamptz(until)),
            Some(Datum::from(most as i64)),
        ],
    );
    let (mut due, mut next) = (Vec::with_capacity(rows.len()), None);
    for row in 0..rows.len() {
        let at = Wall(datum::number(rows.get(row, 1)));
        match rows.get(row, 0) {
            Some(_) => due.push((at, id_at(&rows, row))),
            None => next = Some(at),
        }
    }
    (due, next)
}

/// Which of some tasks are settled, and how.
pub fn settled(session: &Session, wanted: impl Iterator<Item = Uuid>) -> Vec<(Uuid, String)> {
    let rows = session.run(&FINISHED, &[ids(wanted)]);
    (0..rows.len()).map(|row| (id_at(&rows, row, 0), datum::string(rows.get(row, 1)))).collect()
}

/// Where a task is.
pub enum Whereabouts {
    Live,
    /// Among the settled ones, with this status.
    Settled(String),
    Nowhere,
}

/// Where a task is, both tables read under one snapshot: a task that moves is in one of them.
pub fn whereabouts(session: &Session, id: Uuid) -> Whereabouts {
    let rows = session.run(&STATUS, &[Some(id.datum())]);
    match rows.first() {
        Some(status) => Whereabouts::Settled(datum::string(Some(status))),
        None if rows.len() > 0 => Whereabouts::Live,
        None => Whereabouts::Nowhere,
    }
}

/// Whether this transaction wrote a row whose `xmin` this is.
pub fn is_own(xmin: Option<Datum>) -> bool {
    // SAFETY: looks into the state of this backend's transaction.
    xmin.is_some_and(|it| unsafe {
        pg_sys::TransactionIdIsCurrentTransactionId((it.value() as u32).into())
    })
}

/// A row's tid, for the board.
pub fn row_hint(tid: &pg_sys::ItemPointerData) -> RowHint {
    let (block, offset) = item_pointer_get_both(*tid);
    RowHint { block, offset }
}

/// The tid of a row that a statement returned, its `ctid`, for the board.
pub fn row_hint_at(rows: &Rows, row: usize, column: usize) -> RowHint {
    // SAFETY: the statement's column is a tid, which points to one.
    rows.get(row, column).map_or(RowHint::default(), |it| {
        row_hint(unsafe { &*it.cast_mut_ptr::<pg_sys::ItemPointerData>() })
    })
}

/// The tid of a row, as the board knows it.
pub fn row_tid(hint: RowHint) -> pg_sys::ItemPointerData {
    let mut tid = pg_sys::ItemPointerData::default();
    item_pointer_set_all(&mut tid, hint.block, hint.offset);
    tid
}

pub fn rank(id: Uuid, created: Wall, priority: i64) -> Rank {
    let id: Id = id.0;
    Rank { id, created, priority: priority.clamp(0, u32::MAX.into()) as u32 }
}

/// What the board knows a task by, as its row tells.
pub struct BoardKey {
    pub queue: Vec<u8>,
    pub action: Vec<u8>,
    pub rank: Rank,
    pub timeout: Micros,
    pub group: Option<GroupHash>,
}

impl BoardKey {
    /// From six columns of a row: queue, action, priority, created, timeout, group_key.
    pub fn at(rows: &Rows, row: usize, column: usize, id: Uuid) -> BoardKey {
        let [queue, action, priority, created, timeout, group] =
            [0, 1, 2, 3, 4, 5].map(|offset| rows.get(row, column + offset));
        BoardKey {
            queue: datum::text(queue),
            action: datum::text(action),
            rank: rank(id, Wall(datum::number(created)), datum::number(priority)),
            timeout: datum::interval_length(timeout),
            group: group.map(|key| group_hash(&datum::text(Some(key)))),
        }
    }

    pub fn offer(self) -> Offer {
        let BoardKey { queue, action, rank, timeout, group } = self;
        Offer {
            queue: queue.into(),
            action: action.into(),
            group,
            rank,
            timeout,
            aged_since: None,
            row: None,
            behind: false,
        }
    }

    pub fn lane(&self) -> LaneName<'_> {
        LaneName { queue: &self.queue, action: &self.action, group: self.group }
    }
}

pub fn session(db: &Database) -> Session {
    Session::new(db.owner)
}

/// As `session`, for a statement about one sequence, which may belong to another role than the
/// tables.
pub fn session_of(sequence: Oid) -> Session {
    Session::new(members::owner(sequence).unwrap_or_else(|| error::not_as_installed().raise()))
}

/// How many names a backend remembers.
const RECENT_NAMES_MAX: usize = 8;

thread_local! {
    static RECENT_NAMES: RefCell<VecDeque<Rc<[u8]>>> = const { RefCell::new(VecDeque::new()) };
}

/// A name of a queue or an action. Equal names that follow each other closely share one allocation.
pub fn share(name: &[u8]) -> Rc<[u8]> {
    RECENT_NAMES.with_borrow_mut(|recent| {
        if let Some(known) = recent.iter().find(|it| ***it == *name) {
            return known.clone();
        }
        if recent.len() == RECENT_NAMES_MAX {
            recent.pop_back();
        }
        recent.push_front(name.into());
        recent[0].clone()
    })
}

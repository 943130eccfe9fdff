//! Bringing ready tasks from the table onto the board: refilling a lane from where the last refill
//! stopped, and surveying which lanes the table has (I4).

use crate::ops::queues::configure;
use crate::pg::datum::{self, BIGINT, BOOL, TEXT, TIMESTAMPTZ, UUID};
use crate::pg::process;
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::segment::{self, with_board};
use crate::shmem::xact::{self, AT_ONCE};
use crate::storage::lookup::{TaskLookup, View};
use crate::storage::rows::{id_at, is_own, rank, row_hint_at, session};
use board::{Id, LaneName, LaneRef, Micros, NeedsRefill, Next, Rank, RowHint, Wall};
use pgrx::pg_sys::{self, Datum};

statement!(REFILL, "maintenance/refill", [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT]);
statement!(
    REFILL_LEVEL,
    "maintenance/refill_level",
    [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT]
);
statement!(
    REFILL_GROUP,
    "maintenance/refill_group",
    [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT, UUID]
);
statement!(
    REFILL_GROUP_LEVEL,
    "maintenance/refill_group_level",
    [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT, UUID]
);
statement!(SURVEY, "maintenance/survey", []);
statement!(SURVEY_GROUPS, "maintenance/survey_groups", [TEXT, BOOL]);
statement!(SURVEY_QUEUE, "maintenance/survey_queue", [TEXT]);

/// Bounds of how many tasks one refill reads. It reads no more than the board has room for.
const LEAST_READ: usize = AT_ONCE;
const MOST_READ: usize = 2_048;

/// How often one call surveys a queue whose lanes find no place.
const SURVEYS_MAX: u32 = 100;

/// What a caller does for whom the board has no task of a queue.
#[derive(Default)]
pub struct Supply {
    surveys: u32,
    /// How often lanes of the database had found no place, at the last survey.
    spilled: u32,
    /// A survey found lanes for which there is no place.
    full: bool,
}

/// What became of it.
pub enum Supplied {
    /// Ask the board again.
    Again,
    /// No task is ready.
    Nothing,
    /// All slots of the board are leased, so that a lane cannot be read; `None`: there is no place
    /// for it.
    NoRoom(Option<LaneRef>),
}

impl Supply {
    /// Brings tasks of a queue onto the board, as far as what is next there calls for it; waits for
    /// another process that does.
    pub fn bring(
        &mut self,
        db: &Database,
        session: &Session,
        entry: u32,
        queue: &[u8],
        next: Next,
    ) -> Supplied {
        match next {
            Next::Task(_) => Supplied::Again,
            Next::NeedsRefill(lane) if refill(db, session, entry, queue, &lane) => Supplied::Again,
            Next::NeedsRefill(lane) => Supplied::NoRoom(Some(lane.lane_ref())),
            Next::Refilling => {
                segment::wait();
                Supplied::Again
            }
            Next::Spilled(_) if self.full => Supplied::NoRoom(None),
            // Another process may have spilled the lanes that the last survey made.
            Next::Spilled(times) if times != self.spilled && self.surveys < SURVEYS_MAX => {
                (self.spilled, self.surveys) = (times, self.surveys + 1);
                self.full = !survey_queue(session, entry, queue);
                Supplied::Again
            }
            Next::Spilled(_) | Next::Empty => Supplied::Nothing,
        }
    }
}

/// Refills a lane, unless another process does. False when all slots of the board are leased.
fn refill(db: &Database, session: &Session, entry: u32, queue: &[u8], lane: &NeedsRefill) -> bool {
    let me = process::id();
    let begun = with_board(|board| board.begin_refill(lane, me).then(|| board.room()));
    let Some(room) = begun else { return true };
    xact::refilling(Some(lane.lane));
    let most = (room as usize).clamp(LEAST_READ, MOST_READ);
    let mut tasks = read(session, queue, lane, most);
    let cursor = match tasks.last() {
        Some(last) if tasks.len() == most => last.rank.next(),
        _ => Rank::END,
    };
    leave_own(db, &mut tasks);
    let ages = tasks.iter().filter(|_| lane.level.is_some());
    let ages: Vec<(Id, Wall)> =
        ages.map(|it| (it.rank.id, it.run_at.unwrap_or(it.rank.created))).collect();
    let places: Vec<(Id, RowHint)> = tasks.iter().map(|it| (it.rank.id, it.row)).collect();
    let tasks: Vec<(Rank, Micros)> = tasks.into_iter().map(|it| (it.rank, it.timeout)).collect();
    let mut room = true;
    for (some, places) in tasks.chunks(AT_ONCE).zip(places.chunks(AT_ONCE)) {
        room = room
            && with_board(|board| {
                let room = board.refill(entry, lane.lane, me, some);
                places.iter().for_each(|(id, row)| board.note_row(entry, *id, *row));
                room
            });
    }
    for some in ages.chunks(AT_ONCE) {
        with_board(|board| some.iter().for_each(|(id, since)| board.note_age(entry, *id, *since)));
    }
    let full = with_board(|board| {
        board.end_refill(lane.lane, me, cursor);
        !room && board.is_leased_out()
    });
    xact::refilling(None);
    segment::broadcast();
    !full
}

/// A ready task that was read from the table.
struct Read {
    rank: Rank,
    timeout: Micros,
    run_at: Option<Wall>,
    row: RowHint,
    /// This transaction wrote the row.
    is_own: bool,
}

/// Leaves out the tasks that this transaction itself made ready: they are offered at its commit
/// (I2). A task that was ready before stays, even if this transaction has written its row.
fn leave_own(db: &Database, tasks: &mut Vec<Read>) {
    if !tasks.iter().any(|it| it.is_own) {
        return;
    }
    let view = View::OfOthers;
    let Some(mut others) = TaskLookup::open_with(db, pg_sys::AccessShareLock, view) else { return };
    tasks.retain(|it| !it.is_own || others.at(Uuid(it.rank.id), it.row).is_some());
    others.close();
}

fn read(session: &Session, queue: &[u8], lane: &NeedsRefill, most: usize) -> Vec<Read> {
    let Rank { id, created, priority } = lane.cursor;
    let mut values = vec![
        Some(datum::varlena(queue)),
        Some(datum::varlena(lane.action.as_bytes())),
        Some(Datum::from(-i64::from(priority))),
        Some(datum::timestamptz(created)),
        Some(Uuid(id).datum()),
        Some(Datum::from(most as i64)),
    ];
    values.extend(lane.group.map(|group| Some(Uuid(group).datum())));
    let statement = match (lane.group, lane.level) {
        (None, None) => &REFILL,
        (None, Some(_)) => &REFILL_LEVEL,
        (Some(_), None) => &REFILL_GROUP,
        (Some(_), Some(_)) => &REFILL_GROUP_LEVEL,
    };
    let rows = session.run(statement, &values);
    let number = |row, column| datum::number(rows.get(row, column));
    let tasks = (0..rows.len())
        .map(|row| {
            let rank = rank(id_at(&rows, row, 0), Wall(number(row, 2)), number(row, 1));
            let timeout = datum::interval_length(rows.get(row, 3));
            let run_at = rows.get(row, 5).map(datum::wall);
            Read {
                rank,
                timeout,
                run_at,
                row: row_hint_at(&rows, row, 6),
                is_own: is_own(rows.get(row, 4)),
            }
        })
        .collect();
    rows.free();
    tasks
}

/// Reads the settings of all queues, and marks all lanes of a database as to be refilled, from the
/// first task on that is not owned: those before have slots. False when the board has no room for
/// some.
pub fn survey(db: &Database, entry: u32) -> bool {
    configure::load(db, entry);
    let spilled = with_board(|board| board.entry(entry).lanes_spilled);
    let room = mark(entry, &session(db).run(&SURVEY, &[]), first_to_refill);
    let room = mark_groups(entry, &session(db), b"", true) && room;
    with_board(|board| {
        let entry = board.entry_mut(entry);
        if room && entry.lanes_spilled == spilled {
            entry.lanes_spilled = 0;
        }
    });
    room
}

/// Marks all lanes of a queue as to be refilled. False when the board has no room for some.
fn survey_queue(session: &Session, entry: u32, queue: &[u8]) -> bool {
    let rows = session.run(&SURVEY_QUEUE, &[Some(datum::varlena(queue))]);
    let room = mark(entry, &rows, |_, _| Rank::FIRST);
    mark_groups(entry, session, queue, false) && room
}

/// As `mark`, of the lanes of groups, from a queue on.
fn mark_groups(entry: u32, session: &Session, queue: &[u8], and_later: bool) -> bool {
    let values = [Some(datum::varlena(queue)), Some(Datum::from(and_later))];
    mark(entry, &session.run(&SURVEY_GROUPS, &values), |_, _| Rank::FIRST)
}

/// Where the refill of a lane begins that the full survey found.
fn first_to_refill(rows: &Rows, row: usize) -> Rank {
    let number = |column| datum::number(rows.get(row, column));
    match (rows.get(row, 2), rows.get(row, 4)) {
        // A refill of a lane that ages also finds since when its tasks age.
        (Some(_), _) => Rank::FIRST,
        (None, None) => Rank::END,
        (None, Some(_)) => rank(id_at(rows, row, 4), Wall(number(6)), number(5)),
    }
}

fn mark(entry: u32, rows: &Rows, from: fn(&Rows, usize) -> Rank) -> bool {
    let name = |row, column| datum::text(rows.get(row, column));
    let level = |row| rows.get(row, 2).map(|it| it.value() as u32);
    let group = |row| rows.get(row, 3).is_some().then(|| id_at(rows, row, 3).0);
    let lane = |row| (name(row, 0), name(row, 1), level(row), group(row), from(rows, row));
    let lanes: Vec<_> = (0..rows.len()).map(lane).collect();
    let mut room = true;
    for some in lanes.chunks(AT_ONCE) {
        with_board(|board| {
            for (queue, action, level, group, from) in some {
                let lane = LaneName { queue, action, group: *group };
                room &= match level {
                    None => board.survey_from(entry, lane, *from),
                    Some(priority) => board.survey_level(entry, lane, *priority),
                };
            }
        });
    }
    room
}

//! Refilling a lane from where the last refill stopped (I4).

use crate::pg::datum::{self, BIGINT, TEXT, TIMESTAMPTZ, UUID};
use crate::pg::process;
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::segment::AT_ONCE;
use crate::shmem::segment::{self, with_board};
use crate::shmem::xact;
use crate::storage::lookup::{TaskLookup, View};
use crate::storage::rows::{id_at, is_own, rank, row_hint_at};
use board::{Id, Micros, NeedsRefill, Order, Rank, RowHint, Wall};
use pgrx::pg_sys::{self, Datum};

statement!(REFILL, "supply/refill", [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT]);
statement!(REFILL_LEVEL, "supply/refill_level", [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT]);
statement!(
    REFILL_GROUP,
    "supply/refill_group",
    [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT, UUID]
);
statement!(
    REFILL_GROUP_LEVEL,
    "supply/refill_group_level",
    [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT, UUID]
);

/// Bounds of how many tasks one refill reads. It reads no more than the board has room for.
const LEAST_READ: usize = AT_ONCE;
const MOST_READ: usize = 2_048;

/// Refills a lane, unless another process does.
pub fn refill(db: &Database, session: &Session, entry: u32, queue: &[u8], lane: &NeedsRefill) {
    let me = process::id();
    let begun = with_board(|board| board.begin_refill(lane, me).then(|| board.room()));
    let Some(room) = begun else { return };
    xact::refilling(Some(lane.lane));
    let most = (room as usize).clamp(LEAST_READ, MOST_READ);
    let mut tasks = read(session, queue, lane, most);
    // Where the lane goes on.
    let cursor = match tasks.last() {
        Some(last) if tasks.len() == most => last.rank.next(),
        _ => Rank::END,
    };
    leave_own(db, &mut tasks);
    let ages = tasks.iter().filter(|_| lane.order != Order::Priority);
    let ages: Vec<(Id, Wall)> = ages.map(|it| (it.rank.id, it.since())).collect();
    for some in tasks.chunks(AT_ONCE) {
        let ranks: Vec<(Rank, Micros)> = some.iter().map(|it| (it.rank, it.timeout)).collect();
        let room = with_board(|board| {
            let room = board.refill(entry, lane.lane, me, &ranks);
            some.iter().for_each(|it| board.note_row(entry, it.rank.id, it.row));
            room
        });
        if !room {
            break;
        }
    }
    for some in ages.chunks(AT_ONCE) {
        with_board(|board| some.iter().for_each(|(id, since)| board.note_age(entry, *id, *since)));
    }
    with_board(|board| board.end_refill(lane.lane, me, cursor));
    xact::refilling(None);
    segment::broadcast();
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

impl Read {
    /// Since when it ages.
    fn since(&self) -> Wall {
        self.run_at.unwrap_or(self.rank.created)
    }
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
    let statement = match (lane.group, lane.order) {
        (None, Order::Level(_)) => &REFILL_LEVEL,
        (None, Order::Priority) => &REFILL,
        (Some(_), Order::Level(_)) => &REFILL_GROUP_LEVEL,
        (Some(_), Order::Priority) => &REFILL_GROUP,
    };
    let rows = session.run(statement, &values);
    let tasks = (0..rows.len()).map(|row| read_row(&rows, row)).collect();
    rows.free();
    tasks
}

fn read_row(rows: &Rows, row: usize) -> Read {
    let number = |column| datum::number(rows.get(row, column));
    Read {
        rank: rank(id_at(rows, row, 0), Wall(number(2)), number(1)),
        timeout: datum::interval_length(rows.get(row, 3)),
        run_at: rows.get(row, 5).map(datum::wall),
        row: row_hint_at(rows, row, 6),
        is_own: is_own(rows.get(row, 4)),
    }
}

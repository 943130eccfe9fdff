//! Surveys: reading which lanes there are, and having each refilled when it is asked for (I4).

use crate::extension::database::Database;
use crate::ops::queues::configure;
use crate::pg::datum::{self, BIGINT, BOOL, TEXT};
use crate::pg::spi::{Rows, Session, statement};
use crate::shmem::segment::{in_steps, with_board};
use crate::storage::rows::{id_at, rank, session};
use board::{LaneName, Rank, Wall};
use pgrx::pg_sys::Datum;

statement!(SURVEY, "supply/survey", []);
statement!(SURVEY_GROUPS, "supply/survey_groups", [TEXT, BOOL, BIGINT]);
statement!(SURVEY_QUEUE, "supply/survey_queue", [TEXT, BIGINT]);

/// Reads the settings of all queues, and marks all lanes of a database as to be refilled, from the
/// first task on that is not owned: those before have slots. A queue for some of whose lanes there
/// is no room is searched from then on.
pub fn survey(db: &Database, entry: u32) {
    // A request from now on may come too late for this survey.
    let asked = with_board(|board| board.begin_survey(entry));
    configure::load(db, entry);
    let mut resumed = Vec::new();
    let mut from = 0;
    while let Some((at, name)) = with_board(|board| board.next_searched(entry, from)) {
        from = at + 1;
        if with_board(|board| board.begin_coverage(entry, name.as_bytes())) {
            resumed.push(name);
        }
    }
    let session = session(db);
    mark(entry, &session.run(&SURVEY, &[]), first_to_refill);
    mark(entry, &read_groups(&session, b"", true, None), |_, _| Rank::FIRST);
    for name in resumed {
        with_board(|board| board.end_coverage(entry, name.as_bytes(), true));
    }
    with_board(|board| {
        let it = board.entry_mut(entry);
        it.surveyed = asked;
        // The tables may have changed directly.
        it.looks_for_groups = true;
    });
}

/// Tries to bring all lanes of a queue that is searched onto the board, if there are at most so
/// many. Whether they are there.
pub fn resume(db: &Database, entry: u32, queue: &[u8], most: u32) -> bool {
    let begun = with_board(|board| {
        // An earlier try may have failed in the middle.
        board.end_coverage(entry, queue, false);
        board.begin_coverage(entry, queue)
    });
    if !begun {
        return false;
    }
    let session = session(db);
    let limit = i64::from(most) + 1;
    let rows = session.run(&SURVEY_QUEUE, &[Some(datum::varlena(queue)), Some(Datum::from(limit))]);
    let plain = rows.len();
    let complete = plain <= most as usize && mark(entry, &rows, |_, _| Rank::FIRST) && {
        let groups = read_groups(&session, queue, false, Some(limit));
        // Each group's lane has a head, which may be there without tasks of its own.
        plain + groups.len() <= most as usize && mark(entry, &groups, |_, _| Rank::FIRST)
    };
    with_board(|board| board.end_coverage(entry, queue, complete))
}

/// The lanes of groups of a queue, or from a queue on.
fn read_groups<'it>(
    session: &'it Session,
    queue: &[u8],
    and_later: bool,
    limit: Option<i64>,
) -> Rows<'it> {
    let values =
        [Some(datum::varlena(queue)), Some(Datum::from(and_later)), limit.map(Datum::from)];
    session.run(&SURVEY_GROUPS, &values)
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

/// Marks the lanes. Whether there was room for all.
fn mark(entry: u32, rows: &Rows, from: fn(&Rows, usize) -> Rank) -> bool {
    let name = |row, column| datum::text(rows.get(row, column));
    let level = |row| rows.get(row, 2).map(|it| it.value() as u32);
    let group = |row| rows.get(row, 3).is_some().then(|| id_at(rows, row, 3).0);
    let lane = |row| (name(row, 0), name(row, 1), level(row), group(row), from(rows, row));
    let lanes: Vec<_> = (0..rows.len()).map(lane).collect();
    let marked = in_steps(&lanes, |board, (queue, action, level, group, from)| {
        board.survey(entry, LaneName { queue, action, group: *group }, *level, *from)
    });
    marked.into_iter().all(|has_room| has_room)
}

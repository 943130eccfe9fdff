//! Importing a queue of pgmq: its messages become those of a queue of scylla, with the numbers that
//! they have. What is moved and what is left is one transaction's work.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::due;
use crate::ops::pgmq::queues::MessageQueue;
use crate::ops::pgmq::send::drafted;
use crate::ops::submit;
use crate::ops::submit::draft::{Draft, NewTask};
use crate::pg::datum::{self, BIGINT, INTEGERS, JSONBS, TEXT, TIMESTAMPTZS, UUIDS};
use crate::pg::jsonb;
use crate::pg::named::role;
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::time;
use crate::pg::uuid::{MESSAGE_MAX, Uuid};
use crate::storage::rows::{ids, session};
use pgrx::PgLogLevel;
use pgrx::pg_sys::Datum;

statement!(SET_TRIES, "pgmq/set_tries", [UUIDS, INTEGERS]);
statement!(
    INSERT_ARCHIVED,
    "pgmq/insert_archived",
    [TEXT, UUIDS, INTEGERS, TIMESTAMPTZS, TIMESTAMPTZS, JSONBS, JSONBS]
);

const COLUMNS: &str = include_str!("../../../sql/pgmq/columns.sql");
const TAKE: &str = include_str!("../../../sql/pgmq/take.sql");

/// How many messages are moved at a time.
const BATCH: i64 = 10_000;

/// How many messages are moved between two notices.
const NOTICE_AFTER: i64 = 100_000;

/// Moves up to `most` messages of pgmq's table, or of its archive. Returns how many.
pub fn import(db: &Database, queue: &MessageQueue, archive: bool, most: i64) -> Result<i64> {
    let prefix: &[u8] = if archive { b"a_" } else { b"q_" };
    let name = [prefix, &queue.queue].concat();
    // With the caller's rights, as another extension's table.
    let Some(text) = take_text(&name) else {
        return Err(error::no_pgmq_table(&name));
    };
    let mut moved = 0;
    while moved < most {
        pgrx::check_for_interrupts!();
        let number = {
            let session = Session::new(role::current());
            let limit = Some(Datum::from(BATCH.min(most - moved)));
            let rows = session.run_foreign(&text, &[BIGINT], &[limit]);
            match archive {
                true => insert_archived(db, queue, &rows)?,
                false => insert(db, queue, &rows)?,
            }
            rows.len() as i64
        };
        if number == 0 {
            break;
        }
        moved += number;
        if moved / NOTICE_AFTER > (moved - number) / NOTICE_AFTER {
            error::messages_imported(moved, &name).report(PgLogLevel::NOTICE);
        }
    }
    Ok(moved)
}

/// The command that takes messages out of a table; `None`: it is not there.
fn take_text(name: &[u8]) -> Option<Vec<u8>> {
    let session = Session::new(role::current());
    let arguments = [Some(datum::varlena(name)), Some(datum::varlena(TAKE.as_bytes()))];
    let rows = session.run_foreign(COLUMNS.as_bytes(), &[TEXT, TEXT], &arguments);
    datum::optional_text(rows.first())
}

/// The id of the message of a row.
fn id_at(queue: &MessageQueue, rows: &Rows, row: usize) -> Result<Uuid> {
    let number = datum::number(rows.get(row, 0));
    match (0..=MESSAGE_MAX).contains(&number) {
        true => Ok(Uuid::message(queue.hash, number)),
        false => Err(error::out_of_range("msg_id", "between 0 and 2^56 - 1")),
    }
}

fn insert(db: &Database, queue: &MessageQueue, rows: &Rows) -> Result<()> {
    let now = time::now().wall;
    let spec = |row| rows.get(row, 4).unwrap_or_else(jsonb::null);
    let drafts: Vec<Draft> = (0..rows.len())
        .map(|row| {
            let vt = rows.get(row, 3).map(datum::wall).filter(|vt| due::is_ahead(*vt, now));
            drafted(queue, spec(row), rows.get(row, 5), vt)
        })
        .collect();
    let mut tasks: Vec<NewTask> = Vec::with_capacity(drafts.len());
    for (row, draft) in drafts.iter().enumerate() {
        let created = rows.get(row, 2).map_or(now, datum::wall).min(now);
        let id = id_at(queue, rows, row)?;
        tasks.push(NewTask { id, ..NewTask::new(draft, now, created) });
    }
    submit::insert_new(db, tasks);
    let read = |row: &usize| datum::number(rows.get(*row, 1)) > 0;
    let read: Vec<usize> = (0..rows.len()).filter(read).collect();
    if !read.is_empty() {
        let some: Vec<Uuid> =
            read.iter().map(|row| id_at(queue, rows, *row)).collect::<Result<_>>()?;
        let tries = datum::array(INTEGERS, read.iter().map(|row| rows.get(*row, 1)));
        session(db).run(&SET_TRIES, &[ids(some.into_iter()), Some(tries)]);
    }
    Ok(())
}

fn insert_archived(db: &Database, queue: &MessageQueue, rows: &Rows) -> Result<()> {
    let all = 0..rows.len();
    let some: Vec<Uuid> = all.clone().map(|row| id_at(queue, rows, row)).collect::<Result<_>>()?;
    let column =
        |kind, column| Some(datum::array(kind, all.clone().map(|row| rows.get(row, column))));
    let specs = all.clone().map(|row| Some(rows.get(row, 4).unwrap_or_else(jsonb::null)));
    let arguments = [
        Some(datum::varlena(&queue.queue)),
        ids(some.into_iter()),
        column(INTEGERS, 1),
        column(TIMESTAMPTZS, 2),
        column(TIMESTAMPTZS, 3),
        Some(datum::array(JSONBS, specs)),
        column(JSONBS, 5),
    ];
    session(db).run(&INSERT_ARCHIVED, &arguments);
    Ok(())
}

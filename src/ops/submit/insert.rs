//! Inserting the rows of submitted tasks, and the table of the columns that a submission writes.

use crate::error;
use crate::ops::submit::draft::Entry;
use crate::pg::datum::{
    self, BIGINTS, BOOLS, INTEGERS, INTERVALS, JSONBS, Kind, OIDS, TEXTS, TIMESTAMPTZS, UUIDS,
};
use crate::pg::spi::{Session, Statement, statement};
use crate::pg::uuid::Uuid;
use crate::storage::rows::{id_at, ids, ids_in, settled, text_of_array};
use pgrx::pg_sys::Datum;
use std::collections::HashSet;

/// A column of `scylla.task` that a submission writes, and its parameter in the statements.
struct Column {
    name: &'static str,
    /// The array that carries the values of many tasks.
    kind: Kind,
    /// The column's value, of the parameter `s.name`.
    expression: Option<&'static str>,
    /// A task's value; `None`: null.
    value: fn(&Entry) -> Option<Datum>,
}

const fn column(name: &'static str, kind: Kind, value: fn(&Entry) -> Option<Datum>) -> Column {
    Column { name, kind, expression: None, value }
}

impl Column {
    const fn with_expression(self, expression: &'static str) -> Column {
        Column { expression: Some(expression), ..self }
    }
}

/// All columns, in the order of the statements' parameters. A plain task has nulls in those from
/// `PLAIN_COLUMNS` on.
static COLUMNS: &[Column] = &[
    column("id", UUIDS, |it| Some(it.id.datum())),
    column("queue", TEXTS, |it| Some(datum::varlena(&it.draft.queue))),
    column("action", TEXTS, |it| Some(datum::varlena(&it.draft.action))),
    column("priority", BIGINTS, |it| Some(Datum::from(i64::from(it.draft.priority)))),
    column("spec", JSONBS, |it| it.draft.spec),
    column("max_tries", INTEGERS, |it| it.draft.max_tries.map(Datum::from)),
    column("timeout", INTERVALS, |it| it.draft.timeout.map(|(interval, _)| interval)),
    column("post_result", BOOLS, |it| Some(Datum::from(it.draft.post_result))),
    column("created", TIMESTAMPTZS, |it| Some(datum::timestamptz(it.created))),
    column("key", TEXTS, |it| it.draft.key.as_deref().map(datum::varlena)),
    column("run_at", TIMESTAMPTZS, |it| it.draft.run_at.map(datum::timestamptz)),
    column("due", TIMESTAMPTZS, |it| {
        it.due.filter(|_| it.after.is_empty()).map(datum::timestamptz)
    }),
    column("retry_interval", INTERVALS, |it| it.draft.retry_interval),
    column("retry_jitter", INTERVALS, |it| it.draft.retry_jitter),
    // As texts, since an array of arrays cannot be ragged.
    column("after", TEXTS, |it| {
        (!it.draft.after.is_empty()).then(|| text_of_array(&it.draft.after))
    })
    .with_expression("s.after::uuid[]"),
    column("run_on_failure", BOOLS, |it| it.draft.run_on_failure.then_some(Datum::from(true)))
        .with_expression("coalesce(s.run_on_failure, false)"),
    column("pending", INTEGERS, |it| {
        (!it.after.is_empty()).then(|| Datum::from(it.after.len() as i32))
    })
    .with_expression("coalesce(s.pending, 0)"),
    column("followed", BOOLS, |it| it.has_dependents.then_some(Datum::from(true)))
        .with_expression("coalesce(s.followed, false)"),
    column("resubmitted_from", UUIDS, |it| it.draft.resubmitted_from.map(Uuid::datum)),
    column("role", OIDS, |it| it.draft.sql.as_ref().map(|sql| Datum::from(sql.role)))
        .with_expression("s.role::scylla.role"),
    column("database", TEXTS, |it| {
        it.draft.sql.as_ref().and_then(|sql| sql.database.as_deref()).map(datum::varlena)
    }),
    column("group_key", TEXTS, |it| it.draft.group_key.as_deref().map(datum::varlena)),
    column("command", TEXTS, |it| it.draft.sql.as_ref().map(|sql| datum::varlena(&sql.command))),
];

/// How many columns a plain task needs.
const PLAIN_COLUMNS: usize = 9;

/// The types of the parameters: arrays, or single values.
const fn kinds<const N: usize>(arrays: bool) -> [Kind; N] {
    let mut kinds = [UUIDS; N];
    let mut at = 0;
    while at < N {
        kinds[at] = if arrays { COLUMNS[at].kind } else { COLUMNS[at].kind.element() };
        at += 1;
    }
    kinds
}

/// The text of a statement whose file leaves its columns open.
fn fill_in(text: &str, columns: &[Column]) -> String {
    let list = |item: &dyn Fn((usize, &Column)) -> String| {
        columns.iter().enumerate().map(item).collect::<Vec<_>>().join(", ")
    };
    let value = |column: &Column| match column.expression {
        Some(expression) => expression.to_owned(),
        None => format!("s.{}", column.name),
    };
    text.replace("{columns}", &list(&|(_, column)| column.name.to_owned()))
        .replace("{values}", &list(&|(_, column)| value(column)))
        .replace("{parameters}", &list(&|(at, _)| format!("${}", at + 1)))
}

statement!(INSERT, "submit/insert", kinds::<{ COLUMNS.len() }>(true), |text| {
    fill_in(text, COLUMNS).replace("{conflict}", "")
});
statement!(INSERT_UNLESS_KEYED, "submit/insert", kinds::<{ COLUMNS.len() }>(true), |text| {
    fill_in(text, COLUMNS).replace("{conflict}", "(queue, key) where key is not null")
});
statement!(INSERT_PLAIN, "submit/insert_plain", kinds::<PLAIN_COLUMNS>(false), |text| {
    fill_in(text, &COLUMNS[..PLAIN_COLUMNS])
});
statement!(SUPPRESSORS, "submit/suppressors", []);
statement!(DISCARD, "submit/discard", [UUIDS]);

/// How often a missing row is inserted again before the triggers and rules of the table are blamed.
pub const ROUNDS: usize = 3;

/// Inserts tasks; returns the ids of those whose id and key were free, among the live and the
/// settled.
pub fn insert(session: &Session, entries: &[&Entry]) -> HashSet<Uuid> {
    insert_by(&INSERT, session, entries)
}

/// Inserts a task that was passed over although its id and key were free. Raises PostgreSQL's error
/// if an index or a constraint refuses the row. False: another task has the key, or the row was
/// suppressed.
pub fn insert_alone(session: &Session, entry: &Entry) -> bool {
    insert_by(&INSERT_UNLESS_KEYED, session, &[entry]).contains(&entry.id)
}

/// Raises an error that names what suppresses a row.
fn refuse_suppressed(session: &Session, id: Uuid) -> ! {
    error::not_inserted(id, suppressors(session).as_deref()).raise()
}

/// The triggers and rules that can keep a row from being inserted without an error, for a message.
pub fn suppressors(session: &Session) -> Option<String> {
    session.run(&SUPPRESSORS, &[]).first().map(|it| datum::string(Some(it)))
}

fn insert_by(statement: &Statement, session: &Session, entries: &[&Entry]) -> HashSet<Uuid> {
    let column = |column: &Column| {
        let values: Vec<Option<Datum>> = entries.iter().map(|it| (column.value)(it)).collect();
        let is_used = values.iter().any(Option::is_some);
        is_used.then(|| datum::array(column.kind, values.into_iter()))
    };
    let columns: Vec<Option<Datum>> = COLUMNS.iter().map(column).collect();
    let mut inserted: HashSet<Uuid> = ids_in(&session.run(statement, &columns)).collect();
    let known = entries.iter().filter(|entry| inserted.contains(&entry.id)).count();
    if known < inserted.len()
        && let Some(changed) = entries.iter().find(|entry| !inserted.contains(&entry.id))
    {
        refuse_suppressed(session, changed.id);
    }
    // Only an id that the caller gave can be a settled task's. The look into `finished` comes after
    // the insertion, so that a task that settles meanwhile is seen in one table or the other.
    let given = entries.iter().filter(|entry| entry.draft.id.is_some()).map(|entry| entry.id);
    if given.clone().next().is_some() {
        let taken = settled(session, given);
        let taken: Vec<Uuid> =
            taken.into_iter().map(|(id, _)| id).filter(|id| inserted.remove(id)).collect();
        if !taken.is_empty() {
            session.run(&DISCARD, &[ids(taken.into_iter())]);
        }
    }
    inserted
}

/// Whether a task is ready at once, and its id and key cannot be taken: nothing needs to be
/// checked.
pub fn is_plain(entry: &Entry) -> bool {
    let has_value = |column: &Column| (column.value)(entry).is_some();
    entry.draft.id.is_none() && !COLUMNS[PLAIN_COLUMNS..].iter().any(has_value)
}

/// Inserts one plain task.
pub fn insert_plain(session: &Session, entry: &Entry) {
    let mut values = [None; PLAIN_COLUMNS];
    for (value, column) in values.iter_mut().zip(COLUMNS) {
        *value = (column.value)(entry);
    }
    let rows = session.run(&INSERT_PLAIN, &values);
    if rows.len() == 0 || id_at(&rows, 0, 0) != entry.id {
        refuse_suppressed(session, entry.id);
    }
}

//! Inserting the rows of submitted tasks, and the table of the columns that a submission writes.

use crate::extension::database::Database;
use crate::ops::submit::draft::NewTask;
use crate::ops::submit::kept;
use crate::pg::datum::{
    self, BIGINTS, BOOLS, INTEGERS, INTERVALS, JSONBS, Kind, OIDS, TEXTS, TIMESTAMPTZS, UUIDS,
};
use crate::pg::named::database::Named;
use crate::pg::spi::{Session, Statement, statement};
use crate::pg::uuid::Uuid;
use crate::storage::rows::{ids, ids_in, settled, text_of_array};
use crate::storage::writers::task_writer::{TaskColumn, TaskWriter};
use pgrx::pg_sys::Datum;
use std::collections::HashSet;

/// A column of `scylla.task` that a submission writes, and its parameter in the statements.
struct Column {
    column: TaskColumn,
    /// The column's value, of the parameter `s.name`.
    expression: Option<&'static str>,
    /// A task's value; `None`: null.
    value: fn(&NewTask) -> Option<Datum>,
}

const fn not_null(name: &'static str, kind: Kind, value: fn(&NewTask) -> Option<Datum>) -> Column {
    Column { column: TaskColumn { name, kind, is_nullable: false }, expression: None, value }
}

const fn nullable(name: &'static str, kind: Kind, value: fn(&NewTask) -> Option<Datum>) -> Column {
    Column { column: TaskColumn { name, kind, is_nullable: true }, expression: None, value }
}

impl Column {
    const fn with_expression(self, expression: &'static str) -> Column {
        Column { expression: Some(expression), ..self }
    }
}

/// All columns, in the order of the statements' parameters. A task that is written past the
/// executor has nulls in those from `WRITTEN_COLUMNS` on.
const COLUMNS: &[Column] = &[
    not_null("id", UUIDS, |it| Some(it.id.datum())),
    not_null("queue", TEXTS, |it| Some(datum::varlena(&it.draft.queue))),
    not_null("action", TEXTS, |it| Some(datum::varlena(&it.draft.action))),
    not_null("priority", BIGINTS, |it| Some(Datum::from(i64::from(it.draft.priority)))),
    not_null("spec", JSONBS, |it| it.draft.spec),
    not_null("post_result", BOOLS, |it| Some(Datum::from(it.draft.post_result))),
    not_null("created", TIMESTAMPTZS, |it| Some(datum::timestamptz(it.created))),
    not_null("updated", TIMESTAMPTZS, |it| Some(datum::timestamptz(it.updated))),
    not_null("ready", BOOLS, |it| Some(Datum::from(it.is_ready()))),
    not_null("behind", BOOLS, |it| Some(Datum::from(it.is_behind()))),
    nullable("max_tries", INTEGERS, |it| it.draft.max_tries.map(Datum::from)),
    nullable("timeout", INTERVALS, |it| it.draft.timeout.map(|(interval, _)| interval)),
    nullable("run_at", TIMESTAMPTZS, |it| it.draft.run_at.map(datum::timestamptz)),
    nullable("due", TIMESTAMPTZS, |it| {
        it.due.filter(|_| it.after.is_empty()).map(datum::timestamptz)
    }),
    nullable("retry_interval", INTERVALS, |it| it.draft.retry_interval),
    nullable("retry_jitter", INTERVALS, |it| it.draft.retry_jitter),
    nullable("group_key", TEXTS, |it| it.draft.group_key.as_deref().map(datum::varlena)),
    nullable("resubmitted_from", UUIDS, |it| it.draft.resubmitted_from.map(Uuid::datum)),
    nullable("meta", JSONBS, |it| it.draft.meta),
    nullable("key", TEXTS, |it| it.draft.key.as_deref().map(datum::varlena)),
    // As texts, since an array of arrays cannot be ragged.
    nullable("after", TEXTS, |it| {
        (!it.draft.after.is_empty()).then(|| text_of_array(&it.draft.after))
    })
    .with_expression("s.after::uuid[]"),
    nullable("run_on_failure", BOOLS, |it| it.draft.run_on_failure.then_some(Datum::from(true)))
        .with_expression("coalesce(s.run_on_failure, false)"),
    nullable("pending", INTEGERS, |it| {
        (!it.after.is_empty()).then(|| Datum::from(it.after.len() as i32))
    })
    .with_expression("coalesce(s.pending, 0)"),
    nullable("followed", BOOLS, |it| it.has_dependents.then_some(Datum::from(true)))
        .with_expression("coalesce(s.followed, false)"),
    nullable("role", OIDS, |it| it.draft.sql.as_ref().map(|sql| Datum::from(sql.role)))
        .with_expression("s.role::scylla.role"),
    nullable("database", TEXTS, |it| {
        database_of(it).map(|database| datum::varlena(&database.name))
    }),
    nullable("database_oid", OIDS, |it| database_of(it).map(|database| Datum::from(database.oid)))
        .with_expression("s.database_oid::scylla.database"),
    nullable("command", TEXTS, |it| it.draft.sql.as_ref().map(|sql| datum::varlena(&sql.command))),
];

/// The database that the caller named for the task's command.
fn database_of<'e>(it: &'e NewTask) -> Option<&'e Named> {
    it.draft.sql.as_ref()?.database.as_ref()
}

/// How many columns can be written past the executor, as they are.
const WRITTEN_COLUMNS: usize = 18;

/// The types of the parameters.
const KINDS: [Kind; COLUMNS.len()] = {
    let mut kinds = [UUIDS; COLUMNS.len()];
    let mut at = 0;
    while at < kinds.len() {
        kinds[at] = COLUMNS[at].column.kind;
        at += 1;
    }
    kinds
};

/// The text of a statement whose file leaves its columns open.
fn fill_in(text: &str, conflict: &str) -> String {
    let list = |item: &dyn Fn((usize, &Column)) -> String| {
        COLUMNS.iter().enumerate().map(item).collect::<Vec<_>>().join(", ")
    };
    let value = |column: &Column| match column.expression {
        Some(expression) => expression.to_owned(),
        None => format!("s.{}", column.column.name),
    };
    text.replace("{columns}", &list(&|(_, column)| column.column.name.to_owned()))
        .replace("{values}", &list(&|(_, column)| value(column)))
        .replace("{parameters}", &list(&|(at, _)| format!("${}", at + 1)))
        .replace("{conflict}", conflict)
}

statement!(INSERT, "submit/insert", KINDS, |text| fill_in(text, "on conflict do nothing"));
statement!(INSERT_UNLESS_KEYED, "submit/insert", KINDS, |text| {
    let index = "(queue, key, (schedule is not null and command is not null))";
    fill_in(text, &format!("on conflict {index} where key is not null do nothing"))
});
statement!(DISCARD, "submit/discard", [UUIDS]);

/// Inserts tasks past the executor. False, and nothing is inserted: one may be a duplicate, or
/// has a column that only the statement writes.
pub fn write(db: &Database, session: &Session, tasks: &mut [NewTask]) -> bool {
    let has_value = |task: &NewTask| {
        let mut others = COLUMNS[WRITTEN_COLUMNS..].iter();
        task.draft.id.is_some() || others.any(|column| (column.value)(task).is_some())
    };
    if tasks.iter().any(has_value) {
        return false;
    }
    let written = &COLUMNS[..WRITTEN_COLUMNS];
    session.begin();
    let mut writer = TaskWriter::open(db, written.iter().map(|it| it.column));
    for task in &*tasks {
        pgrx::check_for_interrupts!();
        writer.add(|at| (written[at].value)(task));
    }
    let rows = writer.close();
    tasks.iter_mut().zip(rows).for_each(|(task, row)| task.row = Some(row));
    true
}

/// Inserts tasks; returns the ids of those whose id and key were free, among the live and the
/// settled.
pub fn insert(db: &Database, session: &Session, tasks: &[&NewTask]) -> HashSet<Uuid> {
    insert_by(&INSERT, db, session, tasks)
}

/// Inserts a task that was passed over although its id and key were free. Raises PostgreSQL's error
/// if an index refuses the row. False: another task has the key.
pub fn insert_alone(db: &Database, session: &Session, task: &NewTask) -> bool {
    insert_by(&INSERT_UNLESS_KEYED, db, session, &[task]).contains(&task.id)
}

fn insert_by(
    statement: &Statement,
    db: &Database,
    session: &Session,
    tasks: &[&NewTask],
) -> HashSet<Uuid> {
    let column = |column: &Column| {
        let values: Vec<Option<Datum>> = tasks.iter().map(|it| (column.value)(it)).collect();
        let is_used = values.iter().any(Option::is_some);
        is_used.then(|| datum::array(column.column.kind, values.into_iter()))
    };
    let columns: Vec<Option<Datum>> = COLUMNS.iter().map(column).collect();
    let mut inserted: HashSet<Uuid> = ids_in(&session.run(statement, &columns)).collect();
    // Only an id that the caller gave can be a settled task's. The look into `finished` comes after
    // the insertion, so that a task that settles meanwhile is seen in one table or the other.
    let given = tasks.iter().filter(|task| task.draft.id.is_some()).map(|task| task.id);
    if given.clone().next().is_some() {
        let taken: Vec<Uuid> = settled(session, given).into_iter().map(|(id, _)| id).collect();
        take_back(session, &mut inserted, taken.into_iter());
    }
    let new: Vec<&NewTask> =
        tasks.iter().filter(|task| inserted.contains(&task.id)).copied().collect();
    take_back(session, &mut inserted, kept::keep(db, session, &new).into_iter());
    inserted
}

/// Deletes the rows of inserted tasks whose id or key another task has.
fn take_back(session: &Session, inserted: &mut HashSet<Uuid>, taken: impl Iterator<Item = Uuid>) {
    let taken: Vec<Uuid> = taken.filter(|id| inserted.remove(id)).collect();
    if !taken.is_empty() {
        session.run(&DISCARD, &[ids(taken.into_iter())]);
    }
}

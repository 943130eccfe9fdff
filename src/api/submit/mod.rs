//! `submit` and `submit_tasks`.

mod fields;

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::submit::fields::{FIELDS, set_members};
use crate::api::validate;
use crate::error::{Error, Result};
use crate::ops::submit;
use crate::ops::submit::draft::Draft;
use crate::pg::datum;
use crate::pg::uuid::Uuid;
use crate::shmem::on_board::current_database;
use pgrx::pg_sys::Datum;

sql_functions!(submit, submit_tasks);

/// `submit(queue, spec, action, priority, id, …) → uuid`
///
/// Takes the fields of a task, one argument each, and submits the task. Returns its id, or that of
/// the live task with its key (`on_conflict => 'ignore'`).
fn submit(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.submit()")?;
    let mut draft = Draft::blank();
    for (number, field) in FIELDS.iter().enumerate() {
        field.set(&mut draft, call.datum(number))?;
    }
    let id = submit::submit(&current_database(), &draft)?;
    Ok(Some(id.datum()))
}

/// `submit_tasks(tasks, atomic) → (id, outcome, error) …`
///
/// Takes a JSON array of tasks, and whether one that cannot be inserted fails the call. Returns a
/// row per task: its id, the outcome, and an error message or null.
fn submit_tasks(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.submit_tasks()")?;
    let tasks = call.jsonb(0, "tasks")?;
    let atomic = call.bool(1, "atomic")?;
    let elements = validate::elements("tasks", "an array of objects", tasks)?;
    let mut rows = call.rows()?;
    let mut drafts = Vec::with_capacity(elements.len());
    // For each element: whether it has a draft, or its id and its error.
    let mut checked: Vec<Result<(), (Option<Uuid>, Error)>> = Vec::new();
    for (number, element) in elements.into_iter().enumerate() {
        let mut draft = Draft::blank();
        match set_members(&mut draft, element) {
            Ok(()) => {
                drafts.push(draft);
                checked.push(Ok(()));
            }
            Err(error) if atomic => return Err(error.of_element(number + 1)),
            Err(error) => checked.push(Err((draft.id, error))),
        }
        pgrx::check_for_interrupts!();
    }
    let mut submitted = match drafts.is_empty() {
        true => Vec::new().into_iter(),
        false => submit::submit_tasks(&current_database(), &drafts).into_iter(),
    };
    for (number, element) in checked.into_iter().enumerate() {
        let (id, answer) = match element {
            Ok(()) => submitted.next().map_or((None, Ok(true)), |(id, it)| (Some(id), it)),
            Err((id, error)) => (id, Err(error)),
        };
        let (outcome, error) = match answer {
            Ok(true) => ("inserted", None),
            Ok(false) => ("duplicate", None),
            Err(error) if atomic => return Err(error.of_element(number + 1)),
            Err(error) if error.is_duplicate() => ("duplicate", Some(error)),
            Err(error) => ("invalid", Some(error)),
        };
        rows.add([
            id.map(Uuid::datum),
            Some(datum::varlena(outcome.as_bytes())),
            error.map(|it| datum::varlena(it.message().as_bytes())),
        ]);
    }
    Ok(None)
}

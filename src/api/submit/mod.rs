//! `submit`, `submit_tasks`, `submit_many` and `resubmit`.

mod dependencies;
pub mod fields;
mod messages;

use crate::api::call::Call;
use crate::api::call::declared::*;
use crate::api::submit::fields::{FIELDS, set_members};
use crate::api::validate::{self, ELEMENTS_MAX};
use crate::error::{self, Error, Result};
use crate::ops::submit::draft::{Draft, OnConflict};
use crate::ops::{resubmit, submit};
use crate::pg::datum::{self, UUIDS};
use crate::pg::named::role;
use crate::pg::uuid::Uuid;
use crate::storage::privileges::Privileges;
use crate::xact::on_board::current_database;
use pgrx::pg_sys::Datum;

sql_functions!(
    Submit => submit,
    SubmitTasks => submit_tasks,
    SubmitMany => submit_many,
    Resubmit => resubmit,
);

/// Takes the fields of a task, one argument each, and submits the task. Returns its id, or that of
/// the live task with its key (`on_conflict => 'ignore'`).
fn submit(call: &mut Call, args: Submit) -> Result<Option<Datum>> {
    let mut draft = Draft::blank();
    for (field, value) in FIELDS.iter().zip(declared!(values of args: Submit)) {
        field.set(&mut draft, value)?;
    }
    submit_draft(call, draft)
}

/// Submits a task if the caller may. Returns its id, or that of the live task with its key.
pub fn submit_draft(call: &Call, mut draft: Draft) -> Result<Option<Datum>> {
    authorize(call, &mut draft)?;
    call.authorize_tasks_with(Privileges::LOOK, &draft.after)?;
    let (id, is_new) = submit::submit(&current_database(), &draft)?;
    Ok(shown(id, is_new, &draft))
}

/// Refuses a task that the caller may not submit, whatever it waits for. Notes what the caller may
/// learn.
fn authorize(call: &Call, draft: &mut Draft) -> Result<()> {
    call.authorize(&draft.queue)?;
    if draft.unique_for.is_some() && draft.key.is_none() {
        return Err(error::keyless());
    }
    if draft.on_conflict == OnConflict::Replace {
        call.authorize_with(Privileges::CANCEL, &draft.queue)?;
    }
    draft.shows_holder = call.may(Privileges::LOOK, &draft.queue);
    Ok(())
}

/// The id of a submitted task, or of the one that has its key; null where the caller may not look
/// at that one.
fn shown(id: Uuid, is_new: bool, draft: &Draft) -> Option<Datum> {
    (is_new || draft.shows_holder).then(|| id.datum())
}

/// Takes a JSON array of tasks, and whether one that cannot be inserted fails the call. Returns a
/// row per task: its id, the outcome, and an error message or null.
fn submit_tasks(call: &mut Call, args: SubmitTasks) -> Result<Option<Datum>> {
    let tasks = args.tasks.required()?;
    let atomic = args.atomic.required()?;
    let elements = validate::elements("tasks", "an array of objects", tasks)?;
    let mut rows = call.rows()?;
    // For each element: its draft, as far as it could be read, and whether it is right.
    let mut read: Vec<(Draft, Result<()>)> = Vec::with_capacity(elements.len());
    for element in elements {
        let mut draft = Draft::blank();
        let checked = set_members(&mut draft, element).and_then(|()| authorize(call, &mut draft));
        read.push((draft, checked));
        pgrx::check_for_interrupts!();
    }
    refuse_hidden(call, &mut read);
    let mut drafts = Vec::with_capacity(read.len());
    // For each element: whether it has a draft, or its id and its error.
    let mut checked: Vec<Result<(), (Option<Uuid>, Error)>> = Vec::with_capacity(read.len());
    for (number, (draft, answer)) in read.into_iter().enumerate() {
        match answer {
            Ok(()) => {
                drafts.push(draft);
                checked.push(Ok(()));
            }
            Err(error) if atomic => return Err(error.of_element(number + 1)),
            Err(error) => checked.push(Err((draft.id, error))),
        }
    }
    let submitted = match drafts.is_empty() {
        true => Vec::new(),
        false => submit::submit_tasks(&current_database(), &drafts),
    };
    let mut submitted = submitted.into_iter().zip(&drafts);
    for (number, element) in checked.into_iter().enumerate() {
        let (id, answer) = match element {
            Ok(()) => submitted.next().map_or((None, Ok(true)), |((id, it), draft)| {
                (shown(id, !matches!(it, Ok(false)), draft), it)
            }),
            Err((id, error)) => (id.map(Uuid::datum), Err(error)),
        };
        let (outcome, error) = match answer {
            Ok(true) => ("inserted", None),
            Ok(false) => ("duplicate", None),
            Err(error) if atomic => return Err(error.of_element(number + 1)),
            Err(error) if error.is_duplicate() => ("duplicate", Some(error)),
            Err(error) => ("invalid", Some(error)),
        };
        rows.add([
            id,
            Some(datum::varlena(outcome.as_bytes())),
            error.map(|it| datum::varlena(it.message().as_bytes())),
        ]);
    }
    Ok(None)
}

/// Refuses the elements that wait for a task at which the caller may not look.
fn refuse_hidden(call: &Call, read: &mut [(Draft, Result<()>)]) {
    let after = |(draft, _): &(Draft, Result<()>)| draft.after.clone();
    let after: Vec<Uuid> = read.iter().filter(|it| it.1.is_ok()).flat_map(after).collect();
    let hidden = call.denied(Privileges::LOOK, &after);
    for (draft, checked) in read.iter_mut().filter(|it| it.1.is_ok()) {
        if let Some(id) = draft.after.iter().find(|id| hidden.contains(id)) {
            *checked = Err(call.denied_on_task(*id, Privileges::LOOK));
        }
    }
}

/// Takes an array of specs, what holds for all tasks, and arrays of ids, keys and groups or null.
/// Returns an array of the tasks' ids. A task that cannot be inserted fails the call.
fn submit_many(call: &mut Call, args: SubmitMany) -> Result<Option<Datum>> {
    let mut common = Draft::blank();
    // An argument named as a field holds for each of the tasks.
    for (name, value) in declared!(each of args: SubmitMany) {
        fields::set(&mut common, name, value)?;
    }
    authorize(call, &mut common)?;
    // A null array is an empty one, as for arrays of ids.
    let specs = args.specs.elements(ELEMENTS_MAX)?.unwrap_or_default();
    let ids = args.ids.column(&args.specs, specs.len())?;
    let keys = args.keys.column(&args.specs, specs.len())?;
    let groups = args.group_keys.column(&args.specs, specs.len())?;
    let mut drafts = Vec::with_capacity(specs.len());
    for (at, spec) in specs.into_iter().enumerate() {
        let mut draft = common.clone();
        let members =
            [("spec", spec), ("id", ids[at]), ("key", keys[at]), ("group_key", groups[at])];
        for (name, value) in members {
            fields::set(&mut draft, name, value).map_err(|error| error.of_element(at + 1))?;
        }
        drafts.push(draft);
        pgrx::check_for_interrupts!();
    }
    let submitted = match drafts.is_empty() {
        true => Vec::new(),
        false => submit::submit_tasks(&current_database(), &drafts),
    };
    let mut new = Vec::with_capacity(submitted.len());
    for (at, (id, submitted)) in submitted.into_iter().enumerate() {
        submitted.map_err(|error| error.of_element(at + 1))?;
        new.push(Some(id.datum()));
    }
    Ok(Some(datum::array(UUIDS, new.into_iter())))
}

/// Takes an array of ids, and submits the aborted and cancelled ones of these tasks again. Returns
/// an array of the new tasks' ids, null for each other task.
fn resubmit(call: &mut Call, args: Resubmit) -> Result<Option<Datum>> {
    let ids = args.ids.uuids()?;
    call.authorize_tasks(&ids)?;
    let new = match ids.is_empty() {
        true => Vec::new(),
        false => resubmit::resubmit(&current_database(), role::current(), &ids, |id, queue| {
            call.authorize_found(id, queue)
        })?,
    };
    Ok(Some(datum::array(UUIDS, new.into_iter().map(|id| id.map(Uuid::datum)))))
}

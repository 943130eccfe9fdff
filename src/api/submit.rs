//! `submit` and `submit_tasks`.

use crate::api::fcinfo::{Call, sql_function};
use crate::api::validate;
use crate::error::{self, Error, Result};
use crate::ops::submit;
use crate::ops::submit::draft::Draft;
use crate::pg::datum;
use crate::pg::jsonb::{self, Json};
use crate::pg::uuid::Uuid;
use crate::shmem::on_board::current_database;
use board::{Micros, Wall};
use pgrx::PgTryBuilder;
use pgrx::pg_sys::{self, Datum};
use std::rc::Rc;

sql_function!(
    /// `submit(queue, spec, action, priority, id, …) → uuid`
    pg_finfo_scylla_submit,
    scylla_submit,
    |call: &mut Call| {
        call.changes("scylla.submit()")?;
        let draft = arguments(call)?;
        let id = submit::submit(&current_database(), &draft)?;
        Ok(Some(id.datum()))
    }
);

/// A draft of submit's arguments.
fn arguments(call: &Call) -> Result<Draft> {
    let pause = |number, name| {
        validate::pause(name, call.interval(number).ok_or_else(|| error::missing(name))?)
    };
    let run_at = call.datum(7).map(|at| validate::time("run_at", datum::wall(at)));
    let timeout = call.interval(13).map(|(it, length)| Ok((it, validate::timeout(length)?)));
    let after = call.datum(8).map(|_| call.uuids(8, "after"));
    Ok(Draft {
        id: call.optional_uuid(4),
        priority: validate::priority(call.bigint(3, "priority")?)?,
        key: call.datum(5).map(|_| validate::key(call.text(5, "key")?)).transpose()?,
        on_conflict: validate::on_conflict(&call.text(6, "on_conflict")?)?,
        run_at: run_at.transpose()?,
        after: after.transpose()?.unwrap_or_default(),
        run_on_failure: validate::on_failure(&call.text(9, "on_failure")?)?,
        max_tries: call.int(10).map(validate::max_tries).transpose()?,
        retry_interval: pause(11, "retry_interval")?,
        retry_jitter: pause(12, "retry_jitter")?,
        timeout: timeout.transpose()?,
        post_result: call.bool(14, "post_result")?,
        ..Draft::new(
            validate::queue(call.text(0, "queue")?)?.into(),
            validate::action(call.text(2, "action")?)?.into(),
            validate::spec(call.jsonb(1, "spec")?)?,
        )
    })
}

sql_function!(
    /// `submit_tasks(tasks, atomic) → (id, outcome, error) …`
    pg_finfo_scylla_submit_tasks,
    scylla_submit_tasks,
    |call: &mut Call| {
        call.changes("scylla.submit_tasks()")?;
        let tasks = call.jsonb(0, "tasks")?;
        let atomic = call.bool(1, "atomic")?;
        // SAFETY: declared as jsonb; looked into if it is an array.
        let elements = unsafe {
            match jsonb::read(tasks) {
                Json::Array(array) => jsonb::inside(array),
                _ => return Err(error::wrong_type("tasks", "an array of objects")),
            }
        };
        let mut sink = call.rows()?;
        let mut names = Names::default();
        let mut drafts = Vec::with_capacity(elements.len());
        // Of each element: whether it has a draft, or what is wrong with it.
        let mut checked: Vec<Result<(), (Option<Uuid>, Error)>> = Vec::new();
        for (number, (_, element)) in elements.into_iter().enumerate() {
            let mut id = None;
            match draft(element, &mut id, &mut names) {
                Ok(draft) => {
                    drafts.push(draft);
                    checked.push(Ok(()));
                }
                Err(error) if atomic => return Err(error.of_element(number + 1)),
                Err(error) => checked.push(Err((id, error))),
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
            sink.add([
                id.map(Uuid::datum),
                Some(datum::varlena(outcome.as_bytes())),
                error.map(|it| datum::varlena(it.message().as_bytes())),
            ]);
        }
        Ok(None)
    }
);

/// Names that repeat in a batch are kept once.
#[derive(Default)]
struct Names {
    queue: Option<Rc<[u8]>>,
    action: Option<Rc<[u8]>>,
}

fn shared(last: &mut Option<Rc<[u8]>>, name: Vec<u8>) -> Rc<[u8]> {
    match last {
        Some(last) if **last == *name => last.clone(),
        _ => last.insert(name.into()).clone(),
    }
}

/// The members of an element of a batch: submit's arguments.
const MEMBERS: [&str; 15] = [
    "queue",
    "spec",
    "action",
    "priority",
    "id",
    "key",
    "on_conflict",
    "run_at",
    "after",
    "on_failure",
    "max_tries",
    "retry_interval",
    "retry_jitter",
    "timeout",
    "post_result",
];

/// A draft of an element of the batch. Null is taken where submit takes it.
fn draft(element: Json, id: &mut Option<Uuid>, names: &mut Names) -> Result<Draft> {
    let Json::Object(object) = element else {
        return Err(error::wrong_type("an element of tasks", "an object"));
    };
    let (mut queue, mut action, mut spec) = (None, Vec::new(), None);
    // Its queue, action and spec are known at the end.
    let mut draft = Draft::new([].into(), [].into(), Datum::from(0));
    // SAFETY: of a Json::Object.
    for (name, value) in unsafe { jsonb::inside(object) } {
        let name = String::from_utf8_lossy(&name).into_owned();
        match (name.as_str(), value) {
            ("spec", value) => spec = Some(value.datum()),
            ("id" | "key" | "run_at" | "after" | "max_tries" | "timeout", Json::Null) => {}
            (name, Json::Null) if MEMBERS.contains(&name) => return Err(error::missing(name)),
            ("queue", Json::String(text)) => queue = Some(validate::queue(text)?),
            ("action", Json::String(text)) => action = validate::action(text)?,
            ("priority", Json::Number(text)) => {
                draft.priority = validate::priority(integer(&text).unwrap_or(-1))?;
            }
            ("id", Json::String(text)) => {
                *id = Uuid::parse(&text);
                draft.id = Some(id.ok_or_else(|| error::wrong_type("id", "a uuid"))?);
            }
            ("key", Json::String(text)) => draft.key = Some(validate::key(text)?),
            ("on_conflict", Json::String(word)) => {
                draft.on_conflict = validate::on_conflict(&word)?
            }
            ("run_at", Json::String(text)) => {
                draft.run_at = Some(validate::time("run_at", time("run_at", &text)?)?);
            }
            ("after", Json::Array(array)) => draft.after = uuids("after", array)?,
            ("on_failure", Json::String(word)) => {
                draft.run_on_failure = validate::on_failure(&word)?
            }
            ("max_tries", Json::Number(text)) => {
                draft.max_tries = Some(validate::max_tries(integer(&text).unwrap_or(-1))?);
            }
            ("retry_interval", Json::String(text)) => {
                draft.retry_interval =
                    validate::pause("retry_interval", interval("retry_interval", &text)?)?;
            }
            ("retry_jitter", Json::String(text)) => {
                draft.retry_jitter =
                    validate::pause("retry_jitter", interval("retry_jitter", &text)?)?;
            }
            ("timeout", Json::String(text)) => {
                let (interval, length) = interval("timeout", &text)?;
                draft.timeout = Some((interval, validate::timeout(length)?));
            }
            ("post_result", Json::Bool(value)) => draft.post_result = value,
            ("after", _) => return Err(error::wrong_type("after", "an array of uuids")),
            (name @ ("priority" | "max_tries"), _) => {
                return Err(error::wrong_type(name, "a number"));
            }
            ("post_result", _) => return Err(error::wrong_type("post_result", "a boolean")),
            (name, _) if MEMBERS.contains(&name) => {
                return Err(error::wrong_type(name, "a string"));
            }
            (name, _) => return Err(error::unknown_member("task", name, "scylla.submit")),
        }
    }
    draft.queue = shared(&mut names.queue, queue.ok_or_else(|| error::missing("queue"))?);
    draft.action = shared(&mut names.action, action);
    draft.spec = validate::spec(spec.unwrap_or_else(|| jsonb::parse("{}")))?;
    Ok(draft)
}

/// The ids of a jsonb array of strings.
fn uuids(name: &str, array: Datum) -> Result<Vec<Uuid>> {
    // SAFETY: of a Json::Array.
    let elements = unsafe { jsonb::inside(array) };
    let uuid = |(_, element): (Vec<u8>, Json)| match element {
        Json::String(text) => Uuid::parse(&text),
        _ => None,
    };
    let uuids: Option<Vec<Uuid>> = elements.into_iter().map(uuid).collect();
    uuids.ok_or_else(|| error::wrong_type(name, "an array of uuids"))
}

/// A whole number, which numeric may write with a fraction of zeros.
fn integer(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    whole.parse().ok().filter(|_| fraction.bytes().all(|digit| digit == b'0'))
}

/// An interval of its text, and its length.
fn interval(name: &str, text: &[u8]) -> Result<(Datum, Micros)> {
    let interval = parsed(pg_sys::interval_in, text);
    let interval = interval.ok_or_else(|| error::wrong_type(name, "an interval"))?;
    Ok((interval, datum::interval_length(Some(interval))))
}

/// A timestamptz of its text.
pub(super) fn time(name: &str, text: &[u8]) -> Result<Wall> {
    let time = parsed(pg_sys::timestamptz_in, text);
    time.map(datum::wall).ok_or_else(|| error::wrong_type(name, "a timestamptz"))
}

type Input = unsafe fn(pg_sys::FunctionCallInfo) -> Datum;

/// A value of its text, as PostgreSQL reads it; `None`: it cannot.
fn parsed(input: Input, text: &[u8]) -> Option<Datum> {
    let text = std::ffi::CString::new(text).ok()?;
    // Reading a value has no effect that would need a subtransaction to undo.
    PgTryBuilder::new(std::panic::AssertUnwindSafe(|| {
        // SAFETY: an input function takes a text that ends with a zero, a type's oid and a modifier.
        unsafe {
            pgrx::direct_function_call_as_datum(
                input,
                &[Some(Datum::from(text.as_ptr())), Some(Datum::from(0)), Some(Datum::from(-1))],
            )
        }
    }))
    .catch_others(|_| None)
    .execute()
}

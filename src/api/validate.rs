//! Checks of arguments, each for all SQL functions that take the argument.

use crate::error::{self, Error, Result};
use crate::guc;
use crate::ops::pgmq;
use crate::ops::submit::draft::OnConflict;
use crate::pg::datum;
use crate::pg::jsonb::{self, Json};
use crate::pg::uuid::Uuid;
use crate::shmem::sql_record;
use crate::storage::privileges::Privileges;
use board::{ACTION_MAX, MAX_WAIT_QUEUES, Micros, QUEUE_MAX, WORKER_MAX, Wall};
use pgrx::pg_sys::{self, Datum};

/// The most elements of an array.
pub const ELEMENTS_MAX: usize = 100_000;

/// The most actions of one call: the board looks each of them up under its lock.
pub const ACTIONS_MAX: usize = 1_024;

/// The longest key, in bytes.
const KEY_MAX: usize = 256;
/// The longest key of a group, in bytes.
const GROUP_KEY_MAX: usize = 256;

/// The longest id of a message, in characters.
const MESSAGE_ID_MAX: i32 = 128;

/// A text of so many bytes.
pub fn name<T: AsRef<[u8]>>(text: T, argument: &str, least: usize, most: usize) -> Result<T> {
    let length = text.as_ref().len();
    if (least..=most).contains(&length) {
        Ok(text)
    } else {
        Err(error::bad_length(argument, least, most, length))
    }
}

/// The name of a queue.
pub fn queue<T: AsRef<[u8]>>(text: T) -> Result<T> {
    name(text, "queue", 1, QUEUE_MAX)
}

/// The name of a queue that callers fill and workers serve.
pub fn open_queue<T: AsRef<[u8]>>(text: T) -> Result<T> {
    let name = queue(text)?;
    if name.as_ref() == sql_record::QUEUE { Err(error::served_queue()) } else { Ok(name) }
}

/// The names of 1 to 16 queues, in their order, each checked.
pub fn queues(
    elements: Vec<Option<Datum>>,
    check: fn(Vec<u8>) -> Result<Vec<u8>>,
) -> Result<Vec<Vec<u8>>> {
    if !(1..=MAX_WAIT_QUEUES).contains(&elements.len()) {
        let range = format!("an array of 1 to {MAX_WAIT_QUEUES} elements");
        return Err(error::out_of_range("queues", &range));
    }
    let checked = |element: Option<Datum>| {
        let element = element.ok_or_else(|| error::missing("an element of queues"))?;
        // SAFETY: an element of an array of texts.
        check(unsafe { datum::bytes(element) })
    };
    elements.into_iter().map(checked).collect()
}

/// The name of an action.
pub fn action<T: AsRef<[u8]>>(text: T) -> Result<T> {
    name(text, "action", 0, ACTION_MAX)
}

/// The action of a task that a caller submits. Messages have one of their own, and ids that tell
/// their numbers.
pub fn open_action<T: AsRef<[u8]>>(text: T) -> Result<T> {
    let name = action(text)?;
    if name.as_ref() == pgmq::ACTION { Err(error::action_of_messages()) } else { Ok(name) }
}

/// The elements of an array of actions, sorted and each once.
pub fn actions(elements: Vec<Option<Datum>>) -> Result<Vec<Vec<u8>>> {
    let checked = |element: Option<Datum>| {
        let element = element.ok_or_else(|| error::missing("an element of actions"))?;
        // SAFETY: an element of an array of texts.
        action(unsafe { datum::bytes(element) })
    };
    let mut actions: Vec<Vec<u8>> = elements.into_iter().map(checked).collect::<Result<_>>()?;
    actions.sort_unstable();
    actions.dedup();
    Ok(actions)
}

/// The name of a worker.
pub fn worker(text: Vec<u8>) -> Result<Vec<u8>> {
    name(text, "worker", 1, WORKER_MAX)
}

/// A priority.
pub fn priority(number: i64) -> Result<u32> {
    number.try_into().map_err(|_| error::out_of_range("priority", "between 0 and 4294967295"))
}

/// The length of a lease: an interval with its length.
pub fn timeout(value: (Datum, Micros)) -> Result<(Datum, Micros)> {
    longer_than_zero("timeout", value)
}

/// An interval, with its length, that cannot be empty.
pub fn longer_than_zero(argument: &str, value: (Datum, Micros)) -> Result<(Datum, Micros)> {
    if value.1 > Micros::ZERO {
        Ok(value)
    } else {
        Err(error::out_of_range(argument, "greater than zero"))
    }
}

/// An interval, with its length, that may be empty.
pub fn zero_or_longer(argument: &str, value: (Datum, Micros)) -> Result<(Datum, Micros)> {
    if value.1 >= Micros::ZERO { Ok(value) } else { Err(error::negative(argument)) }
}

/// How many tries a task has; 0: no limit.
pub fn max_tries(number: i64) -> Result<i32> {
    let number = i32::try_from(number).ok().filter(|number| *number >= 0);
    number.ok_or_else(|| error::out_of_range("max_tries", "between 0 and 2147483647"))
}

/// A number that counts something, and is not zero.
pub fn at_least_one(argument: &str, number: i64) -> Result<i64> {
    if number >= 1 { Ok(number) } else { Err(error::out_of_range(argument, "at least 1")) }
}

/// A number that is neither zero nor less, nor infinite, nor NaN.
pub fn greater_than_zero(argument: &str, number: f64) -> Result<f64> {
    if number > 0.0 && number.is_finite() {
        Ok(number)
    } else {
        Err(error::out_of_range(argument, "greater than zero and finite"))
    }
}

/// How many tasks a call owns at most. A number beyond what an array can have counts as that.
pub fn max_tasks(number: i64) -> Result<usize> {
    at_least_one("max_tasks", number).map(|number| ELEMENTS_MAX.min(number as usize))
}

/// The progress of a task.
pub fn progress(number: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&number) {
        Ok(number)
    } else {
        Err(error::out_of_range("progress", "between 0 and 1"))
    }
}

/// The key of a task.
pub fn key(text: Vec<u8>) -> Result<Vec<u8>> {
    name(text, "key", 1, KEY_MAX)
}

/// The group of a task.
pub fn group_key(text: Vec<u8>) -> Result<Vec<u8>> {
    name(text, "group_key", 1, GROUP_KEY_MAX)
}

/// A privilege on a queue.
pub fn privilege(word: &[u8]) -> Result<Privileges> {
    let known = r#""submit", "work", "cancel", "look" or "manage""#;
    Privileges::parse(word).ok_or_else(|| unknown("privileges", word, known))
}

/// What to do when the key exists.
pub fn on_conflict(word: &[u8]) -> Result<OnConflict> {
    match word {
        b"error" => Ok(OnConflict::Error),
        b"ignore" => Ok(OnConflict::Ignore),
        b"replace" => Ok(OnConflict::Replace),
        _ => Err(unknown("on_conflict", word, r#""error", "ignore" or "replace""#)),
    }
}

/// Whether a task runs after a predecessor was aborted or cancelled.
pub fn on_failure(word: &[u8]) -> Result<bool> {
    match word {
        b"abort" => Ok(false),
        b"run" => Ok(true),
        _ => Err(unknown("on_failure", word, r#""abort" or "run""#)),
    }
}

/// The error of an unknown word.
pub fn unknown(argument: &str, word: &[u8], known: &str) -> Error {
    error::unknown_value(argument, &datum::printable(word), known)
}

/// A time other than the two infinite ones.
pub fn time(argument: &str, at: Wall) -> Result<Wall> {
    if at == Wall::MIN || at == Wall::NEVER {
        Err(error::out_of_range(argument, "finite"))
    } else {
        Ok(at)
    }
}

/// The time before which a task does not run.
pub fn run_at(at: Wall) -> Result<Wall> {
    time("run_at", at)
}

/// The size of a spec, a result or an error, checked before anything of it is copied.
pub fn size(argument: &str, bytes: usize) -> Result<()> {
    let most = guc::max_spec_size();
    if bytes <= most { Ok(()) } else { Err(error::too_large(argument, bytes, most)) }
}

/// A result, any JSON value, no larger than `scylla.max_spec_size`.
pub fn result(datum: Datum) -> Result<Datum> {
    // SAFETY: the callers pass jsonb.
    size("result", unsafe { jsonb::size(datum) })?;
    Ok(datum)
}

/// A spec, any JSON value but null, no larger than `scylla.max_spec_size`.
pub fn spec(datum: Datum) -> Result<Datum> {
    // SAFETY: the callers pass jsonb.
    let value = unsafe {
        size("spec", jsonb::size(datum))?;
        jsonb::read(datum)
    };
    match value {
        Json::Null => Err(error::json_null("spec")),
        _ => Ok(datum),
    }
}

/// The id of a new task: not one that a message of a queue of the schema `pgmq` could have.
pub fn task_id(id: Uuid) -> Result<Uuid> {
    match id.message_number() {
        None => Ok(id),
        Some(_) => Err(error::id_of_message(id)),
    }
}

/// What a client notes about a task: a JSON object, no larger than `scylla.max_spec_size`.
pub fn meta(datum: Datum) -> Result<Datum> {
    // SAFETY: the callers pass jsonb.
    let value = unsafe {
        size("meta", jsonb::size(datum))?;
        jsonb::read(datum)
    };
    match value {
        Json::Object(_) => Ok(datum),
        _ => Err(error::wrong_type("meta", "an object")),
    }
}

/// The longest object that a worker tells of itself, in bytes: any role may register workers.
const WORKER_META_MAX: usize = 8_192;

/// What a worker tells of itself: a JSON object; `None`: it is empty.
pub fn worker_meta(datum: Datum) -> Result<Option<Datum>> {
    // SAFETY: the callers pass jsonb.
    let (bytes, value) = unsafe { (jsonb::size(datum), jsonb::read(datum)) };
    match value {
        Json::Object(_) if bytes > WORKER_META_MAX => {
            Err(error::worker_meta_too_large(bytes, WORKER_META_MAX))
        }
        Json::Object(object) => Ok((!jsonb::inside(object).is_empty()).then_some(datum)),
        _ => Err(error::wrong_type("meta", "an object")),
    }
}

/// The id of a message.
pub fn message_id(text: Vec<u8>) -> Result<Vec<u8>> {
    // SAFETY: counts the characters of whole bytes, in the database's encoding.
    let characters =
        unsafe { pg_sys::pg_mbstrlen_with_len(text.as_ptr().cast(), text.len() as i32) };
    if (1..=MESSAGE_ID_MAX).contains(&characters) {
        Ok(text)
    } else {
        Err(error::out_of_range("id", "1 to 128 characters long"))
    }
}

/// The members of an error that are not given.
const DEFAULT_ERROR: &str = r#"{"code": "error", "args": {}, "description": ""}"#;

/// An error as it is stored: an object with at least the members `code` (a string), `args` (an
/// object) and `description` (a string). Missing members, and those of another type, get their
/// defaults. A value that is no object becomes the description. It is no larger than
/// `scylla.max_spec_size`, as given and as stored. `None`: JSON null, which is no error.
pub fn error(datum: Datum) -> Result<Option<Datum>> {
    // SAFETY: the callers pass jsonb.
    let check = |jsonb| size("error", unsafe { jsonb::size(jsonb) });
    check(datum)?;
    let error = whole_error(datum);
    error.map(check).transpose()?;
    Ok(error)
}

fn whole_error(datum: Datum) -> Option<Datum> {
    let described = |text: &[u8]| {
        let members = [("code", Some(&b"error"[..])), ("description", Some(text))];
        Some(jsonb::object(&members, ("args", jsonb::empty_object())))
    };
    // SAFETY: the callers pass jsonb.
    match unsafe { jsonb::read(datum) } {
        Json::Null => None,
        Json::Object(given) => {
            let misfits: Vec<&str> = (jsonb::inside(given).iter())
                .filter_map(|(name, value)| match (name.as_slice(), value) {
                    (b"code", Json::String(_)) | (b"description", Json::String(_)) => None,
                    (b"args", Json::Object(_)) => None,
                    (b"code", _) => Some("code"),
                    (b"description", _) => Some("description"),
                    (b"args", _) => Some("args"),
                    _ => None,
                })
                .collect();
            let kept = jsonb::without(given, &misfits);
            Some(jsonb::merged(jsonb::parse(DEFAULT_ERROR), kept))
        }
        Json::String(text) => described(&text),
        Json::Bool(value) => described(value.to_string().as_bytes()),
        Json::Number(number) => described(number.as_bytes()),
        Json::Array(array) => described(&jsonb::text(array.datum())),
    }
}

/// The length of an array, checked before anything of it is copied.
pub fn length(argument: &str, most: usize, count: usize) -> Result<()> {
    if count <= most { Ok(()) } else { Err(error::too_many_elements(argument, most, count)) }
}

/// The elements of a jsonb array. `wanted`: as in `an array of uuids`.
pub fn elements(argument: &str, wanted: &str, datum: Datum) -> Result<Vec<Json>> {
    // SAFETY: the callers pass jsonb.
    let value = unsafe {
        length(argument, ELEMENTS_MAX, jsonb::count(datum).unwrap_or(0))?;
        jsonb::read(datum)
    };
    match value {
        Json::Array(array) => Ok(jsonb::inside(array).into_iter().map(|it| it.1).collect()),
        _ => Err(error::wrong_type(argument, wanted)),
    }
}

/// Two arrays that belong together.
pub fn same_length<A, B>(one: (&str, &[A]), other: (&str, &[B])) -> Result<()> {
    if one.1.len() == other.1.len() { Ok(()) } else { Err(error::lengths_differ(one.0, other.0)) }
}

/// Pairs of an id and its token.
pub fn leases(ids: Vec<Uuid>, tokens: Vec<Uuid>) -> Result<Vec<(Uuid, Uuid)>> {
    same_length(("ids", &ids), ("tokens", &tokens))?;
    Ok(ids.into_iter().zip(tokens).collect())
}

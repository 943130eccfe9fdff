//! The fields of a task that callers give: the arguments of `submit` and of `submit_many`, and the
//! members of an element of `submit_tasks`.

use crate::api::call::argument;
use crate::api::call::declared::{declared, is_same};
use crate::api::{json, validate};
use crate::error::{self, Result};
use crate::ops::submit::draft::Draft;
use crate::pg::datum;
use crate::pg::jsonb::{self, Json};
use crate::pg::uuid;
use crate::storage::rows::share;
use board::{Micros, Wall};
use pgrx::pg_sys::Datum;

/// An argument of `submit`.
pub struct Field {
    name: &'static str,
    /// Whether the field can be null. A null leaves the draft's default.
    is_nullable: bool,
    setter: Setter,
}

/// The SQL type of a field, with the function that checks a value and puts it into a draft.
enum Setter {
    Text(fn(&mut Draft, &[u8]) -> Result<()>),
    Integer(fn(&mut Draft, i64) -> Result<()>),
    Bigint(fn(&mut Draft, i64) -> Result<()>),
    Boolean(fn(&mut Draft, bool) -> Result<()>),
    Timestamptz(fn(&mut Draft, Wall) -> Result<()>),
    /// Takes the interval's length, too.
    Interval(fn(&mut Draft, (Datum, Micros)) -> Result<()>),
    Uuid(fn(&mut Draft, uuid::Uuid) -> Result<()>),
    Uuids(fn(&mut Draft, Vec<uuid::Uuid>) -> Result<()>),
    Jsonb(fn(&mut Draft, Datum) -> Result<()>),
}
use Setter::{Bigint, Boolean, Integer, Interval, Jsonb, Text, Timestamptz, Uuid, Uuids};

/// All fields, in the order of submit's arguments.
pub static FIELDS: [Field; declared!(signature of Submit).len()] = [
    not_null("queue", Text(|it, text| put(&mut it.queue, validate::open_queue(text).map(share)))),
    not_null("spec", Jsonb(|it, spec| put(&mut it.spec, validate::spec(spec).map(Some)))),
    not_null(
        "action",
        Text(|it, text| put(&mut it.action, validate::open_action(text).map(share))),
    ),
    not_null("priority", Bigint(|it, n| put(&mut it.priority, validate::priority(n)))),
    nullable("id", Uuid(|it, id| put(&mut it.id, validate::task_id(id).map(Some)))),
    nullable("key", Text(|it, text| put(&mut it.key, validate::key(text.to_vec()).map(Some)))),
    not_null("on_conflict", Text(|it, w| put(&mut it.on_conflict, validate::on_conflict(w)))),
    nullable("run_at", Timestamptz(|it, at| put(&mut it.run_at, validate::run_at(at).map(Some)))),
    nullable("after", Uuids(|it, ids| put(&mut it.after, Ok(ids)))),
    not_null("on_failure", Text(|it, w| put(&mut it.run_on_failure, validate::on_failure(w)))),
    nullable(
        "max_tries",
        Integer(|it, n| put(&mut it.max_tries, validate::max_tries(n).map(Some))),
    ),
    nullable(
        "retry_interval",
        Interval(|it, value| put(&mut it.retry_interval, pause("retry_interval", value))),
    ),
    nullable(
        "retry_jitter",
        Interval(|it, value| put(&mut it.retry_jitter, pause("retry_jitter", value))),
    ),
    nullable(
        "timeout",
        Interval(|it, value| put(&mut it.timeout, validate::timeout(value).map(Some))),
    ),
    not_null("post_result", Boolean(|it, value| put(&mut it.post_result, Ok(value)))),
    nullable(
        "group_key",
        Text(|it, text| put(&mut it.group_key, validate::group_key(text.to_vec()).map(Some))),
    ),
    nullable("meta", Jsonb(|it, meta| put(&mut it.meta, validate::meta(meta).map(Some)))),
    nullable(
        "unique_for",
        Interval(|it, value| {
            put(
                &mut it.unique_for,
                validate::longer_than_zero("unique_for", value).map(|it| Some(it.1)),
            )
        }),
    ),
];

// They are those of the declaration, with its types.
const _: () = {
    let declared = declared!(signature of Submit);
    let mut at = 0;
    while at < FIELDS.len() {
        let (name, sql_type) = (FIELDS[at].name, FIELDS[at].setter.sql_type());
        let is_same = is_same(name, declared[at].0) && is_same(sql_type, declared[at].1);
        assert!(is_same, "the fields and the arguments of submit differ");
        at += 1;
    }
};

impl Setter {
    const fn sql_type(&self) -> &'static str {
        match self {
            Text(_) => "text",
            Integer(_) => "integer",
            Bigint(_) => "bigint",
            Boolean(_) => "boolean",
            Timestamptz(_) => "timestamptz",
            Interval(_) => "interval",
            Uuid(_) => "uuid",
            Uuids(_) => "uuid[]",
            Jsonb(_) => "jsonb",
        }
    }
}

const fn not_null(name: &'static str, setter: Setter) -> Field {
    Field { name, is_nullable: false, setter }
}

const fn nullable(name: &'static str, setter: Setter) -> Field {
    Field { name, is_nullable: true, setter }
}

/// A pause before a retry.
fn pause(argument: &str, value: (Datum, Micros)) -> Result<Option<Datum>> {
    validate::zero_or_longer(argument, value).map(|(interval, _)| Some(interval))
}

fn put<T>(field: &mut T, value: Result<T>) -> Result<()> {
    *field = value?;
    Ok(())
}

/// Puts an SQL value, of the type of the field with this name, into a draft; nothing where no field
/// has the name.
pub fn set(draft: &mut Draft, name: &str, value: Option<Datum>) -> Result<()> {
    Field::find(name.as_bytes()).map_or(Ok(()), |field| field.set(draft, value))
}

impl Field {
    /// The field with a name.
    fn find(name: &[u8]) -> Option<&'static Field> {
        FIELDS.iter().find(|field| field.name.as_bytes() == name)
    }

    /// Puts an SQL value, of the field's type, into a draft.
    pub fn set(&self, draft: &mut Draft, value: Option<Datum>) -> Result<()> {
        let Some(value) = value else { return self.set_null() };
        // SAFETY: the SQL functions declare their arguments with the fields' types.
        unsafe {
            match self.setter {
                Text(set) => set(draft, datum::slice(value)),
                Integer(set) => set(draft, i64::from(value.value() as i32)),
                Bigint(set) => set(draft, value.value() as i64),
                Timestamptz(set) => set(draft, datum::wall(value)),
                Boolean(set) => set(draft, value.value() != 0),
                Interval(set) => set(draft, (value, datum::interval_length(Some(value)))),
                Uuid(set) => set(draft, uuid::Uuid::read(value)),
                Uuids(set) => set(draft, argument::uuids(self.name, value)?),
                Jsonb(set) => set(draft, value),
            }
        }
    }

    /// Puts the value of a member into a draft.
    fn set_json(&self, draft: &mut Draft, value: Json) -> Result<()> {
        let name = self.name;
        match (&self.setter, value) {
            (_, Json::Null) if self.is_nullable => Ok(()),
            (Jsonb(set), value) => set(draft, value.datum()),
            (_, Json::Null) => self.set_null(),
            (Text(set), Json::String(text)) => set(draft, &text),
            (Integer(set) | Bigint(set), Json::Number(text)) => set(draft, json::integer(&text)),
            (Boolean(set), Json::Bool(value)) => set(draft, value),
            (Timestamptz(set), Json::String(text)) => set(draft, json::time(name, &text)?),
            (Interval(set), Json::String(text)) => set(draft, json::interval(name, &text)?),
            (Uuid(set), Json::String(text)) => set(draft, json::uuid(name, &text)?),
            (Uuids(set), Json::Array(array)) => set(draft, json::uuids(name, array)?),
            (Integer(_) | Bigint(_), _) => Err(error::wrong_type(name, "a number")),
            (Boolean(_), _) => Err(error::wrong_type(name, "a boolean")),
            (Uuids(_), _) => Err(error::wrong_type(name, json::UUIDS)),
            (Text(_) | Timestamptz(_) | Interval(_) | Uuid(_), _) => {
                Err(error::wrong_type(name, "a string"))
            }
        }
    }

    fn set_null(&self) -> Result<()> {
        if self.is_nullable { Ok(()) } else { Err(error::missing(self.name)) }
    }
}

/// Puts the members of an element of `submit_tasks` into a draft. After an error, the draft has the
/// members that came before.
pub fn set_members(draft: &mut Draft, element: Json) -> Result<()> {
    let Json::Object(object) = element else {
        return Err(error::wrong_type("an element of tasks", "an object"));
    };
    for (name, value) in jsonb::inside(object) {
        let Some(field) = Field::find(&name) else {
            let name = datum::printable(name);
            return Err(error::unknown_member("task", &name, "scylla.submit"));
        };
        field.set_json(draft, value)?;
    }
    if draft.queue.is_empty() {
        return Err(error::missing("queue"));
    }
    draft.spec.get_or_insert_with(|| jsonb::empty_object().datum());
    Ok(())
}

//! The calls as values: a statement, and texts as parameters, which the statement casts.
//!
//! Each gives one row of one text, so that nothing depends on how a driver maps uuid, jsonb or
//! arrays.

use std::time::SystemTime;

use serde_json::Value;
use uuid::Uuid;

use crate::{
    error::Error,
    submission::Submission,
    values::{self, array, timestamp},
};

/// One statement.
pub struct Call {
    pub sql: String,
    pub params: Vec<String>,
}

impl Call {
    fn new(sql: impl Into<String>, params: Vec<String>) -> Self {
        Self { sql: sql.into(), params }
    }
}

pub(crate) fn submit(submission: &Submission) -> Result<Call, Error> {
    let specs = submission.specs()?;
    let mut params = vec![submission.queue().into(), specs[0].get().into()];
    let arguments = submission.arguments(&mut params);
    let sql = format!("select scylla.submit($1::text, $2::text::jsonb{arguments})::text");
    Ok(Call::new(sql, params))
}

pub(crate) fn submit_many(submission: &Submission) -> Result<Call, Error> {
    let specs = array(submission.specs()?.iter().map(|spec| Some(spec.get())));
    let mut params = vec![submission.queue().into(), specs];
    let arguments = submission.arguments(&mut params);
    let sql = format!(
        "select to_jsonb(scylla.submit_many($1::text, $2::text::jsonb[]{arguments}))::text"
    );
    Ok(Call::new(sql, params))
}

pub(crate) fn submit_tasks(elements: Vec<Value>, atomic: bool) -> Call {
    Call::new(
        "select coalesce(jsonb_agg(to_jsonb(t) - 'place' order by place), '[]')::text \
         from scylla.submit_tasks($1::text::jsonb, $2::text::boolean) \
         with ordinality as t (id, outcome, error, place)",
        vec![Value::Array(elements).to_string(), atomic.to_string()],
    )
}

pub(crate) fn task(id: Uuid) -> Call {
    Call::new("select scylla.task($1::text::uuid)::text", vec![id.to_string()])
}

pub(crate) fn why(id: Uuid) -> Call {
    Call::new("select to_json(scylla.why($1::text::uuid))::text", vec![id.to_string()])
}

pub(crate) fn about() -> Call {
    Call::new("select scylla.about()::text", vec![])
}

pub(crate) fn task_id(queue: &str, key: &str) -> Call {
    let sql = "select to_json(scylla.task_id($1::text, $2::text))::text";
    Call::new(sql, vec![queue.into(), key.into()])
}

pub(crate) fn cancel(id: Uuid) -> Call {
    Call::new("select to_json(scylla.cancel($1::text::uuid))::text", vec![id.to_string()])
}

pub(crate) fn cancel_many(ids: &[Uuid]) -> Call {
    Call::new("select to_json(scylla.cancel_tasks($1::text::uuid[]))::text", vec![values::ids(ids)])
}

pub(crate) fn cancel_group(queue: &str, group_key: &str) -> Call {
    let sql = "select to_json(scylla.cancel_group($1::text, $2::text))::text";
    Call::new(sql, vec![queue.into(), group_key.into()])
}

pub(crate) fn delay(id: Uuid, until: SystemTime) -> Call {
    let sql = "select to_json(scylla.delay($1::text::uuid, $2::text::timestamptz))::text";
    Call::new(sql, vec![id.to_string(), timestamp(until)])
}

pub(crate) fn delete(ids: &[Uuid]) -> Call {
    Call::new("select to_json(scylla.delete_tasks($1::text::uuid[]))::text", vec![values::ids(ids)])
}

pub(crate) fn resubmit(ids: &[Uuid]) -> Call {
    Call::new("select to_json(scylla.resubmit($1::text::uuid[]))::text", vec![values::ids(ids)])
}

pub(crate) fn drain_worker(worker: &str) -> Call {
    Call::new("select to_json(scylla.drain_worker($1::text))::text", vec![worker.into()])
}

#[cfg(feature = "testing")]
pub(crate) fn tasks(queue: Option<&str>) -> Call {
    let (of_queue, params) = match queue {
        Some(queue) => (" where t.queue = $1::text", vec![queue.into()]),
        None => ("", vec![]),
    };
    let sql = format!(
        "select coalesce(jsonb_agg(to_jsonb(t) order by t.created, t.id), '[]')::text \
         from scylla.tasks as t{of_queue}"
    );
    Call::new(sql, params)
}

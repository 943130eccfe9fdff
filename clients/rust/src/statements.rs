//! The statements of a worker.
//!
//! Their parameters are binary, except intervals.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, value::RawValue};
use tokio::sync::Notify;
use tokio_postgres::{
    Row,
    types::{Json, ToSql, Type},
};
use uuid::Uuid;

use crate::{
    link::{Failure, Link, Waiter},
    outcome::Ended,
    task::{Control, Task},
    values::Interval,
};

const PROTOCOL: u64 = 1;
const FEATURES: [&str; 5] =
    ["return_many", "yield_run_at", "heartbeat", "own_any", "wait_for_event"];

/// Parameters: worker, queues, time-out, actions.
const WAIT: &str =
    "call scylla.wait_for_event($1, $2, $3::interval, $4, event => null, queue => null)";

/// What the server answers when it is asked for tasks.
pub(crate) struct Owned {
    pub token: Uuid,
    pub task: Box<Task>,
    /// None: the lease never expires.
    pub deadline: Option<SystemTime>,
    /// What the server's clock said.
    pub now: SystemTime,
}

/// Why a worker cannot work with a server.
pub(crate) enum Unfit {
    Failed(Failure),
    Incompatible(String),
}

impl From<Failure> for Unfit {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Checks that the server has what a worker calls.
pub(crate) async fn check_server(link: &Link) -> Result<(), Unfit> {
    let rows = match link.call("select scylla.about()", &[]).await {
        Err(Failure::Refused(error)) if matches!(error.sqlstate(), Some("3F000" | "42883")) => {
            return Err(Unfit::Incompatible(
                "this database has no scylla 0.2 or later: create extension scylla; \
                 or alter extension scylla update"
                    .into(),
            ));
        }
        rows => rows?,
    };
    let Json(about): Json<Value> = first(&rows)?;
    let known: Vec<&str> =
        about["features"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let missing: Vec<&str> =
        FEATURES.into_iter().filter(|feature| !known.contains(feature)).collect();
    if about["protocol"].as_u64() != Some(PROTOCOL) || !missing.is_empty() {
        return Err(Unfit::Incompatible(format!(
            "scylla {} of protocol {} does not work with scylla-pg {} of protocol {PROTOCOL}, \
             which needs {}",
            about["version"].as_str().unwrap_or("?"),
            about["protocol"],
            env!("CARGO_PKG_VERSION"),
            FEATURES.join(", "),
        )));
    }
    Ok(())
}

fn first<'r, T: tokio_postgres::types::FromSql<'r>>(rows: &'r [Row]) -> Result<T, Failure> {
    let row = rows.first().ok_or_else(|| Failure::Gone("the server gave no row".into()))?;
    Ok(row.try_get(0)?)
}

/// Returns what has ended and owns what is free, in one statement where there is both.
pub(crate) struct Exchange {
    worker: String,
    queues: Vec<String>,
    actions: Option<Vec<String>>,
    lease: Option<String>,
    owning: String,
    both: String,
}

impl Exchange {
    pub fn new(
        worker: String,
        queues: Vec<String>,
        actions: Option<Vec<String>>,
        lease: Option<Interval>,
    ) -> Self {
        let (function, queue) =
            if queues.len() > 1 { ("own_any", "o.queue") } else { ("own_tasks", "null::text") };
        let own = format!("scylla.{function}($1, $2, $3, $4, $5::interval)");
        let task = format!(
            "o.id, o.token, {queue}, o.action, o.spec, o.priority, o.key, o.tries, o.num_failures, \
             o.group_key, o.created, o.max_tries, o.meta, o.deadline, clock_timestamp()"
        );
        // the statuses come once, not with each task
        let both = format!(
            "select case when o.ordinality is null or o.ordinality = 1 then r end, {task} \
             from scylla.return_many($6, $7, $8, $9, $10, $11) as r \
             left join lateral {own} with ordinality as o on true"
        );
        let owning = format!("select null::text[], {task} from {own} as o");
        Self { worker, queues, actions, lease: lease.map(|lease| lease.0), owning, both }
    }

    /// Gives the statuses of what was returned, in order (none: the token was not valid), and the
    /// tasks.
    pub async fn run(
        &self,
        link: &Link,
        batch: &[Ended],
        most: usize,
    ) -> Result<(Vec<Option<String>>, Vec<Owned>), Failure> {
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let queues: (&(dyn ToSql + Sync), Type) = if self.queues.len() > 1 {
            (&self.queues, Type::TEXT_ARRAY)
        } else {
            (&self.queues[0], Type::TEXT)
        };
        let own = [
            (&self.worker as &(dyn ToSql + Sync), Type::TEXT),
            queues,
            (&most, Type::INT4),
            (&self.actions, Type::TEXT_ARRAY),
            (&self.lease, Type::TEXT),
        ];
        if batch.is_empty() {
            return self.read(&link.call(&self.owning, &own).await?);
        }
        let ids: Vec<Uuid> = batch.iter().map(|ended| ended.id).collect();
        let tokens: Vec<Uuid> = batch.iter().map(|ended| ended.token).collect();
        let kinds: Vec<&str> = batch.iter().map(|ended| ended.outcome.kind.name()).collect();
        let results = some(batch.iter().map(|ended| ended.outcome.result.as_deref().map(Json)));
        let errors = some(batch.iter().map(|ended| ended.outcome.error.as_deref().map(Json)));
        let times = some(batch.iter().map(|ended| ended.outcome.run_at));
        let returned = [
            (&ids as &(dyn ToSql + Sync), Type::UUID_ARRAY),
            (&tokens, Type::UUID_ARRAY),
            (&kinds, Type::TEXT_ARRAY),
            (&results, Type::JSONB_ARRAY),
            (&errors, Type::JSONB_ARRAY),
            (&times, Type::TIMESTAMPTZ_ARRAY),
        ];
        if most == 0 {
            let rows =
                link.call("select scylla.return_many($1, $2, $3, $4, $5, $6)", &returned).await?;
            return Ok((first(&rows)?, vec![]));
        }
        self.read(&link.call(&self.both, &[&own[..], &returned].concat()).await?)
    }

    fn read(&self, rows: &[Row]) -> Result<(Vec<Option<String>>, Vec<Owned>), Failure> {
        let statuses = match rows.first() {
            Some(row) => row.try_get::<_, Option<_>>(0)?.unwrap_or_default(),
            None => vec![],
        };
        let tasks = rows.iter().map(|row| self.owned(row)).collect::<Result<Vec<_>, _>>()?;
        Ok((statuses, tasks.into_iter().flatten().collect()))
    }

    fn owned(&self, row: &Row) -> Result<Option<Owned>, tokio_postgres::Error> {
        let Some(id) = row.try_get(1)? else { return Ok(None) };
        let Json(spec): Json<Box<RawValue>> = row.try_get(5)?;
        let meta: Option<Json<Map<String, Value>>> = row.try_get(13)?;
        let deadline = row.try_get(14)?;
        let task = Box::new(Task {
            id,
            queue: row.try_get::<_, Option<_>>(3)?.unwrap_or_else(|| self.queues[0].clone()),
            action: row.try_get(4)?,
            spec,
            priority: row.try_get(6)?,
            key: row.try_get(7)?,
            tries: row.try_get(8)?,
            num_failures: row.try_get(9)?,
            group_key: row.try_get(10)?,
            created: row.try_get(11)?,
            max_tries: row.try_get(12)?,
            meta: meta.map(|Json(meta)| meta).unwrap_or_default(),
            control: Control::new(deadline),
        });
        Ok(Some(Owned { token: row.try_get(2)?, task, deadline, now: row.try_get(15)? }))
    }
}

/// An array without any element is absent.
fn some<T>(items: impl Iterator<Item = Option<T>>) -> Option<Vec<Option<T>>> {
    let items: Vec<_> = items.collect();
    items.iter().any(Option::is_some).then_some(items)
}

/// What a heartbeat tells of a lease.
#[derive(Debug)]
pub(crate) struct Beat {
    /// `held`, `cancelled`, `settled`, `lost` or `gone`.
    pub state: String,
    pub deadline: Option<SystemTime>,
    pub now: SystemTime,
}

/// One heartbeat for all leases, in order.
pub(crate) async fn heartbeat(
    link: &Link,
    limit: Duration,
    worker: &str,
    ids: &[Uuid],
    tokens: &[Uuid],
    shares: &[Option<f64>],
) -> Result<Vec<Beat>, Failure> {
    let shares = some(shares.iter().copied());
    let rows = link
        .call_within(
            limit,
            "select h.state, h.deadline, clock_timestamp() \
             from scylla.heartbeat($1, $2, $3, progress => $4) as h",
            &[
                (&worker, Type::TEXT),
                (&ids, Type::UUID_ARRAY),
                (&tokens, Type::UUID_ARRAY),
                (&shares, Type::FLOAT8_ARRAY),
            ],
        )
        .await?;
    let beat = |row: &Row| {
        Ok::<_, tokio_postgres::Error>(Beat {
            state: row.try_get(0)?,
            deadline: row.try_get(1)?,
            now: row.try_get(2)?,
        })
    };
    Ok(rows.iter().map(beat).collect::<Result<_, _>>()?)
}

/// Waits for work, for signals and for a request to stop, on a connection of its own, until it is
/// interrupted.
///
/// Gives the connection back, unless it is of no more use, and `work`, `signal` or `drain`.
pub(crate) async fn wait(
    link: &Link,
    waiter: Option<Waiter>,
    worker: &str,
    queues: &[String],
    actions: Option<&[String]>,
    length: Duration,
    interrupt: &Notify,
) -> (Option<Waiter>, Result<Option<String>, Failure>) {
    let waiter = match waiter {
        Some(waiter) => waiter,
        None => match link.open().await {
            Ok(waiter) => waiter,
            Err(failure) => return (None, Err(failure)),
        },
    };
    let timeout = Interval::from(length).0;
    let params: [(&(dyn ToSql + Sync), Type); 4] = [
        (&worker, Type::TEXT),
        (&queues, Type::TEXT_ARRAY),
        (&timeout, Type::TEXT),
        (&actions, Type::TEXT_ARRAY),
    ];
    let end = async {
        interrupt.notified().await;
        link.end_wait(WAIT).await;
    };
    let answer = tokio::select! {
        answer = waiter.wait(length + Duration::from_secs(10), WAIT, &params) => answer,
        () = end => return (None, Ok(None)), // it does not end: its connection is closed
    };
    let event = answer.and_then(|row| Ok(row.map(|row| row.try_get(0)).transpose()?.flatten()));
    let waiter = Some(waiter).filter(|_| !matches!(event, Err(Failure::Gone(_))));
    (waiter, event)
}

/// The task's status, if nothing owned it after this lease.
pub(crate) async fn status(
    link: &Link,
    worker: &str,
    ended: &Ended,
) -> Result<Option<String>, Failure> {
    let sql = "select t ->> 'status' from scylla.task($1) as t where (
            select e ->> 'worker' = $2 and (e ->> 'time')::timestamptz <= $3
            from jsonb_array_elements(t -> 'history') with ordinality as h (e, place)
            where e ->> '_typ' = 'TaskAssignment' order by place desc limit 1)";
    let rows = link
        .call(
            sql,
            &[(&ended.id, Type::UUID), (&worker, Type::TEXT), (&ended.owned_at, Type::TIMESTAMPTZ)],
        )
        .await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

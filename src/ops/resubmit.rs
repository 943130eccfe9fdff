//! Resubmitting: a task that was aborted or cancelled runs again, as a new task.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::pgmq;
use crate::ops::submit::draft::{Draft, OnConflict, SqlCommand};
use crate::ops::submit::submit_tasks;
use crate::pg::datum::{self, UUIDS};
use crate::pg::named::database::Named;
use crate::pg::named::role;
use crate::pg::spi::{Rows, statement};
use crate::pg::uuid::{Uuid, queue_hash};
use crate::storage::rows::{id_at, ids, session, share};
use pgrx::pg_sys::Oid;
use std::collections::HashMap;

statement!(RESUBMITTED, "resubmit/read", [UUIDS]);
statement!(MARK, "resubmit/mark", [UUIDS, UUIDS]);

/// Submits tasks again, as a role asks, which needs the rights of the role of each SQL command. For
/// each task: the id of the new one, the same where an id is repeated; `None`: there is no such
/// task, or it was neither aborted nor cancelled.
///
/// `authorize`: whether a task of a queue may be submitted again.
pub fn resubmit(
    db: &Database,
    asking: Oid,
    wanted: &[Uuid],
    authorize: impl Fn(Uuid, &[u8]) -> Result<()>,
) -> Result<Vec<Option<Uuid>>> {
    let session = session(db);
    let rows = session.run(&RESUBMITTED, &[ids(wanted.iter().copied())]);
    for row in 0..rows.len() {
        authorize(id_at(&rows, row, 0), &datum::text(rows.get(row, 1)))?;
    }
    let row_of: HashMap<Uuid, usize> =
        (0..rows.len()).map(|row| (id_at(&rows, row, 0), row)).collect();
    let mut drafts: Vec<Draft> = Vec::with_capacity(rows.len());
    let mut position: HashMap<Uuid, usize> = HashMap::with_capacity(rows.len());
    for id in wanted {
        if let Some(row) = row_of.get(id) {
            position.entry(*id).or_insert_with(|| {
                drafts.push(draft(&rows, *row, *id));
                drafts.len() - 1
            });
            let command = drafts.last().and_then(|draft| draft.sql.as_ref());
            if command.is_some_and(|command| !role::may_act_as(asking, command.role)) {
                return Err(error::not_of_role(*id));
            }
        }
    }
    let mut new = Vec::with_capacity(drafts.len());
    let mut keyless: Vec<usize> = Vec::new();
    for (at, (id, submitted)) in submit_tasks(db, &drafts).into_iter().enumerate() {
        if !submitted? {
            // Another task has the key.
            drafts[at].key = None;
            keyless.push(at);
        }
        new.push(id);
    }
    if !keyless.is_empty() {
        let again: Vec<Draft> = keyless.iter().map(|at| drafts[*at].clone()).collect();
        for (at, (id, submitted)) in keyless.into_iter().zip(submit_tasks(db, &again)) {
            submitted?;
            new[at] = id;
        }
    }
    if !new.is_empty() {
        let old = drafts.iter().filter_map(|draft| draft.resubmitted_from);
        session.run(&MARK, &[ids(old), ids(new.iter().copied())]);
    }
    Ok(wanted.iter().map(|id| position.get(id).map(|at| new[*at])).collect())
}

/// A task to submit, from the row of the settled one. Its values are valid as long as the rows.
fn draft(rows: &Rows, row: usize, id: Uuid) -> Draft {
    let [queue, action, priority, spec, key, max_tries, retry_interval, retry_jitter] =
        [1, 2, 3, 4, 5, 6, 7, 8].map(|column| rows.get(row, column));
    let [timeout, post_result, role, database, command, group_key, database_oid, meta] =
        [9, 10, 11, 12, 13, 14, 15, 16].map(|column| rows.get(row, column));
    let (queue, action) = (share(&datum::text(queue)), share(&datum::text(action)));
    Draft {
        message: (*action == *pgmq::ACTION).then(|| queue_hash(&queue)),
        queue,
        action,
        priority: datum::number(priority) as u32,
        spec,
        key: datum::optional_text(key),
        group_key: datum::optional_text(group_key),
        on_conflict: OnConflict::Ignore,
        max_tries: max_tries.map(|it| it.value() as i32),
        retry_interval,
        retry_jitter,
        timeout: timeout.map(|it| (it, datum::interval_length(Some(it)))),
        post_result: datum::number(post_result) != 0,
        sql: command.map(|command| SqlCommand {
            role: datum::oid(role),
            database: database
                .map(|name| Named { name: datum::text(Some(name)), oid: datum::oid(database_oid) }),
            command: datum::text(Some(command)),
        }),
        meta,
        resubmitted_from: Some(id),
        ..Draft::blank()
    }
}

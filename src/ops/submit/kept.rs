//! Keys that stay taken for a time after the submission, though the task has settled
//! (`unique_for`).

use crate::extension::database::Database;
use crate::ops::submit::draft::NewTask;
use crate::pg::datum::{self, BIGINT, TEXTS, TIMESTAMPTZ, TIMESTAMPTZS, UUIDS};
use crate::pg::relcache;
use crate::pg::spi::{Session, statement};
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::storage::rows::{ROWS_PER_TX, id_at, ids, ids_in, session};
use board::Wall;
use pgrx::pg_sys::Datum;
use std::collections::{HashMap, HashSet};

statement!(KEPT_BY, "submit/kept_by", [TEXTS, TEXTS, UUIDS, UUIDS, TIMESTAMPTZ]);
statement!(KEEP, "submit/keep_keys", [TEXTS, TEXTS, UUIDS, UUIDS, TIMESTAMPTZS, TIMESTAMPTZ]);
statement!(PASS_ON, "submit/pass_keys", [TEXTS, TEXTS, UUIDS, UUIDS]);
statement!(FREE, "submit/free_keys", [TEXTS, TEXTS, UUIDS]);
statement!(FREE_PAST, "retention/free_keys", [TIMESTAMPTZ, BIGINT]);

/// The last timestamptz; later is infinity.
const LAST: Wall = Wall(9_223_371_331_199_999_999);

/// Keeps the keys of tasks that were just inserted, as long as they want; one that repeats a
/// settled task takes over the key that is kept for that. Returns the tasks whose keys are kept for
/// others.
pub fn keep(db: &Database, session: &Session, inserted: &[&NewTask]) -> HashSet<Uuid> {
    let mut refused: HashSet<Uuid> =
        (kept_by(db, session, inserted).keys()).map(|position| inserted[*position].id).collect();
    let repeats = |it: &&&NewTask| {
        it.draft.resubmitted_from.is_some() && it.draft.key.is_some() && !refused.contains(&it.id)
    };
    let repeating: Vec<&NewTask> = inserted.iter().filter(repeats).copied().collect();
    if !repeating.is_empty() && !are_none(db) {
        session.run(&PASS_ON, &columns(&repeating));
    }
    let keeps = |it: &&&NewTask| it.draft.unique_for.is_some() && !refused.contains(&it.id);
    let keeping: Vec<&NewTask> = inserted.iter().filter(keeps).copied().collect();
    if !keeping.is_empty() {
        let until = keeping.iter().map(|it| {
            let until = it.created + it.draft.unique_for.unwrap_or_default();
            Some(datum::timestamptz(if until > LAST { Wall::NEVER } else { until }))
        });
        let [queues, keys, tasks, repeated] = columns(&keeping);
        let until = Some(datum::array(TIMESTAMPTZS, until));
        let rows = session.run(&KEEP, &[queues, keys, tasks, repeated, until, now()]);
        let kept: HashSet<Uuid> = ids_in(&rows).collect();
        refused.extend(keeping.iter().map(|it| it.id).filter(|id| !kept.contains(id)));
    }
    refused
}

/// The tasks for which the keys of some new ones are kept, by the positions of the new ones. That
/// is looked up after the insertion, so that a task which settles meanwhile is seen in one table or
/// the other.
pub fn kept_by(db: &Database, session: &Session, tasks: &[&NewTask]) -> HashMap<usize, Uuid> {
    if tasks.iter().all(|it| it.draft.key.is_none()) || are_none(db) {
        return HashMap::new();
    }
    let [queues, keys, ids, repeated] = columns(tasks);
    let rows = session.run(&KEPT_BY, &[queues, keys, ids, repeated, now()]);
    let position = |row| datum::number(rows.get(row, 0)) as usize - 1;
    (0..rows.len()).map(|row| (position(row), id_at(&rows, row, 1))).collect()
}

/// Frees the keys of new tasks that are kept for those which these have replaced.
pub fn free(db: &Database, session: &Session, tasks: &[&NewTask], replaced: &[Uuid]) {
    if !replaced.is_empty() && !are_none(db) {
        let [queues, keys, ..] = columns(tasks);
        session.run(&FREE, &[queues, keys, ids(replaced.iter().copied())]);
    }
}

/// Frees keys whose time is over, a transaction's worth. True when there may be more.
pub fn free_past(db: &Database) -> bool {
    let most = Some(Datum::from(ROWS_PER_TX as i64));
    !are_none(db)
        && datum::number(session(db).run(&FREE_PAST, &[now(), most]).first()) == ROWS_PER_TX as i64
}

/// Whether no key was ever kept, since the table was created or emptied.
fn are_none(db: &Database) -> bool {
    relcache::blocks(db.table(c"kept_key")) == 0
}

/// The queues, keys and ids of new tasks, and the tasks that they repeat.
fn columns(tasks: &[&NewTask]) -> [Option<Datum>; 4] {
    let texts = |text: fn(&NewTask) -> Option<Datum>| {
        Some(datum::array(TEXTS, tasks.iter().map(|it| text(it))))
    };
    let uuids = |id: fn(&NewTask) -> Option<Uuid>| {
        Some(datum::array(UUIDS, tasks.iter().map(|it| id(it).map(Uuid::datum))))
    };
    [
        texts(|it| Some(datum::varlena(&it.draft.queue))),
        texts(|it| it.draft.key.as_deref().map(datum::varlena)),
        uuids(|it| Some(it.id)),
        uuids(|it| it.draft.resubmitted_from),
    ]
}

fn now() -> Option<Datum> {
    Some(datum::timestamptz(time::now().wall))
}

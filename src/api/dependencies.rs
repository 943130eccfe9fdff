//! `add_dependencies`, `delete_tasks` and `task_id`.

use crate::api::fcinfo::{Call, sql_function};
use crate::api::validate;
use crate::ops::dependencies::add;
use crate::ops::finish::delete;
use crate::ops::submit::keys;
use crate::pg::uuid::Uuid;
use crate::shmem::on_board::current_database;
use pgrx::pg_sys::Datum;

sql_function!(
    /// `add_dependencies(after, run) → integer`
    pg_finfo_scylla_add_dependencies,
    scylla_add_dependencies,
    |call: &mut Call| {
        call.changes("scylla.add_dependencies()")?;
        let (after, run) = (call.uuids(0, "after")?, call.uuids(1, "run")?);
        validate::same_length(("after", &after), ("run", &run))?;
        let edges: Vec<(Uuid, Uuid)> = after.into_iter().zip(run).collect();
        let added = add::add(&current_database(), &edges)?;
        Ok(Some(Datum::from(added as i32)))
    }
);

sql_function!(
    /// `delete_tasks(ids) → integer`
    pg_finfo_scylla_delete_tasks,
    scylla_delete_tasks,
    |call: &mut Call| {
        call.changes("scylla.delete_tasks()")?;
        let deleted = delete::delete(&current_database(), &call.uuids(0, "ids")?);
        Ok(Some(Datum::from(deleted as i32)))
    }
);

sql_function!(
    /// `task_id(queue, key) → uuid`
    pg_finfo_scylla_task_id,
    scylla_task_id,
    |call: &mut Call| {
        let queue = validate::queue(call.text(0, "queue")?)?;
        let key = validate::key(call.text(1, "key")?)?;
        Ok(keys::task_id(&current_database(), &queue, &key).map(Uuid::datum))
    }
);

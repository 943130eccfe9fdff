//! `task`, `why`, `leases`, `refresh` and `open`.

use crate::api::fcinfo::{Call, sql_function};
use crate::error;
use crate::ops::maintenance::identity;
use crate::ops::query::inspect;
use crate::pg::datum;
use crate::pg::uuid::Uuid;
use crate::shmem::on_board::current_database;
use crate::shmem::xact::{self, Change};
use pgrx::pg_sys::Datum;

sql_function!(
    /// `task(id) → jsonb`
    pg_finfo_scylla_task,
    scylla_task,
    |call: &mut Call| {
        let id = call.uuid(0, "id")?;
        inspect::entry(&current_database(), id, datum::copy_to_caller_context()).map(Some).ok_or_else(|| error::no_such_task(id))
    }
);

sql_function!(
    /// `why(id) → text`
    pg_finfo_scylla_why,
    scylla_why,
    |call: &mut Call| {
        let id = call.uuid(0, "id")?;
        let why = inspect::why(&current_database(), id).ok_or_else(|| error::no_such_task(id))?;
        Ok(Some(datum::varlena(&why)))
    }
);

sql_function!(
    /// `_leases(task) → (id, owner, owned_at, deadline, progress, recorded) …`
    pg_finfo_scylla_leases,
    scylla_leases,
    |call: &mut Call| {
        let task = call.optional_uuid(0);
        let mut sink = call.rows()?;
        for lease in inspect::leases(&current_database(), task) {
            sink.add([
                Some(Uuid(lease.id).datum()),
                Some(datum::varlena(lease.worker.as_bytes())),
                Some(datum::timestamptz(lease.since_at)),
                lease.deadline_at().map(datum::timestamptz),
                Some(datum::float(lease.progress)),
                Some(Datum::from(lease.in_history)),
            ]);
        }
        Ok(None)
    }
);

sql_function!(
    /// `refresh()`
    pg_finfo_scylla_refresh,
    scylla_refresh,
    |call: &mut Call| {
        call.changes("scylla.refresh()")?;
        xact::at_commit(&current_database(), [Change::Refresh]);
        Ok(None)
    }
);

sql_function!(
    /// `open(enabled)`
    pg_finfo_scylla_open,
    scylla_open,
    |call: &mut Call| {
        call.changes("scylla.open()")?;
        identity::open(&current_database(), call.bool(0, "enabled")?);
        Ok(None)
    }
);

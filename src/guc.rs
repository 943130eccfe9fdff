//! The settings, each with unit, range and description in `pg_settings`.

use crate::pg::compat::server;
use board::Micros;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};
use std::ffi::CString;

static LEASE_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(10_000);
static MAX_LEASE_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(0);
static SWEEP_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(1_000);
static TIMING_ADVANCE: GucSetting<i32> = GucSetting::<i32>::new(0);
static PERSIST_LEASES_AFTER: GucSetting<i32> = GucSetting::<i32>::new(1_000);
static RETENTION: GucSetting<i32> = GucSetting::<i32>::new(864_000);
static BOARD_SIZE: GucSetting<i32> = GucSetting::<i32>::new(131_072);
static NOTIFY_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(10);
static SQL_WORKERS: GucSetting<i32> = GucSetting::<i32>::new(4);
static ENABLE_SUPERUSER_SQL: GucSetting<bool> = GucSetting::<bool>::new(true);
static SQL_DATABASES: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"*"));
static MAX_SPEC_SIZE: GucSetting<i32> = GucSetting::<i32>::new(1 << 20);
static MAX_TRIES: GucSetting<i32> = GucSetting::<i32>::new(25);
static RETRY_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(1_000);
static RETRY_JITTER: GucSetting<i32> = GucSetting::<i32>::new(0);
static RETRY_MAX_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(3_600_000);
static SHARD: GucSetting<i32> = GucSetting::<i32>::new(0);

/// Defines the settings; called while the library is preloaded.
pub fn define() {
    GucRegistry::define_int_guc(
        c"scylla.lease_timeout",
        c"Sets the default length of a lease.",
        c"The timeout of a task, or of the call that owns it, takes precedence. \
          Valid range is 1 millisecond to 24 days.",
        &LEASE_TIMEOUT,
        1,
        i32::MAX,
        GucContext::Userset,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"scylla.max_lease_timeout",
        c"Sets the longest length of a lease.",
        c"A longer timeout of a call, a task or a queue is cut to it. 0 means no limit. \
          Valid range is 0 to 68 years.",
        &MAX_LEASE_TIMEOUT,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    GucRegistry::define_int_guc(
        c"scylla.sweep_interval",
        c"Sets the interval of the scheduler's periodic duties.",
        c"Leases expire and tasks fire at their time, whatever the interval. \
          Valid range is 10 milliseconds to 1 hour.",
        &SWEEP_INTERVAL,
        10,
        3_600_000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"scylla.timing_advance",
        c"Sets the time by which a task fires before its run_at.",
        c"Makes up for the time that a task takes to reach a worker. Valid range is 0 to 1 hour.",
        &TIMING_ADVANCE,
        0,
        3_600_000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"scylla.persist_leases_after",
        c"Sets the age from which a lease survives a crash.",
        c"The scheduler writes such leases to a table. Valid range is 0 to 1 hour.",
        &PERSIST_LEASES_AFTER,
        0,
        3_600_000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"scylla.retention",
        c"Sets the time for which settled tasks are kept.",
        c"From one day on, tasks are dropped by the day; below, they are deleted row by row. \
          Valid range is 0 to 68 years.",
        &RETENTION,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    GucRegistry::define_int_guc(
        c"scylla.board_size",
        c"Sets the number of slots of the board in shared memory.",
        c"Each lease takes a slot, and so does each ready task as long as there is room. \
          A slot takes about 1232 bytes. Valid range is 64 to 16777216.",
        &BOARD_SIZE,
        64,
        1 << 24,
        GucContext::Postmaster,
        GucFlags::empty(),
    );
    GucRegistry::define_int_guc(
        c"scylla.notify_interval",
        c"Sets the minimum time between two notifications of a queue.",
        c"Once per interval, the scheduler wakes one more process that waits for a queue with \
          work. Valid range is 1 millisecond to 1 minute.",
        &NOTIFY_INTERVAL,
        1,
        60_000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"scylla.max_spec_size",
        c"Sets the maximum size of a spec, a result and an error.",
        c"Valid range is 1 kB to 255 MB.",
        &MAX_SPEC_SIZE,
        1 << 10,
        255 << 20,
        GucContext::Suset,
        GucFlags::UNIT_BYTE,
    );
    GucRegistry::define_int_guc(
        c"scylla.max_tries",
        c"Sets how many tries a task has that gives no number itself.",
        c"0 means no limit. Valid range is 0 to 2147483647.",
        &MAX_TRIES,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::empty(),
    );
    GucRegistry::define_int_guc(
        c"scylla.retry_interval",
        c"Sets the pause before the first retry of a task that gives none itself.",
        c"Each later pause is twice as long. 0 means no pause. Valid range is 0 to 24 days.",
        &RETRY_INTERVAL,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"scylla.retry_jitter",
        c"Sets the longest random time added to a pause of a task that gives none itself.",
        c"Valid range is 0 to 24 days.",
        &RETRY_JITTER,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"scylla.retry_max_interval",
        c"Sets the longest pause before a retry, jitter excluded.",
        c"A longer retry_interval counts instead. 0 means no limit. Valid range is 0 to 24 days.",
        &RETRY_MAX_INTERVAL,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"scylla.sql_workers",
        c"Sets the maximum number of processes that run SQL commands of tasks.",
        c"They count among max_worker_processes. 0: no command runs. Valid range is 0 to 256.",
        &SQL_WORKERS,
        0,
        256,
        GucContext::Postmaster,
        GucFlags::empty(),
    );
    GucRegistry::define_bool_guc(
        c"scylla.enable_superuser_sql",
        c"Allows superusers to have SQL commands run as tasks.",
        c"While it is off, a command of a superuser's task fails.",
        &ENABLE_SUPERUSER_SQL,
        GucContext::Sighup,
        GucFlags::empty(),
    );
    GucRegistry::define_string_guc(
        c"scylla.sql_databases",
        c"Sets the databases in which SQL commands of other databases' tasks may run.",
        c"A list of names, separated by commas; * means all, and an empty list none. A command's \
          role also needs the right to connect.",
        &SQL_DATABASES,
        GucContext::Sighup,
        GucFlags::empty(),
    );
    GucRegistry::define_int_guc(
        c"scylla.shard",
        c"Sets the number of this database among the shards of a router.",
        c"It is the last byte of the ids that scylla makes. Valid range is 0 to 255.",
        &SHARD,
        0,
        u8::MAX.into(),
        GucContext::Suset,
        GucFlags::empty(),
    );
    // Refuses other settings that begin with `scylla.`.
    server::reserve_setting_prefix(c"scylla");
}

/// `scylla.lease_timeout`.
pub fn lease_timeout() -> Micros {
    Micros::from_millis(LEASE_TIMEOUT.get().into())
}

/// `scylla.max_lease_timeout`; the longest there is: no limit.
pub fn max_lease_timeout() -> Micros {
    match MAX_LEASE_TIMEOUT.get() {
        0 => Micros::MAX,
        seconds => Micros::from_secs(seconds.into()),
    }
}

/// `scylla.sweep_interval`.
pub fn sweep_interval() -> Micros {
    Micros::from_millis(SWEEP_INTERVAL.get().into())
}

/// `scylla.timing_advance`.
pub fn timing_advance() -> Micros {
    Micros::from_millis(TIMING_ADVANCE.get().into())
}

/// `scylla.persist_leases_after`.
pub fn persist_leases_after() -> Micros {
    Micros::from_millis(PERSIST_LEASES_AFTER.get().into())
}

/// `scylla.notify_interval`.
pub fn notify_interval() -> Micros {
    Micros::from_millis(NOTIFY_INTERVAL.get().into())
}

/// `scylla.retention`.
pub fn retention() -> Micros {
    Micros::from_secs(RETENTION.get().into())
}

/// `scylla.board_size`, in slots.
pub fn board_size() -> usize {
    BOARD_SIZE.get() as usize
}

/// `scylla.max_spec_size`, in bytes.
pub fn max_spec_size() -> usize {
    MAX_SPEC_SIZE.get() as usize
}

/// `scylla.max_tries`; 0: no limit.
pub fn max_tries() -> i32 {
    MAX_TRIES.get()
}

/// `scylla.retry_interval`.
pub fn retry_interval() -> Micros {
    Micros::from_millis(RETRY_INTERVAL.get().into())
}

/// `scylla.retry_jitter`.
pub fn retry_jitter() -> Micros {
    Micros::from_millis(RETRY_JITTER.get().into())
}

/// `scylla.retry_max_interval`; 0: no limit.
pub fn retry_max_interval() -> Micros {
    Micros::from_millis(RETRY_MAX_INTERVAL.get().into())
}

/// `scylla.sql_workers`, in processes.
pub fn sql_workers() -> usize {
    SQL_WORKERS.get() as usize
}

/// `scylla.shard`.
pub fn shard() -> u8 {
    SHARD.get() as u8
}

/// Whether `scylla.sql_databases` has a name.
pub fn is_sql_database(name: &[u8]) -> bool {
    let list = SQL_DATABASES.get().unwrap_or_default();
    let listed = list.to_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    listed.into_iter().any(|it| it == b"*" || unquoted(it) == name)
}

/// A name of a list without its quotes.
fn unquoted(name: &[u8]) -> &[u8] {
    match name {
        [b'"', inner @ .., b'"'] => inner,
        plain => plain,
    }
}

/// `scylla.enable_superuser_sql`.
pub fn enable_superuser_sql() -> bool {
    ENABLE_SUPERUSER_SQL.get()
}

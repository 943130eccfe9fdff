//! What PostgreSQL itself tells.

use super::report::Report;
use crate::failure::Failure;
use crate::output::duration;
use tokio_postgres::Client;

/// Transactions of which dead rows are kept, from which on these slow scylla down.
const TOO_MANY_TRANSACTIONS: i64 = 10_000_000;

const EXTENSION: &str = "
select exists (select from pg_settings where name = 'scylla.board_size') as loaded, e.extversion,
    a.default_version, current_database()::text, exists (select from pg_proc p
        join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'scylla' and p.proname = 'about') as tells,
    current_setting('server_version')
from (values (1)) as one (n)
left join pg_extension e on e.extname = 'scylla'
left join pg_available_extensions a on a.name = 'scylla'";

/// Whether what this program needs of the extension is there.
pub async fn extension(client: &Client, report: &mut Report) -> Result<bool, Failure> {
    let check = "extension";
    let row = client.query_one(EXTENSION, &[]).await?;
    let (loaded, installed): (bool, Option<&str>) = (row.get("loaded"), row.get("extversion"));
    let (files, database): (Option<&str>, &str) = (row.get("default_version"), row.get(3));
    if !loaded {
        report.error(
            check,
            "the server has not loaded scylla",
            "Add scylla to shared_preload_libraries in postgresql.conf, and restart the server.",
        );
    }
    let Some(installed) = installed else {
        let message = format!("scylla is not installed in database \"{database}\"");
        match files {
            Some(_) => report.error(check, message, "Run: create extension scylla"),
            None => report.error(check, message, "Install scylla's package on the server."),
        }
        return Ok(false);
    };
    // Without about, the extension is older than 0.2.
    let tells: bool = row.get("tells");
    if !tells || files.is_some_and(|files| is_older(installed, files)) {
        report.error(
            check,
            format!(
                "database \"{database}\" has scylla {installed}, and the server's files are of {}",
                files.unwrap_or("another version")
            ),
            "Run: alter extension scylla update",
        );
    }
    if !loaded || !tells {
        return Ok(false);
    }
    let about = client.query_one("select scylla.about() ->> 'version'", &[]).await?;
    let library: &str = about.get(0);
    if is_older(library, files.unwrap_or(library)) || is_older(library, installed) {
        report.error(
            check,
            format!("the server runs scylla {library}, and its files are of a later version"),
            "Restart the server.",
        );
    }
    let server: &str = row.get(5);
    report
        .ok(check, format!("scylla {installed} in database \"{database}\" of PostgreSQL {server}"));
    Ok(true)
}

/// By their numbers; what is no number is the same.
fn is_older(version: &str, than: &str) -> bool {
    let numbers =
        |it: &str| it.split('.').map_while(|part| part.parse().ok()).collect::<Vec<u32>>();
    numbers(version) < numbers(than)
}

const PROCESSES: &str = "
select current_setting('max_worker_processes')::int8 as most,
    count(*) filter (where backend_type not in ('client backend', 'autovacuum launcher',
        'autovacuum worker', 'background writer', 'checkpointer', 'walwriter', 'walsender',
        'walreceiver', 'startup', 'archiver', 'slotsync worker', 'walsummarizer', 'io worker')) as used,
    count(*) filter (where backend_type is null) as hidden,
    current_setting('max_connections')::int8 - current_setting('superuser_reserved_connections')::int8 as sessions,
    count(*) filter (where backend_type = 'client backend') as connected
from pg_stat_activity";

pub async fn processes(client: &Client, report: &mut Report) -> Result<(), Failure> {
    let check = "processes";
    let row = client.query_one(PROCESSES, &[]).await?;
    let number = |name: &str| row.get::<_, i64>(name);
    if number("hidden") > 0 {
        let hint = "Grant pg_monitor to the role, or connect as another one.";
        report.note(check, "processes of other roles are not shown to this role", hint);
        return Ok(());
    }
    let (most, used) = (number("most"), number("used"));
    if used >= most {
        report.warning(
            check,
            format!("all {most} background workers of the server are in use"),
            "Raise max_worker_processes, and restart the server: 2, 1 for each database with scylla, \
             scylla.sql_workers, and what other extensions and parallel queries need.",
        );
    }
    let (sessions, connected) = (number("sessions"), number("connected"));
    if connected * 10 >= sessions * 9 {
        report.warning(
            check,
            format!("{connected} of {sessions} connections are in use"),
            "Raise max_connections, and restart the server; or put a pooler before it.",
        );
    }
    report.ok(
        check,
        format!("{used} of {most} background workers, {connected} of {sessions} connections"),
    );
    Ok(())
}

const XMIN: &str = "
select what, age, hint from (
    select format('process %s of role %I, %s, keeps dead rows since %s', a.pid, a.usename, a.state,
            date_trunc('second', a.xact_start)) as what,
        extract(epoch from clock_timestamp() - a.xact_start)::float8 as age,
        greatest(age(a.backend_xmin), age(a.backend_xid)) as transactions,
        format('Let it end its transaction, or run: select pg_terminate_backend(%s)', a.pid) as hint,
        a.xact_start < clock_timestamp() - $1::text::interval as is_old
    from pg_stat_activity a
    where (a.backend_xmin is not null or a.backend_xid is not null) and a.pid <> pg_backend_pid()
        and a.backend_type = 'client backend'
    union all
    select format('prepared transaction %L of database %I keeps dead rows and locks', p.gid, p.database),
        extract(epoch from clock_timestamp() - p.prepared)::float8, age(p.transaction),
        format('Run: commit prepared %L, or: rollback prepared %L', p.gid, p.gid),
        p.prepared < clock_timestamp() - $1::text::interval
    from pg_prepared_xacts p
    union all
    select format('replication slot %I is not in use and keeps dead rows', s.slot_name), null,
        greatest(age(s.xmin), age(s.catalog_xmin)),
        format('Start its reader, or run: select pg_drop_replication_slot(%L)', s.slot_name), true
    from pg_replication_slots s
    where (s.xmin is not null or s.catalog_xmin is not null) and not s.active
) held
where is_old or transactions > $2::int8
order by transactions desc nulls last, age desc";

pub async fn xmin(client: &Client, older_than: &str, report: &mut Report) -> Result<(), Failure> {
    let check = "xmin";
    for row in client.query(XMIN, &[&older_than, &TOO_MANY_TRANSACTIONS]).await? {
        let age: Option<f64> = row.get("age");
        let age = age.map_or(String::new(), |age| format!(", for {}", duration(age)));
        report.warning(check, format!("{}{age}", row.get::<_, &str>("what")), row.get("hint"));
    }
    report.ok(check, "nothing old keeps dead rows");
    Ok(())
}

/// What is wrong with each setting, and what to do.
const SETTINGS: &str = "
with known (name, value) as (select name, setting from pg_settings)
select severity, message, hint from (values
    ('warning', exists (select from known where name in ('autovacuum', 'track_counts') and value = 'off'),
        'autovacuum does not run: dead rows slow the queues down',
        'Set autovacuum and track_counts to on, and reload the configuration.'),
    ('warning', exists (select from known where name = 'fsync' and value = 'off'),
        'fsync is off: a crash of the machine loses tasks, or the database',
        'Set fsync to on, and reload the configuration.'),
    ('warning', exists (select from known where name = 'full_page_writes' and value = 'off'),
        'full_page_writes is off: a crash of the machine can lose the database',
        'Set full_page_writes to on, and reload the configuration.'),
    ('note', exists (select from known where name = 'synchronous_commit' and value = 'off'),
        'synchronous_commit is off: a crash of the server loses what was submitted last',
        'Set synchronous_commit to on for those who submit.'),
    ('note', exists (select from known where name = 'idle_in_transaction_session_timeout' and value = '0'),
        'a forgotten transaction stays open forever',
        'Set idle_in_transaction_session_timeout, such as to 10 minutes.'),
    ('warning', exists (select from known where name = 'statement_timeout' and value::int8 between 1 and 30000),
        'statement_timeout ends workers that wait for work, 30 s at a time',
        'Set it to more than 30 s for the role of the workers: alter role … set statement_timeout.'),
    ('note', exists (select from known where name = 'huge_pages' and value = 'off')
            and exists (select from known where name = 'shared_memory_size' and value::int8 >= 1024),
        'shared memory has more than 1 GB, and huge_pages is off',
        'Set huge_pages to try, and vm.nr_hugepages of Linux to shared_memory_size_in_huge_pages.')
) as found (severity, is_so, message, hint)
where is_so";

pub async fn settings(client: &Client, report: &mut Report) -> Result<(), Failure> {
    let check = "settings";
    for row in client.query(SETTINGS, &[]).await? {
        let message: &str = row.get("message");
        match row.get("severity") {
            "warning" => report.warning(check, message, row.get("hint")),
            _ => report.note(check, message, row.get("hint")),
        }
    }
    report.ok(check, "they fit");
    Ok(())
}

/// Tables of scylla that are not vacuumed: many dead rows, and not for lack of a minute.
const TABLES: &str = "
select c.relname::text, coalesce(c.reloptions && '{autovacuum_enabled=false,autovacuum_enabled=off}', false) as is_off,
    s.n_live_tup, s.n_dead_tup,
    s.n_dead_tup > 50000 and s.n_dead_tup > 2 * s.n_live_tup
        and coalesce(greatest(s.last_vacuum, s.last_autovacuum), '-infinity')
            < clock_timestamp() - interval '10 minutes' as is_bloated
from pg_class c
join pg_stat_all_tables s on s.relid = c.oid
where s.schemaname = 'scylla'
order by s.n_dead_tup desc, c.relname";

pub async fn tables(client: &Client, report: &mut Report) -> Result<(), Failure> {
    let check = "tables";
    for row in client.query(TABLES, &[]).await? {
        let table: &str = row.get(0);
        if row.get("is_off") {
            report.warning(
                check,
                format!("autovacuum is off for scylla.{table}"),
                &format!("Run: alter table scylla.{table} reset (autovacuum_enabled)"),
            );
        }
        if row.get("is_bloated") {
            let (live, dead): (i64, i64) = (row.get("n_live_tup"), row.get("n_dead_tup"));
            report.warning(
                check,
                format!("scylla.{table} has {dead} dead rows, and {live} live ones"),
                &format!("See what keeps them (xmin, settings), then run: vacuum scylla.{table}"),
            );
        }
    }
    report.ok(check, "they are vacuumed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_older;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(
            is_older("0.1.0", "0.2.0") && is_older("0.9.0", "0.10.0") && is_older("0.9", "0.9.1")
        );
        assert!(!is_older("0.2.0", "0.2.0") && !is_older("1.0", "0.9.9"));
    }
}

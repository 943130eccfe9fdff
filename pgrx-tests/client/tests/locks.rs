//! Locks: what a role can lock that has no right to a table keeps no other caller waiting.

use client::*;

/// What this session has locked, but for reading; catalogs and tables that are meant are left out.
const LOCKED: &str =
    "select coalesce(string_agg(distinct coalesce(relation::regclass::text, locktype), ' '), '')
    from pg_locks l left join pg_class c on c.oid = l.relation
    where l.pid = pg_backend_pid() and (locktype = 'advisory'
        or locktype = 'relation' and mode <> 'AccessShareLock' and c.relkind <> 'v')";

/// B134: LOCK TABLE on a view locks the tables that it reads, with the rights of the view's owner.
/// No view lets a role that may write it lock a table, other than that of the schedules, which
/// `cron.job` changes.
#[test]
fn no_view_locks_tables_for_others() {
    let database = database();
    let mut s = database.connect();
    s.run("create role locks_views; select scylla.enable_cron_api(), scylla.enable_pgmq_api()");
    s.run("select pgmq.create('m')");
    s.run("grant usage on schema cron to locks_views");
    s.run("grant insert, update, delete on cron.job to locks_views");
    let views = "select oid::regclass::text from pg_class
        where relnamespace::regnamespace::text in ('scylla', 'cron', 'pgmq') and relkind = 'v' order by 1";
    let views: Vec<String> = s.query(views, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert!(views.len() > 12, "{views:?}");
    for view in views {
        for mode in ["row exclusive", "share row exclusive", "access exclusive"] {
            s.run("begin; set local role locks_views");
            let locks = s.batch_execute(&format!("lock table {view} in {mode} mode"));
            match locks {
                Err(error) => {
                    assert_eq!(code(&error), "42501", "{view}");
                    assert!(!view.starts_with("cron."), "{view} cannot be locked");
                }
                Ok(()) => {
                    s.run("reset role");
                    let allowed = if view == "cron.job" { "scylla.schedule" } else { "" };
                    assert_eq!(s.text(LOCKED), allowed, "{view}, {mode}");
                }
            }
            s.run("rollback");
        }
    }
}

/// B134: no call takes an advisory lock, which any role could take before it.
#[test]
fn no_call_takes_an_advisory_lock() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "create role has_grants login; select scylla.enable_cron_api(), scylla.enable_pgmq_api()",
    );
    let [first, second] = [(); 2].map(|()| s.submit("q"));
    let settled = s.submit("q");
    s.end(settled, "aborted");
    s.run("begin");
    let lease = s.own_one("q");
    for call in [
        "scylla.submit('q', key => 'k', on_conflict => 'replace')",
        "scylla.submit('q', group_key => 'g', unique_for => '1 h', key => 'kept')",
        "scylla.submit_many('q', '{1, 2}')",
        "scylla.delay('m', now() + '1 h', 'q', 'v')",
        "scylla.cancel_message('q', 'm')",
        &format!("scylla.add_dependencies('{{{first}}}', '{{{second}}}')"),
        &format!("scylla.resubmit('{{{settled}}}')"),
        &format!("scylla.return_task('{}', '{}')", lease.id, lease.token),
        "scylla.grant('q', 'has_grants', '{look}'), scylla.revoke('q', 'has_grants', '{look}')",
        "scylla.configure_queue('q', max_running => 3, max_running_per_group => 1)",
        "scylla.reset_queue('q', 'max_running'), scylla.pause('q'), scylla.resume('q')",
        "scylla.schedule('s', '@daily', 'q'), scylla.alter_schedule('s', false), scylla.unschedule('s')",
        "scylla.run_sql('select 1'), scylla.schedule_sql('c', '@daily', 'select 1')",
        "cron.schedule('j', '@daily', 'select 1'), cron.schedule('j', '@hourly', 'select 1')",
        "cron.alter_job(cron.schedule('j', '@daily', 'select 1'), active => false), cron.unschedule('j')",
        "scylla.register_worker(), scylla.drain_worker('w'), scylla.release_worker('w')",
        "scylla.cancel_matching('{\"queue\": \"q\"}'), scylla.delete_matching('{\"queue\": \"q\"}')",
        "scylla.drop_queue('q')",
        "pgmq.acquire_queue_lock('m'), pgmq.create('m'), pgmq.bind_topic('a.#', 'm')",
        "pgmq.send('m', '1'), pgmq.send_batch('m', '{2, 3}', 60), pgmq.send_topic('a.b', '4')",
        "pgmq.read('m', 0, 1), pgmq.read_with_poll('m', 0, 1), pgmq.set_vt('m', '{1}'::bigint[], 0)",
        "pgmq.read_grouped('m', 0, 1), pgmq.read_grouped_rr('m', 0, 1), pgmq.pop('m')",
        "pgmq.archive('m', array(select msg_id from pgmq.q_m limit 1)), pgmq.metrics('m')",
        "pgmq.enable_notify_insert('m'), pgmq.send('m', '5'), pgmq.purge_queue('m')",
        "pgmq.drop_queue('m')",
    ] {
        s.run(&format!("select {call}"));
        let taken = s.text(LOCKED);
        assert!(!taken.contains("advisory"), "{call}: {taken}");
    }
    s.run("rollback; drop role has_grants");
}

/// B134: a call that has nothing to link, or nothing that is not settled, keeps no other from
/// linking.
#[test]
fn nothing_is_locked_for_nothing() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    let [first, second, task] = [(); 3].map(|()| s.submit("q"));
    let settled = s.submit("q");
    s.end(settled, "completed");
    other.run("set lock_timeout = '5 s'");
    for link in [
        "'{}', '{}'".to_owned(),
        format!("'{{{settled}}}', '{{{task}}}'"),
        format!("'{{{}}}', '{{{task}}}'", Uuid::new_v4()),
    ] {
        s.run("begin");
        let call = format!("select scylla.add_dependencies({link})::bigint");
        assert_eq!(s.count(&call), 0, "{link}");
        other.run("begin");
        assert_eq!(other.link(first, second).expect("no other links"), 1, "beside {link}");
        other.run("rollback");
        s.run("rollback");
    }
}

//! The settings of a database change nothing that its scheduler's duties depend on; its shard is in
//! the ids.

use client::*;

/// Settings that an owner or an administrator may set for a database, and that must not affect
/// scylla's own statements.
const SETTINGS: [&str; 26] = [
    "default_tablespace = 'elsewhere'",
    "default_table_access_method = 'other_heap'",
    "standard_conforming_strings = off",
    "backslash_quote = off",
    "search_path = 'hostile'",
    "role = 'other'",
    "exit_on_error = on",
    "session_replication_role = 'replica'",
    "transform_null_equals = on",
    "array_nulls = off",
    "quote_all_identifiers = on",
    "bytea_output = 'escape'",
    "extra_float_digits = -15",
    "intervalstyle = 'sql_standard'",
    "datestyle = 'SQL, DMY'",
    "timezone = 'Asia/Kathmandu'",
    "lc_messages = 'C'",
    "row_security = off",
    "default_transaction_isolation = 'serializable'",
    "default_transaction_read_only = on",
    "default_transaction_deferrable = on",
    "lock_timeout = '1ms'",
    "statement_timeout = '1ms'",
    "plan_cache_mode = 'force_custom_plan'",
    "enable_indexscan = off",
    "client_min_messages = 'debug5'",
];

#[test]
fn settings_of_a_database_leave_the_duties_alone() {
    let server = Server::start(&["allow_in_place_tablespaces = on", "log_min_messages = warning"]);
    let database = server.database();
    let mut s = server.connect();
    s.run("create tablespace elsewhere location ''");
    s.run("create role other");
    let mut d = database.connect();
    d.run(
        "create access method other_heap type table handler heap_tableam_handler;
         create schema hostile;
         create function hostile.now() returns timestamptz language sql as 'select null::timestamptz'",
    );
    let before = database.scheduler();
    for setting in SETTINGS {
        s.run(&format!("alter database {} set {setting}", database.name));
    }
    // The partitions ahead must be made again, now by a scheduler with these settings.
    let partitions = "from pg_inherits i join pg_class c on c.oid = i.inhrelid
                      where i.inhparent = 'scylla.finished'::regclass";
    let all = eventually(seconds(5), "they have been made", || {
        Some(d.count(&format!("select count(*) {partitions}"))).filter(|count| *count > 1)
    });
    d.run(&format!(
        "do $$ declare name text; begin
           for name in select c.oid::regclass::text {partitions} and c.relname <> 'finished_default'
           loop execute 'drop table ' || name; end loop; end $$"
    ));
    d.run(
        "create table public.written (setting text, value text);
         create function public.note(updated timestamptz, created timestamptz) returns boolean
             language plpgsql immutable as $$ begin
             if updated > created then
                 insert into public.written
                 select name, setting from pg_catalog.pg_settings where name = any ('{extra_float_digits,
                    session_replication_role, transform_null_equals, exit_on_error, row_security}');
             end if;
             return true; end $$;
         create index note on scylla.task (public.note(updated, created));
         alter function public.note volatile",
    );
    server.signal(before, libc::SIGTERM);
    eventually(seconds(10), "there is another scheduler", || {
        database.schedulers().iter().any(|pid| *pid != before).then_some(())
    });
    // The sessions of this test begin before the settings, or reset them.
    eventually(seconds(10), "the partitions are there", || {
        (d.count(&format!("select count(*) {partitions}")) == all).then_some(())
    });
    let odd = format!(
        "select count(*) {partitions} and (c.reltablespace <> 0 or c.relam <> (select oid from pg_am where amname = 'heap'))"
    );
    assert_eq!(d.count(&odd), 0, "partitions are where the others are, and as they are");
    // A lease with an odd progress expires, another is persisted, and a task fires.
    let expired = d.submit("q");
    let lease = d.own_one_with("q", "timeout => '2 s'");
    assert!(d.extend_with(&lease, "progress => 0.1234567890123456"));
    let due = d.submit_with("later", "run_at => clock_timestamp() + interval '100 ms'");
    for id in [expired, due] {
        eventually(seconds(5), "it is ready", || (d.status(id) == "ready").then_some(()));
    }
    let history = d.entry(expired)["history"].clone();
    assert_eq!(history[1]["progress"], json!(0.1234567890123456), "{history}");
    let written =
        d.query("select distinct setting || '=' || value from public.written order by 1", &[]);
    let written: Vec<String> = written.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(
        written,
        [
            "exit_on_error=off",
            "extra_float_digits=1",
            "row_security=on",
            "session_replication_role=origin",
            "transform_null_equals=off"
        ]
    );
    let log = server.log();
    assert!(!log.contains("could not"), "{log}");
    server.assert_log_is_clean();
}

/// B150: the last byte of an id that scylla makes is the shard of its database, whichever call
/// makes it; an id that the caller gives stays as it is.
#[test]
fn shard_is_the_last_byte_of_an_id() {
    let server = Server::start(&[]);
    let database = server.database();
    let other = server.database();
    let mut s = server.connect();
    for (name, shard) in [(&database.name, 171), (&other.name, 255)] {
        s.run(&format!("alter database {name} set scylla.shard = {shard}"));
    }
    server.terminate_scheduler(&database);
    let mut d = database.connect();
    let given = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
    let sql = "select scylla.submit('given', id => $1)";
    assert_eq!(d.value::<Uuid>(sql, &[&given]), given);
    d.run("select scylla.schedule('tick', 'every 1 s', 'scheduled')");
    d.run("select scylla.delay('m', now() + interval '100 ms', 'messages', 'v')");
    d.run("select scylla.submit('q') from generate_series(1, 50)");
    d.run("select scylla.submit_many('many', array_fill('{}'::jsonb, '{50}'))");
    d.run("select scylla.submit_tasks('[{\"queue\": \"array\"}, {\"queue\": \"array\"}]')");
    d.run("select scylla.resubmit(array[id]) from (select scylla.submit('again') as id) s where scylla.cancel(id)");
    let queues = "select count(distinct queue) from scylla.tasks where queue <> 'given'";
    eventually(seconds(10), "each call has made an id", || (d.count(queues) == 6).then_some(()));
    let made = d.query("select id from scylla.tasks where queue <> 'given'", &[]).unwrap();
    let ids: Vec<Uuid> = made.iter().map(|row| row.get(0)).collect();
    assert!(ids.len() > 104, "{ids:?}");
    for id in ids {
        assert_eq!((id.get_version_num(), id.as_bytes()[15]), (7, 171), "{id}");
    }
    assert_eq!(d.value::<Value>("select scylla.about() -> 'shard'", &[]), json!(171));
    assert_eq!(other.connect().submit("q").as_bytes()[15], 255);
    let outside = format!("alter database {} set scylla.shard = 256", database.name);
    assert_eq!(s.refusal(&outside, &[]).code().code(), "22023");
}

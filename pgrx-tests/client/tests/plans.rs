//! Plans are kept for the life of a connection, however the tables grow, and looking reads little.

use client::*;
use std::path::{Path, PathBuf};

/// Calls each function that changes tasks once, on one connection.
fn every_move(s: &mut Session) {
    let given = Uuid::new_v4();
    s.value::<Uuid>("select scylla.submit('moves', id => $1)", &[&given]);
    s.submit_many("moves", 4);
    let leases = s.own("w", "moves", 5);
    assert_eq!(leases.len(), 5);
    for (lease, outcome) in leases.iter().zip(["completed", "yield", "retry", "completed"]) {
        s.return_task(lease, outcome).expect("a valid lease");
    }
    s.cancel(leases[4].id);
    let mut s2 = s.own("w", "moves", 5);
    let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) = s2.drain(..).map(|it| (it.id, it.token)).unzip();
    let results: Vec<String> = s.value(
        "select scylla.return_tasks($1, $2, results => array_fill('1'::jsonb, array[2]))",
        &[&ids, &tokens],
    );
    assert_eq!(results, ["completed", "completed"]);
    s.status(given);
}

/// How many rows and index entries all sessions have read from the tables of tasks.
fn read(s: &mut Session) -> i64 {
    s.run("select pg_stat_force_next_flush()");
    s.count(
        "select (select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables
             where schemaname = 'scylla')::bigint
           + (select sum(idx_tup_read) from pg_stat_user_indexes where schemaname = 'scylla')::bigint",
    )
}

/// I6: a plan that was made while the tables were empty does not scan them once they are full.
#[test]
fn plan_made_on_an_empty_table_does_not_stay_a_scan() {
    let database = database();
    let mut s = database.connect();
    every_move(&mut s);
    // The planner's statistics say now that the tables are empty.
    s.run("vacuum analyze scylla.task");
    s.run("vacuum analyze scylla.finished");
    every_move(&mut s);
    database.connect().run(
        "insert into scylla.task (id, queue, action, priority, ready, post_result, created, updated, spec)
         select gen_random_uuid(), 'full', '', 0, true, false, now(), now(), '{}'
         from generate_series(1, 300000)",
    );
    let before = read(&mut s);
    every_move(&mut s);
    let read = read(&mut s) - before;
    assert!(read < 2_000, "{read} rows and entries were read for eleven calls");
}

/// Groups beyond the board are read by hops from one to the next: a search in an index for each,
/// not from its beginning.
#[test]
fn groups_beyond_the_board_are_read_by_hops() {
    // It has 1,024 lanes.
    let server = Server::start(&["scylla.board_size = 64"]);
    let database = server.database();
    let mut s = database.connect();
    let sql = "select scylla.submit_many('q', array_fill('{}'::jsonb, array[5000]),
         group_keys => array(select n::text from generate_series(1, 5000) n))";
    for _ in 0..20 {
        s.value::<Vec<Uuid>>(sql, &[]);
    }
    let serve = |s: &mut Session, most: i32| {
        let sql = "select count(scylla.return_task(o.id, o.token))
                   from scylla.own_tasks('w', 'q', $1) o";
        s.value::<i64>(sql, &[&most])
    };
    let blocks = |s: &mut Session| {
        s.run("select pg_stat_force_next_flush()");
        s.count(
            "select sum(idx_blks_hit + idx_blks_read)::bigint from pg_statio_user_indexes
             where schemaname = 'scylla' and relname = 'task'",
        )
    };
    // Beyond the groups that the board had at first.
    while serve(&mut s, 50) == 50 && s.count("select count(*) from scylla.task") > 97_000 {}
    let before = blocks(&mut s);
    let owned: i64 = (0..10).map(|_| serve(&mut s, 50)).sum();
    let blocks = blocks(&mut s) - before;
    println!("{blocks} blocks for {owned} tasks");
    assert!(blocks < 60 * owned, "{blocks} blocks for {owned} tasks");
}

/// A live task for each two settled ones, of which few are in the queue `few`, were aborted or
/// cancelled, have the worker `rare`, or run.
const MANY_TASKS: &str = "
    do $$ declare d date; begin
        for d in select current_date - n from generate_series(2, 12) n loop
            execute format('create table scylla.day_%s partition of scylla.finished
                for values from (%L) to (%L)', d - date '2020-01-01', d, d + 1);
            execute (select string_agg(format(replace(replace(pg_get_indexdef(i.indexrelid),
                    'finished_default', 'day_%1$s'), 'ON ONLY', 'ON'), d - date '2020-01-01'), ';')
                from pg_index i where i.indrelid = 'scylla.finished_default'::regclass);
        end loop;
    end $$;
    insert into scylla.finished (id, queue, action, priority, post_result, created, updated, tries,
        num_failures, progress, status, key, owner, spec, errors, history)
    select gen_random_uuid(), case when n % 5000 = 7 then 'few' else 'many' end, '', 0, false, t, t, 1,
        0, 1, case n % 5000 when 3 then 'aborted' when 4 then 'cancelled' when 7 then 'aborted'
            else 'completed' end,
        'key ' || n, case when n % 5000 = 9 then 'rare' else 'worker ' || n % 9 end, '{}', '[]', '[]'
    from generate_series(1, 60000) n, lateral (select now() - n * interval '17 s' as t) x;
    insert into scylla.task (id, queue, action, priority, ready, post_result, created, updated, due,
        key, group_key, spec)
    select gen_random_uuid(), case when n % 5000 = 7 then 'few' else 'many' end, '', 0, n % 5000 <> 4,
        false, now(), now(), case when n % 5000 = 4 then now() + interval '1 day' end, 'live ' || n,
        case when n % 2 = 0 then 'group ' || n % 99 end, '{}'
    from generate_series(1, 30000) n;
    analyze scylla.task; analyze scylla.finished;
    select scylla.refresh()";

/// Looking reads few rows, as the owner and as a role that may look at one queue,
/// however many tasks there are.
#[test]
fn looking_reads_little_however_many_tasks_there_are() {
    let server = Server::start(&["max_connections = 50", "scylla.retention = '100 d'"]);
    let database = server.database();
    let mut s = database.connect();
    eventually(seconds(20), "the partitions are made", || {
        (s.count("select count(*) from pg_inherits where inhparent = 'scylla.finished'::regclass")
            > 4)
        .then_some(())
    });
    let definitions = "select string_agg(replace(pg_get_indexdef(i.indexrelid), r.relname, ''), ';'
             order by replace(i.indexrelid::regclass::text, r.relname, ''))
         from pg_index i where i.indrelid = r.oid and i.indexrelid::regclass::text !~ '_updated$'";
    let differing = format!(
        "select count(*) from pg_inherits h join pg_class r on r.oid = h.inhrelid
         where ({definitions}) is distinct from
             (select d from pg_class r, lateral ({definitions}) x (d) where relname = 'finished_default')"
    );
    assert_eq!(s.count(&differing), 0, "partitions whose indexes are not the default one's");
    s.run(MANY_TASKS);
    s.run("create role looks_at_few; select scylla.grant('few', 'looks_at_few', '{look}')");
    eventually(seconds(20), "the tables are surveyed", || {
        (!s.own("busy", "many", 50).is_empty()).then_some(())
    });
    let live = s.value::<Uuid>("select id from scylla.task where key = 'live 777'", &[]);
    let settled = s.value::<Uuid>("select id from scylla.finished where key = 'key 777'", &[]);
    // A session that has not called a function yet plans as any other.
    let mut s = database.connect();
    let finished = "status in ('completed', 'aborted', 'cancelled')";
    let conditions = [
        format!("tasks where id = '{live}'"),
        format!("tasks where id = '{settled}'"),
        "tasks where queue = 'few' limit 99".to_owned(),
        "tasks where queue = 'many' limit 99".to_owned(),
        "tasks where queue = 'none' limit 99".to_owned(),
        "tasks where key = 'live 777'".to_owned(),
        "tasks where key = 'key 777'".to_owned(),
        "tasks where owner = 'busy' and status = 'running' limit 99".to_owned(),
        "tasks where owner = 'rare' and queue = 'few' limit 99".to_owned(),
        "tasks where status = 'waiting' limit 99".to_owned(),
        "tasks where status = 'ready' limit 99".to_owned(),
        "tasks where status = 'running' limit 99".to_owned(),
        "tasks where status = 'completed' limit 99".to_owned(),
        "tasks where status = 'aborted' limit 99".to_owned(),
        "tasks where status = 'cancelled' limit 99".to_owned(),
        "tasks where queue = 'few' and status = 'waiting' limit 99".to_owned(),
        "tasks where queue = 'few' and status = 'aborted' limit 99".to_owned(),
        format!(
            "tasks where queue = 'many' and updated > now() - interval '1 hour' and {finished}"
        ),
        "failed limit 9".to_owned(),
        "failed where queue = 'few' limit 9".to_owned(),
        "failed where queue = 'many' limit 9".to_owned(),
        "queues".to_owned(),
        "stats".to_owned(),
    ];
    for role in ["none", "looks_at_few"] {
        for condition in &conditions {
            s.run("select pg_stat_force_next_flush()");
            s.run(&format!("begin; set local role {role}; select * from scylla.{condition}"));
            // The rows and index entries that this transaction has read.
            let row = s.query_one(
                "select sum(n)::bigint, string_agg(relname || ': ' || n, ', ') filter (where n > 99)
                 from pg_class c, lateral (
                     select pg_stat_get_xact_tuples_returned(c.oid)
                         + pg_stat_get_xact_tuples_fetched(c.oid)) x (n)
                 where relnamespace = 'scylla'::regnamespace and relkind in ('r', 'i')",
                &[],
            );
            let row = row.expect("a row");
            let (read, tables): (i64, Option<String>) = (row.get(0), row.get(1));
            s.run("rollback");
            assert!(read < 3_000, "{condition} as {role} read {tables:?}");
        }
    }
}

/// Right after a restart the view of queues does not read the tasks whose leases were restored.
#[test]
fn the_view_of_queues_passes_over_restored_leases() {
    let server =
        Server::start(&["scylla.persist_leases_after = 0", "scylla.sweep_interval = '10 ms'"]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 3_000);
    s.submit_many("all", 1_000);
    for (queue, leases) in [("q", 2_000), ("all", 1_000)] {
        assert_eq!(s.own_with("w", queue, leases, "timeout => '1 h'").len() as i32, leases);
    }
    s.until_leases_are_written(3_000);
    server.kill();
    server.start_again();
    let mut s = database.connect();
    eventually(seconds(20), "the tasks are counted", || {
        (s.count("select count(ready) from scylla.queues") == 2).then_some(())
    });
    s.run("begin");
    let queues = s.text(
        "select string_agg(format('%s %s %s %s', queue, ready, running, oldest_ready is not null), ', '
             order by queue)
         from scylla.queues",
    );
    let read = s.count(
        "select (seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint from pg_stat_xact_all_tables
         where relid = 'scylla.task'::regclass",
    );
    let blocks = s.count("select pg_stat_get_xact_blocks_fetched('scylla.task_lane'::regclass)");
    s.run("rollback");
    assert!(blocks < 20, "{blocks} blocks of the index were read");
    assert_eq!(queues, "all 0 1000 f, q 1000 2000 t");
    assert!(read < 100, "{read} tasks were read");
    // What was passed over is on the board: it is ready when the worker is released.
    assert_eq!(s.value::<i32>("select scylla.release_worker('w')", &[]), 3_000);
    eventually(seconds(20), "all are ready", || {
        (s.count("select sum(ready)::bigint from scylla.queues") == 4_000).then_some(())
    });
    assert_eq!(s.own("w", "all", 2_000).len(), 1_000);
    assert_eq!(s.own("w", "q", 4_000).len(), 3_000);
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a readable folder");
    let paths = entries.map(|it| it.expect("an entry").path());
    paths.flat_map(|it| if it.is_dir() { files_below(&it) } else { vec![it] }).collect()
}

/// The type that the extension's source calls so.
fn kind(word: &str) -> String {
    let (one, array) = match word.strip_suffix('S') {
        Some(one) => (one, "[]"),
        None => (word, ""),
    };
    let one = if one == "FLOAT" { "FLOAT8" } else { one };
    format!("{one}{array}")
}

/// The indexes that a plan scans, each with its condition.
fn index_scans(plan: &Value) -> Vec<(&str, Option<&str>)> {
    match plan {
        Value::Array(parts) => parts.iter().flat_map(index_scans).collect(),
        Value::Object(node) => {
            let named = node.get("Index Name").and_then(Value::as_str);
            let here = named.map(|it| (it, node.get("Index Cond").and_then(Value::as_str)));
            here.into_iter().chain(node.values().flat_map(index_scans)).collect()
        }
        _ => Vec::new(),
    }
}

/// Statements that read an index from end to end, of a table that is small, or once after a start.
const READ_WHOLE: [&str; 7] = [
    "retention/make_partitions",
    "schedules/start",
    "sql/of_other_roles",
    "stats/totals",
    "supply/survey",
    "supply/survey_groups",
    "workers/forget",
];

/// I6: each statement of the extension, planned as its sessions do, on tables that were empty when
/// they were analyzed. A condition on an index's second column alone would read all of it once it
/// is full.
#[test]
fn each_statement_searches_indexes_from_their_first_column() {
    let database = database();
    let mut s = database.connect();
    s.run("analyze scylla.task; analyze scylla.finished; analyze scylla.schedule");
    for setting in ["seqscan", "bitmapscan", "nestloop", "mergejoin", "sort"] {
        s.run(&format!("set enable_{setting} = off"));
    }
    s.run("set plan_cache_mode = force_generic_plan");
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let read = |file: &PathBuf| std::fs::read_to_string(file).expect("a readable file");
    let source: String = files_below(&root.join("src")).iter().map(read).collect();
    let source: String = source.chars().filter(|it| !it.is_whitespace()).collect();
    let folder = root.join("sql/queries");
    let (mut wrong, mut planned) = (Vec::new(), 0);
    for file in files_below(&folder) {
        let name = file.strip_prefix(&folder).expect("below it").with_extension("");
        let name = name.display().to_string();
        let Some((_, kinds)) = source.split_once(&format!("\"{name}\",[")) else {
            continue; // its parameters are composed
        };
        let text = read(&file);
        if text.contains('{') {
            continue; // the statement is
        }
        let kinds: Vec<String> =
            kinds[..kinds.find(']').expect("an end")].split_terminator(',').map(kind).collect();
        let list = |words: &[String]| match words.is_empty() {
            true => String::new(),
            false => format!("({})", words.join(", ")),
        };
        let nulls = vec!["null".to_owned(); kinds.len()];
        s.run(&format!("prepare it {} as {}", list(&kinds), text));
        let plan: Value =
            s.value(&format!("explain (format json) execute it {}", list(&nulls)), &[]);
        s.run("deallocate it");
        planned += 1;
        for (index, condition) in index_scans(&plan) {
            let first: Option<String> =
                s.value("select pg_get_indexdef(to_regclass('scylla.' || $1), 1, true)", &[&index]);
            let Some(first) = first else { continue }; // a catalog's
            let bare = |sql: &str| sql.replace(['(', ')'], "");
            let is_searched = condition.is_some_and(|it| bare(it).contains(&bare(&first)));
            if !(is_searched || condition.is_none() && READ_WHOLE.contains(&&*name)) {
                wrong.push(format!("{name}: {index}, not by {first}"));
            }
        }
    }
    println!("{planned} statements");
    assert!(planned > 100, "{planned} statements");
    assert_eq!(wrong, [""; 0]);
}

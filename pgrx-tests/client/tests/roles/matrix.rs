//! The matrix of the reference: every role by every function and view.

use crate::{ALL, answer, connect_as, grant, granted, role};
use client::*;
use std::collections::{BTreeMap, BTreeSet};

const PRIVILEGES: &str = include_str!("../../../../docs/reference/privileges.md");
const FUNCTIONS: &str = include_str!("../../../../docs/reference/functions.md");

/// For each row of the matrix, a call about the queue q. Ids and tokens are filled in: the ready
/// task `{y}`, the running task `{r}` with its token `{t}`, the aborted task `{x}`, and the
/// completed task `{c}`, whose result may be waited for.
const CALLS: &[(&str, &str)] = &[
    ("`submit`", "select scylla.submit('q')"),
    (
        "`submit` with `on_conflict => 'replace'`",
        "select scylla.submit('q', key => 'k', on_conflict => 'replace')",
    ),
    ("`submit` with `after`", "select scylla.submit('q', after => array['{y}'::uuid])"),
    ("`submit_many`", "select scylla.submit_many('q', '{1}')"),
    ("`submit_tasks`", "select scylla.submit_tasks('[{\"queue\": \"q\"}]')"),
    ("`delay` of a message", "select scylla.delay('new', '2100-01-01Z', 'q', 'v')"),
    (
        "`delay_messages`",
        "select scylla.delay_messages('q', '[{\"id\": \"new\", \"deadline\": \"2100-01-01Z\"}]')",
    ),
    ("`cancel_message`, another role's", "select scylla.cancel_message('q', 'waiting')"),
    ("`cancel_message`, one's own", "select scylla.cancel_message('q', 'none')"),
    ("`own_tasks`", "select scylla.own_tasks('w', 'q')"),
    ("`own_task`", "select scylla.own_task('{y}', 'w')"),
    ("`own_any`", "select scylla.own_any('w', '{q}')"),
    ("`extend`", "select scylla.extend('{r}', '{t}')"),
    ("`extend_tasks`", "select scylla.extend_tasks(array['{r}']::uuid[], array['{t}']::uuid[])"),
    ("`heartbeat`", "select scylla.heartbeat('w', array['{r}']::uuid[], array['{t}']::uuid[])"),
    ("`return_task`", "select scylla.return_task('{r}', '{t}')"),
    ("`return_tasks`", "select scylla.return_tasks(array['{r}']::uuid[], array['{t}']::uuid[])"),
    (
        "`return_many`",
        "select scylla.return_many(array['{r}']::uuid[], array['{t}']::uuid[], '{yield}')",
    ),
    ("`wait_for_work`", "call scylla.wait_for_work('q', '0')"),
    ("`wait_for_any`", "call scylla.wait_for_any('{q}', '0')"),
    ("`wait_for_event`", "call scylla.wait_for_event('w', '{q}', '0')"),
    ("`cancel`", "select scylla.cancel('{y}')"),
    ("`cancel_tasks`", "select scylla.cancel_tasks(array['{y}']::uuid[])"),
    ("`cancel_group`", "select scylla.cancel_group('q', 'g')"),
    ("`cancel_matching`", "select scylla.cancel_matching('{\"queue\": \"q\"}')"),
    (
        "`cancel_matching` with `spec`",
        "select scylla.cancel_matching('{\"queue\": \"q\", \"spec\": {}}')",
    ),
    ("`delay` of a task", "select scylla.delay('{y}', '2100-01-01Z')"),
    ("`delete_tasks`", "select scylla.delete_tasks(array['{y}']::uuid[])"),
    (
        "`delete_matching`",
        "select scylla.delete_matching('{\"queue\": \"q\", \"status\": \"ready\"}')",
    ),
    ("`list_tasks`", "select 1 / count(*) from scylla.list_tasks('{\"queue\": \"q\"}')"),
    ("`task`", "select scylla.task('{y}')"),
    ("`why`", "select scylla.why('{y}')"),
    ("`task_id`", "select scylla.task_id('q', 'k')"),
    ("`wait_for_task`", "call scylla.wait_for_task('{c}', '0')"),
    ("view `tasks`", "select 1 / count(*) from scylla.tasks where queue = 'q'"),
    ("view `failed`", "select 1 / count(*) from scylla.failed where queue = 'q'"),
    ("view `groups`", "select 1 / count(*) from scylla.groups where queue = 'q'"),
    ("view `queues`", "select 1 / count(*) from scylla.queues where queue = 'q'"),
    ("view `stats`", "select 1 / count(*) from scylla.stats where queue = 'q'"),
    ("view `health`", "select 1 / count(*) from scylla.health"),
    ("view `workers`", "select 1 / count(*) from scylla.workers where queue = 'q'"),
    (
        "`add_dependencies`",
        "select scylla.add_dependencies(array['{r}']::uuid[], array['{y}']::uuid[])",
    ),
    ("`resubmit`", "select scylla.resubmit(array['{x}']::uuid[])"),
    ("`resubmit_matching`", "select scylla.resubmit_matching('{\"queue\": \"q\"}')"),
    ("`schedule`", "select scylla.schedule('own', '@daily', 'q')"),
    ("`schedule` in place of another role's", "select scylla.schedule('others', '@daily', 'q')"),
    (
        "`alter_schedule`, one's own",
        "select scylla.schedule('own', '@daily', 'q'), scylla.alter_schedule('own', false)",
    ),
    ("`alter_schedule`, another role's", "select scylla.alter_schedule('others', false)"),
    (
        "`unschedule`, one's own",
        "select scylla.schedule('own', '@daily', 'q'), scylla.unschedule('own')",
    ),
    ("`unschedule`, another role's", "select scylla.unschedule('others')"),
    ("`run_sql`", "select scylla.run_sql('select 1')"),
    ("`schedule_sql`", "select scylla.schedule_sql('sql', '@daily', 'select 1')"),
    ("`coming_runs`", "select 1 / count(*) from scylla.coming_runs() where queue = 'q'"),
    ("view `schedules`", "select 1 / count(*) from scylla.schedules where queue = 'q'"),
    ("`next_runs`", "select scylla.next_runs('@daily')"),
    ("`configure_queue`", "select scylla.configure_queue('q', timeout => '1 min')"),
    ("`reset_queue`", "select scylla.reset_queue('q', 'timeout')"),
    ("`pause`", "select scylla.pause('q')"),
    ("`resume`", "select scylla.resume('q')"),
    // Of a queue without running tasks.
    ("`drop_queue`", "select scylla.drop_queue('none')"),
    ("`critical_only`", "select scylla.critical_only(true)"),
    ("`drain_worker`", "select scylla.drain_worker('w')"),
    ("`release_worker`", "select scylla.release_worker('w')"),
    ("`refresh`", "select scylla.refresh()"),
    ("`open`", "select scylla.open()"),
    ("`enable_cron_api`", "select scylla.enable_cron_api()"),
    ("`disable_cron_api`", "select scylla.disable_cron_api()"),
    ("`import_cron_jobs`", "select scylla.import_cron_jobs()"),
    ("`enable_pgmq_api`", "select scylla.enable_pgmq_api()"),
    ("`disable_pgmq_api`", "select scylla.disable_pgmq_api()"),
    ("`import_pgmq_queue`", "select scylla.import_pgmq_queue('none')"),
    ("`cron.schedule`", "select cron.schedule('j', '@daily', 'select 1')"),
    (
        "`cron.schedule_in_database`",
        "select cron.schedule_in_database('j', '@daily', 'select 1', current_database()::text)",
    ),
    (
        "`cron.alter_job`, one's own",
        "select cron.alter_job(cron.schedule('j', '@daily', 'select 1'), active => false)",
    ),
    ("`cron.alter_job`, another role's", "select cron.alter_job({j}, active => false)"),
    (
        "`cron.unschedule`, one's own",
        "select cron.unschedule(cron.schedule('j', '@daily', 'select 1'))",
    ),
    ("`cron.unschedule`, another role's", "select cron.unschedule({j})"),
    (
        "view `cron.job`, one's own",
        "select cron.schedule('j', '@daily', 'select 1'); select 1 / count(*) from cron.job",
    ),
    ("view `cron.job`, another role's", "select 1 / count(*) from cron.job where jobid = {j}"),
    (
        "view `cron.job_run_details`, another role's",
        "select 1 / count(*) from cron.job_run_details where jobid = {j}",
    ),
    ("`grant`", "select scylla.grant('q', current_user::regrole, '{look}')"),
    ("`revoke`", "select scylla.revoke('q', current_user::regrole, '{look}')"),
    ("`about`", "select scylla.about()"),
    ("`register_worker`", "select scylla.register_worker()"),
    ("`retry_worst_case`", "select scylla.retry_worst_case(3, '1 s', '0')"),
    // Not in the matrix: the views' own, and the functions of the type of roles.
    ("_cron_schedule", "select scylla._cron_schedule('j', '@daily', 'select 1')"),
    ("_cron_unschedule", "select scylla._cron_unschedule(1, null)"),
    ("_cron_alter", "select scylla._cron_alter(1, null, null, null, null, true)"),
    ("_fire_schedules", "select scylla._fire_schedules(now(), now())"),
    ("_errors_with", "select scylla._errors_with('[]', '{}')"),
    ("_leases", "select scylla._leases()"),
    ("_owned", "select scylla._owned(true)"),
    ("_is_owned", "select scylla._is_owned(gen_random_uuid())"),
    ("_may_own", "select scylla._may_own(gen_random_uuid(), '3')"),
    ("_group_may_run", "select scylla._group_may_run('q', gen_random_uuid())"),
    ("_first_queue", "select scylla._first_queue()"),
    ("_last_queue", "select scylla._last_queue()"),
    ("_group_hash", "select scylla._group_hash('g')"),
    ("_front", "select scylla._front('q', '', 0)"),
    ("_oldest_ready", "select scylla._oldest_ready('q')"),
    ("_cron_sees_jobs_of", "select scylla._cron_sees_jobs_of('none')"),
    ("_cron_runs", "select scylla._cron_runs()"),
    ("_pgmq_create", "select scylla._pgmq_create('m', false, false)"),
    ("_pgmq_drop", "select scylla._pgmq_drop('m')"),
    ("_pgmq_purge", "select scylla._pgmq_purge('m')"),
    ("_pgmq_send", "select scylla._pgmq_send('m', '1', null, null)"),
    ("_pgmq_send_batch", "select scylla._pgmq_send_batch('m', '{1}', null, null)"),
    ("_pgmq_read", "select scylla._pgmq_read('m', 30, 1, null, '', 0, 0)"),
    ("_pgmq_pop", "select scylla._pgmq_pop('m', 1)"),
    ("_pgmq_set_vt", "select scylla._pgmq_set_vt('m', '{1}', now())"),
    ("_pgmq_end", "select scylla._pgmq_end('m', 1, true)"),
    ("_pgmq_end_batch", "select scylla._pgmq_end_batch('m', '{1}', true)"),
    ("_pgmq_messages", "select scylla._pgmq_messages('m', true)"),
    ("_pgmq_queues", "select scylla._pgmq_queues()"),
    ("_pgmq_metrics", "select scylla._pgmq_metrics('m')"),
    ("_pgmq_validate", "select scylla._pgmq_validate('m')"),
    ("_pgmq_notify", "select scylla._pgmq_notify('m', 250, false)"),
    ("_pgmq_bind", "select scylla._pgmq_bind('a.*', 'm')"),
    ("_pgmq_unbind", "select scylla._pgmq_unbind('a.*', 'm')"),
    ("_pgmq_topics", "select scylla._pgmq_topics(null, null)"),
    ("_pgmq_validate_topic", "select scylla._pgmq_validate_topic('a.*', true)"),
    ("_pgmq_send_topic", "select scylla._pgmq_send_topic('a', '{1}', null, null)"),
    ("_queue_numbers", "select scylla._queue_numbers()"),
    ("_health", "select scylla._health()"),
    ("_known_workers", "select scylla._known_workers(now())"),
    ("_may_look", "select scylla._may_look('q')"),
    ("_newest", "select scylla._newest('[]')"),
    ("_history_with", "select scylla._history_with('[]', 'w', now())"),
    ("_role", "select 'none'::scylla.role"),
    ("_database", "select 'none'::scylla.database"),
    ("_may_act_as", "select scylla._may_act_as('none')"),
];

/// The matrix: for each function the columns that say yes.
fn matrix() -> BTreeMap<String, BTreeSet<String>> {
    let from = PRIVILEGES.find("| function or view |").expect("the matrix");
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = PRIVILEGES[from..].lines();
    let head = cells(lines.next().expect("a head"));
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        let row = cells(line);
        assert_eq!(row.len(), head.len(), "{line}");
        let says_yes = |at: &usize| match row[*at].as_str() {
            "yes" => true,
            "" => false,
            other => panic!("{other} in {line}"),
        };
        let yes = (1..row.len()).filter(says_yes).map(|at| head[at].clone()).collect();
        (row[0].clone(), yes)
    })
    .collect()
}

/// For each function the columns of those who may call it somehow, as the line above its
/// declaration says.
fn declared() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sql/schema");
    for file in std::fs::read_dir(schema).expect("the schema") {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for (needs, declaration) in text.lines().zip(text.lines().skip(1)) {
            let Some(needs) = needs.strip_prefix("-- needs ") else { continue };
            let name = declaration.split(['.', '(']).nth(1).unwrap_or_default();
            let needs = needs.split("; ").next().unwrap_or_default();
            found.entry(name.to_owned()).or_default().extend(columns(needs));
        }
    }
    found.retain(|name, _| !name.starts_with('_'));
    found
}

/// The columns of those who have what a call needs, such as `submit or cancel on queue`.
fn columns(needs: &str) -> BTreeSet<String> {
    let all = "–,submit,work,cancel,look,manage,all five,pg_monitor,manage on `*`,owner";
    let set = |columns: &str| columns.split(',').map(str::to_owned).collect::<BTreeSet<_>>();
    let (privileges, queues) = match needs {
        "nothing" => return set(all),
        "ownership" => return set("owner"),
        _ => needs.split_once(" on ").expect(needs),
    };
    let of_one = |privilege: &str| match (queues.starts_with("all queues"), privilege) {
        (true, "manage") => set("manage on `*`,owner"),
        (true, _) => set("owner"),
        (false, "manage") => set("manage,all five,manage on `*`,owner"),
        (false, privilege) => set(&format!("{privilege},all five,owner")),
    };
    let of_any = |privileges: &str| -> BTreeSet<String> {
        privileges.split(" or ").flat_map(of_one).collect()
    };
    let sets = privileges.split(" and ").map(of_any);
    sets.reduce(|both, one| both.intersection(&one).cloned().collect()).unwrap_or_default()
}

/// The tasks that the calls are about.
fn fill(s: &mut Session) -> impl Fn(&str) -> String + use<> {
    let aborted = s.submit("q");
    s.end(aborted, "aborted");
    let completed = s.submit_with("q", "post_result => true");
    s.end(completed, "completed");
    s.submit("q");
    let lease = s.own_one_with("q", "timeout => '1 day'");
    let ready = s.submit_with("q", "key => 'k', group_key => 'g'");
    s.run("select scylla.delay('waiting', '2100-01-01Z', 'q', 'v')");
    s.run("select scylla.schedule('others', 'every 1 hour', 'q')");
    s.run("select scylla.enable_cron_api(); grant usage on schema cron to public");
    s.run("grant execute on all functions in schema cron to public");
    let job: i64 = s.value("select cron.schedule('others', '1 second', 'select 1')", &[]);
    eventually(seconds(20), "the job runs", || {
        (s.count("select count(*) from cron.job_run_details") > 0).then_some(())
    });
    s.run(&format!("select cron.alter_job({job}, schedule => '@monthly')"));
    move |call| {
        call.replace("{j}", &job.to_string())
            .replace("{r}", &lease.id.to_string())
            .replace("{t}", &lease.token.to_string())
            .replace("{x}", &aborted.to_string())
            .replace("{c}", &completed.to_string())
            .replace("{y}", &ready.to_string())
    }
}

/// Which rows of the matrix a role may call.
fn allowed(
    database: &Database,
    role: &str,
    fill: impl Fn(&str) -> String,
) -> BTreeMap<String, String> {
    let mut s = connect_as(database, role);
    let call = |(name, call): &(&str, &str)| {
        let call = fill(call);
        let outcome = if call.starts_with("call") {
            answer(&mut s, &call)
        } else {
            let outcome = answer(&mut s, &format!("begin; {call}"));
            s.run("rollback");
            outcome
        };
        // A view is open to all, and shows nothing. There is no pg_cron here.
        let outcome = match outcome.as_str() {
            "22012" => "42501".to_owned(),
            "55000" if *name == "`import_cron_jobs`" => "ok".to_owned(),
            // There are neither a schema pgmq nor pgmq.
            "3F000" | "42P01" if name.contains("pgmq") => "ok".to_owned(),
            // The schema is there.
            "42P06" if *name == "`enable_cron_api`" => "ok".to_owned(),
            // As with pg_cron: a job of another role does not exist.
            "P0002" if name.starts_with("`cron.alter_job`") => "42501".to_owned(),
            _ => outcome,
        };
        ((*name).to_owned(), outcome)
    };
    CALLS.iter().filter(|it| !it.0.starts_with('_')).map(call).collect()
}

/// A new role with privileges on the queue q, and on that of SQL commands.
fn granted_both(s: &mut Session, name: &str, privileges: &str) -> String {
    let role = granted(s, name, "q", privileges);
    grant(s, "sql", &role, privileges);
    role
}

/// The roles of the matrix's columns.
fn roles(s: &mut Session) -> Vec<(&'static str, String)> {
    let mut roles = vec![("–", role(s, "stranger"))];
    for privilege in ALL.split(',') {
        roles.push((privilege, granted_both(s, privilege, privilege)));
    }
    roles.push(("all five", granted_both(s, "every", ALL)));
    let monitor = role(s, "monitor");
    s.run(&format!("grant pg_monitor to {monitor}"));
    roles.push(("pg_monitor", monitor));
    roles.push(("manage on `*`", granted(s, "operator", "*", "manage")));
    let owner = role(s, "owner");
    s.run(&format!("grant postgres to {owner}"));
    roles.push(("owner", owner));
    roles
}

#[track_caller]
fn check(allowed: &BTreeMap<String, String>, may: impl Fn(&str) -> bool, who: &str) {
    let wanted = |call: &str| if may(call) { "ok" } else { "42501" };
    let wrong: Vec<String> = (allowed.iter())
        .filter(|(call, outcome)| *outcome != wanted(call))
        .map(|(call, outcome)| format!("{call}: {outcome}, not {}", wanted(call)))
        .collect();
    assert!(wrong.is_empty(), "{who}: {wrong:#?}");
}

/// B10, B52: each cell of the matrix in the reference is true.
#[test]
fn matrix_of_the_reference_holds() {
    let database = database();
    let mut s = database.connect();
    let fill = fill(&mut s);
    let matrix = matrix();
    let calls: BTreeSet<&str> =
        CALLS.iter().map(|it| it.0).filter(|it| !it.starts_with('_')).collect();
    assert_eq!(matrix.keys().map(String::as_str).collect::<BTreeSet<_>>(), calls);
    for (column, role) in roles(&mut s) {
        let allowed = allowed(&database, &role, &fill);
        check(&allowed, |call| matrix[call].contains(column), column);
    }
}

/// B10: the rows of a function together allow what its declaration says.
#[test]
fn matrix_is_what_the_functions_declare() {
    let mut rows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (row, yes) in matrix() {
        if let Some(name) = row.strip_prefix('`').and_then(|it| it.split('`').next()) {
            rows.entry(name.to_owned()).or_default().extend(yes);
        }
    }
    rows.retain(|name, _| !name.starts_with("cron."));
    assert_eq!(rows, declared());
}

/// The matrix has every function and every view.
#[test]
fn matrix_has_every_function_and_view() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.enable_cron_api()");
    // A trigger's function cannot be called.
    let sql = "select proname::text from pg_proc
            where pronamespace = 'scylla'::regnamespace and prorettype <> 'trigger'::regtype
        union select 'cron.' || proname from pg_proc where pronamespace = 'cron'::regnamespace
        union select 'view ' || relname from pg_class
        where relnamespace = 'scylla'::regnamespace and relkind in ('v', 'm')
        union select 'view cron.' || relname from pg_class
        where relnamespace = 'cron'::regnamespace and relkind in ('v', 'm')";
    let there: Vec<String> = s.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    let words = |call: &(&str, &str)| call.0.replace('`', "");
    let known: Vec<String> = CALLS.iter().map(words).collect();
    let is_known = |name: &String| {
        let begins = |known: &String| {
            let rest = known.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',']))
        };
        known.iter().any(begins) || name.starts_with("_role_") || name.starts_with("_database_")
    };
    let missing: Vec<&String> = there.iter().filter(|name| !is_known(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Privileges on one queue are none on another; those on all queues are those on each.
#[test]
fn privileges_hold_on_their_queue() {
    let database = database();
    let mut s = database.connect();
    let fill = fill(&mut s);
    let matrix = matrix();
    let elsewhere = granted(&mut s, "elsewhere", "other", ALL);
    let found = allowed(&database, &elsewhere, &fill);
    // This one is about a message that does not exist, on a queue that the role may not use.
    check(&found, |call| matrix[call].contains("–"), "on another queue");
    let everywhere = granted(&mut s, "everywhere", "*", ALL);
    let found = allowed(&database, &everywhere, &fill);
    let may = |call: &str| {
        // It needs manage on all queues, and cancel on this one.
        call == "`drop_queue`"
            || ["all five", "manage on `*`"].iter().any(|it| matrix[call].contains(*it))
    };
    check(&found, may, "on all queues");
}

/// Privileges follow membership, as far as the member inherits.
#[test]
fn members_have_the_privileges_of_their_group() {
    let database = database();
    let mut s = database.connect();
    let fill = fill(&mut s);
    let matrix = matrix();
    let group = granted_both(&mut s, "group", ALL);
    let outer = role(&mut s, "outer");
    s.run(&format!("grant {group} to {outer}"));
    for (name, option, column) in [("member", "inherit", "all five"), ("other", "noinherit", "–")]
    {
        let member = role(&mut s, name);
        s.run(&format!("alter role {member} {option}; grant {outer} to {member}"));
        let found = allowed(&database, &member, &fill);
        check(&found, |call| matrix[call].contains(column), option);
    }
    // The other way round there is nothing to inherit.
    let lonely = granted(&mut s, "lonely", "q", "look");
    grant(&mut s, "q", &lonely, "look");
    let found = allowed(&database, &outer, &fill);
    check(&found, |call| matrix[call].contains("all five"), "the group in the middle");
}

/// Nothing but functions and views: the tables are closed to roles with every privilege.
#[test]
fn tables_are_closed() {
    let database = database();
    let mut s = database.connect();
    let _ids = fill(&mut s);
    let role = granted(&mut s, "every", "*", ALL);
    let sql = "select oid::regclass::text from pg_class
        where relnamespace = 'scylla'::regnamespace and relkind in ('r', 'p')";
    let tables: Vec<String> = s.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert!(tables.len() > 6, "{tables:?}");
    let mut s = connect_as(&database, &role);
    for table in tables {
        for sql in ["table {}", "delete from {}", "truncate {}", "alter table {} rename to mine"] {
            let outcome = answer(&mut s, &sql.replace("{}", &table));
            assert_eq!(outcome, "42501", "{sql} {table}");
        }
    }
    assert_eq!(answer(&mut s, "select nextval('scylla.worker_number')"), "42501");
    assert_eq!(answer(&mut s, "create table scylla.mine ()"), "42501");
    assert_eq!(answer(&mut s, "drop view scylla.tasks"), "42501");
    // For tests, of any time: the owner's.
    assert_eq!(answer(&mut s, "select scylla._fire_schedules(now(), now())"), "42501");
}

/// The index of the reference has every function and every view that is for users, and leads to
/// headings.
#[test]
fn index_of_the_reference_has_every_function_and_view() {
    let database = database();
    let mut s = database.connect();
    let end = FUNCTIONS.find("\n## Conventions").expect("the end of the index");
    let index = &FUNCTIONS[..end];
    let sql = "select distinct proname::text from pg_proc
            where pronamespace = 'scylla'::regnamespace and proname !~ '^_'
        union select relname from pg_class where relnamespace = 'scylla'::regnamespace and relkind = 'v'";
    let names: Vec<String> = s.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    let missing: Vec<&String> =
        names.iter().filter(|it| !index.contains(&format!("[{it}](#{it}"))).collect();
    assert!(missing.is_empty() && names.len() > 50, "{missing:?} of {}", names.len());
    let anchor = |heading: &str| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|it| it.is_alphanumeric() || "-_".contains(*it)).collect::<String>()
    };
    let headings: BTreeSet<String> = (FUNCTIONS.lines())
        .filter(|line| line.starts_with("##"))
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect();
    for link in index.split("](#").skip(1) {
        let target = link.split(')').next().expect("an end");
        assert!(headings.contains(target), "#{target}");
    }
}

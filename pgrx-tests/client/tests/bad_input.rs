//! Bad input raises the SQLSTATE of the contract, changes nothing, and leaves the connection and
//! the server usable.

use client::*;

/// A database with one ready, one running and one task of each terminal status, in that order.
struct Fixture {
    database: Database,
    s: Session,
    started: String,
    lease: Lease,
    ready: Uuid,
    completed: Lease,
    cancelled: Uuid,
}

impl Fixture {
    fn new() -> Fixture {
        let database = database();
        let mut s = database.connect();
        s.submit_many("q", 2);
        let leases = s.own_with("w", "q", 2, "timeout => '1 hour'");
        s.complete(&leases[1]);
        let (cancelled, ready) = (s.submit("q"), s.submit("q"));
        s.cancel(cancelled);
        let started = s.text("select pg_postmaster_start_time()::text");
        Fixture {
            database,
            s,
            started,
            lease: leases[0].clone(),
            ready,
            completed: leases[1].clone(),
            cancelled,
        }
    }

    /// The state of all tasks, as the view shows it.
    fn state(&mut self) -> String {
        self.s.text(
            "select coalesce(string_agg(t::text, e'\\n' order by id), '') from scylla.tasks t",
        )
    }

    /// Replaces placeholders by ids and tokens: the running task `{r}` and its token `{t}`, the
    /// completed task `{c}` and its token `{ct}`, the ready task `{y}`, the cancelled task `{x}`,
    /// an absent task `{n}`.
    fn fill(&self, sql: &str) -> String {
        sql.replace("{r}", &self.lease.id.to_string())
            .replace("{t}", &self.lease.token.to_string())
            .replace("{y}", &self.ready.to_string())
            .replace("{c}", &self.completed.id.to_string())
            .replace("{ct}", &self.completed.token.to_string())
            .replace("{x}", &self.cancelled.to_string())
            .replace("{n}", "99999999-0000-4000-8000-000000000000")
    }

    /// Asserts that each call raises the SQLSTATE of the table and leaves the session usable.
    /// Reports all mismatches at once.
    #[track_caller]
    fn refuses(mut self, table: &[(&str, &str)]) {
        let before = self.state();
        let mut wrong = Vec::new();
        for (call, expected) in table {
            let sql = format!("select * from {}", self.fill(call));
            match self.s.batch_execute(&sql) {
                Ok(()) => wrong.push(format!("{call}: succeeded, not {expected}")),
                Err(error) if code(&error) != *expected => {
                    wrong.push(format!("{call}: {}, not {expected} ({error:?})", code(&error)))
                }
                Err(error) => {
                    let text = format!("{:?}", error.as_db_error());
                    assert!(
                        !text.contains(&self.lease.token.to_string()),
                        "{call}: a token in the complaint: {text}"
                    );
                }
            }
            assert!(!self.s.is_dead(), "{call}: the connection is gone");
            if self.state() != before {
                panic!("{call}: changed something; {wrong:#?}");
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(self.s.value::<i32>("select pg_backend_pid()", &[]), self.s.pid);
        assert_eq!(
            self.s.text("select pg_postmaster_start_time()::text"),
            self.started,
            "the server has not restarted"
        );
        let lease = self.lease.clone();
        assert!(self.s.extend(&lease), "the lease has not changed");
        assert_eq!(self.s.own_one("q").id, self.ready, "the lane has not changed");
        let _ = &self.database;
    }
}

#[test]
fn submit_refuses_bad_arguments() {
    Fixture::new().refuses(&[
        ("scylla.submit(null)", "22004"),
        ("scylla.submit('')", "22023"),
        ("scylla.submit(repeat('q', 49))", "22023"),
        ("scylla.submit(repeat('é', 25))", "22023"),
        ("scylla.submit('q', null)", "22004"),
        ("scylla.submit('q', 'null')", "22023"),
        ("scylla.submit('q', to_jsonb(repeat('x', 3000000)))", "54000"),
        ("scylla.submit('q', jsonb_build_object('k', repeat('x', 20000000)))", "54000"),
        ("scylla.submit('q', action => null)", "22004"),
        ("scylla.submit('q', action => repeat('a', 129))", "22023"),
        ("scylla.submit('q', action => repeat('🦑', 33))", "22023"),
        ("scylla.submit('q', priority => null)", "22004"),
        ("scylla.submit('q', priority => -1)", "22023"),
        ("scylla.submit('q', priority => 4294967296)", "22023"),
        ("scylla.submit('q', priority => 9223372036854775807)", "22023"),
        ("scylla.submit('q', priority => -9223372036854775808)", "22023"),
        ("scylla.submit('q', id => '{r}')", "23505"),
        ("scylla.submit('q', id => '{y}')", "23505"),
        ("scylla.submit('q', id => '{c}')", "23505"),
        ("scylla.submit('other', id => '{x}')", "23505"),
        ("scylla.submit('q', on_conflict => null)", "22004"),
        ("scylla.submit('q', on_conflict => 'bogus')", "22023"),
        ("scylla.submit('q', on_failure => null)", "22004"),
        ("scylla.submit('q', on_failure => 'ABORT')", "22023"),
        ("scylla.submit('q', max_tries => -1)", "22023"),
        ("scylla.submit('q', max_tries => -2147483648)", "22023"),
        ("scylla.submit('q', retry_interval => '-1 us')", "22023"),
        ("scylla.submit('q', retry_jitter => '-1 day')", "22023"),
        ("scylla.submit('q', timeout => '0')", "22023"),
        ("scylla.submit('q', timeout => '-1 s')", "22023"),
        ("scylla.submit('q', timeout => '-100 years')", "22023"),
        ("scylla.submit('q', timeout => '1 day -25 hours')", "22023"),
        ("scylla.submit('q', post_result => null)", "22004"),
    ]);
}

#[test]
fn submit_tasks_refuses_bad_arguments() {
    Fixture::new().refuses(&[
        ("scylla.submit_tasks(null)", "22004"),
        ("scylla.submit_tasks('[]', null)", "22004"),
        ("scylla.submit_tasks('null')", "22023"),
        ("scylla.submit_tasks('{}')", "22023"),
        ("scylla.submit_tasks('\"q\"')", "22023"),
        ("scylla.submit_tasks('17')", "22023"),
        ("scylla.submit_tasks('{}', atomic => false)", "22023"),
        ("scylla.submit_tasks('[1]')", "22023"),
        ("scylla.submit_tasks('[null]')", "22023"),
        ("scylla.submit_tasks('[[{\"queue\": \"q\"}]]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": 5}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"\"}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"q\"}, {\"queue\": \"q\", \"Priority\": 1}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"priority\": \"high\"}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"priority\": 1.5}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"priority\": 1e400}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"priority\": -1}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"id\": \"no uuid\"}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"id\": \"{c}\"}]')", "23505"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"id\": \"{n}\"}, {\"queue\": \"r\", \"id\": \"{n}\"}]')", "23505"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"max_tries\": 99999999999}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"timeout\": \"soon\"}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"timeout\": \"-1 s\"}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"post_result\": \"maybe\"}]')", "22023"),
        ("scylla.submit_tasks('[{\"queue\": \"q\", \"spec\": null}]')", "22023"),
        ("scylla.submit_tasks(jsonb_build_array('{\"queue\": \"q\"}'::jsonb, jsonb_build_object('queue', 'q', 'spec', repeat('x', 3000000))))", "54000"),
    ]);
}

#[test]
fn submit_many_refuses_bad_arguments() {
    Fixture::new().refuses(&[
        ("scylla.submit_many(null, '{1}')", "22004"),
        ("scylla.submit_many('', '{1}')", "22023"),
        ("scylla.submit_many('', '{}')", "22023"),
        ("scylla.submit_many(repeat('q', 49), '{1}')", "22023"),
        ("scylla.submit_many('q', '{1,null}')", "22004"),
        ("scylla.submit_many('q', array['1', 'null']::jsonb[])", "22023"),
        ("scylla.submit_many('q', '{{1},{2}}')", "22023"),
        ("scylla.submit_many('q', array['1', to_jsonb(repeat('x', 3000000))])", "54000"),
        ("scylla.submit_many('q', '{1}', null)", "22004"),
        ("scylla.submit_many('q', '{1}', repeat('a', 129))", "22023"),
        ("scylla.submit_many('q', '{1}', priority => null)", "22004"),
        ("scylla.submit_many('q', '{1}', priority => -1)", "22023"),
        ("scylla.submit_many('q', '{1}', run_at => 'infinity')", "22023"),
        ("scylla.submit_many('q', '{1}', max_tries => -1)", "22023"),
        ("scylla.submit_many('q', '{1}', retry_interval => '-1 s')", "22023"),
        ("scylla.submit_many('q', '{1}', retry_jitter => '-1 s')", "22023"),
        ("scylla.submit_many('q', '{1}', timeout => '0')", "22023"),
        ("scylla.submit_many('q', '{1}', post_result => null)", "22004"),
        ("scylla.submit_many('q', '{1}', ids => '{}')", "22023"),
        ("scylla.submit_many('q', '{1,2}', ids => array['{n}']::uuid[])", "22023"),
        ("scylla.submit_many('q', '{1}', keys => '{k,l}')", "22023"),
        ("scylla.submit_many('q', '{}', keys => '{k}')", "22023"),
        ("scylla.submit_many('q', null, keys => '{k}')", "22023"),
        ("scylla.submit_many('q', '{1}', keys => array[''])", "22023"),
        ("scylla.submit_many('q', '{1}', keys => array[repeat('k', 257)])", "22023"),
        ("scylla.submit_many('q', '{1,2}', ids => array['{n}', '{c}']::uuid[])", "23505"),
        ("scylla.submit_many('q', '{1,2}', ids => array['{n}', '{n}']::uuid[])", "23505"),
        ("scylla.submit_many('q', '{1,2}', keys => '{k,k}')", "23505"),
        ("scylla.resubmit(array['{x}', null]::uuid[])", "22004"),
        ("scylla.resubmit(array[array['{x}'], array['{c}']]::uuid[])", "22023"),
    ]);
}

#[test]
fn own_tasks_refuses_bad_arguments() {
    Fixture::new().refuses(&[
        ("scylla.own_tasks(null, 'q')", "22004"),
        ("scylla.own_tasks('', 'q')", "22023"),
        ("scylla.own_tasks(repeat('w', 129), 'q')", "22023"),
        ("scylla.own_tasks(repeat('é', 65), 'q')", "22023"),
        ("scylla.own_tasks('w', null)", "22004"),
        ("scylla.own_tasks('w', '')", "22023"),
        ("scylla.own_tasks('w', repeat('q', 49))", "22023"),
        ("scylla.own_tasks('w', 'q', null)", "22004"),
        ("scylla.own_tasks('w', 'q', 0)", "22023"),
        ("scylla.own_tasks('w', 'q', -1)", "22023"),
        ("scylla.own_tasks('w', 'q', -2147483648)", "22023"),
        ("scylla.own_tasks('w', 'q', 1, array[null]::text[])", "22004"),
        ("scylla.own_tasks('w', 'q', 1, array['a', null])", "22004"),
        ("scylla.own_tasks('w', 'q', 1, array[array['', 'b'], array['c', 'd']])", "22023"),
        ("scylla.own_tasks('w', 'q', 1, array['', repeat('a', 129)])", "22023"),
        ("scylla.own_tasks('w', 'q', timeout => '0')", "22023"),
        ("scylla.own_tasks('w', 'q', timeout => '-1 us')", "22023"),
        ("scylla.own_tasks('w', 'q', timeout => '-178000000 years')", "22023"),
        ("scylla.own_task(null, 'w')", "22004"),
        ("scylla.own_task('{y}', null)", "22004"),
        ("scylla.own_task('{y}', '')", "22023"),
        ("scylla.own_task('{y}', repeat('w', 129))", "22023"),
        ("scylla.own_task('{y}', 'w', '0')", "22023"),
        ("scylla.own_task('{y}', 'w', '-1 s')", "22023"),
        ("scylla.own_task('{n}', 'w')", "P0002"),
        ("scylla.own_task('{r}', 'w')", "55000"),
        ("scylla.own_task('{c}', 'w')", "55000"),
        ("scylla.own_task('{x}', 'w')", "55000"),
    ]);
}

#[test]
fn extend_refuses_bad_arguments() {
    Fixture::new().refuses(&[
        ("scylla.extend(null, '{t}')", "22004"),
        ("scylla.extend('{r}', null)", "22004"),
        ("scylla.extend('{r}', '{t}', '0')", "22023"),
        ("scylla.extend('{r}', '{t}', '-1 s')", "22023"),
        ("scylla.extend('{r}', '{t}', progress => 'NaN')", "22023"),
        ("scylla.extend('{r}', '{t}', progress => 'Infinity')", "22023"),
        ("scylla.extend('{r}', '{t}', progress => '-Infinity')", "22023"),
        ("scylla.extend('{r}', '{t}', progress => -0.0001)", "22023"),
        ("scylla.extend('{r}', '{t}', progress => 1.0001)", "22023"),
        ("scylla.extend('{n}', '{n}', progress => 7)", "22023"),
        ("scylla.extend_tasks(null, array['{t}']::uuid[])", "22023"),
        ("scylla.extend_tasks(array['{r}']::uuid[], null)", "22023"),
        ("scylla.extend_tasks(array['{r}', null]::uuid[], array['{t}', '{t}']::uuid[])", "22004"),
        ("scylla.extend_tasks(array['{r}']::uuid[], array[null]::uuid[])", "22004"),
        ("scylla.extend_tasks(array['{r}', '{r}']::uuid[], array['{t}']::uuid[])", "22023"),
        ("scylla.extend_tasks('{}', array['{t}']::uuid[])", "22023"),
        ("scylla.extend_tasks(array[array['{r}']]::uuid[], array[array['{t}']]::uuid[])", "22023"),
        ("scylla.extend_tasks(array['{r}']::uuid[], array['{t}']::uuid[], '-1 s')", "22023"),
        ("scylla.extend_tasks(array['{r}']::uuid[], array['{t}']::uuid[], '0')", "22023"),
    ]);
}

#[test]
fn return_task_refuses_bad_arguments() {
    Fixture::new().refuses(&[
        ("scylla.return_task(null, '{t}')", "22004"),
        ("scylla.return_task('{r}', null)", "22004"),
        ("scylla.return_task('{r}', '{t}', null)", "22004"),
        ("scylla.return_task('{r}', '{t}', '')", "22023"),
        ("scylla.return_task('{r}', '{t}', 'done')", "22023"),
        ("scylla.return_task('{r}', '{t}', 'it''s 100% ü🦑')", "22023"),
        ("scylla.return_task('{r}', '{t}', repeat('completed', 100000))", "22023"),
        ("scylla.return_task('{r}', '{t}', 'aborted')", "22004"),
        ("scylla.return_task('{r}', '{t}', 'aborted', error => 'null')", "22004"),
        ("scylla.return_task('{r}', '{n}')", "55006"),
        ("scylla.return_task('{r}', '{r}', 'yield')", "55006"),
        ("scylla.return_task('{y}', '{t}')", "55006"),
        ("scylla.return_task('{c}', '{ct}')", "55000"),
        ("scylla.return_task('{c}', '{t}', 'retry')", "55000"),
        ("scylla.return_task('{x}', '{t}')", "55000"),
        ("scylla.return_task('{n}', '{t}')", "P0002"),
    ]);
}

#[test]
fn return_tasks_refuses_bad_arguments() {
    let pair = "array['{r}']::uuid[], array['{t}']::uuid[]";
    let with = |rest: &str| format!("scylla.return_tasks({pair}{rest})");
    let calls = [
        (with(", null"), "22004"),
        (with(", ''"), "22023"),
        (with(", 'done'"), "22023"),
        (with(", 'aborted'"), "22004"),
        (with(", 'aborted', errors => array[null]::jsonb[]"), "22004"),
        (with(", results => '{}'"), "22023"),
        (with(", results => array['1', '2']::jsonb[]"), "22023"),
        (with(", results => array[array['1']]::jsonb[]"), "22023"),
        (with(", 'retry', errors => '{}'"), "22023"),
    ];
    let mut table: Vec<(&str, &str)> =
        calls.iter().map(|(call, expected)| (call.as_str(), *expected)).collect();
    table.extend([
        ("scylla.return_tasks(null, array['{t}']::uuid[])", "22023"),
        ("scylla.return_tasks(array['{r}']::uuid[], null)", "22023"),
        ("scylla.return_tasks(array['{r}', null]::uuid[], array['{t}', '{t}']::uuid[])", "22004"),
        ("scylla.return_tasks(array['{r}', '{r}']::uuid[], array['{t}', null]::uuid[])", "22004"),
        ("scylla.return_tasks(array['{r}', '{y}']::uuid[], array['{t}']::uuid[])", "22023"),
        ("scylla.return_tasks(array['{r}']::uuid[], '{}')", "22023"),
        ("scylla.return_tasks(array[array['{r}'], array['{y}']]::uuid[], array['{t}', '{n}']::uuid[])", "22023"),
    ]);
    Fixture::new().refuses(&table);
}

#[test]
fn cancel_and_task_refuse_bad_arguments() {
    Fixture::new().refuses(&[
        ("scylla.cancel(null)", "22004"),
        ("scylla.cancel('{n}')", "P0002"),
        ("scylla.cancel_tasks(array[null]::uuid[])", "22004"),
        ("scylla.cancel_tasks(array['{r}', null]::uuid[])", "22004"),
        ("scylla.cancel_tasks(array[array['{r}'], array['{y}']]::uuid[])", "22023"),
        ("scylla.task(null)", "22004"),
        ("scylla.task('{n}')", "P0002"),
    ]);
}

/// 42501: a role without grants may do nothing, and sees nothing.
#[test]
fn role_without_privileges_may_do_nothing() {
    let mut fixture = Fixture::new();
    fixture.s.run("do $$ begin create role stranger; exception when duplicate_object then null; end $$; set role stranger");
    let mut wrong = Vec::new();
    for call in [
        "select scylla.submit('q')",
        "select scylla.submit_tasks('[{\"queue\": \"q\"}]')",
        "select scylla.submit_many('q', '{1}')",
        "select scylla.resubmit(array['{x}']::uuid[])",
        "select * from scylla.own_tasks('w', 'q')",
        "select * from scylla.own_task('{y}', 'w')",
        "select scylla.extend('{r}', '{t}')",
        "select scylla.extend_tasks(array['{r}']::uuid[], array['{t}']::uuid[])",
        "select scylla.return_task('{r}', '{t}')",
        "select scylla.return_tasks(array['{r}']::uuid[], array['{t}']::uuid[])",
        "select scylla.cancel('{r}')",
        "select scylla.cancel_tasks(array['{r}']::uuid[])",
        "select scylla.task('{r}')",
        "select scylla.refresh()",
        "select scylla.grant('q', 'stranger', '{look}')",
        "select * from scylla.task",
        "select * from scylla.finished",
        "select * from scylla.lease",
        "insert into scylla.task select * from scylla.task",
    ] {
        let sql = fixture.fill(call);
        let answer = fixture.s.batch_execute(&sql).map_err(|error| code(&error));
        if answer != Err("42501".to_owned()) {
            wrong.push(format!("{call}: {answer:?}"));
        }
    }
    assert_eq!(fixture.s.count("select count(*) from scylla.tasks"), 0);
    fixture.s.run("reset role");
    assert!(wrong.is_empty(), "{wrong:#?}");
    fixture.refuses(&[]);
}

//! What a role must not learn, and must not reach, beyond its privileges.

use crate::{ALL, answer, connect_as, grant, granted};
use client::*;

/// A conflict tells the id of the task that has the key to those who may look at it only.
#[test]
fn conflict_tells_no_id_without_look() {
    let database = database();
    let mut s = database.connect();
    let ready = s.submit_with("q", "key => 'ready'");
    let running = s.submit_with("q", "key => 'running'");
    s.try_own_task(running).unwrap();
    let blind = granted(&mut s, "blind", "q", "submit,cancel");
    let sighted = granted(&mut s, "sighted", "q", "submit,cancel,look");
    for (role, sees) in [(blind, false), (sighted, true)] {
        let mut r = connect_as(&database, &role);
        let mut tells = |sql: &str, state: &str, id: Uuid| {
            let refusal = r.refusal(sql, &[]);
            assert_eq!(refusal.code().code(), state, "{refusal:?}");
            assert_eq!(format!("{refusal:?}").contains(&id.to_string()), sees, "{refusal:?}");
        };
        tells("select scylla.submit('q', key => 'ready')", "23505", ready);
        tells("select scylla.submit_many('q', '{1}', keys => '{ready}')", "23505", ready);
        let tasks = r#"select * from scylla.submit_tasks('[{"queue": "q", "key": "ready"}]')"#;
        tells(tasks, "23505", ready);
        let replace = "select scylla.submit('q', key => 'running', on_conflict => 'replace')";
        tells(replace, "55006", running);

        let shown = sees.then_some(ready);
        let ignore = "select scylla.submit('q', key => 'ready', on_conflict => 'ignore')";
        assert_eq!(r.value::<Option<Uuid>>(ignore, &[]), shown);
        let ignore = r#"select id from scylla.submit_tasks(
            '[{"queue": "q", "key": "ready", "on_conflict": "ignore"}]')"#;
        assert_eq!(r.value::<Option<Uuid>>(ignore, &[]), shown);
        let duplicate = r#"select error from scylla.submit_tasks(
            '[{"queue": "q", "key": "running", "on_conflict": "replace"}]', atomic => false)"#;
        let error: String = r.value(duplicate, &[]);
        assert_eq!(error.contains(&running.to_string()), sees, "{error}");
    }
    assert_eq!(s.status(running), "running");
}

/// `submit` reaches no task of others: not by `replace`, not by `after`.
#[test]
fn submit_alone_reaches_no_task_of_others() {
    let database = database();
    let mut s = database.connect();
    let hidden = s.submit_with("q", "key => 'k'");
    let elsewhere = s.submit("other");
    let role = granted(&mut s, "submitter", "q", "submit");
    let mut r = connect_as(&database, &role);
    for after in [hidden, elsewhere] {
        let refusal = r.refusal("select scylla.submit('q', after => array[$1::uuid])", &[&after]);
        assert_eq!(refusal.code().code(), "42501");
    }
    let none = Uuid::new_v4();
    r.value::<Uuid>("select scylla.submit('q', after => array[$1::uuid])", &[&none]);
    // In an array each element counts for itself, and may name the others.
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    let tasks = json!([
        {"queue": "q", "id": first},
        {"queue": "q", "id": second, "after": [first]},
        {"queue": "q", "after": [hidden]},
        {"queue": "q", "key": "k", "on_conflict": "replace"},
        {"queue": "other"},
    ]);
    let sql = "select outcome from scylla.submit_tasks($1, atomic => false)";
    let outcomes: Vec<String> =
        r.query(sql, &[&tasks]).unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(outcomes, ["inserted", "inserted", "invalid", "invalid", "invalid"]);
    let sql = "select outcome from scylla.submit_tasks($1)";
    assert_eq!(r.refusal(sql, &[&tasks]).code().code(), "42501");
    assert_eq!(s.status(second), "waiting");
    assert_eq!(s.status(hidden), "ready");
    // With look, but on one of the queues only.
    grant(&mut s, "q", &role, "look");
    let mut after = |id: Uuid| {
        let sql = format!("select scylla.submit('q', after => array['{id}'::uuid])");
        answer(&mut r, &sql)
    };
    assert_eq!((after(hidden).as_str(), after(elsewhere).as_str()), ("ok", "42501"));
}

/// Of many tasks none is touched when one is out of reach.
#[test]
fn one_task_out_of_reach_refuses_the_call() {
    let database = database();
    let mut s = database.connect();
    let (mine, other) = (s.submit("q"), s.submit("other"));
    let role = granted(&mut s, "every", "q", ALL);
    let mut r = connect_as(&database, &role);
    for call in [
        "cancel_tasks(array['{m}', '{o}']::uuid[])",
        "delete_tasks(array['{m}', '{o}']::uuid[])",
        "resubmit(array['{m}', '{o}']::uuid[])",
        "add_dependencies(array['{m}']::uuid[], array['{o}']::uuid[])",
        "add_dependencies(array['{o}']::uuid[], array['{m}']::uuid[])",
        "extend_tasks(array['{m}', '{o}']::uuid[], array['{m}', '{o}']::uuid[])",
        "return_tasks(array['{m}', '{o}']::uuid[], array['{m}', '{o}']::uuid[])",
    ] {
        let call = call.replace("{m}", &mine.to_string()).replace("{o}", &other.to_string());
        let refusal = r.refusal(&format!("select scylla.{call}"), &[]);
        assert_eq!(refusal.code().code(), "42501", "{call}");
        assert!(!format!("{refusal:?}").contains("\"other\""), "{refusal:?} names the queue");
    }
    assert_eq!(answer(&mut r, "call scylla.wait_for_any('{q,other}', '0')"), "42501");
    assert_eq!((s.status(mine), s.status(other)), ("ready".to_owned(), "ready".to_owned()));
    // An id that does not exist is nothing to protect, and said to be none.
    let none = Uuid::new_v4();
    let sql = format!("select scylla.cancel_tasks(array['{none}', '{mine}']::uuid[])::text");
    assert_eq!(r.text(&sql), "{NULL,t}");
    assert_eq!(answer(&mut r, &format!("select scylla.task('{none}')")), "P0002");
}

/// Dependents that would go, too, may be in queues that are out of reach.
#[test]
fn dependents_in_other_queues_are_not_deleted() {
    let database = database();
    let mut s = database.connect();
    let first = s.submit("q");
    let second = s.submit_after("other", &[first], "priority => 0");
    let role = granted(&mut s, "every", "q", ALL);
    let mut r = connect_as(&database, &role);
    let sql = "select scylla.delete_tasks($1)";
    assert_eq!(r.refusal(sql, &[&vec![first]]).code().code(), "42501");
    assert_eq!((s.status(first), s.status(second)), ("ready".to_owned(), "waiting".to_owned()));
    grant(&mut s, "other", &role, "cancel");
    assert_eq!(r.value::<i32>(sql, &[&vec![first]]), 2);
}

/// A sender cancels its own messages, and those of its group.
#[test]
fn sender_cancels_its_own_messages() {
    let database = database();
    let mut s = database.connect();
    let delay = "select scylla.delay($1, '2100-01-01Z', 'q', 'v')";
    let cancel = "select scylla.cancel_message('q', $1)";
    let team = granted(&mut s, "team", "q", "submit");
    let member = granted(&mut s, "member", "q", "submit");
    let other = granted(&mut s, "other", "q", "submit");
    s.run(&format!("grant {team} to {member}"));
    let [mut team, mut member, mut other] =
        [team, member, other].map(|role| connect_as(&database, &role));
    for (s, id) in [(&mut s, "owner's"), (&mut team, "team's"), (&mut member, "member's")] {
        s.value::<bool>(delay, &[&id]);
    }
    let sql = "select * from scylla.delay_messages('q', '[{\"id\": \"many\", \"deadline\": \"2100-01-01Z\"}]')";
    member.run(sql);
    for id in ["owner's", "team's", "member's", "many"] {
        assert_eq!(other.refusal(cancel, &[&id]).code().code(), "42501", "{id}");
    }
    assert!(!other.value::<bool>(cancel, &[&"none"]));
    assert_eq!(team.refusal(cancel, &[&"member's"]).code().code(), "42501");
    assert_eq!(member.refusal(cancel, &[&"owner's"]).code().code(), "42501");
    for id in ["team's", "member's", "many"] {
        assert!(member.value::<bool>(cancel, &[&id]), "{id}");
    }
    assert!(s.value::<bool>(cancel, &[&"owner's"]));
}

/// The view has what its reader may look at, whatever the reader's own functions see of a row.
#[test]
fn view_shows_only_what_may_be_looked_at() {
    let database = database();
    let mut s = database.connect();
    for queue in ["q", "hidden"] {
        for n in 0..3 {
            s.submit_with(queue, &format!("priority => {n}"));
        }
        s.own_one(queue);
        let settled = s.own_one(queue);
        s.complete(&settled);
    }
    let role = granted(&mut s, "looker", "q", "look");
    s.run(
        "create function leak(queue text) returns boolean language plpgsql cost 0.000001 as
        'begin if queue <> ''q'' then raise ''leaked''; end if; return true; end'",
    );
    let mut r = connect_as(&database, &role);
    assert_eq!(r.count("select count(*) from scylla.tasks where leak(queue)"), 3);
    assert_eq!(r.count("select count(*) from scylla.tasks where status = 'running'"), 1);
    assert_eq!(r.count("select count(*) from scylla._leases()"), 1);
    assert_eq!(s.count("select count(*) from scylla._leases()"), 2);
    let hidden: Uuid = s.value("select id from scylla.tasks where queue = 'hidden' limit 1", &[]);
    assert_eq!(r.value::<i64>("select count(*) from scylla.tasks where id = $1", &[&hidden]), 0);
    assert_eq!(r.value::<i64>("select count(*) from scylla._leases($1)", &[&hidden]), 0);
    // By id it does not read the rest.
    r.run("reset role");
    let plan: Vec<String> = r
        .query(&format!("explain select * from scylla.tasks where id = '{hidden}'"), &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(plan.iter().any(|line| line.contains("task_pkey")), "{plan:#?}");
}

/// Numbers of a queue, without its tasks, may be read by members of pg_monitor.
#[test]
fn monitors_may_look_at_numbers() {
    let database = database();
    let mut s = database.connect();
    let looker = granted(&mut s, "looker", "q", "look");
    let monitor = granted(&mut s, "monitor", "q", "work");
    s.run(&format!("grant pg_monitor to {monitor}"));
    let may = "select array[scylla._may_look('q'), scylla._may_look('other'),
        scylla._may_look('q', true), scylla._may_look('other', true), scylla._may_look(null)]";
    let ask = |role: &str| connect_as(&database, role).value::<Vec<bool>>(may, &[]);
    assert_eq!(ask(&looker), [true, false, true, false, false]);
    assert_eq!(ask(&monitor), [false, false, true, true, false]);
    assert_eq!(s.value::<Vec<bool>>(may, &[]), [true; 5]);
}

/// I7: no view has a token, not even for the owner.
#[test]
fn views_have_no_tokens() {
    let database = database();
    let mut s = database.connect();
    s.submit("q");
    let lease = s.own_one_with("q", "timeout => '1 day'");
    let sql = "select relname::text from pg_class
        where relnamespace = 'scylla'::regnamespace and relkind = 'v'";
    let views: Vec<String> = s.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    for view in views.iter().map(|view| format!("scylla.{view}")).chain(["scylla._leases()".into()])
    {
        let rows: String =
            s.text(&format!("select coalesce(string_agg(v::text, ' '), '') from {view} v"));
        for token in [lease.token.to_string(), lease.token.simple().to_string()] {
            assert!(!rows.contains(&token), "{view}");
        }
    }
    let entry =
        s.entry(lease.id).to_string() + &s.text(&format!("select scylla.why('{}')", lease.id));
    assert!(!entry.contains(&lease.token.to_string()));
}

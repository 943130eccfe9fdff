//! Registering, changing and looking at schedules.

use crate::{counts, fire, fired, next_run, schedule};
use client::*;

/// Registering again keeps what is due, and brings nothing back; unscheduling forgets.
#[test]
fn registering_again_neither_loses_nor_repeats_a_run() {
    let database = database();
    let mut s = database.connect();
    let id = schedule(&mut s, "a", "*/5 * * * *", "");
    let since = "2030-01-01 00:00:00";
    fire(&mut s, "2030-01-01 00:05:00", since);
    assert_eq!(counts(&mut s, "a").0, 2);
    // 00:10 is due; what is registered again has it still
    assert_eq!(schedule(&mut s, "a", "*/5 * * * *", "priority => 5, misfire => 'all'"), id);
    assert_eq!(next_run(&mut s, "a"), "2030-01-01 00:10:00");
    fire(&mut s, "2030-01-01 00:10:00", since);
    assert_eq!(counts(&mut s, "a").0, 3, "the counts go on");
    // another expression begins again, behind the last run
    schedule(&mut s, "a", "* * * * *", "");
    assert_eq!(next_run(&mut s, "a"), "2030-01-01 00:11:00");
    for lease in s.own("w", "q", 9) {
        s.complete(&lease);
    }
    s.run("truncate scylla.finished");
    fire(&mut s, "2030-01-01 00:10:59", since);
    assert_eq!(fired(&mut s, "a").len(), 0, "retention does not bring a time back");
    assert!(s.value::<bool>("select scylla.unschedule('a')", &[]));
    assert!(!s.value::<bool>("select scylla.unschedule('a')", &[]));
    schedule(&mut s, "a", "*/5 * * * *", "");
    fire(&mut s, "2030-01-01 00:00:00", since);
    assert_eq!(fired(&mut s, "a"), ["2030-01-01T00:00:00Z"], "forgotten");
    assert_eq!(counts(&mut s, "a"), (1, 0));
}

#[test]
fn alter_schedule_changes_what_it_is_given() {
    let database = database();
    let mut s = database.connect();
    schedule(&mut s, "a", "*/5 * * * *", "time_zone => 'Asia/Tokyo', misfire => 'all'");
    let since = "2030-01-01 00:00:00";
    fire(&mut s, "2030-01-01 00:00:00", since);
    s.run(
        "select scylla.alter_schedule('a', spec => '{\"n\": 1}', queue => 'other', action => 'x')",
    );
    assert_eq!(next_run(&mut s, "a"), "2030-01-01 00:05:00");
    fire(&mut s, "2030-01-01 00:05:00", since);
    let lease = s.own_one("other");
    assert_eq!((lease.action.as_str(), &lease.spec), ("x", &json!({"n": 1})));
    // inactive: nothing comes, and what passes meanwhile is dropped
    s.run("select scylla.alter_schedule('a', active => false)");
    assert_eq!(next_run(&mut s, "a"), "none");
    assert_eq!(fire(&mut s, "2030-01-01 00:30:00", since), 0);
    s.run("select scylla.alter_schedule('a', false, time_zone => 'europe/berlin')");
    s.run("update scylla.schedule set starts_at = '2030-01-01 01:00+00'");
    s.run("select scylla.alter_schedule('a', true)");
    assert_eq!(next_run(&mut s, "a"), "2030-01-01 01:00:00");
    assert_eq!(counts(&mut s, "a"), (2, 0));
    let look =
        "select array[time_zone, misfire, overlap, schedule, active::text] from scylla.schedules";
    let row: Vec<String> = s.value(look, &[]);
    assert_eq!(row, ["Europe/Berlin", "all", "allow", "*/5 * * * *", "true"]);
    // ends
    s.run("select scylla.alter_schedule('a', ends_at => '2030-01-01 01:02+00')");
    fire(&mut s, "2030-01-01 01:00:00", since);
    assert_eq!(next_run(&mut s, "a"), "none");
    s.run("select scylla.alter_schedule('a', ends_at => '2030-01-01 02:00+00')");
    assert_eq!(next_run(&mut s, "a"), "2030-01-01 01:05:00", "and goes on");
    assert_eq!(s.refused("select scylla.alter_schedule('b', active => false)"), "P0002");
    for change in [
        "schedule => 'x'",
        "time_zone => 'Mars/Olympus'",
        "misfire => 'never'",
        "overlap => 'x'",
        "max_tries => -1",
        "timeout => '0'",
        "retry_interval => '-1 s'",
        "ends_at => '2029-01-01'",
        "starts_at => 'infinity'",
        "queue => ''",
        "priority => -1",
        "spec => 'null'",
    ] {
        assert_eq!(
            s.refused(&format!("select scylla.alter_schedule('a', {change})")),
            "22023",
            "{change}"
        );
    }
}

/// A dropped owner makes a schedule inactive, with a warning, and blocks nothing else.
#[test]
fn a_schedule_without_an_owner_becomes_inactive() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create role gone; select scylla.grant('q', 'gone', '{submit}'); set role gone");
    s.run("select scylla.schedule('lost \"one\"', 'every 1 second', 'q')");
    s.run("reset role");
    let owner: String = s.value("select owner::text from scylla.schedules", &[]);
    assert_eq!(owner, "gone");
    s.run("select scylla.schedule('kept', 'every 1 second', 'q')");
    s.run("drop role gone");
    eventually(seconds(10), "it is inactive", || {
        s.value::<bool>("select not active from scylla.schedules where name = 'lost \"one\"'", &[])
            .then_some(())
    });
    assert!(server.log().contains("WARNING:  schedule \"lost \"one\"\" is inactive from now on"));
    assert!(server.log().contains("Its owner does not exist."));
    let before = counts(&mut s, "kept").0;
    eventually(seconds(10), "the other goes on", || {
        (counts(&mut s, "kept").0 > before + 1).then_some(())
    });
    s.run("select scylla.schedule('lost \"one\"', 'every 1 second', 'q')");
    eventually(seconds(10), "it fires again", || {
        (counts(&mut s, "lost \"one\"").0 > 1).then_some(())
    });
    server.assert_log_is_clean();
}

/// Roles are dumped by name: with another oid it is that of the name, a missing one fails nothing.
#[test]
fn a_dump_means_the_roles_of_its_names() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    for role in ["\"Odd \"\"role\"", "moved", "missing"] {
        s.run(&format!("create role {role}"));
        s.execute("select scylla.grant('q', $1::text::regrole, '{submit}')", &[&role]).unwrap();
    }
    schedule(&mut s, "mine", "every 1 minute", "misfire => 'all'");
    for (name, role) in [("odd", "\"Odd \"\"role\""), ("moved", "moved"), ("missing", "missing")] {
        schedule(&mut s, name, "0 9 * * *", "");
        s.run(&format!(
            "update scylla.schedule set owner = (select oid from pg_authid where quote_ident(rolname) = '{role}')
             where name = '{name}'"
        ));
    }
    fire(&mut s, "2030-01-01 00:00:00", "2030-01-01 00:00:00");
    let path = server.path("dump").to_str().unwrap().to_owned();
    server.tool("pg_dump", &["-Fc", "-f", &path, &database.name]);
    s.run("drop role missing; drop role moved; create role moved");
    let restored = server.bare_database();
    server.tool("pg_restore", &["-e", "-d", &restored.name, &path]);
    let mut r = restored.connect();
    let look =
        "select string_agg(name || ' ' || owner::text, ', ' order by name) from scylla.schedule";
    let owners = "mine postgres, missing -, moved moved, odd \"Odd \"\"role\"";
    assert_eq!(r.text(look), owners);
    let moved: bool = r.value(
        "select owner::oid = (select oid from pg_roles where rolname = 'moved') from scylla.schedule where name = 'moved'",
        &[],
    );
    assert!(moved);
    let rest = "select jsonb_agg(to_jsonb(s) - 'owner' order by name) from scylla.schedule s";
    assert_eq!(r.value::<Value>(rest, &[]), s.value::<Value>(rest, &[]));
    // the next number is new, and what the origin fired does not fire again
    assert!(schedule(&mut r, "new", "0 9 * * *", "") > 4);
    r.run("select scylla.open()");
    assert_eq!(fire(&mut r, "2030-01-01 00:00:30", "2030-01-01 00:00:00"), 0);
    fire(&mut r, "2030-01-01 09:00:00", "2030-01-01 09:00:00");
    assert!(!r.value::<bool>("select active from scylla.schedules where name = 'missing'", &[]));
    assert_eq!(counts(&mut r, "moved").0, 1);
    server.assert_log_is_clean();
}

/// The coming runs of all schedules, for a calendar; nothing is registered or changed by a look.
#[test]
fn the_coming_runs_are_known() {
    let database = database();
    let mut s = database.connect();
    schedule(&mut s, "daily", "0 12 * * *", "time_zone => 'Europe/Berlin', action => 'x'");
    schedule(&mut s, "hourly", "every 1 hour", "ends_at => '2030-01-01 03:00+00'");
    schedule(&mut s, "inactive", "every 1 hour", "");
    s.run("select scylla.alter_schedule('inactive', active => false)");
    let look = "select string_agg(format('%s %s %s', name, to_char(run_at at time zone 'UTC', 'DD HH24:MI'), queue || action), ', ' order by run_at, name)
                from scylla.coming_runs('2030-01-01 00:00+00', '2030-01-02 11:00+00')";
    assert_eq!(
        s.text(look),
        "hourly 01 01:00 q, hourly 01 02:00 q, hourly 01 03:00 q, daily 01 11:00 qx, daily 02 11:00 qx"
    );
    fire(&mut s, "2030-01-01 01:00:00", "2030-01-01 00:00:00");
    assert!(s.text(look).starts_with("hourly 01 02:00"), "what has fired does not come");
    assert_eq!(s.count("select count(*) from scylla.coming_runs()"), 0);
    assert_eq!(s.count("select count(*) from scylla.next_runs('* * * * *')"), 5);
    let refused = [
        "next_runs('x')",
        "next_runs('* * * * *', 0)",
        "next_runs('* * * * *', 100001)",
        "next_runs('* * * * *', 5, 'x')",
        "next_runs('* * * * *', after => 'infinity')",
        "coming_runs('-infinity')",
    ];
    for call in refused {
        assert_eq!(s.refused(&format!("select * from scylla.{call}")), "22023", "{call}");
    }
    assert_eq!(s.refused("select scylla.next_runs(null)"), "22004");
    assert_eq!(
        s.count(
            "select count(*) from scylla.next_runs('* * * * *', 5, after => '294276-12-31 23:58')"
        ),
        1
    );
}

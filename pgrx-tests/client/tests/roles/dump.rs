//! Grants in dumps: stored by oid, written and read by name.

use crate::{answer, connect_as, grant, role};
use client::*;

/// All grants, by the names of their roles.
fn all(s: &mut Session) -> Vec<(String, String, Vec<String>)> {
    let sql = "select queue, role::text, privileges from scylla.privilege order by 1, 2";
    let rows = s.query(sql, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// After a restore, grants belong to the roles of the same names, or to no role.
#[test]
fn restored_grants_belong_to_the_roles_of_the_same_names() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let [kept, renamed, gone, other] = ["kept", "renamed", "gone", "odd\"name"].map(|name| {
        let name = format!("dump_{name}");
        s.run(&format!("create role \"{}\"", name.replace('"', "\"\"")));
        name
    });
    for (queue, role) in [("q", &kept), ("*", &renamed), ("q", &gone), ("it's a \\ queue", &other)]
    {
        let quoted: String = s.value("select quote_ident($1)", &[role]);
        let sql = "select scylla.grant($1, $2::text::regrole, '{submit,look}')";
        s.execute(sql, &[&queue, &quoted]).unwrap();
    }
    s.run("select scylla.delay('m', '2100-01-01Z', 'q', 'v')");
    s.run(&format!(
        "set role {gone}; select scylla.delay('n', '2100-01-01Z', 'q', 'v'); reset role"
    ));
    let before = all(&mut s);
    assert_eq!(before.len(), 4);
    let path = |name: &str| server.path(name).to_str().unwrap().to_owned();
    server.tool("pg_dump", &["-Fc", "-f", &path("dump"), &database.name]);
    server.tool("pg_dump", &["-f", &path("dump.sql"), &database.name]);
    // The name goes to another role, and one role is missing.
    s.run(&format!("alter role {renamed} rename to dump_new_name; create role {renamed}"));
    s.run(&format!("drop role {gone}"));
    for (file, tool, options) in [
        ("dump", "pg_restore", &["-e"][..]),
        ("dump.sql", "psql", &["-Xq", "-v", "ON_ERROR_STOP=1", "-f"]),
    ] {
        let restored = server.bare_database();
        server.tool(tool, &[&["-d", &restored.name], options, &[&path(file)]].concat());
        let mut r = restored.connect();
        let without_role = |(queue, role, privileges): (String, String, Vec<String>)| {
            (queue, if role == gone { "-".to_owned() } else { role }, privileges)
        };
        let mut wanted: Vec<_> = before.iter().cloned().map(without_role).collect();
        wanted.sort();
        assert_eq!(all(&mut r), wanted, "{tool}");
        let may = |role: &str| {
            let quoted = format!("\"{}\"", role.replace('"', "\"\""));
            answer(&mut connect_as(&restored, &quoted), "select scylla.submit('q')")
        };
        let found = [&*kept, &*renamed, "dump_new_name", &*other].map(may);
        assert_eq!(found, ["ok", "ok", "42501", "42501"], "{tool}");
        // A role that is made now is not the one that is meant.
        r.run(&format!("create role {gone}"));
        assert_eq!(may(&gone), "42501");
        assert_eq!(r.count("select count(*) from scylla.task where sender::text = '-'"), 1);
        grant(&mut r, "q", &gone, "submit");
        assert_eq!(may(&gone), "ok");
        assert_eq!(all(&mut r).len(), 4, "the grant of no role is gone");
        r.run(&format!("select scylla.revoke('q', '{gone}', '{{submit}}'); drop role {gone}"));
    }
    // Several grants of no role, and the same grants twice, fail no restore.
    s.run("drop role dump_new_name");
    let restored = server.bare_database();
    restored.connect().run("create extension scylla");
    server.tool(
        "pg_dump",
        &["-Fc", "-a", "--load-via-partition-root", "-f", &path("data"), &database.name],
    );
    restored.connect().run("select scylla.open(false)");
    for _ in 0..2 {
        server.tool(
            "pg_restore",
            &["-e", "-a", "-t", "privilege", "-d", &restored.name, &path("data")],
        );
    }
    let mut r = restored.connect();
    assert_eq!(all(&mut r).len(), 8);
    assert_eq!(answer(&mut connect_as(&restored, &kept), "select scylla.submit('q')"), "ok");
    r.run(&format!("select scylla.revoke('q', '{kept}', '{{look}}')"));
    let left = r.value::<Vec<String>>(
        "select privileges from scylla.privilege where role::text = $1",
        &[&kept],
    );
    assert_eq!(left, ["submit"], "one grant");
    // A session that was open during the restore learns of it by refresh().
    let mut open = connect_as(&restored, &kept);
    assert_eq!(answer(&mut open, "select scylla.submit('q')"), "ok");
    r.run("delete from scylla.privilege; select scylla.refresh()");
    assert_eq!(answer(&mut open, "select scylla.submit('q')"), "42501");
    let lonely = role(&mut r, "lonely");
    assert_eq!(answer(&mut connect_as(&restored, &lonely), "select scylla.submit('q')"), "42501");
    server.assert_log_is_clean();
}

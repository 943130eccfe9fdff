//! Servers that are not there, not ours, or not for everyone.

use super::server::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn a_server_that_is_not_there_is_named() {
    let d = Database { server: shared(), name: "postgres".into() };
    for arguments in [&["list"] as &[&str], &["doctor"], &["top", "--once"]] {
        let ran = d.run(&[&["-d", "host=127.0.0.1 port=1 password=secret"], arguments].concat());
        assert_eq!((ran.status, ran.out.as_str()), (1, ""));
        assert!(ran.err.contains("could not connect to the server"), "{}", ran.err);
        assert!(ran.err.contains("host \"127.0.0.1\", port 1: "), "{}", ran.err);
        assert!(ran.err.contains("HINT: ") && !ran.err.contains("secret"), "{}", ran.err);
    }
    let ran = d.run(&["--dbname", "nowhere", "list"]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("database \"nowhere\" does not exist"), "{}", ran.err);
}

#[test]
fn a_database_without_the_extension_is_told() {
    let d = Database::bare(shared());
    for arguments in
        [&["submit", "q"] as &[&str], &["list"], &["top"], &["cancel", "-q", "q", "-y"]]
    {
        let ran = d.run(arguments);
        assert_eq!(ran.status, 1);
        let message = format!("scylla is not installed in database \"{}\"", d.name);
        assert!(
            ran.err.contains(&message) && ran.err.contains("create extension scylla"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn an_extension_of_an_earlier_version_is_told() {
    let d = Database::bare(shared());
    d.sql("create extension scylla version '0.1.0'");
    for arguments in [&["submit", "q"] as &[&str], &["list"], &["retry", "-q", "q", "-y"]] {
        let ran = d.run(arguments);
        assert_eq!(ran.status, 1);
        assert!(ran.err.contains("has scylla 0.1.0; this needs 0.2.0."), "{}", ran.err);
        assert!(ran.err.contains("alter extension scylla update"), "{}", ran.err);
    }
    d.sql("alter extension scylla update");
    d.done(&["submit", "q"]);
}

#[test]
fn a_role_without_rights_is_told() {
    let d = Database::of(shared());
    d.sql("do $$ begin create role guest login; exception when duplicate_object then end $$");
    d.sql("select scylla.submit('mail', key => 'k')");
    for arguments in [
        &["submit", "mail"] as &[&str],
        &["list"],
        &["cancel", "-q", "mail", "--yes"],
        &["retry", "-q", "mail", "--yes"],
        &["delete", "-q", "mail", "--yes"],
        &["top", "--once"],
    ] {
        let ran = d.run_as("guest", arguments);
        assert_eq!(ran.status, 1, "{arguments:?}: {} {}", ran.out, ran.err);
        assert!(ran.err.contains("permission denied"), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains("scylla.grant("), "{arguments:?}: {}", ran.err);
    }
    d.sql("select scylla.grant('mail', 'guest', '{submit}')");
    assert_eq!(d.run_as("guest", &["submit", "mail"]).status, 0);
    let ignored =
        d.run_as("guest", &["submit", "mail", "--key", "k", "--on-conflict", "ignore", "--json"]);
    assert_eq!(objects(&ignored.out), [serde_json::json!({ "id": null })]);
}

/// Passwords, by the file and by the environment; and TLS.
#[test]
fn a_server_that_asks_for_a_password_over_tls() {
    let server = Server::start(&["max_worker_processes = 20"]);
    let folder = server.folder.to_str().unwrap().to_owned();
    let postgres = Database { server: &server, name: "postgres".into() };
    postgres.sql("create extension scylla; create role friend login password 'open sesame'");
    postgres.sql("select scylla.grant('*', 'friend', '{submit,look}')");
    let hba = format!("{folder}/pg_hba.conf");
    let rest = fs::read_to_string(&hba).unwrap();
    let certificate = format!("{folder}/server.crt");
    let key = format!("{folder}/server.key");
    let names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", &key, "-out",
        ])
        .arg(&certificate)
        .args(names)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    // The server's user owns its files.
    let owner =
        Command::new("chown").args(["--reference", &hba, &key, &certificate]).status().unwrap();
    assert!(owner.success());
    write(
        &hba,
        &format!("hostssl all friend all scram-sha-256\nhost all friend all reject\n{rest}"),
    );
    server.restart(&[]);
    postgres.sql("alter system set ssl = on");
    postgres.sql("select pg_reload_conf()");

    let port = server.variable("PGPORT");
    let friend = |host: &str, options: &str, with: &[(&str, &str)]| {
        let connection = format!("host={host} port={port} user=friend dbname=postgres {options}");
        let mut command = postgres.command(&["-d", &connection, "submit", "q"]);
        ran(command.envs(with.iter().copied()))
    };
    let password = ("PGPASSWORD", "open sesame");
    eventually("TLS is on", || (friend("127.0.0.1", "", &[password]).status == 0).then_some(()));
    let plain = friend("127.0.0.1", "sslmode=disable", &[password]);
    assert!(plain.status == 1 && plain.err.contains("pg_hba.conf rejects"), "{}", plain.err);
    for missing in
        [friend("127.0.0.1", "", &[]), friend("127.0.0.1", "", &[("PGPASSWORD", "wrong word")])]
    {
        assert_eq!(missing.status, 1);
        assert!(missing.err.contains("~/.pgpass"), "{}", missing.err);
        assert!(!missing.err.contains("wrong word"), "{}", missing.err);
    }

    // The home of the program is the server's folder.
    let file = format!("{folder}/.pgpass");
    write(&file, "127.0.0.1:*:postgres:friend:open sesame\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(friend("127.0.0.1", "", &[]).status, 0);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let ignored = friend("127.0.0.1", "", &[]);
    assert!(ignored.status == 1 && ignored.err.contains("is ignored"), "{}", ignored.err);

    // What of the certificate is checked.
    for (host, mode, root, works) in [
        ("127.0.0.1", "require", None, true),
        ("localhost", "verify-full", Some(certificate.as_str()), true),
        ("127.0.0.1", "verify-ca", Some(&certificate), true),
        ("127.0.0.1", "verify-full", Some(&certificate), false),
        ("localhost", "verify-full", Some("system"), false),
        ("localhost", "verify-ca", Some("system"), false),
        ("localhost", "verify-full", None, false),
        ("localhost", "require", Some("system"), false),
    ] {
        let root = root.map_or(String::new(), |root| format!("sslrootcert={root}"));
        let ran = friend(host, &format!("sslmode={mode} {root}"), &[password]);
        assert_eq!(ran.status == 0, works, "{host} {mode} {root}: {}", ran.err);
        assert!(!ran.err.contains("sesame"));
    }
}

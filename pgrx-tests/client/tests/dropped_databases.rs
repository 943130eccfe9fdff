//! Dropping a database or the extension in it frees its entries on the board.

use client::*;

/// The leases of a dropped database free their slots, with and without a scheduler.
#[test]
fn dropped_database_frees_its_leases() {
    for workers in [8, 0] {
        let server = Server::start(&[
            "scylla.board_size = 64",
            &format!("max_worker_processes = {workers}"),
        ]);
        for _ in 0..3 {
            let database = server.database();
            let mut s = database.connect();
            s.submit_many("q", 30);
            assert_eq!(s.own_with("w", "q", 30, "timeout => '1 hour'").len(), 30);
            drop(s);
            server.connect().run(&format!("drop database {}", database.name));
        }
        server.assert_log_is_clean();
    }
}

/// Dropped databases free their entries, of which the board has 128.
#[test]
fn dropped_databases_make_room_for_others() {
    let server = Server::start(&["max_worker_processes = 2"]);
    let origin = server.database();
    let mut s = server.connect();
    for _ in 0..130 {
        s.run(&format!("create database copy template {}", origin.name));
        // The value is dropped here, and the database with it.
        origin.named("copy").connect().run("select scylla.refresh()");
    }
    let database = server.database();
    let mut s = database.connect();
    s.submit("q");
    s.own_one("q");
    server.assert_log_is_clean();
}

/// Dropping the extension frees its entry even where no scheduler runs.
#[test]
fn extension_created_again_and_again_makes_room() {
    let server = Server::start(&["max_worker_processes = 2"]);
    let database = server.bare_database();
    let mut s = database.connect();
    for _ in 0..130 {
        s.run("create extension scylla; select scylla.submit('q'); drop extension scylla cascade");
    }
    s.run("create extension scylla");
    s.submit("q");
    s.own_one("q");
    server.assert_log_is_clean();
}

/// A creation of the extension that is rolled back, after a call, frees its entry.
#[test]
fn extension_whose_creation_is_rolled_back_makes_room() {
    let server = Server::start(&["max_worker_processes = 2"]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let database = server.bare_database();
                let mut s = database.connect();
                s.run("set statement_timeout = '1 min'");
                for _ in 0..65 {
                    s.run("begin; create extension scylla; set local statement_timeout = '20 ms'");
                    // It would wait for a board that is built of what has been committed.
                    assert_eq!(s.refused("select scylla.own_tasks('w', 'q')"), "57014");
                    s.run("rollback");
                }
            });
        }
    });
    let database = server.database();
    let mut s = database.connect();
    s.submit("q");
    s.own_one("q");
    server.assert_log_is_clean();
}

/// Dropping the extension frees the slots of its leases.
#[test]
fn dropped_extension_frees_its_leases() {
    let server = Server::start(&["scylla.board_size = 64", "max_worker_processes = 0"]);
    let database = server.bare_database();
    for _ in 0..3 {
        let mut s = database.connect();
        s.run("create extension scylla");
        s.submit_many("q", 30);
        assert_eq!(s.own_with("w", "q", 30, "timeout => '1 hour'").len(), 30);
        s.run("drop extension scylla");
    }
    server.assert_log_is_clean();
}

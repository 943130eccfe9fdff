//! What is dropped, a database or the extension in it, takes along what it had on the board.

use client::*;

/// Leases of a database that is dropped leave their slots, with a scheduler or without one.
#[test]
fn dropped_database_takes_its_leases_along() {
    for workers in [8, 0] {
        let server = Server::start(&[
            "scylla.board_size = 64",
            "fsync = off",
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

/// Nor do databases that are gone keep the places of others, of which there are 128.
#[test]
fn dropped_databases_make_room_for_others() {
    let server = Server::start(&["fsync = off", "max_worker_processes = 2"]);
    let origin = server.database();
    let mut s = server.connect();
    for _ in 0..130 {
        s.run(&format!("create database copy template {}", origin.name));
        // Dropped with the value.
        origin.named("copy").connect().run("select scylla.refresh()");
    }
    let database = server.database();
    let mut s = database.connect();
    s.submit("q");
    s.own_one("q");
    server.assert_log_is_clean();
}

/// Where no scheduler runs that would look after it, either.
#[test]
fn extension_created_again_and_again_makes_room() {
    let server = Server::start(&["fsync = off", "max_worker_processes = 2"]);
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

/// Nor does one whose creation is rolled back, after a call of it, keep a place.
#[test]
fn extension_whose_creation_is_rolled_back_makes_room() {
    let server = Server::start(&["fsync = off", "max_worker_processes = 2"]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let database = server.bare_database();
                let mut s = database.connect();
                s.run("set statement_timeout = '1 s'");
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

/// Its leases go with it.
#[test]
fn dropped_extension_takes_its_leases_along() {
    let server =
        Server::start(&["scylla.board_size = 64", "max_worker_processes = 0", "fsync = off"]);
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

//! Without `shared_preload_libraries` there is no board, and no extension.

use client::*;

#[test]
fn extension_needs_to_be_preloaded() {
    let server = Server::start(&["shared_preload_libraries = ''"]);
    let database = server.bare_database();
    let mut s = database.connect();
    let complaint = s.refusal("create extension scylla", &[]);
    assert_eq!(complaint.code().code(), "55000");
    let hint = complaint.hint().expect("a hint");
    assert!(hint.contains("shared_preload_libraries") && hint.contains("scylla"), "{hint}");
    assert_eq!(s.count("select count(*) from pg_extension where extname = 'scylla'"), 0);
    assert_eq!(s.count("select count(*) from pg_namespace where nspname = 'scylla'"), 0);
    assert_eq!(s.value::<i32>("select pg_backend_pid()", &[]), s.pid, "the session goes on");
}

/// Without the preload, each function of an existing extension raises an error.
#[test]
fn functions_need_it_too() {
    let server = Server::start(&[]);
    let database = server.database();
    let id = database.connect().submit("q");
    server.stop("fast");
    server.start_with(&["shared_preload_libraries = ''"]);
    let mut s = database.connect();
    for call in [
        "scylla.submit('q')",
        "scylla.own_tasks('w', 'q')",
        "scylla.refresh()",
        &format!("scylla.cancel('{id}')"),
    ] {
        assert_eq!(s.refusal(&format!("select {call}"), &[]).code().code(), "55000", "{call}");
    }
    server.stop("fast");
    server.start_with(&["shared_preload_libraries = 'scylla'"]);
    assert_eq!(database.connect().own_one("q").id, id);
}

//! Errors that pass through scylla's hooks keep all their fields.

use client::*;

#[test]
fn an_error_of_planning_keeps_its_fields() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "create function refuse() returns integer immutable language plpgsql as $$
         begin raise check_violation using constraint = 'c', column = 'd'; end $$",
    );
    let said = s.refusal("select refuse()", &[]);
    assert_eq!(said.code().code(), "23514");
    assert_eq!((said.constraint(), said.column()), (Some("c"), Some("d")));
    assert!(said.where_().is_some_and(|it| it.contains("refuse()")), "{:?}", said.where_());
}

#[test]
fn an_error_of_a_utility_command_keeps_its_fields() {
    let database = database();
    let mut s = database.connect();
    let said = s.refusal("create table t (a no_such_type)", &[]);
    assert_eq!(said.code().code(), "42704");
    assert!(said.position().is_some(), "where in the statement");
    s.run("create table t (a integer primary key); insert into t values (1)");
    let said = s.refusal("do $$ begin insert into t values (1); end $$", &[]);
    assert_eq!((said.schema(), said.table()), (Some("public"), Some("t")));
    assert_eq!(said.constraint(), Some("t_pkey"));
    assert!(said.where_().is_some_and(|it| it.contains("inline_code_block")), "its context");
}

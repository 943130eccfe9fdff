//! Taking commands: the scheduler owns the best tasks of the queue `sql`, and reads what they run.

use crate::error;
use crate::extension::database::Database;
use crate::ops::lease::hand_out::Owned;
use crate::ops::lease::own::{own_task, own_tasks};
use crate::ops::sql::rights;
use crate::pg::command::simple_query::Failure;
use crate::pg::datum::{self, OID, OIDS, UUID, UUIDS};
use crate::pg::named::database::Named;
use crate::pg::process;
use crate::pg::spi::statement;
use crate::pg::uuid::{Uuid, token_hash};
use crate::shmem::segment::sql_records;
use crate::shmem::sql_record::{QUEUE, SqlRecord, WORKER};
use crate::storage::rows::{ids, ids_in, ids_of, session};
use board::{Micros, NEVER, TokenHash};
use pgrx::pg_sys::{Datum, Oid};

statement!(COMMAND, "sql/command", [UUID]);
statement!(OF_OTHER_ROLES, "sql/of_other_roles", [OIDS, UUIDS, OID]);
statement!(LIVE, "sql/live", [UUIDS]);

/// Owns the best task, or the one of an id, with a lease that does not expire; `None`: there is
/// no such task, or it may not be owned now. Returns its id and the hash of its token.
pub fn own(db: &Database, id: Option<Uuid>) -> Option<(Uuid, TokenHash)> {
    let mut owned = None;
    let show = |it: Owned| owned = Some((it.id, token_hash(it.token)));
    match id {
        None => {
            _ = error::unwrap_or_raise(own_tasks(db, WORKER, QUEUE, 1, None, Some(NEVER), show))
        }
        Some(id) => own_task(db, id, WORKER, Some(NEVER), |_| Ok(()), show).ok()?,
    }
    owned
}

/// The best ready task of each role but some, in the order in which they may begin. `begun`: tasks
/// that have begun; `last`: the role whose turn was last.
pub fn of_other_roles(db: &Database, but: &[u32], begun: &[Uuid], last: u32) -> Vec<Uuid> {
    let roles = but.iter().map(|role| Some(Datum::from(*role)));
    let arguments =
        [Some(datum::array(OIDS, roles)), ids(begun.iter().copied()), Some(Datum::from(last))];
    let session = session(db);
    let rows = session.run(&OF_OTHER_ROLES, &arguments);
    ids_in(&rows).collect()
}

/// What a process needs to know of a command.
pub struct Command {
    pub role: Oid,
    pub database: Oid,
    pub text: Vec<u8>,
    /// `None`: no limit.
    pub timeout: Option<Micros>,
}

/// Why a command may not run.
pub struct Refusal {
    pub why: Failure,
    /// Another try would fail as well.
    pub is_final: bool,
}

/// The command of a task, or why it may not run now; `None`: the task is not live any more.
pub fn read(db: &Database, id: Uuid) -> Option<Result<Command, Refusal>> {
    let session = session(db);
    let rows = session.run(&COMMAND, &[Some(id.datum())]);
    if rows.len() == 0 {
        return None;
    }
    let value = |column| rows.get(0, column);
    let role = datum::oid(value(0));
    let named = value(1).map(|name| {
        let name = datum::text(Some(name));
        Named { name, oid: datum::oid(value(2)) }
    });
    if let Some(Err(why)) = named.as_ref().map(rights::check_same) {
        return Some(Err(Refusal { why: why.as_failure(), is_final: true }));
    }
    let database = named.as_ref().map_or_else(process::database, |it| it.oid);
    let may_run = rights::check_role(role)
        .and_then(|()| named.as_ref().map_or(Ok(()), rights::check_allowed))
        .and_then(|()| rights::check_connect(database, role));
    Some(may_run.map_err(|why| Refusal { why: why.as_failure(), is_final: false }).map(|()| {
        Command {
            role,
            database,
            text: datum::text(value(3)),
            timeout: value(4).map(|it| datum::interval_length(Some(it))),
        }
    }))
}

/// Which of some tasks are live commands.
pub fn live(db: &Database, wanted: &[Uuid]) -> Vec<Uuid> {
    ids_of(&session(db), &LIVE, wanted.iter().copied())
}

/// The process that runs the command of a task; `None`: none does.
pub fn pid(db: &Database, task: Uuid) -> Option<i32> {
    let runs = |it: &&SqlRecord| {
        let assignment = it.assignment();
        it.state().has_command() && (assignment.home, assignment.id) == (db.key(), task.0)
    };
    sql_records().iter().find(runs)?.pid()
}

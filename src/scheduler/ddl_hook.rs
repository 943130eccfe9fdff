//! Commands that concern schedulers. DROP DATABASE, CREATE DATABASE … TEMPLATE, and ALTER DATABASE
//! … RENAME or SET TABLESPACE need a database without connections: its scheduler is ended before
//! the command, and the launcher starts it again afterwards. A dropped database or extension leaves
//! the board. DROP EXTENSION takes locks in the order in which others take them.

use crate::extension::members;
use crate::memory;
use crate::pg::compat::catalog;
use crate::pg::named::role;
use crate::pg::{process, time};
use crate::shmem::schedulers;
use crate::shmem::segment;
use crate::xact::{self, Change};
use board::Micros;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};

/// How long the command waits for the scheduler to end.
const SCHEDULER_EXIT_TIMEOUT: Micros = Micros::from_secs(4);

static mut BEFORE: pg_sys::ProcessUtility_hook_type = None;
static mut BEFORE_ACCESS: pg_sys::object_access_hook_type = None;

/// Hooks into utility commands and into what they drop; called while the library is preloaded.
pub fn register() {
    // SAFETY: the postmaster is alone; an earlier hook is called in turn.
    unsafe {
        BEFORE = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(utility);
        BEFORE_ACCESS = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(object_access);
    }
}

/// The commands that may need a database for themselves.
const COMMANDS: [pg_sys::NodeTag; 4] = [
    pg_sys::NodeTag::T_DropdbStmt,
    pg_sys::NodeTag::T_RenameStmt,
    pg_sys::NodeTag::T_AlterDatabaseStmt,
    pg_sys::NodeTag::T_CreatedbStmt,
];

// Declared again: pgrx's wrapper takes an error apart and raises another, without its position and
// with memory that there may not be.
unsafe extern "C-unwind" {
    fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        text: *const c_char,
        read_only_tree: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        parameters: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        receiver: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
}

/// Runs any utility command of this process. Its error passes by as it is: there is nothing to
/// drop here.
#[allow(clippy::too_many_arguments)]
unsafe extern "C-unwind" fn utility(
    statement: *mut pg_sys::PlannedStmt,
    text: *const c_char,
    tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: a whole statement, as PostgreSQL calls the hook; passes the arguments on unchanged.
    unsafe {
        let command = (*(*statement).utilityStmt).type_;
        if COMMANDS.contains(&command) {
            make_way(statement, context);
        } else if command == pg_sys::NodeTag::T_DropStmt {
            lock_in_order((*statement).utilityStmt.cast());
        }
        let next = BEFORE.unwrap_or(standard_ProcessUtility);
        next(statement, text, tree, context, parameters, environment, receiver, completion);
    }
}

/// Locks what others lock first before DROP EXTENSION locks the rest, so that they do not deadlock:
/// the views, as queries do, then the table of tasks, as the scheduler does.
#[pg_guard]
unsafe extern "C-unwind" fn lock_in_order(drop: *mut pg_sys::DropStmt) {
    // SAFETY: a whole statement, as PostgreSQL calls the hook: the objects are names of extensions.
    // The locks are this transaction's.
    unsafe {
        if (*drop).removeType != pg_sys::ObjectType::OBJECT_EXTENSION {
            return;
        }
        let names = CStr::from_ptr(pg_sys::NameListToString((*drop).objects));
        let is_ours = names.to_bytes().split(|byte| *byte == b'.').any(|name| name == b"scylla");
        let Some(extension) = members::extension().filter(|_| is_ours) else { return };
        for relation in members::locked_first(extension) {
            // Others may not drop the extension.
            let owner = members::owner(relation);
            if owner.is_some_and(|it| role::has_privileges_of(role::current(), it)) {
                pg_sys::LockRelationOid(relation, pg_sys::AccessExclusiveLock as i32);
            }
        }
    }
}

/// Ends the scheduler of the database that a command needs for itself.
#[pg_guard]
unsafe extern "C-unwind" fn make_way(
    statement: *mut pg_sys::PlannedStmt,
    context: pg_sys::ProcessUtilityContext::Type,
) {
    let is_top_level = context == pg_sys::ProcessUtilityContext::PROCESS_UTILITY_TOPLEVEL;
    memory::with_reserve(|| {
        // SAFETY: a whole statement, as PostgreSQL calls the hook.
        let needed = unsafe { needed_database((*statement).utilityStmt, is_top_level) };
        if let Some(database) = needed {
            send_scheduler_away(database.to_u32());
        }
    });
}

/// The database that a command is about to need for itself: `None` where the command is refused by
/// its own checks, which are made here first, since a refused one must not disturb anybody.
unsafe fn needed_database(node: *mut pg_sys::Node, is_top_level: bool) -> Option<pg_sys::Oid> {
    // SAFETY: a node is cast to what its tag says; names end with a zero.
    unsafe {
        let outside_block = || !pg_sys::IsInTransactionBlock(is_top_level);
        match (*node).type_ {
            pg_sys::NodeTag::T_DropdbStmt => {
                let database = find((*node.cast::<pg_sys::DropdbStmt>()).dbname)?;
                let may = outside_block()
                    && is_owner(database)
                    && !is_template(database)
                    && database != process::database();
                may.then_some(database)
            }
            pg_sys::NodeTag::T_RenameStmt => {
                let rename = &*node.cast::<pg_sys::RenameStmt>();
                if rename.renameType != pg_sys::ObjectType::OBJECT_DATABASE {
                    return None;
                }
                let database = find(rename.subname)?;
                let may = is_owner(database)
                    && may_create_databases()
                    && find(rename.newname).is_none()
                    && database != process::database();
                may.then_some(database)
            }
            pg_sys::NodeTag::T_AlterDatabaseStmt => {
                let alter = &*node.cast::<pg_sys::AlterDatabaseStmt>();
                option(alter.options, "tablespace")?;
                let database = find(alter.dbname)?;
                let may = outside_block() && is_owner(database) && database != process::database();
                may.then_some(database)
            }
            pg_sys::NodeTag::T_CreatedbStmt => {
                let create = &*node.cast::<pg_sys::CreatedbStmt>();
                let template = find(match option(create.options, "template") {
                    Some(template) if !(*template).arg.is_null() => pg_sys::defGetString(template),
                    _ => c"template1".as_ptr(),
                })?;
                let may = outside_block()
                    && may_create_databases()
                    && (is_template(template) || is_owner(template))
                    && find(create.dbname).is_none();
                may.then_some(template)
            }
            _ => None,
        }
    }
}

/// # Safety
/// A name ends with a zero.
unsafe fn find(name: *const c_char) -> Option<pg_sys::Oid> {
    // SAFETY: the caller's.
    let database = unsafe { pg_sys::get_database_oid(name, true) };
    (database != pg_sys::InvalidOid).then_some(database)
}

fn is_owner(database: pg_sys::Oid) -> bool {
    catalog::is_database_owner(database, role::current())
}

fn is_template(database: pg_sys::Oid) -> bool {
    let key = pg_sys::SysCacheIdentifier::DATABASEOID;
    // SAFETY: a row of pg_database.
    in_row(key, database, |row| unsafe {
        (*row.cast::<pg_sys::FormData_pg_database>()).datistemplate
    })
}

/// Whether the user has CREATEDB.
fn may_create_databases() -> bool {
    // SAFETY: reads who the user is.
    let (user, is_superuser) = unsafe { (pg_sys::GetUserId(), pg_sys::superuser()) };
    let key = pg_sys::SysCacheIdentifier::AUTHOID;
    // SAFETY: a row of pg_authid.
    is_superuser
        || in_row(key, user, |row| unsafe {
            (*row.cast::<pg_sys::FormData_pg_authid>()).rolcreatedb
        })
}

/// Reads the row of a catalog; false if it does not exist.
fn in_row(
    key: pg_sys::SysCacheIdentifier::Type,
    oid: pg_sys::Oid,
    look: impl FnOnce(*mut c_char) -> bool,
) -> bool {
    // SAFETY: a catalog look-up inside a transaction; the tuple is released after it was read.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(key as i32, oid.into());
        if tuple.is_null() {
            return false;
        }
        let answer = look(pg_sys::GETSTRUCT(tuple));
        pg_sys::ReleaseSysCache(tuple);
        answer
    }
}

unsafe fn option(options: *mut pg_sys::List, name: &str) -> Option<*mut pg_sys::DefElem> {
    // SAFETY: the options of a command are a list of DefElem.
    unsafe {
        let count = if options.is_null() { 0 } else { (*options).length as usize };
        (0..count)
            .map(|at| (*(*options).elements.add(at)).ptr_value.cast::<pg_sys::DefElem>())
            .find(|it| CStr::from_ptr((**it).defname).to_bytes() == name.as_bytes())
    }
}

thread_local! {
    /// This transaction keeps a scheduler away.
    static SUSPENDS: Cell<bool> = const { Cell::new(false) };
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// Ends the scheduler of a database and keeps others out until the transaction, or the
/// subtransaction that fails, has ended: before its commit a dropped database still seems to be
/// there. A transaction may rename one after the other: those before are locked until it ends.
fn send_scheduler_away(database: u32) {
    if !REGISTERED.replace(true) {
        // SAFETY: registered once for the life of the backend.
        unsafe {
            pg_sys::RegisterXactCallback(Some(transaction_ends), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(subtransaction_ends), std::ptr::null_mut());
        }
    }
    SUSPENDS.set(true);
    schedulers::suspend(database);
    let until = time::monotonic() + SCHEDULER_EXIT_TIMEOUT;
    let mut told = None;
    let served_by =
        || schedulers::scheduler_of(database).or_else(|| schedulers::helper_of(database));
    while let Some(process) = served_by()
        && time::monotonic() < until
    {
        if told.replace(process) != Some(process) {
            // SAFETY: a signal to a process of this server.
            unsafe { libc::kill(process, libc::SIGTERM) };
        }
        segment::wait();
    }
}

fn let_scheduler_back() {
    if SUSPENDS.take() {
        schedulers::resume();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ends(event: pg_sys::XactEvent::Type, _arg: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if matches!(event, XACT_EVENT_COMMIT | XACT_EVENT_ABORT | XACT_EVENT_PREPARE) {
        let_scheduler_back();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction_ends(
    event: pg_sys::SubXactEvent::Type,
    _me: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _arg: *mut c_void,
) {
    if event == pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB {
        let_scheduler_back();
    }
}

/// Hears of what happens to an object, by whatever command. An error of another hook passes by as
/// it is.
unsafe extern "C-unwind" fn object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    sub_id: c_int,
    arg: *mut c_void,
) {
    // SAFETY: written once, before the hook can be called.
    unsafe {
        // Most calls tell of functions that are executed and names that are looked up.
        if matches!(class, pg_sys::DatabaseRelationId | pg_sys::ExtensionRelationId) {
            note_object(access, class, object);
        }
        if let Some(next) = BEFORE_ACCESS {
            next(access, class, object, sub_id, arg);
        }
    }
}

/// What is dropped takes along what it has on the board; so does what is created and rolled back.
#[pg_guard]
unsafe extern "C-unwind" fn note_object(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
) {
    use pg_sys::ObjectAccessType::{OAT_DROP, OAT_POST_CREATE};
    let (here, oid) = (process::database().to_u32(), object.to_u32());
    let (database, extension, change) = match (class, access) {
        (pg_sys::DatabaseRelationId, OAT_DROP) => (oid, 0, Change::Drop),
        (pg_sys::ExtensionRelationId, OAT_DROP) => (here, oid, Change::Drop),
        (pg_sys::ExtensionRelationId, OAT_POST_CREATE) => {
            members::require_own_schema(object);
            (here, oid, Change::Create)
        }
        _ => return,
    };
    memory::with_reserve(|| xact::at_commit_of(database, extension, [change]));
}

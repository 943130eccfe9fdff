//! Making way: DROP DATABASE, CREATE DATABASE … TEMPLATE, and ALTER DATABASE … RENAME or SET TABLESPACE
//! need a database that nobody is connected to. The launcher stops the database's worker before
//! the command, and starts it again after.

use crate::pg::time;
use crate::shmem::segment;
use board::Micros;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::{Cell, RefCell};

/// How long the command waits for the scheduler to exit.
const WORKER_EXIT_TIMEOUT: Micros = Micros::from_secs(4);

static mut BEFORE: pg_sys::ProcessUtility_hook_type = None;

/// Hooks into utility commands; called while the library is preloaded.
pub fn register() {
    // SAFETY: the postmaster is alone; an earlier hook is called in turn.
    unsafe {
        BEFORE = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(utility);
    }
}

#[pg_guard]
#[allow(clippy::too_many_arguments)]
unsafe extern "C-unwind" fn utility(
    statement: *mut pg_sys::PlannedStmt,
    text: *const core::ffi::c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: a whole statement, as PostgreSQL calls; the arguments are handed on as they came.
    unsafe {
        let named = named_database((*statement).utilityStmt).filter(|it| may_command(*it));
        if let Some(database) = named {
            clear(database.to_u32());
        }
        let tree = read_only_tree;
        match BEFORE {
            // Guarded, since an error unwinds through here.
            Some(next) => pg_sys::ffi::pg_guard_ffi_boundary(|| {
                next(statement, text, tree, context, parameters, environment, receiver, completion)
            }),
            // Guarded by pgrx already.
            None => pg_sys::standard_ProcessUtility(
                statement,
                text,
                tree,
                context,
                parameters,
                environment,
                receiver,
                completion,
            ),
        }
    }
}

/// The database that a command needs for itself.
unsafe fn named_database(node: *mut pg_sys::Node) -> Option<pg_sys::Oid> {
    // SAFETY: a node is cast to what its tag says; names are null or end with a zero.
    unsafe {
        let name = match (*node).type_ {
            pg_sys::NodeTag::T_DropdbStmt => (*node.cast::<pg_sys::DropdbStmt>()).dbname,
            pg_sys::NodeTag::T_RenameStmt => {
                let rename = &*node.cast::<pg_sys::RenameStmt>();
                let is_database = rename.renameType == pg_sys::ObjectType::OBJECT_DATABASE;
                if is_database { rename.subname } else { std::ptr::null_mut() }
            }
            pg_sys::NodeTag::T_AlterDatabaseStmt => {
                let alter = &*node.cast::<pg_sys::AlterDatabaseStmt>();
                match option(alter.options, "tablespace") {
                    Some(_) => alter.dbname,
                    None => std::ptr::null_mut(),
                }
            }
            pg_sys::NodeTag::T_CreatedbStmt => {
                let create = &*node.cast::<pg_sys::CreatedbStmt>();
                match option(create.options, "template") {
                    Some(template) if !(*template).arg.is_null() => pg_sys::defGetString(template),
                    _ => c"template1".as_ptr().cast_mut(),
                }
            }
            _ => std::ptr::null_mut(),
        };
        if name.is_null() {
            return None;
        }
        Some(pg_sys::get_database_oid(name, true)).filter(|oid| *oid != pg_sys::InvalidOid)
    }
}

/// Whether the user may give such commands: nobody else may send a worker away.
fn may_command(database: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups.
    unsafe {
        let user = pg_sys::GetUserId();
        #[cfg(any(feature = "pg14", feature = "pg15"))]
        let is_owner = pg_sys::pg_database_ownercheck(database, user);
        #[cfg(not(any(feature = "pg14", feature = "pg15")))]
        let is_owner = pg_sys::object_ownercheck(pg_sys::DatabaseRelationId, database, user);
        is_owner || may_create_databases(user)
    }
}

fn may_create_databases(user: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up; the tuple is released before it is left.
    unsafe {
        let key = pg_sys::SysCacheIdentifier::AUTHOID as i32;
        let role = pg_sys::SearchSysCache1(key, user.into());
        if role.is_null() {
            return false;
        }
        let may = (*pg_sys::GETSTRUCT(role).cast::<pg_sys::FormData_pg_authid>()).rolcreatedb;
        pg_sys::ReleaseSysCache(role);
        may
    }
}

unsafe fn option(options: *mut pg_sys::List, name: &str) -> Option<*mut pg_sys::DefElem> {
    // SAFETY: the options of a command are a list of DefElem.
    unsafe {
        let count = if options.is_null() { 0 } else { (*options).length as usize };
        (0..count)
            .map(|at| (*(*options).elements.add(at)).ptr_value.cast::<pg_sys::DefElem>())
            .find(|it| std::ffi::CStr::from_ptr((**it).defname).to_bytes() == name.as_bytes())
    }
}

thread_local! {
    /// The databases that this transaction keeps the workers of away from.
    static CLEARED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the database's worker away until the transaction has ended: before its commit a dropped
/// database still seems to be there.
fn clear(database: u32) {
    if !REGISTERED.replace(true) {
        // SAFETY: registered once for the life of the backend.
        unsafe { pg_sys::RegisterXactCallback(Some(transaction_ends), std::ptr::null_mut()) };
    }
    CLEARED.with_borrow_mut(|cleared| cleared.push(database));
    segment::suspend_scheduler(database);
    let until = time::monotonic() + WORKER_EXIT_TIMEOUT;
    while segment::has_scheduler(database) && time::monotonic() < until {
        segment::wait();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ends(
    event: pg_sys::XactEvent::Type,
    _arg: *mut core::ffi::c_void,
) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if matches!(event, XACT_EVENT_COMMIT | XACT_EVENT_ABORT | XACT_EVENT_PREPARE) {
        CLEARED.take().into_iter().for_each(segment::resume_scheduler);
    }
}

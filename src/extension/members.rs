//! What belongs to the extension. A name alone does not tell: the owner of the schema may rename
//! it, and put another schema with tables of the same names in its place.

use crate::error;
use crate::pg::compat::catalog;
use crate::pg::datum;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use std::ffi::{CStr, c_void};
use std::slice;

const EXTENSION: &CStr = c"scylla";
const SCHEMA: &CStr = c"scylla";

/// This database's creation of the extension; `None`: it does not exist.
pub fn extension() -> Option<Oid> {
    // SAFETY: a catalog look-up inside a transaction.
    let extension = unsafe { pg_sys::get_extension_oid(EXTENSION.as_ptr(), true) };
    (extension != pg_sys::InvalidOid).then_some(extension)
}

/// The version of the extension's objects in this database, which is another one than the library's
/// between a new library's start and ALTER EXTENSION … UPDATE.
pub fn version(extension: Oid) -> Option<String> {
    // SAFETY: a scan of a catalog by its index inside a transaction, which is closed; the value is
    // a text.
    unsafe {
        let lock = pg_sys::AccessShareLock as i32;
        let mut key: pg_sys::ScanKeyData = std::mem::zeroed();
        pg_sys::ScanKeyInit(
            &mut key,
            pg_sys::Anum_pg_extension_oid as _,
            pg_sys::BTEqualStrategyNumber as _,
            pg_sys::Oid::from_u32(pg_sys::F_OIDEQ),
            extension.into(),
        );
        let table = pg_sys::table_open(pg_sys::ExtensionRelationId, lock);
        let index = pg_sys::Oid::from_u32(pg_sys::ExtensionOidIndexId);
        let scan =
            pg_sys::systable_beginscan(table, index, true, std::ptr::null_mut(), 1, &mut key);
        let row = pg_sys::systable_getnext(scan);
        let version = (!row.is_null()).then(|| {
            let at = pg_sys::Anum_pg_extension_extversion as i32;
            let mut null = false;
            let version = pg_sys::heap_getattr(row, at, (*table).rd_att, &mut null);
            datum::string((!null).then_some(version))
        });
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(table, lock);
        version
    }
}

/// The extension's table of this name, where the statements find it; `None`: no table has the name
/// there, or one that does not belong to the extension.
pub fn table(extension: Oid, name: &CStr) -> Option<Oid> {
    // SAFETY: catalog look-ups inside a transaction.
    let table = unsafe {
        let schema = pg_sys::get_namespace_oid(SCHEMA.as_ptr(), true);
        pg_sys::get_relname_relid(name.as_ptr(), schema)
    };
    (table != pg_sys::InvalidOid && is_member(extension, table)).then_some(table)
}

/// The tables and sequences that statements use.
pub const TABLES: [&CStr; 19] = [
    c"task",
    c"dependency",
    c"countdown",
    c"finished",
    c"finished_default",
    c"lease",
    c"queue",
    c"kept_key",
    c"privilege",
    c"worker",
    c"worker_number",
    c"created_until",
    c"incarnation",
    c"schedule",
    c"missed",
    c"run_count",
    c"queue_total",
    c"message_queue",
    c"message_topic",
];

/// What queries and the scheduler lock before other things: the views, then the table of tasks.
pub fn locked_first(extension: Oid) -> impl Iterator<Item = Oid> {
    let names = [
        c"failed",
        c"groups",
        c"health",
        c"queues",
        c"schedules",
        c"stats",
        c"tasks",
        c"workers",
        c"task",
    ];
    names.into_iter().filter_map(move |name| table(extension, name))
}

/// Those that are there, with their names.
pub fn tables(extension: Oid) -> Vec<(&'static CStr, Oid)> {
    TABLES.into_iter().filter_map(|name| Some((name, table(extension, name)?))).collect()
}

/// Two tables that belong to different roles, with these roles.
pub fn owners_that_differ(extension: Oid) -> Option<[(&'static CStr, Oid); 2]> {
    let mut owners =
        tables(extension).into_iter().filter_map(|(name, it)| Some((name, owner(it)?)));
    let first = owners.next()?;
    owners.find(|(_, owner)| *owner != first.1).map(|other| [first, other])
}

/// Whom a table or a sequence belongs to.
pub fn owner(table: Oid) -> Option<Oid> {
    class(table).map(|class| class.relowner)
}

/// A table's row of `pg_class`.
fn class(table: Oid) -> Option<pg_sys::FormData_pg_class> {
    // SAFETY: a catalog look-up inside a transaction; the tuple is copied, and released.
    unsafe {
        let key = pg_sys::SysCacheIdentifier::RELOID as i32;
        let tuple = pg_sys::SearchSysCache1(key, table.into());
        if tuple.is_null() {
            return None;
        }
        let class = *pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
        pg_sys::ReleaseSysCache(tuple);
        Some(class)
    }
}

/// The checks that the extension makes.
const CHECKS: [&CStr; 4] = [c"task_role", c"finished_role", c"queue_settings", c"schedule_role"];

/// What others have added to the extension's tables that must not be there, described.
pub fn added(extension: Oid) -> Option<String> {
    tables(extension).into_iter().find_map(|(_, table)| added_to(extension, table))
}

/// What others have added to a table that its writers leave out: a trigger, a rule, row security, a
/// check or a foreign key. Takes no lock: the answer holds for as long as the caller has one that
/// keeps others from adding something.
pub fn added_to(extension: Oid, table: Oid) -> Option<String> {
    let class = class(table)?;
    if !(class.relrowsecurity || class.relhastriggers || class.relhasrules || class.relchecks > 0) {
        return None;
    }
    // SAFETY: the table's entry in the relation cache, which is kept until it is closed.
    unsafe {
        let open = pg_sys::RelationIdGetRelation(table);
        if open.is_null() {
            return None;
        }
        let found = find_added(extension, &*open);
        pg_sys::RelationClose(open);
        found
    }
}

/// As `added_to`.
///
/// # Safety
/// The relation is open.
unsafe fn find_added(extension: Oid, table: &pg_sys::RelationData) -> Option<String> {
    // SAFETY: an open relation's, null where there are none; catalog look-ups inside a transaction.
    // Names end with a zero.
    unsafe {
        let is_on = |state: std::ffi::c_char| state as u8 != b'D';
        let trigger = table.trigdesc.as_ref().and_then(|all| {
            let all = slice::from_raw_parts(all.triggers, all.numtriggers as usize);
            let of = |it: &pg_sys::Trigger| {
                pg_sys::getExtensionOfObject(pg_sys::ProcedureRelationId, it.tgfoid)
            };
            let found = all.iter().find(|it| is_on(it.tgenabled) && of(it) != extension)?;
            Some(match found.tgconstraint {
                pg_sys::InvalidOid => describe(pg_sys::TriggerRelationId, found.tgoid),
                constraint => describe(Oid::from_u32(CONSTRAINTS), constraint),
            })
        });
        let rule = || {
            let all = table.rd_rules.as_ref()?;
            let all = slice::from_raw_parts(all.rules, all.numLocks as usize);
            let found = all.iter().find(|it| is_on((***it).enabled))?;
            Some(describe(Oid::from_u32(RULES), (**found).ruleId))
        };
        let on =
            |what| Some(format!("{what} on {}", describe(pg_sys::RelationRelationId, table.rd_id)));
        let security = || (*table.rd_rel).relrowsecurity.then(|| on("row security".to_owned()))?;
        let check = || {
            let all = (*table.rd_att).constr.as_ref()?;
            let all = slice::from_raw_parts(all.check, all.num_check.into());
            let mut names = all.iter().map(|it| CStr::from_ptr(it.ccname));
            let other = names.find(|name| !CHECKS.contains(name))?;
            on(format!("constraint {}", datum::printable(other.to_bytes())))
        };
        trigger.or_else(rule).or_else(security).or_else(check)
    }
}

// The oids of pg_constraint and pg_rewrite, of which pgrx has no binding.
const CONSTRAINTS: u32 = 2606;
const RULES: u32 = 2618;

/// What PostgreSQL calls an object in its messages.
fn describe(catalog: Oid, object: Oid) -> String {
    let address = pg_sys::ObjectAddress { classId: catalog, objectId: object, objectSubId: 0 };
    // SAFETY: catalog look-ups inside a transaction; the text ends with a zero. It is null where
    // the object is gone: nothing is locked.
    let text = unsafe {
        pg_sys::getObjectDescription(&address, true).as_ref().map(|it| CStr::from_ptr(it))
    };
    text.map_or("an object that is gone".to_owned(), |it| datum::printable(it.to_bytes()))
}

fn is_member(extension: Oid, table: Oid) -> bool {
    // SAFETY: a catalog look-up inside a transaction.
    unsafe { pg_sys::getExtensionOfObject(pg_sys::RelationRelationId, table) == extension }
}

// pgrx has no binding.
unsafe extern "C-unwind" {
    fn get_partition_parent(table: Oid, even_if_detached: bool) -> Oid;
}

/// Whether a statement of the extension may use a table: one of PostgreSQL's catalogs, of the
/// extension, or of its partitions, which are not members themselves.
fn may_use(extension: Option<Oid>, table: Oid) -> bool {
    let is_ours = |table| extension.is_some_and(|extension| is_member(extension, table));
    // SAFETY: catalog look-ups inside a transaction; a partition has a parent.
    let parent = || unsafe {
        pg_sys::get_rel_relispartition(table).then(|| get_partition_parent(table, true))
    };
    table.to_u32() < pg_sys::FirstNormalObjectId || is_ours(table) || parent().is_some_and(is_ours)
}

/// Refuses a statement of the extension whose names lead to tables that are not the extension's.
/// PostgreSQL has just looked them up: the plan will use what is checked here.
///
/// # Safety
/// A whole query, as the planner gets it.
pub unsafe fn require_members(query: *mut pg_sys::Query) {
    let mut extension = extension();
    // SAFETY: the caller's promise.
    unsafe { walk(query.cast(), (&raw mut extension).cast()) };
}

/// Walks through a tree of queries and expressions.
#[pg_guard]
unsafe extern "C-unwind" fn walk(node: *mut pg_sys::Node, extension: *mut c_void) -> bool {
    // SAFETY: PostgreSQL's walkers call with nodes, and with what require_members passed.
    unsafe {
        if node.is_null() {
            false
        } else if (*node).type_ == pg_sys::NodeTag::T_Query {
            let query: *mut pg_sys::Query = node.cast();
            require_entries((*query).rtable, *extension.cast());
            catalog::walk_query(query, walk, extension)
        } else {
            catalog::walk_expression(node, walk, extension)
        }
    }
}

/// Checks the entries of a range table.
///
/// # Safety
/// A range table, or null.
unsafe fn require_entries(entries: *mut pg_sys::List, extension: Option<Oid>) {
    // SAFETY: the caller's promise. The list's elements are entries of a range table.
    unsafe {
        let count = if entries.is_null() { 0 } else { (*entries).length as usize };
        for at in 0..count {
            let entry = &*(*(*entries).elements.add(at)).ptr_value.cast::<pg_sys::RangeTblEntry>();
            if entry.relid != pg_sys::InvalidOid && !may_use(extension, entry.relid) {
                error::not_as_installed().raise();
            }
        }
    }
}

/// Refuses to create the extension in a schema that another role owns, who could put other objects
/// in the place of the extension's. A superuser has no need to. `created` has just got its row.
pub fn require_own_schema(created: Oid) {
    // SAFETY: scans a catalog, and closes what it opens.
    let (schema, installer) = unsafe {
        let mut key: pg_sys::ScanKeyData = std::mem::zeroed();
        pg_sys::ScanKeyInit(
            &mut key,
            pg_sys::Anum_pg_extension_oid as i16,
            pg_sys::BTEqualStrategyNumber as u16,
            Oid::from_u32(pg_sys::F_OIDEQ),
            created.into(),
        );
        let lock = pg_sys::AccessShareLock as i32;
        let catalog = pg_sys::table_open(pg_sys::ExtensionRelationId, lock);
        let index = Oid::from_u32(pg_sys::ExtensionOidIndexId);
        // The command that inserted the row has not ended.
        let snapshot = &raw mut pg_sys::SnapshotSelfData;
        let scan = pg_sys::systable_beginscan(catalog, index, true, snapshot, 1, &mut key);
        let tuple = pg_sys::systable_getnext(scan);
        let found = (!tuple.is_null()).then(|| {
            let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_extension>();
            let is_ours = CStr::from_ptr(row.extname.data.as_ptr()) == EXTENSION;
            is_ours.then_some((row.extnamespace, row.extowner))
        });
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(catalog, lock);
        let Some(row) = found.flatten() else { return };
        row
    };
    // SAFETY: a catalog look-up inside a transaction; the tuple is released.
    let owner = unsafe {
        let key = pg_sys::SysCacheIdentifier::NAMESPACEOID as i32;
        let tuple = pg_sys::SearchSysCache1(key, schema.into());
        if tuple.is_null() {
            return;
        }
        let owner = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_namespace>()).nspowner;
        pg_sys::ReleaseSysCache(tuple);
        owner
    };
    // SAFETY: reads the server's mode, and a catalog. pg_upgrade creates what was there before.
    let may =
        unsafe { owner == installer || pg_sys::superuser_arg(owner) || pg_sys::IsBinaryUpgrade };
    if !may {
        error::schema_of_another_role().raise();
    }
}

//! Catalog look-ups, index scans, and walks through trees of nodes.

use pgrx::pg_sys::{self, Oid, Relation};
use std::ffi::c_void;

/// A function that is called for each node below another one.
pub type Walker = unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> bool;

/// Whether a role may do what only a database's owner may.
pub fn is_database_owner(database: Oid, role: Oid) -> bool {
    // SAFETY: a catalog look-up inside a transaction.
    #[cfg(any(feature = "pg14", feature = "pg15"))]
    return unsafe { pg_sys::pg_database_ownercheck(database, role) };
    // SAFETY: as above.
    #[cfg(not(any(feature = "pg14", feature = "pg15")))]
    return unsafe { pg_sys::object_ownercheck(pg_sys::DatabaseRelationId, database, role) };
}

/// Whether a role has the right to connect to a database.
pub fn may_connect(database: Oid, role: Oid) -> bool {
    let privilege = pg_sys::ACL_CONNECT;
    // SAFETY: a catalog look-up inside a transaction.
    #[cfg(any(feature = "pg14", feature = "pg15"))]
    let answer = unsafe { pg_sys::pg_database_aclcheck(database, role, privilege) };
    // SAFETY: as above.
    #[cfg(not(any(feature = "pg14", feature = "pg15")))]
    let answer = unsafe {
        pg_sys::object_aclcheck(pg_sys::DatabaseRelationId, database, role, privilege.into())
    };
    answer == pg_sys::AclResult::ACLCHECK_OK
}

/// Whether a role may become another by SET ROLE, of which it is a member. A membership may exclude
/// that from PostgreSQL 16 on.
pub fn may_set_role(role: Oid, other: Oid) -> bool {
    // SAFETY: a catalog look-up inside a transaction.
    #[cfg(any(feature = "pg14", feature = "pg15"))]
    return unsafe { pg_sys::is_member_of_role(role, other) };
    // SAFETY: as above.
    #[cfg(not(any(feature = "pg14", feature = "pg15")))]
    return unsafe { pg_sys::member_can_set_role(role, other) };
}

/// The index of a table's primary key, or `InvalidOid`. One that is deferrable does not count.
///
/// # Safety
/// The relation is open and locked.
pub unsafe fn primary_key_index(table: Relation) -> Oid {
    // SAFETY: the caller's promise.
    #[cfg(not(feature = "pg18"))]
    return unsafe { pg_sys::RelationGetPrimaryKeyIndex(table) };
    // SAFETY: as above.
    #[cfg(feature = "pg18")]
    return unsafe { pg_sys::RelationGetPrimaryKeyIndex(table, false) };
}

/// Begins a scan of an index with one key.
///
/// # Safety
/// The relations are open and locked, the index is one of the table's, and the snapshot is
/// registered for as long as the scan.
pub unsafe fn begin_index_scan(
    table: Relation,
    index: Relation,
    snapshot: pg_sys::Snapshot,
) -> pg_sys::IndexScanDesc {
    // SAFETY: the caller's promise.
    #[cfg(not(feature = "pg18"))]
    return unsafe { pg_sys::index_beginscan(table, index, snapshot, 1, 0) };
    // SAFETY: as above; the scan counts nothing for EXPLAIN.
    #[cfg(feature = "pg18")]
    return unsafe { pg_sys::index_beginscan(table, index, snapshot, std::ptr::null_mut(), 1, 0) };
}

/// Ends the insertions into an index: what its access method keeps for them is freed.
///
/// # Safety
/// The index is open, and was inserted into with this information, if at all.
pub unsafe fn end_insertions(index: Relation, info: *mut pg_sys::IndexInfo) {
    #[cfg(any(feature = "pg14", feature = "pg15", feature = "pg16"))]
    let _ = (index, info);
    // SAFETY: the caller's promise.
    #[cfg(not(any(feature = "pg14", feature = "pg15", feature = "pg16")))]
    unsafe {
        pg_sys::index_insert_cleanup(index, info)
    }
}

/// Calls a function for the parts of a query.
///
/// # Safety
/// The query is whole, and the walker takes what is passed to it.
pub unsafe fn walk_query(query: *mut pg_sys::Query, walker: Walker, passed: *mut c_void) -> bool {
    #[cfg(any(feature = "pg14", feature = "pg15"))]
    use pg_sys::query_tree_walker;
    #[cfg(not(any(feature = "pg14", feature = "pg15")))]
    use pg_sys::query_tree_walker_impl as query_tree_walker;
    // SAFETY: the caller's promise.
    unsafe { query_tree_walker(query, Some(walker), passed, 0) }
}

/// Calls a function for the nodes right below another one.
///
/// # Safety
/// The node is whole, and the walker takes what is passed to it.
pub unsafe fn walk_expression(
    node: *mut pg_sys::Node,
    walker: Walker,
    passed: *mut c_void,
) -> bool {
    #[cfg(any(feature = "pg14", feature = "pg15"))]
    use pg_sys::expression_tree_walker;
    #[cfg(not(any(feature = "pg14", feature = "pg15")))]
    use pg_sys::expression_tree_walker_impl as expression_tree_walker;
    // SAFETY: the caller's promise.
    unsafe { expression_tree_walker(node, Some(walker), passed) }
}

//! How PostgreSQL reads the live tasks of the view `tasks` when the query wants few rows.
//!
//! PostgreSQL takes a union for as quick to begin as its first part. So with a LIMIT it plans the
//! parts that are cheapest as a whole: a bitmap of all ready tasks of a queue, for the first
//! hundred.

use crate::extension::database;
use pgrx::pg_sys::{self, List, NodeTag, Path, PlannerInfo, RelOptInfo};
use pgrx::prelude::*;
use std::ffi::CStr;
use std::ptr;

/// The function of which each part with rows of live tasks asks.
const MARK: &CStr = c"_is_owned";

/// An index that leaves more of the table than this does not narrow the search.
const NARROWS: f64 = 0.5;

static mut BEFORE: pg_sys::set_rel_pathlist_hook_type = None;

/// Hooks into the planner; called while the library is preloaded.
pub fn register() {
    // SAFETY: the postmaster has one thread, and calls an earlier hook in turn.
    unsafe {
        BEFORE = pg_sys::set_rel_pathlist_hook;
        pg_sys::set_rel_pathlist_hook = Some(choose);
    }
}

unsafe extern "C-unwind" fn choose(
    root: *mut PlannerInfo,
    rel: *mut RelOptInfo,
    number: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: passes the arguments on unchanged. Few rows are wanted when the fraction is not 0.
    unsafe {
        if let Some(before) = BEFORE {
            before(root, rel, number, entry);
        }
        if (*root).tuple_fraction > 0.0 && (*entry).rtekind == pg_sys::RTEKind::RTE_RELATION {
            choose_of_table(root, rel, (*entry).relid);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn choose_of_table(
    root: *mut PlannerInfo,
    rel: *mut RelOptInfo,
    table: pg_sys::Oid,
) {
    // SAFETY: as PostgreSQL calls the hook.
    unsafe {
        if database::cached().is_some_and(|db| db.task == table) && has_mark(rel) {
            use_indexes(root, rel);
        }
    }
}

/// Whether the rows are those of a part of the view.
///
/// # Safety
/// A relation that is being planned.
unsafe fn has_mark(rel: *mut RelOptInfo) -> bool {
    // SAFETY: the list has conditions; each node is of the type that its tag tells.
    unsafe {
        each((*rel).baserestrictinfo).any(|it: *mut pg_sys::RestrictInfo| {
            let clause: *mut pg_sys::BoolExpr = (*it).clause.cast();
            if (*clause).xpr.type_ != NodeTag::T_BoolExpr
                || (*clause).boolop != pg_sys::BoolExprType::NOT_EXPR
            {
                return false;
            }
            each((*clause).args).any(|asked: *mut pg_sys::FuncExpr| {
                (*asked).xpr.type_ == NodeTag::T_FuncExpr && {
                    let name = pg_sys::get_func_name((*asked).funcid);
                    !name.is_null() && CStr::from_ptr(name) == MARK
                }
            })
        })
    }
}

/// Leaves the scans of indexes, which begin at once. A scan of the table stays as well where no
/// index narrows the search.
///
/// # Safety
/// A table that is being planned.
unsafe fn use_indexes(root: *mut PlannerInfo, rel: *mut RelOptInfo) {
    // SAFETY: paths of this table; the list of paths is whole again at the end.
    unsafe {
        let before = (*rel).pathlist;
        (*rel).pathlist = ptr::null_mut();
        pg_sys::create_index_paths(root, rel);
        let is_index = |it: &*mut Path| (**it).type_ == NodeTag::T_IndexPath;
        let indexes: Vec<*mut Path> = each((*rel).pathlist).filter(is_index).collect();
        if indexes.is_empty() {
            (*rel).pathlist = before;
            return;
        }
        let narrows = |it: &*mut Path| (*it.cast::<pg_sys::IndexPath>()).indexselectivity < NARROWS;
        let narrowed = indexes.iter().any(narrows);
        (*rel).pathlist = ptr::null_mut();
        for it in indexes {
            (*rel).pathlist = pg_sys::lappend((*rel).pathlist, it.cast());
        }
        if !narrowed {
            let is_scan = |it: &*mut Path| (**it).pathtype == NodeTag::T_SeqScan;
            each(before).filter(is_scan).for_each(|it| pg_sys::add_path(rel, it));
        }
    }
}

/// The elements of a list of pointers.
///
/// # Safety
/// A list of such, or null, that does not change meanwhile.
unsafe fn each<T>(list: *mut List) -> impl Iterator<Item = *mut T> {
    // SAFETY: the caller's promise.
    let count = if list.is_null() { 0 } else { unsafe { (*list).length as usize } };
    // SAFETY: as above.
    (0..count).map(move |at| unsafe { (*(*list).elements.add(at)).ptr_value.cast() })
}

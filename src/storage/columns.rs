//! The columns of a table, and where a writer has their values from.

use crate::error;
use crate::extension::database::Database;
use crate::extension::members;
use pgrx::PgTupleDesc;
use pgrx::pg_sys::{self, Datum, FormData_pg_attribute, Oid, Relation};
use std::ffi::CStr;
use std::ptr;

/// The columns of a table, dropped ones too.
///
/// # Safety
/// The relation is open, and the columns are used no longer than that.
pub unsafe fn columns<'r>(table: Relation) -> PgTupleDesc<'r> {
    // SAFETY: the relation's descriptor.
    unsafe { PgTupleDesc::from_pg_unchecked((*table).rd_att) }
}

pub fn find_column<'c>(columns: &'c PgTupleDesc, name: &str) -> Option<&'c FormData_pg_attribute> {
    columns.iter().find(|it| !it.attisdropped && name_of(it) == name.as_bytes())
}

fn name_of(column: &FormData_pg_attribute) -> &[u8] {
    // SAFETY: a name ends with a zero.
    unsafe { CStr::from_ptr(column.attname.data.as_ptr()) }.to_bytes()
}

/// A column that a writer gives values to.
pub struct Given {
    pub name: &'static str,
    pub oid: Oid,
    pub modifier: i32,
    /// Whether some rows have no value.
    pub is_nullable: bool,
}

/// Where a column's value comes from.
#[derive(Clone, Copy)]
pub enum Source {
    /// The column that was given at this position.
    Given(usize),
    /// The column's default; null where it was dropped.
    Default(Option<Datum>),
}

/// Where the columns of a table have their values from.
pub struct Sources {
    /// For each column of the table.
    pub all: Vec<Source>,
    /// What defaults point to.
    _kept: Vec<Box<[u64]>>,
}

/// The length of a type whose values have a length of their own.
const VARLENA: i32 = -1;

impl Sources {
    /// Of a table to which rows with these columns are written. The others have the defaults of
    /// `top`: the table itself, or that of which it is a partition. Refuses tables that have been
    /// altered, or to which others have added what the writers leave out.
    ///
    /// # Safety
    /// The relations are open and locked.
    pub unsafe fn find(db: &Database, table: Relation, top: Relation, given: &[Given]) -> Sources {
        // SAFETY: open relations.
        let (class, above) = unsafe {
            for oid in [(*top).rd_id, (*table).rd_id] {
                if let Some(added) = members::added_to(db.extension, oid) {
                    error::added(&added).raise();
                }
            }
            (&*(*table).rd_rel, columns(top))
        };
        let name = if table == top { "scylla.task" } else { "scylla.finished" };
        let mut kept = Vec::new();
        let mut source = |column: &FormData_pg_attribute| {
            if column.attisdropped {
                return Some(Source::Default(None));
            }
            let is_it = |it: &Given| it.name.as_bytes() == name_of(column);
            if let Some(at) = given.iter().position(is_it) {
                let it = &given[at];
                let has_type = column.atttypid == it.oid && column.atttypmod == it.modifier;
                let takes_null = !(it.is_nullable && column.attnotnull);
                return (has_type && takes_null).then_some(Source::Given(at));
            }
            let column = above.iter().find(|it| it.attname.data == column.attname.data)?;
            // SAFETY: the caller's promise.
            unsafe { default(top, column, &mut kept) }.map(Source::Default)
        };
        // SAFETY: an open relation.
        let all: Option<Vec<Source>> = unsafe { columns(table) }
            .iter()
            .map(|column| source(column).filter(|_| !is_computed(column)))
            .collect();
        let is_given = |it: &&Source| matches!(it, Source::Given(_));
        let is_heap = class.relkind as u8 == pg_sys::RELKIND_RELATION
            && class.relam == pg_sys::HEAP_TABLE_AM_OID;
        // Names are unique within a table, so counting is enough.
        let all = all.filter(|all| all.iter().filter(is_given).count() == given.len() && is_heap);
        let all = all.unwrap_or_else(|| error::altered(name).raise());
        Sources { all, _kept: kept }
    }
}

/// Whether the server gives the column its values.
fn is_computed(column: &FormData_pg_attribute) -> bool {
    column.attgenerated != 0 || column.attidentity != 0
}

/// The default of a column, which may be null; `None`: it is no constant, or the column must not be
/// null. What it points to is added to `kept`.
///
/// # Safety
/// A column of the open relation.
unsafe fn default(
    table: Relation,
    column: &FormData_pg_attribute,
    kept: &mut Vec<Box<[u64]>>,
) -> Option<Option<Datum>> {
    // SAFETY: an expression or null. A value of a varying length is copied in whole.
    unsafe {
        let default = pg_sys::build_column_default(table, column.attnum.into());
        if default.is_null() {
            return (!column.attnotnull).then_some(None);
        }
        if (*default).type_ != pg_sys::NodeTag::T_Const {
            return None;
        }
        let constant = &*default.cast::<pg_sys::Const>();
        if constant.constisnull || !(constant.constbyval || constant.constlen == VARLENA) {
            return None;
        }
        if constant.constbyval {
            return Some(Some(constant.constvalue));
        }
        let value = pg_sys::pg_detoast_datum(constant.constvalue.cast_mut_ptr());
        let length = pgrx::varsize_any(value);
        let mut copy = vec![0; length.div_ceil(size_of::<u64>())].into_boxed_slice();
        ptr::copy_nonoverlapping(value.cast::<u8>(), copy.as_mut_ptr().cast(), length);
        let place = Datum::from(copy.as_mut_ptr());
        kept.push(copy);
        Some(Some(place))
    }
}

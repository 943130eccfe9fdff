//! Where a backend is at db: its database, and this creation of the extension in it (I12).

use crate::error;
use crate::pg::process;
use crate::pg::{datum, relcache};
use crate::shmem::segment::{wake_launcher, with_board};
use board::{Board, BuildState};
use pgrx::pg_sys;
use std::cell::Cell;
use std::ffi::CStr;

/// What a call needs to know of its database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Database {
    pub database: pg_sys::Oid,
    pub extension: pg_sys::Oid,
    /// The owner of the tables: functions act with its rights.
    pub owner: pg_sys::Oid,
    /// The tables of live and of settled tasks. What belongs to a table, such as an index, is looked up once
    /// the table is locked: until then it may be replaced.
    pub task: pg_sys::Oid,
    pub finished: pg_sys::Oid,
}

thread_local! {
    static CURRENT: Cell<Option<Database>> = const { Cell::new(None) };
}

/// This backend's db, as far as it is known; `None` where the extension is not created.
pub fn known() -> Option<Database> {
    CURRENT.get().or_else(find_database)
}

/// As `db`, but looks anew, and is `None` where the extension is not created.
pub fn find_again() -> Option<Database> {
    CURRENT.set(None);
    find_database()
}

fn find_database() -> Option<Database> {
    relcache::on_change(table_changed);
    // SAFETY: catalog look-ups inside a transaction; the tuple is released before it is left.
    let db = unsafe {
        let extension = pg_sys::get_extension_oid(c"scylla".as_ptr(), true);
        let schema = pg_sys::get_namespace_oid(c"scylla".as_ptr(), true);
        let task = pg_sys::get_relname_relid(c"task".as_ptr(), schema);
        let finished = pg_sys::get_relname_relid(c"finished".as_ptr(), schema);
        let key = pg_sys::SysCacheIdentifier::RELOID as i32;
        let tuple = pg_sys::SearchSysCache1(key, task.into());
        if extension == pg_sys::InvalidOid || tuple.is_null() {
            return None;
        }
        let owner = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>()).relowner;
        pg_sys::ReleaseSysCache(tuple);
        if finished == pg_sys::InvalidOid {
            return None;
        }
        let database = process::database();
        Database { database, extension, owner, task, finished }
    };
    CURRENT.set(Some(db));
    Some(db)
}

/// The owner may be another now, or the extension created anew.
fn table_changed(table: pg_sys::Oid) {
    if CURRENT.get().is_some_and(|db| db.task == table || table == pg_sys::InvalidOid) {
        CURRENT.set(None);
    }
}

impl Database {
    /// This db's number on the board, open or not; made if there is none.
    pub fn enter(&self) -> u32 {
        self.look_in().0
    }

    /// This db's number on the board, and whether it is open and has_scheduler by a clock.
    pub(super) fn look_in(&self) -> (u32, bool, bool) {
        let found = with_board(|board| {
            let entry = board.register(self.database.to_u32(), self.extension.to_u32())?;
            let it = board.entry(entry);
            Some((entry, it.build_state == BuildState::Built, it.scheduler != 0))
        });
        let Some((entry, open, has_scheduler)) = found else { error::too_many_databases().raise() };
        if !has_scheduler {
            wake_launcher();
        }
        (entry, open, has_scheduler)
    }

    /// This db's number on the board, if it is there.
    pub fn find(&self, board: &Board) -> Option<u32> {
        board.find_entry(self.database.to_u32(), self.extension.to_u32())
    }

    /// The database's name, for messages.
    pub fn database_name(&self) -> String {
        // SAFETY: a catalog look-up inside a transaction; the name, if there is one, ends with a zero.
        unsafe {
            let name = pg_sys::get_database_name(self.database);
            if name.is_null() {
                return self.database.to_u32().to_string();
            }
            datum::printable(CStr::from_ptr(name).to_bytes())
        }
    }
}

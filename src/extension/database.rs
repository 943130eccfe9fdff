//! The database that this backend is connected to, and this creation of the extension in it (I12).

use crate::error;
use crate::extension::members;
use crate::pg::process;
use crate::pg::{datum, relcache};
use crate::shmem::segment::{wake_launcher, with_board};
use board::{Board, BuildState, MAX_DATABASES};
use pgrx::pg_sys;
use std::cell::{Cell, RefCell};
use std::ffi::CStr;

/// What a call needs to know of its database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Database {
    pub database: pg_sys::Oid,
    pub extension: pg_sys::Oid,
    /// The owner of the tables: functions act with its rights.
    pub owner: pg_sys::Oid,
    /// The tables of live and of settled tasks. What belongs to a table, such as an index, is
    /// looked up once the table is locked: until then it may be replaced.
    pub task: pg_sys::Oid,
    pub finished: pg_sys::Oid,
}

thread_local! {
    static CURRENT: Cell<Option<Database>> = const { Cell::new(None) };
    /// The tables and sequences of the extension, as CURRENT was found.
    static TABLES: RefCell<Vec<pg_sys::Oid>> = const { RefCell::new(Vec::new()) };
    /// How often they have changed.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// The version of the library, and of the extension's objects that it works with.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// This backend's database, if it was looked up already.
pub fn cached() -> Option<Database> {
    CURRENT.get()
}

/// This backend's database, from the cache or the catalogs; `None` where the extension does not
/// exist or is of another version, or its tables are not where the statements look for them, have
/// several owners, or have something of others that they must not have.
pub fn cached_or_find() -> Option<Database> {
    CURRENT.get().or_else(find_database)
}

/// As `cached_or_find`, always from the catalogs.
pub fn find_again() -> Option<Database> {
    CURRENT.set(None);
    find_database()
}

fn find_database() -> Option<Database> {
    relcache::on_change(table_changed);
    let extension = members::extension()?;
    if other_version(extension).is_some() {
        return None;
    }
    let task = members::table(extension, c"task")?;
    let finished = members::table(extension, c"finished")?;
    let owner = members::owner(task)?;
    let tables = members::tables(extension);
    let is_other = tables.iter().any(|(_, table)| members::owner(*table) != Some(owner));
    TABLES.set(tables.into_iter().map(|(_, table)| table).collect());
    let changes = CHANGES.get();
    if is_other || members::added(extension).is_some() {
        return None;
    }
    let db = Database { database: process::database(), extension, owner, task, finished };
    // What changed meanwhile is looked at by the next call.
    CURRENT.set((CHANGES.get() == changes).then_some(db));
    Some(db)
}

/// The version of the extension's objects, if the library is not made for it.
pub fn other_version(extension: pg_sys::Oid) -> Option<String> {
    members::version(extension).filter(|version| version != VERSION)
}

/// The owner may have changed, others may have added something, or the extension may have been
/// created again.
fn table_changed(table: pg_sys::Oid) {
    let is_ours = || TABLES.with_borrow(|tables| tables.contains(&table));
    if table == pg_sys::InvalidOid || is_ours() {
        CHANGES.set(CHANGES.get() + 1);
        CURRENT.set(None);
    }
}

impl Database {
    /// The key of this database's entry.
    pub fn key(&self) -> EntryKey {
        (self.database.to_u32(), self.extension.to_u32())
    }

    /// The index of this database's entry on the board; registers it if it is new.
    pub fn enter(&self) -> u32 {
        self.register().0
    }

    /// The index of this database's entry, and whether its board is built and a scheduler serves
    /// it.
    pub fn register(&self) -> (u32, bool, bool) {
        let (database, extension) = self.key();
        let register = || {
            with_board(|board| {
                let entry = board.register(database, extension)?;
                let it = board.entry(entry);
                Some((entry, it.build_state == BuildState::Built, it.scheduler != 0))
            })
        };
        let found = register().or_else(|| {
            self.make_room();
            register()
        });
        let Some((entry, open, has_scheduler)) = found else { error::too_many_databases().raise() };
        if !has_scheduler {
            wake_launcher();
        }
        (entry, open, has_scheduler)
    }

    /// Takes the entries off the board of databases that do not exist any more, and of earlier
    /// creations of the extension in this one.
    fn make_room(&self) {
        // SAFETY: reads this backend's transaction state.
        let (may_look, writes) = unsafe {
            let xid = pg_sys::GetTopTransactionIdIfAny();
            (pg_sys::IsTransactionState(), xid != pg_sys::InvalidTransactionId)
        };
        for key in entries().into_iter().filter(|_| may_look) {
            let is_gone = if key.0 == self.database.to_u32() {
                // A transaction that writes may see a creation that is rolled back.
                key != self.key() && !writes
            } else {
                !exists(key.0)
            };
            if is_gone {
                remove_entry(key);
            }
        }
    }

    /// Takes everything of this database off the board, and closes it.
    pub fn clear(&self) {
        clear_entry(self.key(), |_| true);
    }

    /// One of the extension's tables.
    pub fn table(&self, name: &CStr) -> pg_sys::Oid {
        members::table(self.extension, name).unwrap_or_else(|| error::not_as_installed().raise())
    }

    /// The index of this database's entry, if it has one.
    pub fn find(&self, board: &Board) -> Option<u32> {
        board.find_entry(self.database.to_u32(), self.extension.to_u32())
    }

    /// The database's name, for messages.
    pub fn database_name(&self) -> String {
        // SAFETY: a catalog look-up inside a transaction; the name, if there is one, ends with a
        // zero.
        unsafe {
            let name = pg_sys::get_database_name(self.database);
            if name.is_null() {
                return self.database.to_u32().to_string();
            }
            datum::printable(CStr::from_ptr(name).to_bytes())
        }
    }
}

/// The key of an entry: the oids of a database and of an extension in it (I12). (0, 0): no entry.
pub type EntryKey = (u32, u32);

/// The entries of the board at this moment.
pub fn entries() -> [EntryKey; MAX_DATABASES] {
    with_board(|board| {
        let mut keys = [(0, 0); MAX_DATABASES];
        for (key, it) in keys.iter_mut().zip(board.entries()) {
            if it.build_state != BuildState::Vacant {
                *key = (it.database, it.extension);
            }
        }
        keys
    })
}

/// How many records of the board are cleared under one hold of its lock.
const CLEARED_AT_ONCE: u32 = 256;

/// Takes an entry off the board with all that it has there, unless another process schedules it.
/// Several may do so at once.
pub fn remove_entry(key: EntryKey) {
    // SAFETY: reads this process's id.
    let me = unsafe { pg_sys::MyProcPid };
    let may = |scheduler| [0, me].contains(&scheduler);
    clear_entry(key, may);
    with_board(|board| {
        let entry = board.find_entry(key.0, key.1);
        if let Some(entry) = entry.filter(|entry| may(board.entry(*entry).scheduler)) {
            board.remove(entry);
        }
    });
}

/// Takes everything of an entry off the board and closes it, step by step, as long as the process
/// that schedules it `may`.
fn clear_entry(key: EntryKey, may: impl Fn(i32) -> bool) {
    let mut next = Some(0);
    while let Some(from) = next {
        next = with_board(|board| {
            let entry = board.find_entry(key.0, key.1)?;
            if !may(board.entry(entry).scheduler) {
                return None;
            }
            board.entry_mut(entry).build_state = BuildState::Unbuilt;
            board.clear_entry(entry, from, CLEARED_AT_ONCE)
        });
    }
}

/// Whether a database exists, as far as this transaction sees.
fn exists(database: u32) -> bool {
    // SAFETY: a catalog look-up inside a transaction.
    unsafe {
        let key = pg_sys::SysCacheIdentifier::DATABASEOID as i32;
        let oid = pg_sys::Oid::from_u32(database);
        pg_sys::SearchSysCacheExists(key, oid.into(), 0.into(), 0.into(), 0.into())
    }
}

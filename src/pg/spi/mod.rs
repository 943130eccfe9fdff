//! Statements with parameters. A backend plans each once and runs it with the rights of the tables'
//! owner.

pub mod snapshot;

use crate::memory;
use crate::pg::compat::search_path;
use crate::pg::datum::Kind;
use crate::pg::planner;
use pgrx::pg_sys;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::ptr;

/// A statement of `sql/queries/`.
pub struct Statement {
    /// Makes the text, for the planner.
    pub text: fn() -> String,
    /// The types of the parameters.
    pub kinds: &'static [Kind],
    /// Null before the first use.
    pub plan: Cell<pg_sys::SPIPlanPtr>,
}

// SAFETY: each process has a copy of its own, and one thread.
unsafe impl Sync for Statement {}

/// Declares a statement: its name, its file, and the types of its parameters. A function can make
/// the text from that of the file.
macro_rules! statement {
    ($visible:vis $name:ident, $file:literal, $kinds:expr) => {
        $crate::pg::spi::statement!($visible $name, $file, $kinds, str::to_owned);
    };
    ($visible:vis $name:ident, $file:literal, $kinds:expr, $text:expr) => {
        $visible static $name: $crate::pg::spi::Statement = $crate::pg::spi::Statement {
            text: || {
                const FILE: &str = include_str!(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/sql/queries/",
                    $file,
                    ".sql"
                ));
                $text(FILE)
            },
            kinds: &$kinds,
            plan: std::cell::Cell::new(std::ptr::null_mut()),
        };
    };
}
pub(crate) use statement;

/// An SPI session as the owner of the tables, with a search path of pg_catalog only. Begins with
/// its first statement and ends when it is dropped, also by an error.
///
/// The functions of indexes on the tables run in it. They may belong to a role with fewer rights
/// than the caller, and must leave nothing behind that would run as the caller at the commit:
/// PostgreSQL refuses deferred triggers and cursors WITH HOLD here, and what they set ends with the
/// session.
pub struct Session {
    owner: pg_sys::Oid,
    begun: OnceCell<Begun>,
}

struct Begun {
    user: pg_sys::Oid,
    context: i32,
    /// Whether the session pushed a snapshot, because the caller had none.
    snapshot: bool,
    /// The nest level of settings that the session opened.
    settings: i32,
}

impl Begun {
    fn new(owner: pg_sys::Oid) -> Begun {
        let (mut user, mut context) = (pg_sys::InvalidOid, 0);
        // SAFETY: SPI, the user id and the snapshot are this backend's. All are undone in drop, or
        // by the abort of the transaction.
        unsafe {
            pg_sys::SPI_connect();
            pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
            let restricted =
                pg_sys::SECURITY_LOCAL_USERID_CHANGE | pg_sys::SECURITY_RESTRICTED_OPERATION;
            pg_sys::SetUserIdAndSecContext(owner, context | restricted as i32);
            let settings = pg_sys::NewGUCNestLevel();
            search_path::restrict();
            // Values that are stored out of line are read under an active snapshot, as long as the
            // rows live. A transaction that a procedure began has none.
            let snapshot = !pg_sys::ActiveSnapshotSet();
            if snapshot {
                pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            }
            Begun { user, context, snapshot, settings }
        }
    }
}

impl Session {
    /// A session that has not begun.
    pub fn new(owner: pg_sys::Oid) -> Session {
        Session { owner, begun: OnceCell::new() }
    }

    /// Runs a statement under a new snapshot at every isolation level (I5).
    pub fn run(&self, statement: &Statement, arguments: &[Option<pg_sys::Datum>]) -> Rows<'_> {
        self.begin();
        // SAFETY: inside a transaction, as the session is.
        self.run_under(statement, arguments, unsafe { pg_sys::GetLatestSnapshot() })
    }

    /// Begins the session, if it has not begun: from now on this process acts with its owner's
    /// rights.
    pub fn begin(&self) {
        self.begun.get_or_init(|| Begun::new(self.owner));
    }

    /// As `run`, under a snapshot.
    pub fn run_under(
        &self,
        statement: &Statement,
        arguments: &[Option<pg_sys::Datum>],
        snapshot: pg_sys::Snapshot,
    ) -> Rows<'_> {
        self.execute(|| statement.plan(), statement.kinds, arguments, snapshot)
    }

    /// As `run_under`, with a text that differs from call to call, but not in its values: its plan
    /// is kept for the next call with this text.
    pub fn run_variant(
        &self,
        text: String,
        kinds: &[Kind],
        arguments: &[Option<pg_sys::Datum>],
        snapshot: pg_sys::Snapshot,
    ) -> Rows<'_> {
        self.execute(|| variant(text, kinds), kinds, arguments, snapshot)
    }

    /// Runs a kept plan, which is made inside the session.
    fn execute(
        &self,
        plan: impl FnOnce() -> pg_sys::SPIPlanPtr,
        kinds: &[Kind],
        arguments: &[Option<pg_sys::Datum>],
        snapshot: pg_sys::Snapshot,
    ) -> Rows<'_> {
        assert_eq!(arguments.len(), kinds.len());
        memory::replenish();
        self.begin();
        let (mut values, nulls) = spread(arguments);
        let plan = plan();
        // SAFETY: the plan is kept. There is a value and a null for each parameter, of its type.
        unsafe {
            let status = pg_sys::SPI_execute_snapshot(
                plan,
                values.as_mut_ptr(),
                nulls.as_ptr(),
                snapshot,
                ptr::null_mut(),
                false,
                true,
                0,
            );
            assert!(status > 0, "a kept plan runs: SPI status {status}");
            self.rows()
        }
    }

    /// Runs a text once, for names that differ, such as those of partitions.
    pub fn run_text(
        &self,
        text: &[u8],
        kinds: &[Kind],
        arguments: &[Option<pg_sys::Datum>],
    ) -> Rows<'_> {
        self.run_planned(text, kinds, arguments, planner::OURS)
    }

    /// As `run_text`, for results of any size: passes the rows on, some at a time, as long as
    /// `take` wants more.
    pub fn read_text(
        &self,
        text: &[u8],
        kinds: &[Kind],
        arguments: &[Option<pg_sys::Datum>],
        mut take: impl FnMut(&Rows) -> bool,
    ) {
        assert_eq!(arguments.len(), kinds.len());
        self.begin();
        let (mut values, nulls) = spread(arguments);
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: there is a value and a null for each parameter, of its type. An error closes the
        // portal with its transaction.
        unsafe {
            let plan = prepare(&text, kinds, planner::OURS);
            let values = values.as_mut_ptr();
            let portal = pg_sys::SPI_cursor_open(ptr::null(), plan, values, nulls.as_ptr(), false);
            loop {
                memory::replenish();
                pg_sys::SPI_cursor_fetch(portal, true, READ_AT_ONCE);
                let rows = self.rows();
                let has_more = rows.len() > 0 && take(&rows);
                rows.free();
                if !has_more {
                    break;
                }
                pgrx::check_for_interrupts!();
            }
            pg_sys::SPI_cursor_close(portal);
        }
    }

    /// As `run_text`, about tables that are not the extension's.
    pub fn run_foreign(
        &self,
        text: &[u8],
        kinds: &[Kind],
        arguments: &[Option<pg_sys::Datum>],
    ) -> Rows<'_> {
        self.run_planned(text, kinds, arguments, 0)
    }

    /// The rows of the statement that has just run.
    fn rows(&self) -> Rows<'_> {
        // SAFETY: SPI's variables are this backend's; the table lives until the session ends.
        let (table, len) = unsafe { (pg_sys::SPI_tuptable, pg_sys::SPI_processed as usize) };
        Rows { table, len, session: PhantomData }
    }

    fn run_planned(
        &self,
        text: &[u8],
        kinds: &[Kind],
        arguments: &[Option<pg_sys::Datum>],
        options: i32,
    ) -> Rows<'_> {
        assert_eq!(arguments.len(), kinds.len());
        self.begin();
        let (mut values, nulls) = spread(arguments);
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: there is a value and a null for each parameter, of its type.
        unsafe {
            let plan = prepare(&text, kinds, options);
            let status =
                pg_sys::SPI_execute_plan(plan, values.as_mut_ptr(), nulls.as_ptr(), false, 0);
            assert!(status > 0, "a text of ours runs: SPI status {status}");
            self.rows()
        }
    }
}

/// How many rows `read_text` passes on at a time.
const READ_AT_ONCE: i64 = 1_000;

/// How many plans of variants a backend keeps.
const VARIANTS_MAX: usize = 64;

thread_local! {
    static VARIANTS: RefCell<VecDeque<(String, pg_sys::SPIPlanPtr)>> =
        const { RefCell::new(VecDeque::new()) };
}

/// The kept plan of a text, made at its first use.
fn variant(text: String, kinds: &[Kind]) -> pg_sys::SPIPlanPtr {
    let known = VARIANTS.with_borrow(|kept| kept.iter().find(|it| it.0 == text).map(|it| it.1));
    if let Some(plan) = known {
        return plan;
    }
    let generic = pg_sys::CURSOR_OPT_GENERIC_PLAN as i32;
    let code = CString::new(text.as_str()).unwrap_or_default();
    let plan = prepare(&code, kinds, generic | planner::OURS);
    // SAFETY: the plan was just made. The one that makes room is used by no statement: each has
    // ended.
    unsafe {
        pg_sys::SPI_keepplan(plan);
        VARIANTS.with_borrow_mut(|kept| {
            if kept.len() == VARIANTS_MAX
                && let Some((_, oldest)) = kept.pop_front()
            {
                pg_sys::SPI_freeplan(oldest);
            }
            kept.push_back((text, plan));
        });
    }
    plan
}

/// Plans a text in the current SPI session, with parameters of these types.
fn prepare(text: &CStr, kinds: &[Kind], options: i32) -> pg_sys::SPIPlanPtr {
    let mut oids: Vec<_> = kinds.iter().map(|kind| kind.oid).collect();
    // SAFETY: the text ends with a zero; `count` is the number of types.
    let plan = unsafe {
        let count = oids.len() as i32;
        pg_sys::SPI_prepare_cursor(text.as_ptr(), count, oids.as_mut_ptr(), options)
    };
    assert!(!plan.is_null(), "a statement of ours can be planned");
    plan
}

/// Arguments as SPI takes them: values and nulls.
fn spread(arguments: &[Option<pg_sys::Datum>]) -> (Vec<pg_sys::Datum>, Vec<std::ffi::c_char>) {
    let null = |it: &Option<_>| if it.is_none() { b'n' } else { b' ' } as std::ffi::c_char;
    (
        arguments.iter().map(|it| it.unwrap_or(0.into())).collect(),
        arguments.iter().map(null).collect(),
    )
}

impl Drop for Begun {
    fn drop(&mut self) {
        // SAFETY: as in new. An error may leave other snapshots above this one: the abort pops all.
        unsafe {
            search_path::restore();
            pg_sys::AtEOXact_GUC(false, self.settings);
            if self.snapshot && !std::thread::panicking() {
                pg_sys::PopActiveSnapshot();
            }
            pg_sys::SetUserIdAndSecContext(self.user, self.context);
            pg_sys::SPI_finish();
        }
    }
}

impl Statement {
    /// The plan, made at the first use.
    fn plan(&self) -> pg_sys::SPIPlanPtr {
        if self.plan.get().is_null() {
            let generic = pg_sys::CURSOR_OPT_GENERIC_PLAN as i32;
            let text = CString::new((self.text)()).unwrap_or_default();
            let plan = prepare(&text, self.kinds, generic | planner::OURS);
            // SAFETY: the plan was just made; it is kept for the life of the backend.
            unsafe { pg_sys::SPI_keepplan(plan) };
            self.plan.set(plan);
        }
        self.plan.get()
    }
}

/// The rows that a statement returned. They are the session's, which must outlive them.
pub struct Rows<'session> {
    table: *mut pg_sys::SPITupleTable,
    len: usize,
    session: PhantomData<&'session Session>,
}

impl Rows<'_> {
    /// Frees the rows before the session ends, for a call that reads again and again. No value of
    /// theirs may be used any more.
    pub fn free(self) {
        // SAFETY: the table is of the session, which is open, and is freed once; null does nothing.
        unsafe { pg_sys::SPI_freetuptable(self.table) };
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        if self.table.is_null() { 0 } else { self.len }
    }

    /// The first column of the first row.
    pub fn first(&self) -> Option<pg_sys::Datum> {
        (self.len() > 0).then(|| self.get(0, 0)).flatten()
    }

    /// A value; rows and columns count from 0.
    pub fn get(&self, row: usize, column: usize) -> Option<pg_sys::Datum> {
        assert!(row < self.len());
        let mut null = false;
        // SAFETY: the row exists; SPI_getbinval checks the column.
        let value = unsafe {
            let tuple = *(*self.table).vals.add(row);
            pg_sys::SPI_getbinval(tuple, (*self.table).tupdesc, column as i32 + 1, &mut null)
        };
        (!null).then_some(value)
    }
}

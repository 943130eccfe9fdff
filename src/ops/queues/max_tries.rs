//! How many tries the tasks of a queue get that have no number of their own. A session remembers
//! it: workers are told with each task.

use crate::extension::database::Database;
use crate::guc;
use crate::pg::datum::{self, TEXT};
use crate::pg::relcache;
use crate::pg::spi::statement;
use crate::storage::rows::session;
use pgrx::pg_sys::{self, Oid};
use std::cell::{Cell, RefCell};

statement!(MAX_TRIES, "queues/max_tries", [TEXT]);

/// How many queues a session remembers.
const KNOWN_MAX: usize = 64;

/// The setting of one queue; `None`: it has none.
struct Known {
    /// The table of live tasks of its database.
    task: Oid,
    queue: Vec<u8>,
    max_tries: Option<i32>,
}

thread_local! {
    /// The latest first.
    static KNOWN: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
    /// The table of settings, once it was read.
    static TABLE: Cell<Oid> = const { Cell::new(pg_sys::InvalidOid) };
    /// Grows with each change of settings.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// The tries of tasks of one queue, looked up when the first task asks.
pub struct MaxTries<'q> {
    db: &'q Database,
    queue: &'q [u8],
    found: Option<i32>,
}

impl<'q> MaxTries<'q> {
    pub fn new(db: &'q Database, queue: &'q [u8]) -> MaxTries<'q> {
        MaxTries { db, queue, found: None }
    }

    /// The tries of a task with a number of its own or none. 0: no limit.
    pub fn of(&mut self, own: Option<i32>) -> i32 {
        own.unwrap_or_else(|| {
            let of_queue = || setting(self.db, self.queue).unwrap_or_else(guc::max_tries);
            *self.found.get_or_insert_with(of_queue)
        })
    }
}

/// The setting of a queue; `None`: it has none.
fn setting(db: &Database, queue: &[u8]) -> Option<i32> {
    relcache::on_change(table_changed);
    let known = KNOWN.with_borrow(|known| {
        let found = known.iter().find(|it| it.task == db.task && it.queue == queue);
        found.map(|it| it.max_tries)
    });
    known.unwrap_or_else(|| {
        TABLE.set(settings_table(db));
        loop {
            // A change that is heard of while the table is read may be newer than what is read.
            let changes = CHANGES.get();
            let session = session(db);
            let found = session.run(&MAX_TRIES, &[Some(datum::varlena(queue))]).first();
            let max_tries = found.map(|it| it.value() as i32);
            if CHANGES.get() == changes {
                KNOWN.with_borrow_mut(|known| {
                    known.truncate(KNOWN_MAX - 1);
                    known.insert(0, Known { task: db.task, queue: queue.to_vec(), max_tries });
                });
                return max_tries;
            }
            pgrx::check_for_interrupts!();
        }
    })
}

fn table_changed(table: Oid) {
    if table == TABLE.get() || table == pg_sys::InvalidOid {
        CHANGES.set(CHANGES.get() + 1);
        KNOWN.with_borrow_mut(Vec::clear);
    }
}

fn settings_table(db: &Database) -> Oid {
    db.table(c"queue")
}

/// Makes all sessions look at the settings again, from the commit on, and this one at once.
pub fn announce_change(db: &Database) {
    relcache::announce_change(settings_table(db));
}

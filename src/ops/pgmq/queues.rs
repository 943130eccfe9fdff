//! Queues of messages: creating, finding and dropping them. A session remembers those that it
//! finds.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::drop_queue::drop_queue;
use crate::ops::pgmq::finish;
use crate::ops::queues::configure;
use crate::pg::datum::{self, BOOL, INTEGER, TEXT};
use crate::pg::relcache;
use crate::pg::spi::statement;
use crate::pg::uuid::queue_hash;
use crate::storage::rows::session;
use board::Micros;
use pgrx::pg_sys::{self, Datum, Oid};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char};
use std::rc::Rc;

statement!(FIND, "pgmq/find", [TEXT]);
statement!(LIST, "pgmq/list", []);
statement!(CREATE, "pgmq/create", [TEXT, TEXT, BOOL, BOOL]);
statement!(VIEWS, "pgmq/views", [TEXT]);
statement!(DROP, "pgmq/drop", [TEXT]);
statement!(NOTIFY, "pgmq/notify", [TEXT, INTEGER, BOOL]);
statement!(HAS_PGMQ, "pgmq/has_pgmq", []);

const ENABLE: &str = include_str!("../../../sql/pgmq/enable.sql");
const DISABLE: &str = include_str!("../../../sql/pgmq/disable.sql");

/// How many queues a session remembers.
const KNOWN_MAX: usize = 64;

/// The longest name, in characters: the names of pgmq's tables are made of it.
const NAME_MAX: usize = 47;

/// Where the retention is among the settings of a queue, and how many these are.
const RETENTION: usize = 1;
const SETTINGS: usize = 12;

/// A queue of the schema `pgmq`.
pub struct MessageQueue {
    /// The name of the queue.
    pub queue: Rc<[u8]>,
    /// Its name as it was created.
    pub name: Rc<[u8]>,
    /// Its hash in the ids of its messages.
    pub hash: u64,
    /// How often a session notifies of new messages, in milliseconds; `None`: it does not.
    pub notify_interval: Option<i64>,
}

struct Known {
    /// The table of live tasks of its database.
    task: Oid,
    name: Vec<u8>,
    queue: Rc<MessageQueue>,
}

thread_local! {
    /// The latest first.
    static KNOWN: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
    /// The table of the queues, once it was read.
    static TABLE: Cell<Oid> = const { Cell::new(pg_sys::InvalidOid) };
    /// Grows with each change of it.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// Creates the schema `pgmq`, with views for the queues that are there.
pub fn enable(db: &Database) -> Result<()> {
    let session = session(db);
    if session.run(&HAS_PGMQ, &[]).len() > 0 {
        return Err(error::pgmq_is_installed());
    }
    session.run_text(ENABLE.as_bytes(), &[], &[]);
    let rows = session.run(&LIST, &[]);
    for row in 0..rows.len() {
        create_views(db, rows.get(row, 0));
    }
    Ok(())
}

/// Drops the schema `pgmq`. Its queues stay.
pub fn disable(db: &Database) {
    session(db).run_text(DISABLE.as_bytes(), &[], &[]);
}

// pgrx has no binding.
unsafe extern "C-unwind" {
    fn str_tolower(text: *const c_char, bytes: usize, collation: Oid) -> *mut c_char;
}

/// The name of the queue that pgmq's name means: it is not case-sensitive.
pub fn name(given: &[u8]) -> Result<Vec<u8>> {
    let has = |part: &[u8]| given.windows(part.len()).any(|it| it == part);
    if [&b"$"[..], b";", b"--", b"'"].into_iter().any(has) {
        return Err(error::bad_message_queue(given));
    }
    // SAFETY: reads the bytes; the copy ends with a zero. Names fold by the database's default
    // collation, as pgmq's do.
    let folded = unsafe {
        let text = given.as_ptr().cast();
        CStr::from_ptr(str_tolower(text, given.len(), pg_sys::DEFAULT_COLLATION_OID))
    };
    Ok(folded.to_bytes().to_vec())
}

/// The queue of a name; an error where it was not created.
pub fn find(db: &Database, given: &[u8]) -> Result<Rc<MessageQueue>> {
    relcache::on_change(table_changed);
    let known = KNOWN.with_borrow(|known| {
        let found = known.iter().find(|it| it.task == db.task && it.name == given);
        found.map(|it| it.queue.clone())
    });
    if let Some(queue) = known {
        return Ok(queue);
    }
    let queue = name(given)?;
    TABLE.set(table(db));
    loop {
        // A change that is heard of while the table is read may be newer than what is read.
        let changes = CHANGES.get();
        let session = session(db);
        let rows = session.run(&FIND, &[Some(datum::varlena(&queue))]);
        if rows.len() == 0 {
            return Err(error::no_such_message_queue(given));
        }
        let notify_interval = rows.get(0, 0).map(|it| i64::from(it.value() as i32));
        let found = Rc::new(MessageQueue {
            queue: queue.as_slice().into(),
            name: datum::text(rows.get(0, 1)).into(),
            hash: queue_hash(&queue),
            notify_interval,
        });
        if CHANGES.get() == changes {
            KNOWN.with_borrow_mut(|known| {
                known.truncate(KNOWN_MAX - 1);
                let name = given.to_vec();
                known.insert(0, Known { task: db.task, name, queue: found.clone() });
            });
            return Ok(found);
        }
        pgrx::check_for_interrupts!();
    }
}

/// Creates a queue, unless it is there.
pub fn create(db: &Database, given: &[u8], partitioned: bool, unlogged: bool) -> Result<()> {
    let queue = name(given)?;
    check_length(given)?;
    let is_used = configure::exists(db, &queue);
    let arguments = [
        Some(datum::varlena(&queue)),
        Some(datum::varlena(given)),
        Some(Datum::from(partitioned)),
        Some(Datum::from(unlogged)),
    ];
    if session(db).run(&CREATE, &arguments).len() == 0 {
        return Ok(());
    }
    if is_used {
        return Err(error::queue_has_tasks(&queue));
    }
    // The archive is kept.
    let mut settings = [None; SETTINGS];
    settings[RETENTION] = Some(datum::interval(Micros::from_days(73_000)));
    configure::configure(db, &queue, &settings)?;
    create_views(db, Some(datum::varlena(&queue)));
    relcache::announce_change(table(db));
    Ok(())
}

/// Refuses a name that is too long for pgmq.
pub fn check_length(given: &[u8]) -> Result<()> {
    // SAFETY: a text.
    let length = unsafe {
        pgrx::direct_function_call_as_datum(pg_sys::textlen, &[Some(datum::varlena(given))])
    };
    match datum::number(length) as usize > NAME_MAX {
        true => Err(error::message_queue_too_long()),
        false => Ok(()),
    }
}

/// Creates the views of a queue and its archive.
fn create_views(db: &Database, queue: Option<Datum>) {
    let session = session(db);
    let rows = session.run(&VIEWS, &[queue]);
    if let Some(text) = datum::optional_text(rows.first()) {
        session.run_text(&text, &[], &[]);
    }
}

/// Drops a queue with its messages and its archive. False: there is no such queue.
pub fn drop(db: &Database, given: &[u8]) -> Result<bool> {
    let queue = name(given)?;
    {
        let session = session(db);
        let rows = session.run(&DROP, &[Some(datum::varlena(&queue))]);
        if rows.len() == 0 {
            return Ok(false);
        }
        if let Some(text) = datum::optional_text(rows.get(0, 0)) {
            session.run_text(&text, &[], &[]);
        }
    }
    finish::purge(db, &queue)?;
    drop_queue(db, db.owner, &queue)?;
    relcache::announce_change(table(db));
    Ok(true)
}

/// Sets how often a session notifies of a queue's messages, in milliseconds; `None`: never. False:
/// it does not now, and `only_enabled` says that it should.
pub fn set_notify(
    db: &Database,
    queue: &MessageQueue,
    interval: Option<i64>,
    only_enabled: bool,
) -> bool {
    let arguments = [
        Some(datum::varlena(&queue.queue)),
        interval.map(|it| Datum::from(it as i32)),
        Some(Datum::from(only_enabled)),
    ];
    let is_set = session(db).run(&NOTIFY, &arguments).len() > 0;
    relcache::announce_change(table(db));
    is_set
}

fn table_changed(table: Oid) {
    if table == TABLE.get() || table == pg_sys::InvalidOid {
        CHANGES.set(CHANGES.get() + 1);
        KNOWN.with_borrow_mut(Vec::clear);
    }
}

fn table(db: &Database) -> Oid {
    db.table(c"message_queue")
}

/// Shows each queue, with its name as it was created, whether it is partitioned and unlogged, when
/// it was created, and how often a session notifies.
pub fn list(db: &Database, mut show: impl FnMut(&[u8], [Option<Datum>; 5])) {
    let session = session(db);
    let rows = session.run(&LIST, &[]);
    for row in 0..rows.len() {
        let queue = datum::text(rows.get(row, 0));
        show(&queue, [1, 2, 3, 4, 5].map(|column| rows.get(row, column)));
    }
}

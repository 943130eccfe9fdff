//! Reading messages: a read leases tasks to the worker of all readers.

use crate::error::Result;
use crate::extension::database::Database;
use crate::ops::lease::hand_out::Owned;
use crate::ops::lease::own;
use crate::ops::pgmq::queues::MessageQueue;
use crate::ops::pgmq::{ACTION, WORKER, finish, set_vt};
use crate::ops::supply::search::is_free;
use crate::pg::datum::{self, BIGINT, JSONB, TEXT, TIMESTAMPTZ, UUID};
use crate::pg::lock::Locked;
use crate::pg::spi::statement;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::storage::rows::{id_at, ids_in, session};
use crate::xact::{self, latch_wait};
use board::{ActionFilter, Micros, Monotonic, WaitFor, Wall};
use pgrx::pg_sys::Datum;

statement!(CONTAINING, "pgmq/containing", [TEXT, JSONB, TIMESTAMPTZ, UUID, BIGINT]);
statement!(GROUPED, "pgmq/grouped", [TEXT, TEXT, BIGINT]);

/// Which messages a read takes.
#[derive(Clone, Copy)]
pub enum Wish<'w> {
    /// The first.
    First,
    /// The first that contain this JSON.
    Containing(Datum),
    /// The first of groups: `grouped`, `grouped_rr` or `grouped_head`.
    OfGroups(&'w [u8]),
}

/// How many messages are looked at under one snapshot for what they contain.
const LOOKED_AT: i64 = 1_000;

/// A row of pgmq's type `message_record`.
pub type Row = [Option<Datum>; 7];

/// How long messages are leased to a transaction that gives them back, or ends them.
const BRIEFLY: Micros = Micros::from_secs(60);

/// Reads up to `most` messages, which others do not see for `length`. A length of zero or less:
/// they stay visible. Returns how many.
pub fn read(
    db: &Database,
    queue: &MessageQueue,
    wish: Wish,
    most: usize,
    length: Micros,
    mut show: impl FnMut(Row),
) -> Result<usize> {
    let hides = length > Micros::ZERO;
    let leased = if hides { length } else { BRIEFLY };
    let mut read = Vec::new();
    let now = time::now().wall;
    let row = |owned: &Owned| {
        let deadline = if hides { owned.deadline } else { Some(now) };
        [
            owned.id.message_number().map(Datum::from),
            Some(Datum::from(owned.tries)),
            owned.created,
            Some(datum::timestamptz(now)),
            deadline.map(datum::timestamptz),
            owned.spec,
            owned.meta,
        ]
    };
    let show = |owned: Owned| {
        show(row(&owned));
        if !hides {
            read.push(owned.id);
        }
    };
    let count = match wish {
        Wish::First => own(db, queue, most, leased, show)?,
        Wish::Containing(part) => own_containing(db, queue, part, most, leased, show),
        Wish::OfGroups(order) => own_of_groups(db, queue, order, most, leased, show),
    };
    set_vt::release(db, &read);
    Ok(count)
}

/// Reads up to `most` messages and deletes them.
pub fn pop(
    db: &Database,
    queue: &MessageQueue,
    most: usize,
    mut show: impl FnMut(Row),
) -> Result<()> {
    let mut read: Vec<Uuid> = Vec::new();
    own(db, queue, most, BRIEFLY, |owned| {
        show([
            owned.id.message_number().map(Datum::from),
            Some(Datum::from(owned.tries - 1)),
            owned.created,
            None,
            owned.created,
            owned.spec,
            owned.meta,
        ]);
        read.push(owned.id);
    })?;
    finish::end(db, &queue.queue, &read, false)?;
    Ok(())
}

fn own(
    db: &Database,
    queue: &MessageQueue,
    most: usize,
    length: Micros,
    show: impl FnMut(Owned),
) -> Result<usize> {
    own::own_tasks(db, WORKER, &queue.queue, most, Some(&[ACTION]), Some(length), show)
}

/// Leases the first messages that contain a part.
fn own_containing(
    db: &Database,
    queue: &MessageQueue,
    part: Datum,
    most: usize,
    length: Micros,
    mut show: impl FnMut(Owned),
) -> usize {
    let (mut owned, mut from) = (0, (Wall::MIN, Uuid(0)));
    loop {
        pgrx::check_for_interrupts!();
        let session = session(db);
        let arguments = [
            Some(datum::varlena(&queue.queue)),
            Some(part),
            Some(datum::timestamptz(from.0)),
            Some(from.1.datum()),
            Some(Datum::from(LOOKED_AT)),
        ];
        let rows = session.run(&CONTAINING, &arguments);
        for row in 0..rows.len() {
            let id = id_at(&rows, row, 0);
            owned += usize::from(own_one(db, id, length, &mut show));
            if owned == most {
                return owned;
            }
            from = (Wall(datum::number(rows.get(row, 1))), id);
        }
        if (rows.len() as i64) < LOOKED_AT {
            return owned;
        }
    }
}

/// Leases messages of the groups whose first message is visible.
fn own_of_groups(
    db: &Database,
    queue: &MessageQueue,
    order: &[u8],
    most: usize,
    length: Micros,
    mut show: impl FnMut(Owned),
) -> usize {
    // Two calls at a time could each find that the first message of a group is visible.
    let _lock = Locked::alone(db.table(c"message_queue"));
    let session = session(db);
    let arguments = [
        Some(datum::varlena(&queue.queue)),
        Some(datum::varlena(order)),
        Some(Datum::from(most as i64)),
    ];
    let ids: Vec<Uuid> = ids_in(&session.run(&GROUPED, &arguments)).collect();
    ids.into_iter().filter(|id| own_one(db, *id, length, &mut show)).count()
}

/// Leases a message. False: another session has it, or it is gone.
fn own_one(db: &Database, id: Uuid, length: Micros, show: impl FnMut(Owned)) -> bool {
    is_free(db, id) && own::own_task(db, id, WORKER, Some(length), |_| Ok(()), show).is_ok()
}

/// Calls `look` until it finds a message, or until `until`; looks again when there is one, and
/// after each pause.
pub fn poll(
    db: &Database,
    queue: &MessageQueue,
    until: Monotonic,
    pause: Micros,
    mut look: impl FnMut() -> Result<usize>,
) -> Result<()> {
    loop {
        // In the line before it looks, so that it cannot miss a message that comes in between.
        let waits = until > time::monotonic();
        if waits {
            let filter = ActionFilter::new(Some(&[ACTION]));
            xact::wait_for(db, WaitFor::Work { queues: &[&queue.queue], filter });
        }
        let found = look()?;
        let left = until - time::monotonic();
        if found > 0 || !waits || left <= Micros::ZERO {
            xact::end_wait(None);
            return Ok(());
        }
        xact::found_nothing();
        latch_wait::sleep_on_latch(left.min(pause));
    }
}

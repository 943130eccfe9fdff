//! Messages: tasks that wait for a deadline under an id that the caller chose. Firing frees the id.

use crate::error::Result;
use crate::extension::database::Database;
use crate::guc;
use crate::ops::due;
use crate::ops::finish::cancel;
use crate::ops::submit::created;
use crate::pg::datum::{self, BOOLS, JSONBS, Kind, OID, TEXT, TEXTS, TIMESTAMPTZS, UUIDS};
use crate::pg::named::role;
use crate::pg::spi::statement;
use crate::pg::time;
use crate::pg::uuid::{Uuid, group_hash};
use crate::storage::rows::{id_at, ids, ids_in, rank, session};
use crate::xact::{self, Change, Offer};
use board::{Event, Micros, Wall};
use pgrx::pg_sys::{Datum, Oid};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

statement!(
    DELAY_MESSAGES,
    "submit/delay_messages",
    [TEXT, UUIDS, TEXTS, TIMESTAMPTZS, BOOLS, JSONBS, TIMESTAMPTZS, OID, TEXTS]
);
statement!(LOCK_MESSAGE, "submit/lock_message", [TEXT, TEXT]);

/// A message to delay, its values checked.
pub struct Message {
    pub id: Vec<u8>,
    pub deadline: Wall,
    pub spec: Datum,
    pub group_key: Option<Vec<u8>>,
}

/// The outcome of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delayed {
    /// It waits for its deadline.
    Waits,
    /// Its deadline had passed: it is ready at once.
    Fired,
    /// Another message with its id waits.
    Ignored,
}

/// Delays messages of one queue. Of equal ids the first counts.
pub fn delay_messages(db: &Database, queue: &[u8], messages: &[Message]) -> Vec<Delayed> {
    let now = time::now().wall;
    let mut seen = HashSet::new();
    // A microsecond apart, so that their order is the order of age.
    let (created, _) = created::take(db, now, messages.len());
    let mut firsts: Vec<(usize, Uuid, Wall)> = (0..)
        .map(|at| created + Micros(at))
        .zip(messages)
        .enumerate()
        .filter(|(_, (_, message))| seen.insert(message.id.as_slice()))
        .map(|(at, (created, _))| {
            (at, Uuid::timed(time::unix_millis(created), guc::shard()), created)
        })
        .collect();
    // Message ids are taken in order, so that two calls with the same ids do not deadlock.
    firsts.sort_unstable_by_key(|(at, ..)| &messages[*at].id);
    let mut answers = vec![Delayed::Ignored; messages.len()];
    if firsts.is_empty() {
        return answers;
    }
    let has_come = |message: &Message| !due::is_ahead(message.deadline, now);
    // The session below runs as another role.
    let sender = role::current();
    let session = session(db);
    // Those inserted, and whether each is behind others of its group.
    let insert = |some: &[(usize, Uuid, Wall)]| -> HashMap<Uuid, bool> {
        let column = |kind: Kind, value: &dyn Fn(&Message) -> Datum| {
            let values = some.iter().map(|(at, ..)| Some(value(&messages[*at])));
            Some(datum::array(kind, values))
        };
        let groups =
            some.iter().map(|(at, ..)| messages[*at].group_key.as_deref().map(datum::varlena));
        let created = some.iter().map(|(.., created)| Some(datum::timestamptz(*created)));
        let rows = session.run(
            &DELAY_MESSAGES,
            &[
                Some(datum::varlena(queue)),
                ids(some.iter().map(|(_, id, _)| *id)),
                column(TEXTS, &|message| datum::varlena(&message.id)),
                column(TIMESTAMPTZS, &|message| datum::timestamptz(message.deadline)),
                column(BOOLS, &|message| Datum::from(has_come(message))),
                column(JSONBS, &|message| message.spec),
                Some(datum::array(TIMESTAMPTZS, created)),
                Some(Datum::from(sender)),
                Some(datum::array(TEXTS, groups)),
            ],
        );
        ids_in(&rows).zip((0..rows.len()).map(|row| datum::number(rows.get(row, 1)) != 0)).collect()
    };
    let inserted = insert(&firsts);
    let queue: Rc<[u8]> = queue.into();
    let action: Rc<[u8]> = [].into();
    let mut changes = Vec::with_capacity(inserted.len());
    for (at, id, created) in firsts.into_iter().filter(|(_, id, _)| inserted.contains_key(id)) {
        let (answer, change) = if has_come(&messages[at]) {
            let (queue, action) = (queue.clone(), action.clone());
            let (rank, timeout) = (rank(id, created, 0), Micros::ZERO);
            let behind = inserted[&id];
            let group = messages[at].group_key.as_deref().map(group_hash);
            let offer =
                Offer { queue, action, group, rank, timeout, aged_since: None, row: None, behind };
            (Delayed::Fired, Change::Offer(offer))
        } else {
            (Delayed::Waits, Change::Due(messages[at].deadline))
        };
        answers[at] = answer;
        changes.push(change);
    }
    let fired = changes.iter().filter(|it| matches!(it, Change::Offer(_))).count();
    xact::count(db, &queue, |counts| {
        counts.add_tasks(true, fired as i64);
        counts.add_tasks(false, (changes.len() - fired) as i64);
        counts.events.note(Event::Submitted, changes.len());
        counts.events.note(Event::Fired, fired);
    });
    xact::at_commit(db, changes);
    answers
}

/// Cancels a waiting message; false when no such message waits. `authorize`: whether a message of
/// this sender may be cancelled.
pub fn cancel_message(
    db: &Database,
    queue: &[u8],
    id: &[u8],
    authorize: impl Fn(Oid) -> Result<()>,
) -> Result<bool> {
    let found = {
        let session = session(db);
        let (queue, id) = (datum::varlena(queue), datum::varlena(id));
        let rows = session.run(&LOCK_MESSAGE, &[Some(queue), Some(id)]);
        (rows.len() > 0).then(|| (id_at(&rows, 0, 0), datum::number(rows.get(0, 1)) as u32))
    };
    let Some((task, sender)) = found else { return Ok(false) };
    authorize(Oid::from_u32(sender))?;
    // Its row is locked.
    Ok(cancel::cancel(db, &[task], |_, _| Ok(()))?[0] == Some(true))
}

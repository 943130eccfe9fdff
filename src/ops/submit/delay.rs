//! Delaying: moves the time of a task without an owner; the task leaves the board first (I3).

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::due;
use crate::ops::locking::lock::Locked;
use crate::pg::datum::{self, BOOL, TIMESTAMPTZ, UUID};
use crate::pg::spi::statement;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::storage::rows::{session, settled};
use crate::xact::{self, Change, Offer};
use board::Wall;
use pgrx::pg_sys::Datum;

statement!(DELAY, "submit/delay", [UUID, TIMESTAMPTZ, BOOL, TIMESTAMPTZ]);

/// Postpones a waiting or ready task, or brings it forward. False when it runs or is settled.
/// `authorize`: whether a task of a queue may be delayed.
pub fn delay(
    db: &Database,
    id: Uuid,
    until: Wall,
    authorize: impl Fn(Uuid, &[u8]) -> Result<()>,
) -> Result<bool> {
    let session = session(db);
    let locked = Locked::lock(db, &session, &[id]);
    if locked.ids.is_empty() {
        let found = settled(&session, [id].into_iter());
        return if found.is_empty() { Err(error::no_such_task(id)) } else { Ok(false) };
    }
    locked.authorize(authorize)?;
    if !locked.withdraw(db, 0)? {
        return Ok(false);
    }
    let now = time::now().wall;
    let rows = session.run(
        &DELAY,
        &[
            Some(id.datum()),
            Some(datum::timestamptz(until)),
            Some(Datum::from(!due::is_ahead(until, now))),
            Some(datum::timestamptz(now)),
        ],
    );
    let is_ready = datum::number(rows.get(0, 0)) != 0;
    let became_ready = i64::from(is_ready) - i64::from(locked.is_ready(0));
    xact::count(db, &locked.queue(0), |counts| counts.became_ready(became_ready));
    let behind = datum::number(rows.get(0, 2)) != 0;
    let offer = || Offer { behind, ..locked.board_key(0).offer() };
    let due = rows.get(0, 1).map(|due| Change::Due(datum::wall(due)));
    xact::at_commit(db, if is_ready { Some(Change::Offer(offer())) } else { due });
    Ok(true)
}

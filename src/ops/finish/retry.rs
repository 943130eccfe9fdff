//! Returned tasks that wait until their next try is due.

use crate::extension::database::Database;
use crate::ops::due;
use crate::pg::datum::{self, TIMESTAMPTZS, UUIDS};
use crate::pg::spi::{Session, statement};
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::storage::ending::Ended;
use crate::storage::rows::ids;
use crate::xact::{self, Change};
use board::{READY, WAITING, Wall};

statement!(POSTPONE, "finish/postpone", [UUIDS, TIMESTAMPTZS]);

/// Makes the ready tasks among `ended` wait until the time of each, or for its pause.
pub fn postpone(
    db: &Database,
    session: &Session,
    ended: &mut [Ended],
    run_at: impl Fn(Uuid) -> Option<Wall>,
) {
    let now = time::now().wall;
    let mut postponed: Vec<(Uuid, Wall)> = Vec::new();
    for it in ended.iter_mut().filter(|it| it.status == READY) {
        let due = run_at(it.id).unwrap_or(now + it.pause);
        if due::is_ahead(due, now) {
            it.status = WAITING;
            xact::count(db, &it.queue, |counts| counts.became_ready(-1));
            postponed.push((it.id, due));
        }
    }
    if postponed.is_empty() {
        return;
    }
    let times = postponed.iter().map(|(_, due)| Some(datum::timestamptz(*due)));
    let times = Some(datum::array(TIMESTAMPTZS, times));
    session.run(&POSTPONE, &[ids(postponed.iter().map(|(id, _)| *id)), times]);
    xact::at_commit(db, postponed.into_iter().map(|(_, due)| Change::Due(due)));
}

//! Workers that are asked to stop: the table tells the board which they are. And those that are
//! gone: the board tells the table.

use crate::extension::database::Database;
use crate::ops::stats::workers;
use crate::pg::datum::{self, TEXTS, TIMESTAMPTZ};
use crate::pg::spi::{Rows, statement};
use crate::pg::time;
use crate::shmem::segment::in_steps;
use crate::storage::rows::session;
use board::{Micros, Wall};

statement!(DRAINING, "workers/draining", []);
statement!(FORGET, "workers/forget", [TEXTS, TIMESTAMPTZ]);

/// How long a worker that drains is remembered after it was heard of.
const DRAINS_FOR: Micros = Micros::from_secs(60);

/// Tells the board which workers drain: after a crash it does not know.
pub fn load(db: &Database, entry: u32) {
    tell(entry, &draining(db), |_| true);
}

/// Forgets workers that are gone, and tells the board which ones drain: it forgets a worker when it
/// has no room for another. `since`: when the board began to hear of workers.
pub fn keep(db: &Database, entry: u32, since: Wall) {
    let now = time::now().wall;
    let draining = draining(db);
    let known = workers::all(db, now);
    let is_here = |name: &[u8], running: u32, last_seen: Wall| {
        running > 0
            || last_seen + DRAINS_FOR > now
            || !draining.iter().any(|it| it.as_slice() == name)
    };
    let seen = known.iter().map(|(it, _)| (it.name.as_bytes(), it.running, it.last_seen));
    let here = seen.filter(|it| is_here(it.0, it.1, it.2)).map(|it| Some(datum::varlena(it.0)));
    let arguments = [Some(datum::array(TEXTS, here)), Some(datum::timestamptz(since))];
    let gone = names(&session(db).run(&FORGET, &arguments));
    tell(entry, &draining, |name| !gone.contains(name));
}

fn draining(db: &Database) -> Vec<Vec<u8>> {
    names(&session(db).run(&DRAINING, &[]))
}

fn names(rows: &Rows) -> Vec<Vec<u8>> {
    (0..rows.len()).map(|row| datum::text(rows.get(row, 0))).collect()
}

fn tell(entry: u32, workers: &[Vec<u8>], drains: impl Fn(&Vec<u8>) -> bool) {
    let now = time::now().wall;
    in_steps(workers, |board, name| board.drain_worker(entry, name, drains(name), now));
}

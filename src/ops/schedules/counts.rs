//! Counting how the runs of schedules ended: what settling transactions noted is added to the
//! schedules.

use crate::extension::database::Database;
use crate::ops::schedules::runs::bigints;
use crate::pg::datum::{self, BIGINT, BIGINTS};
use crate::pg::spi::statement;
use crate::storage::rows::{ROWS_PER_TX, session};
use pgrx::pg_sys::Datum;

statement!(LOCK_COUNTED, "schedules/lock_counted", [BIGINT]);
statement!(ADD_COUNTS, "schedules/add_counts", [BIGINTS]);
statement!(FORGET_COUNTS, "schedules/forget_counts", []);

/// Counts settled runs, of at most so many schedules as one transaction writes; waits for no
/// schedule's row. Returns of how many.
pub fn count(db: &Database) -> usize {
    let session = session(db);
    let rows = session.run(&LOCK_COUNTED, &[Some(Datum::from(ROWS_PER_TX as i64))]);
    if rows.len() > 0 {
        let ids = (0..rows.len()).map(|row| datum::number(rows.get(row, 0)));
        session.run(&ADD_COUNTS, &[bigints(ids)]);
    } else {
        session.run(&FORGET_COUNTS, &[]);
    }
    rows.len()
}

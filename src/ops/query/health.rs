//! How the server is, for a health check: one row.

use crate::extension::database::Database;
use crate::pg::datum::{self, TIMESTAMPTZ};
use crate::pg::spi::statement;
use crate::pg::time;
use crate::shmem::schedulers;
use crate::shmem::segment::with_board;
use crate::storage::rows::session;
use board::{BuildState, Micros, Monotonic, Usage, Wall};

statement!(HEALTH, "query/health", [TIMESTAMPTZ]);

/// The state of this database and of the board.
pub struct Health {
    /// Whether the database hands out tasks; `None`: the board is not built.
    pub open: Option<bool>,
    pub scheduler: Option<Scheduler>,
    /// How long the oldest task is due that has not fired.
    pub oldest_due: Option<Micros>,
    pub usage: Usage,
    pub leases_restored: u32,
    /// What keeps the oldest dead rows, and its age in transactions.
    pub xmin: Option<(i64, Vec<u8>)>,
}

/// The scheduler of this database.
pub struct Scheduler {
    pub pid: i32,
    pub since: Option<Wall>,
    /// How long it has not rested, or is late.
    pub lag: Micros,
}

/// How the database is now.
pub fn health(db: &Database) -> Health {
    let now = time::now();
    let (usage, entry) =
        with_board(|board| (board.usage(), db.find(board).map(|entry| *board.entry(entry))));
    let built = entry.filter(|it| it.build_state == BuildState::Built);
    let scheduler = schedulers::scheduler_of(db.database.to_u32()).map(|pid| {
        let serves = entry.filter(|it| it.scheduler == pid);
        let is_late_since = serves.map_or(now.monotonic, |it| match it.wake_at {
            Monotonic::MIN => it.awake_since,
            at => at,
        });
        Scheduler {
            pid,
            since: serves.map(|it| it.scheduler_since),
            lag: (now.monotonic - is_late_since).max(Micros::ZERO),
        }
    });
    let session = session(db);
    let rows = session.run(&HEALTH, &[Some(datum::timestamptz(now.wall))]);
    Health {
        open: built.map(|it| it.may_hand_out()),
        scheduler,
        oldest_due: rows.get(0, 0).map(|it| datum::interval_length(Some(it))),
        usage,
        leases_restored: entry.map_or(0, |it| it.leases_restored),
        xmin: rows.get(0, 1).map(|age| (age.value() as i64, datum::text(rows.get(0, 2)))),
    }
}

//! The moves: what a task can go through. Each changes the tables by few statements or none, and the
//! board by what it promises for the end of the transaction.

pub mod announce;
pub mod attend;
pub mod build;
pub mod cancel;
pub mod delay;
pub mod delete;
pub mod depend;
pub mod extend;
pub mod fire;
pub mod follow;
pub mod glance;
pub mod incarnation;
pub mod key;
mod layout;
mod leaf;
pub mod lock;
pub mod look;
pub mod message;
pub mod own;
pub mod persist;
pub mod reclaim;
pub mod refill;
pub mod retain;
pub mod retry;
pub mod seize;
pub mod settle;
pub mod submit;
mod transfer;
pub mod wait;

use crate::pg::datum::{self, UUIDS};
use crate::pg::spi::{Rows, Session, Statement, statement};
use crate::pg::uuid::Uuid;
use crate::shmem::database::Home;
use crate::shmem::xact::Offer;
use board::{Id, LaneName, Rank};
use pgrx::pg_sys::{self, Datum};

statement!(FINISHED, "rows/finished", [UUIDS]);
statement!(LIVE, "rows/live", [UUIDS]);

fn ids(ids: impl Iterator<Item = Uuid>) -> Option<Datum> {
    Some(datum::array(UUIDS, ids.map(|id| Some(id.datum()))))
}

fn id_at(rows: &Rows, row: usize, column: usize) -> Uuid {
    // SAFETY: the statements' columns of ids are uuids and never null.
    unsafe { Uuid::read(rows.get(row, column).unwrap_or(Datum::from(0))) }
}

/// The ids that a statement with one array of ids returns.
fn ids_of(
    session: &Session,
    statement: &Statement,
    wanted: impl Iterator<Item = Uuid>,
) -> Vec<Uuid> {
    ids_in(&session.run(statement, &[ids(wanted)])).collect()
}

/// The ids of a first column.
fn ids_in(rows: &Rows) -> impl Iterator<Item = Uuid> {
    (0..rows.len()).map(|row| id_at(rows, row, 0))
}

/// An array of ids as PostgreSQL writes one, since arrays of arrays must not be ragged.
fn text_of_array(ids: &[Uuid]) -> Datum {
    let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    datum::varlena(format!("{{{}}}", ids.join(",")).as_bytes())
}

/// Which of some tasks are settled, and how.
fn settled(session: &Session, wanted: impl Iterator<Item = Uuid>) -> Vec<(Uuid, String)> {
    let rows = session.run(&FINISHED, &[ids(wanted)]);
    (0..rows.len()).map(|row| (id_at(&rows, row, 0), datum::string(rows.get(row, 1)))).collect()
}

fn rank(id: Uuid, created: i64, priority: i64) -> Rank {
    let id: Id = id.0;
    Rank { id, created, priority: priority.clamp(0, u32::MAX.into()) as u32 }
}

/// A task's place on the board, as its row tells.
struct Place {
    queue: Vec<u8>,
    action: Vec<u8>,
    rank: Rank,
    timeout: i64,
}

impl Place {
    /// From five columns of a row: queue, action, priority, created, timeout.
    fn at(rows: &Rows, row: usize, column: usize, id: Uuid) -> Place {
        let [queue, action, priority, created, timeout] =
            [0, 1, 2, 3, 4].map(|offset| rows.get(row, column + offset));
        Place {
            queue: datum::string(queue).into_bytes(),
            action: datum::string(action).into_bytes(),
            rank: rank(id, datum::number(created), datum::number(priority)),
            timeout: datum::interval_length(timeout),
        }
    }

    fn offer(self) -> Offer {
        let Place { queue, action, rank, timeout } = self;
        Offer { queue: queue.into(), action: action.into(), rank, timeout }
    }

    fn lane(&self) -> LaneName<'_> {
        LaneName { queue: &self.queue, action: &self.action }
    }
}

/// Whether the transaction is at REPEATABLE READ or SERIALIZABLE: rows that changed since its snapshot
/// are refused with 40001.
fn has_one_snapshot() -> bool {
    // SAFETY: reads this backend's transaction state.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

fn session(home: &Home) -> Session {
    Session::new(home.owner)
}

/// One of the extension's tables.
fn table(name: &std::ffi::CStr) -> pg_sys::Oid {
    // SAFETY: catalog look-ups inside a transaction.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"scylla".as_ptr(), true);
        pg_sys::get_relname_relid(name.as_ptr(), schema)
    }
}

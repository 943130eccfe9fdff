//! Dependency edges (predecessor, task): which task waits for which other.

use crate::pg::datum::{self, UUIDS};
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::uuid::Uuid;
use crate::storage::rows::{id_at, ids};
use board::Wall;
use pgrx::pg_sys::Datum;

statement!(DELETE_EDGES_AFTER, "dependencies/delete_edges_after", [UUIDS]);
statement!(DELETE_EDGES, "dependencies/delete_edges", [UUIDS, UUIDS]);

/// An edge that has been deleted.
pub struct DeletedEdge {
    pub after: Uuid,
    pub task: Uuid,
    /// When the task was submitted.
    pub created: Wall,
}

/// Deletes the edges that begin at the tasks in `after`; returns those of live tasks.
pub fn delete_edges_after(
    session: &Session,
    after: impl Iterator<Item = Uuid>,
) -> Vec<DeletedEdge> {
    let rows = session.run(&DELETE_EDGES_AFTER, &[ids(after)]);
    let created = |row| datum::wall(rows.get(row, 2).unwrap_or(Datum::from(0)));
    let edges = edges_in(&rows).enumerate();
    edges.map(|(row, (after, task))| DeletedEdge { after, task, created: created(row) }).collect()
}

/// The edges in the first two columns of a result.
pub fn edges_in(rows: &Rows) -> impl Iterator<Item = (Uuid, Uuid)> {
    (0..rows.len()).map(|row| (id_at(rows, row, 0), id_at(rows, row, 1)))
}

/// The edges that end at `task`, from its column `after`.
pub fn edges_of(task: Uuid, after: Option<Datum>) -> impl Iterator<Item = (Uuid, Uuid)> {
    // SAFETY: of a column of type uuid[].
    let elements = after.and_then(|after| unsafe { datum::elements(UUIDS, after) });
    // SAFETY: an element of such an array.
    let after = elements.into_iter().flatten().flatten().map(|it| unsafe { Uuid::read(it) });
    after.map(move |after| (after, task))
}

/// Deletes edges; those that another transaction is deleting stay.
pub fn delete_edges(session: &Session, edges: &[(Uuid, Uuid)]) {
    if !edges.is_empty() {
        let [after, tasks] = columns(edges);
        session.run(&DELETE_EDGES, &[after, tasks]);
    }
}

/// Edges as two arrays, for the parameters of a statement.
pub fn columns(edges: &[(Uuid, Uuid)]) -> [Option<Datum>; 2] {
    [ids(edges.iter().map(|(after, _)| *after)), ids(edges.iter().map(|(_, task)| *task))]
}

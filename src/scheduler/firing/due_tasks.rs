//! Tasks that wait for their time: they are made ready when it has come.

use crate::error;
use crate::extension::database::Database;
use crate::ops::due;
use crate::ops::maintenance::{QUARANTINE, fire};
use crate::pg::uuid::Uuid;
use crate::scheduler::firing::Due;
use crate::scheduler::process::Commit;
use board::{DatabaseEntry, Timestamp, Wall};
use pgrx::PgLogLevel;

pub struct DueTasks;

impl Due for DueTasks {
    type Id = Uuid;
    const FIRST: Uuid = Uuid(0);
    const WHAT: &str = "fire due tasks";
    /// What a crash undoes fires again.
    const COMMIT: Commit = Commit::Ahead;

    fn begin(&mut self, entry: &mut DatabaseEntry, now: Timestamp) -> Wall {
        let until = due::horizon(now.wall);
        entry.wall_offset = Timestamp { wall: until, ..now }.wall_offset();
        until
    }

    fn next(entry: &mut DatabaseEntry) -> &mut Wall {
        &mut entry.next_due
    }

    fn following(id: Uuid) -> Uuid {
        Uuid(id.0.saturating_add(1))
    }

    fn read(
        db: &Database,
        from: (Wall, Uuid),
        until: Wall,
        most: usize,
    ) -> (Vec<(Wall, Uuid)>, Option<Wall>) {
        fire::read(db, from, until, most)
    }

    fn fire(&mut self, db: &Database, ids: &[Uuid], until: Wall) -> Vec<Uuid> {
        fire::fire(db, ids, until)
    }

    fn warn(id: Uuid) {
        error::quarantined("fire", id, QUARANTINE).report(PgLogLevel::WARNING);
    }
}

//! The order in which tasks run.

use crate::time::Wall;
use std::cmp::Ordering;

/// A task's id: the sixteen bytes of its uuid, big-endian, so that it sorts as PostgreSQL sorts it.
pub type Id = u128;

/// A task's position in its lane. Less is sooner: the higher priority first, then the older task,
/// then the lower id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Rank {
    /// The task's id.
    pub id: Id,
    /// When the task was submitted.
    pub created: Wall,
    /// The task's priority; a higher one runs first.
    pub priority: u32,
}

impl Rank {
    /// Before every task.
    pub const FIRST: Rank = Rank { id: 0, created: Wall::MIN, priority: u32::MAX };
    /// After every task.
    pub const END: Rank = Rank { id: Id::MAX, created: Wall::NEVER, priority: 0 };

    /// The least rank behind this one.
    pub fn next(self) -> Rank {
        Rank { id: self.id.saturating_add(1), ..self }
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.priority.cmp(&self.priority))
            .then(self.created.cmp(&other.created))
            .then(self.id.cmp(&other.id))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

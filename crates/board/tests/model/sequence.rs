//! A sequence of operations, from a new board to one that is empty again.

use board::Sizes;

use super::operations::Operation;
use super::world::{ACTIONS, GROUPS, MAX_DATABASES, QUEUES, Tally, World};
use crate::memory::Memory;

#[derive(Clone, Debug)]
pub struct Sequence {
    pub seed: u32,
    pub slots: usize,
    pub operations: Vec<Operation>,
}

impl Sequence {
    pub fn run(&self) -> Tally {
        // One for each lane of the model: `worlds` has too few.
        let lanes = MAX_DATABASES as usize
            * usize::from(QUEUES)
            * usize::from(ACTIONS)
            * usize::from(GROUPS);
        let mut memory = Memory::new(Sizes {
            slots: self.slots,
            slot_buckets: 8,
            lanes,
            lane_buckets: 4,
            // Each queue of both databases may have a limit.
            queues: lanes + 256 + 4,
            queue_buckets: 4,
            waiters: 1,
            wait_lists: 1,
            counted: 1,
            transactions: 1,
        });
        memory.board().set_seed(self.seed);
        let mut world = World::on(memory.board());
        for it in &self.operations {
            world.apply(it);
        }
        world.drain();
        world.tally
    }
}

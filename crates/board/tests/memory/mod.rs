//! Memory for a board: zeroed as shared memory is, and not initialised otherwise.

#![allow(dead_code, reason = "not every test needs all of it")]

pub mod small;

use board::{
    Board, Group, GroupNote, Header, Lane, ListHead, NIL, Notice, Parts, Place, Queue, QueueStats,
    Sizes, Slot, Waiter, Worker,
};

pub struct Memory {
    header: Vec<Header>,
    slots: Vec<Slot>,
    slot_buckets: Vec<u32>,
    lanes: Vec<Lane>,
    lane_buckets: Vec<u32>,
    queues: Vec<Queue>,
    queue_buckets: Vec<u32>,
    groups: Vec<Group>,
    group_buckets: Vec<u32>,
    notices: Vec<Notice>,
    notice_buckets: Vec<u32>,
    notes: Vec<GroupNote>,
    note_buckets: Vec<u32>,
    waiters: Vec<Waiter>,
    places: Vec<Place>,
    lines: Vec<ListHead>,
    stats: Vec<QueueStats>,
    stats_buckets: Vec<u32>,
    workers: Vec<Worker>,
    worker_buckets: Vec<u32>,
    open: Vec<u32>,
}

/// Values of a type of the board, all bytes zero.
fn zeroed<T: Copy>(count: usize) -> Vec<T> {
    // SAFETY: the board's types are integers, and enums and bools for which zero is a value.
    vec![unsafe { std::mem::zeroed() }; count]
}

impl Memory {
    pub fn new(sizes: Sizes) -> Memory {
        let mut memory = Memory {
            header: zeroed(1),
            slots: zeroed(sizes.slots),
            slot_buckets: vec![NIL - 1; sizes.slot_buckets],
            lanes: zeroed(sizes.lanes),
            lane_buckets: vec![NIL - 1; sizes.lane_buckets],
            queues: zeroed(sizes.queues),
            queue_buckets: vec![NIL - 1; sizes.queue_buckets],
            groups: zeroed(sizes.groups()),
            group_buckets: vec![NIL - 1; sizes.lane_buckets],
            notices: zeroed(sizes.notices()),
            notice_buckets: vec![NIL - 1; sizes.lane_buckets],
            notes: zeroed(sizes.notes()),
            note_buckets: vec![NIL - 1; sizes.lane_buckets],
            waiters: zeroed(sizes.waiters),
            places: zeroed(sizes.places()),
            lines: zeroed(sizes.lines),
            stats: zeroed(sizes.counted),
            stats_buckets: vec![NIL - 1; sizes.counted_buckets()],
            workers: zeroed(sizes.workers()),
            worker_buckets: vec![NIL - 1; sizes.slot_buckets],
            open: zeroed(sizes.transactions),
        };
        memory.board().clear();
        memory
    }

    pub fn board(&mut self) -> Board<'_> {
        Board::on(Parts {
            header: &mut self.header[0],
            slots: &mut self.slots,
            slot_buckets: &mut self.slot_buckets,
            lanes: &mut self.lanes,
            lane_buckets: &mut self.lane_buckets,
            queues: &mut self.queues,
            queue_buckets: &mut self.queue_buckets,
            groups: &mut self.groups,
            group_buckets: &mut self.group_buckets,
            notices: &mut self.notices,
            notice_buckets: &mut self.notice_buckets,
            notes: &mut self.notes,
            note_buckets: &mut self.note_buckets,
            waiters: &mut self.waiters,
            places: &mut self.places,
            lines: &mut self.lines,
            stats: &mut self.stats,
            stats_buckets: &mut self.stats_buckets,
            workers: &mut self.workers,
            worker_buckets: &mut self.worker_buckets,
            open: &mut self.open,
        })
    }

    /// The size of all slices.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.header[..])
            + size_of_val(&self.slots[..])
            + size_of_val(&self.slot_buckets[..])
            + size_of_val(&self.lanes[..])
            + size_of_val(&self.lane_buckets[..])
            + size_of_val(&self.queues[..])
            + size_of_val(&self.queue_buckets[..])
            + size_of_val(&self.groups[..])
            + size_of_val(&self.group_buckets[..])
            + size_of_val(&self.notices[..])
            + size_of_val(&self.notice_buckets[..])
            + size_of_val(&self.notes[..])
            + size_of_val(&self.note_buckets[..])
            + size_of_val(&self.waiters[..])
            + size_of_val(&self.places[..])
            + size_of_val(&self.lines[..])
            + size_of_val(&self.stats[..])
            + size_of_val(&self.stats_buckets[..])
            + size_of_val(&self.workers[..])
            + size_of_val(&self.worker_buckets[..])
            + size_of_val(&self.open[..])
    }
}

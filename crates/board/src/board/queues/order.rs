//! Order: in a queue where one task of a group runs at a time, the tasks of a group run in the
//! order of their submission.
//!
//! The order is in the table: one task of each group is *first* and may be owned, and the others
//! are behind it, out of the order of ready tasks. So to the board such a group is as any other. A
//! commit that may leave a group without a first task notes the group, and the scheduler brings the
//! next task forward. Only the scheduler does, so two tasks are never first.

use crate::board::Board;
use crate::board::queues::limits::GroupPlace;
use crate::containers::hash::hash;
use crate::containers::list::{self, ListNodes};
use crate::containers::pool::Pool;
use crate::layout::names::{GroupHash, Name};
use crate::layout::nodes::{Link, NIL};
use crate::layout::queue::GroupNote;

impl ListNodes for Pool<'_, GroupNote> {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node].link
    }
}

/// A note as it was read.
#[derive(Clone, Copy, Debug)]
pub struct NoteRef {
    at: u32,
    generation: u32,
}

impl Board<'_> {
    /// Whether the tasks of each of a queue's groups run one by one, in their order.
    pub fn keeps_order(&self, queue: u32) -> bool {
        self.queues[queue].settings.max_running_per_group == 1
    }

    /// Whether a queue, by its name, keeps the order.
    pub fn keeps_order_named(&self, entry: u32, queue: &[u8]) -> bool {
        self.find_queue(entry, queue).is_some_and(|queue| self.keeps_order(queue))
    }

    /// The groups of a queue that keeps the order, of some places; `None` among them: the tasks
    /// without a group.
    pub fn groups_in_order(
        &self,
        queue: Option<u32>,
        places: &[(GroupPlace, u32)],
    ) -> Vec<Option<GroupHash>> {
        let Some(queue) = queue.filter(|queue| self.keeps_order(*queue)) else { return Vec::new() };
        let own = places.iter().map(|it| it.0).filter(|it| it.queue == queue);
        own.filter_map(|place| match place.group {
            NIL => Some(None),
            group if group < self.groups.end() => Some(Some(self.groups[group].hash)),
            _ => None,
        })
        .collect()
    }

    /// Notes that the next task of a group may have to be brought forward.
    pub fn note_group(&mut self, entry: u32, queue: &[u8], group: Option<GroupHash>) {
        let generation = self.next_generation();
        let key = group.unwrap_or(0);
        let hash = hash(hash(entry ^ self.globals.seed, queue), &key.to_ne_bytes());
        let found = self
            .notes
            .find(hash, |it| it.entry == entry && it.group() == group && it.queue() == queue);
        if let Some(at) = found {
            self.notes[at].generation = generation;
            return;
        }
        let note = GroupNote {
            hash: key,
            link: Link::NONE,
            entry,
            generation,
            is_group: group.is_some(),
            queue: Name::new(queue),
        };
        let entry = &mut self.globals.entries[entry as usize];
        match self.notes.add(hash, note) {
            Some(at) => list::push(&mut self.notes, &mut entry.notes, at),
            None => entry.looks_for_groups = true,
        }
    }

    /// Notes the group of a slot that goes, or ceases to be ready, if its queue keeps the order.
    pub(crate) fn note_group_of(&mut self, at: u32) {
        let slot = &self.slots[at];
        let queue = self.lanes[slot.lane].queue;
        if self.keeps_order(queue) {
            let group = (slot.group != NIL).then(|| self.groups[slot.group].hash);
            let (entry, name) = (self.queues[queue].entry, self.queues[queue].name);
            self.note_group(entry, name.as_bytes(), group);
        }
    }

    /// Whether groups of a database are to be looked at.
    pub fn has_notes(&self, entry: u32) -> bool {
        let it = self.entry(entry);
        it.notes.first != NIL || it.looks_for_groups || it.is_looking
    }

    /// The first note of a database, or the one behind another, which has not been forgotten since.
    pub fn next_note(&self, entry: u32, after: Option<NoteRef>) -> Option<(NoteRef, GroupNote)> {
        let at = match after {
            None => self.entry(entry).notes.first,
            Some(after) => self.notes[after.at].link.next,
        };
        (at != NIL).then(|| {
            let note = self.notes[at];
            (NoteRef { at, generation: note.generation }, note)
        })
    }

    /// Forgets a note, unless its group was noted again since it was read.
    pub fn forget_note(&mut self, entry: u32, note: NoteRef) {
        let is_same = note.at < self.notes.end() && {
            let it = &self.notes[note.at];
            it.entry == entry && it.generation == note.generation
        };
        if is_same {
            self.free_note(entry, note.at);
        }
    }

    fn free_note(&mut self, entry: u32, at: u32) {
        self.notes[at].generation = 0;
        let entry = &mut self.globals.entries[entry as usize];
        list::remove(&mut self.notes, &mut entry.notes, at);
        self.notes.free(at);
    }

    /// Forgets at most so many of a database's notes; false when there are none left.
    pub(crate) fn forget_notes(&mut self, entry: u32, count: u32) -> bool {
        (0..count).all(|_| {
            let at = self.entry(entry).notes.first;
            if at != NIL {
                self.free_note(entry, at);
            }
            at != NIL
        })
    }
}

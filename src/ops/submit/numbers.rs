//! How many tasks of which queue are submitted together.

use crate::extension::database::Database;
use crate::ops::submit::draft::NewTask;
use crate::xact;
use board::Event;
use std::collections::HashMap;
use std::rc::Rc;

/// Tasks of one queue.
#[derive(Clone, Copy, Default)]
pub struct Numbers {
    pub ready: u32,
    pub waiting: u32,
}

/// The numbers of tasks, by queue.
pub fn by_queue<'e>(
    tasks: impl Iterator<Item = &'e NewTask<'e>>,
) -> HashMap<&'e Rc<[u8]>, Numbers> {
    let mut queues: HashMap<&Rc<[u8]>, Numbers> = HashMap::new();
    for task in tasks {
        let numbers = queues.entry(&task.draft.queue).or_default();
        *(if task.is_ready() { &mut numbers.ready } else { &mut numbers.waiting }) += 1;
    }
    queues
}

/// Counts inserted tasks of a queue at the commit.
pub fn count(db: &Database, queue: &Rc<[u8]>, numbers: Numbers) {
    xact::count(db, queue, |counts| {
        counts.add_tasks(true, numbers.ready.into());
        counts.add_tasks(false, numbers.waiting.into());
        counts.events.note(Event::Submitted, (numbers.ready + numbers.waiting) as usize);
    });
}

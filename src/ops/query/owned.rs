//! Which tasks are owned, as one statement sees it. The board is read once for a statement, so that
//! the parts of a view show each task once.

use crate::extension::database::Database;
use crate::ops::query::inspect::is_owned;
use crate::pg::kept;
use crate::pg::process;
use crate::pg::uuid::Uuid;
use crate::shmem::segment::{scan_pinned, with_board};
use crate::storage::privileges::{Granted, Privileges};
use board::{Board, Name, QUEUE_MAX, Slot, WORKER_MAX};
use pgrx::pg_sys::MemoryContext;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The owned tasks of one worker in one queue.
pub struct Group {
    pub queue: Name<QUEUE_MAX>,
    pub owner: Name<WORKER_MAX>,
    /// Whether they are leased; another open transaction has reserved them if not.
    pub leased: bool,
    pub tasks: Vec<Uuid>,
}

/// All owned tasks that the caller may look at.
#[derive(Default)]
pub struct Owned {
    pub groups: Vec<Group>,
    tasks: OnceCell<HashSet<Uuid>>,
}

impl Owned {
    fn has(&self, task: Uuid) -> bool {
        let all = || self.groups.iter().flat_map(|it| &it.tasks).copied().collect();
        self.tasks.get_or_init(all).contains(&task)
    }
}

/// Tasks that a statement was told are not owned, before it read all that are.
#[derive(Default)]
struct NotOwned(RefCell<Vec<Uuid>>);

/// How many tasks a statement asks for one by one, before it reads all that are owned.
const ASKED_MAX: usize = 64;

/// The owned tasks. Read from the board once for the statement whose memory this is. One that it
/// was told is not owned is not among them.
pub fn all(db: &Database, granted: &Granted, statement: MemoryContext) -> Rc<Owned> {
    kept::find(statement).unwrap_or_else(|| {
        let mut owned = read(db, granted);
        if let Some(not_owned) = kept::find::<NotOwned>(statement) {
            let asked = not_owned.0.borrow();
            owned.groups.iter_mut().for_each(|it| it.tasks.retain(|task| !asked.contains(task)));
        }
        let owned = Rc::new(owned);
        kept::keep(statement, owned.clone());
        owned
    })
}

/// Whether a task is among the owned tasks of the statement whose memory this is; if it did not
/// read them all, whether the task is owned now. What it is told once holds for the statement.
pub fn has(db: &Database, granted: &Granted, statement: MemoryContext, task: Uuid) -> bool {
    if let Some(owned) = kept::find::<Owned>(statement) {
        return owned.has(task);
    }
    let not_owned = kept::find::<NotOwned>(statement).unwrap_or_else(|| {
        let none = Rc::new(NotOwned::default());
        kept::keep(statement, none.clone());
        none
    });
    if not_owned.0.borrow().contains(&task) {
        return false;
    }
    if not_owned.0.borrow().len() == ASKED_MAX {
        return all(db, granted, statement).has(task);
    }
    let queue = with_board(|board| {
        let slot = board.slot_of(db.find(board)?, task.0)?;
        is_owned(slot).then(|| board.queue_name_of(slot))
    });
    let has = queue.is_some_and(|queue| granted.on(queue.as_bytes()).has_any(Privileges::LOOK));
    if !has {
        not_owned.0.borrow_mut().push(task);
    }
    has
}

/// What is read of a slot under the lock.
struct Owner {
    task: Uuid,
    queue: Name<QUEUE_MAX>,
    worker: Name<WORKER_MAX>,
    leased: bool,
}

fn read(db: &Database, granted: &Granted) -> Owned {
    let mut owned = Owned::default();
    let Some(entry) = with_board(|board| db.find(board)) else { return owned };
    let me = process::id();
    let show = |board: &Board, slot: &Slot| Owner {
        task: Uuid(slot.id),
        queue: board.queue_name_of(slot),
        worker: board.lease(slot).worker,
        leased: slot.reserved_by().is_none_or(|process| process == me),
    };
    // By what a group has in common; one key is written over the other.
    let mut groups: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut key = Vec::with_capacity(QUEUE_MAX + WORKER_MAX + 2);
    let slots = scan_pinned(entry, |board, it, _| is_owned(it).then(|| show(board, it)));
    for it in slots.flatten() {
        let Owner { task, queue, worker: owner, leased } = it;
        key.clear();
        key.extend_from_slice(queue.as_bytes());
        key.extend([queue.as_bytes().len() as u8, leased.into()]);
        key.extend_from_slice(owner.as_bytes());
        let at = groups.get(&key).copied().unwrap_or_else(|| {
            groups.insert(key.clone(), owned.groups.len());
            owned.groups.push(Group { queue, owner, leased, tasks: Vec::new() });
            owned.groups.len() - 1
        });
        owned.groups[at].tasks.push(task);
    }
    owned.groups.retain(|it| granted.on(it.queue.as_bytes()).has_any(Privileges::LOOK));
    owned
}

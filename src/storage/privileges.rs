//! What the current role may do on which queues. Every call asks, so a backend keeps the answer
//! until a grant, a role or a membership changes.

use crate::extension::database::Database;
use crate::pg::datum::{self, TEXTS, UUIDS};
use crate::pg::named::role;
use crate::pg::relcache;
use crate::pg::spi::statement;
use crate::pg::uuid::Uuid;
use crate::storage::rows::{id_at, ids, session};
use board::QUEUE_MAX;
use pgrx::pg_sys::{self, Oid};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

statement!(READ, "privileges/read", []);
statement!(QUEUES, "privileges/queues", [UUIDS]);

/// A set of privileges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Privileges(u8);

impl Privileges {
    pub const NONE: Privileges = Privileges(0);
    pub const SUBMIT: Privileges = Privileges(1);
    pub const WORK: Privileges = Privileges(2);
    pub const CANCEL: Privileges = Privileges(4);
    pub const LOOK: Privileges = Privileges(8);
    pub const MANAGE: Privileges = Privileges(16);
    const ALL: Privileges = Privileges(31);

    const WORDS: [(Privileges, &str); 5] = [
        (Privileges::SUBMIT, "submit"),
        (Privileges::WORK, "work"),
        (Privileges::CANCEL, "cancel"),
        (Privileges::LOOK, "look"),
        (Privileges::MANAGE, "manage"),
    ];

    /// The privilege of a word.
    pub fn parse(word: &[u8]) -> Option<Privileges> {
        let known = Privileges::WORDS.iter().find(|(_, known)| known.as_bytes() == word);
        known.map(|(privilege, _)| *privilege)
    }

    /// The words of the set.
    pub fn words(self) -> impl Iterator<Item = &'static str> + Clone {
        Privileges::WORDS.into_iter().filter(move |it| self.has_any(it.0)).map(|(_, word)| word)
    }

    pub const fn with(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    pub const fn without(self, other: Privileges) -> Privileges {
        Privileges(self.0 & !other.0)
    }

    /// Whether the set has one of the others.
    pub const fn has_any(self, others: Privileges) -> bool {
        self.0 & others.0 != 0
    }
}

/// A name that no queue's comes after: the highest character as often as a name has room for it.
fn name_of_highest() -> Vec<u8> {
    // SAFETY: reads a variable of this process's.
    match unsafe { pg_sys::GetDatabaseEncoding() } as u32 == pg_sys::pg_enc::PG_UTF8 {
        true => char::MAX.to_string().repeat(QUEUE_MAX / char::MAX.len_utf8()).into_bytes(),
        false => vec![u8::MAX; QUEUE_MAX],
    }
}

/// The name that means all queues in a grant.
pub const EVERY_QUEUE: &[u8] = b"*";

/// What a role may do.
pub struct Granted {
    pub role: Oid,
    db: Database,
    /// A superuser, or a member of the role that owns the extension.
    pub is_owner: bool,
    /// A member of pg_monitor.
    pub is_monitor: bool,
    /// On every queue.
    pub everywhere: Privileges,
    queues: HashMap<Box<[u8]>, Privileges>,
}

impl Granted {
    /// On a queue.
    pub fn on(&self, queue: &[u8]) -> Privileges {
        self.queues.get(queue).map_or(self.everywhere, |some| self.everywhere.with(*some))
    }

    /// Whether the role may see the numbers of a queue.
    pub fn may_monitor(&self, queue: &[u8]) -> bool {
        self.is_monitor || self.on(queue).has_any(Privileges::LOOK)
    }

    /// A first and a last name: the queues that the role may look at are among those in between.
    /// The first comes after the last where there are no such queues.
    pub fn queues_to_look_at(&self) -> (Vec<u8>, Vec<u8>) {
        let highest = name_of_highest();
        if self.everywhere.has_any(Privileges::LOOK) {
            return (Vec::new(), highest);
        }
        let queues = || {
            let may_look = self.queues.iter().filter(|(_, some)| some.has_any(Privileges::LOOK));
            may_look.map(|(queue, _)| queue.to_vec())
        };
        queues().min().zip(queues().max()).unwrap_or((highest, Vec::new()))
    }

    /// Whether the role has the privileges of another one, such as the sender of a message.
    pub fn has_those_of(&self, other: Oid) -> bool {
        other != pg_sys::InvalidOid && role::has_privileges_of(self.role, other)
    }

    /// Whether the role may change what runs with the rights of another one.
    pub fn acts_for(&self, other: Oid) -> bool {
        other != pg_sys::InvalidOid && role::may_act_as(self.role, other)
    }

    /// Whether the role has one of these privileges on any queue at all.
    pub fn may_anywhere(&self, wanted: Privileges) -> bool {
        self.everywhere.has_any(wanted) || self.queues.values().any(|some| some.has_any(wanted))
    }

    /// Those of some tasks that are in a queue on which the role has none of these privileges.
    /// Tasks that do not exist are not among them: there is nothing to protect.
    pub fn denied(&self, wanted: Privileges, tasks: &[Uuid]) -> HashSet<Uuid> {
        if self.everywhere.has_any(wanted) || tasks.is_empty() {
            return HashSet::new();
        }
        let mut queues = queues_of(&self.db, tasks);
        queues.retain(|_, queue| !self.on(queue).has_any(wanted));
        queues.into_keys().collect()
    }

    /// The queue of a task that the role may look at.
    pub fn visible_queue_of(&self, task: Uuid) -> Option<Vec<u8>> {
        let queue = queues_of(&self.db, &[task]).remove(&task)?;
        self.on(&queue).has_any(Privileges::LOOK).then_some(queue)
    }
}

thread_local! {
    static KNOWN: RefCell<Vec<Rc<Granted>>> = const { RefCell::new(Vec::new()) };
    /// The table of privileges, once it was read.
    static TABLE: Cell<Oid> = const { Cell::new(pg_sys::InvalidOid) };
    /// Grows with each change of grants and roles.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// How many roles a session remembers.
const KNOWN_MAX: usize = 64;

/// What the current role may do in this database, as committed by others until now.
pub fn granted(db: &Database) -> Rc<Granted> {
    granted_to(db, role::current())
}

/// As `granted`, for another role.
pub fn granted_to(db: &Database, role: Oid) -> Rc<Granted> {
    relcache::catch_up();
    let known =
        KNOWN.with_borrow(|known| known.iter().find(|it| it.role == role && it.db == *db).cloned());
    known.unwrap_or_else(|| {
        loop {
            // A change that is heard of while the table is read may be newer than what is read.
            let changes = CHANGES.get();
            let granted = Rc::new(read(db, role));
            if CHANGES.get() == changes {
                KNOWN.with_borrow_mut(|known| {
                    known.truncate(KNOWN_MAX - 1);
                    known.insert(0, granted.clone());
                });
                return granted;
            }
            pgrx::check_for_interrupts!();
        }
    })
}

fn read(db: &Database, role: Oid) -> Granted {
    relcache::on_change(table_changed);
    relcache::on_role_change(forget);
    let is_owner = role::has_privileges_of(role, db.owner);
    let everywhere = if is_owner { Privileges::ALL } else { Privileges::NONE };
    let is_monitor = role::has_privileges_of(role, Oid::from_u32(pg_sys::ROLE_PG_MONITOR));
    let queues = HashMap::new();
    let mut granted = Granted { role, db: *db, is_owner, is_monitor, everywhere, queues };
    if is_owner {
        return granted;
    }
    TABLE.set(privilege_table(db));
    let session = session(db);
    let rows = session.run(&READ, &[]);
    for row in 0..rows.len() {
        let grantee = Oid::from_u32(datum::number(rows.get(row, 1)) as u32);
        if !role::has_privileges_of(role, grantee) {
            continue;
        }
        let words = words_of(rows.get(row, 2));
        let queue = datum::text(rows.get(row, 0));
        let set = if queue == EVERY_QUEUE {
            &mut granted.everywhere
        } else {
            granted.queues.entry(queue.into()).or_default()
        };
        *set = set.with(words);
    }
    granted
}

/// The privileges of an array of words, as the table keeps them.
pub fn words_of(array: Option<pg_sys::Datum>) -> Privileges {
    // SAFETY: the callers pass arrays of texts.
    let words = array.and_then(|array| unsafe { datum::elements(TEXTS, array) });
    let parse = |word| Privileges::parse(&datum::text(word));
    words.unwrap_or_default().into_iter().filter_map(parse).fold(Privileges::NONE, Privileges::with)
}

/// The table of privileges.
pub fn privilege_table(db: &Database) -> Oid {
    db.table(c"privilege")
}

fn table_changed(table: Oid) {
    if table == TABLE.get() || table == pg_sys::InvalidOid {
        forget();
    }
}

fn forget() {
    CHANGES.set(CHANGES.get() + 1);
    KNOWN.with_borrow_mut(Vec::clear);
}

/// The queues of those of some tasks that exist. Running and ready ones are known to the board; the
/// others are looked up.
fn queues_of(db: &Database, tasks: &[Uuid]) -> HashMap<Uuid, Vec<u8>> {
    let mut queues = HashMap::with_capacity(tasks.len());
    let mut others = Vec::new();
    let ids_of_tasks = tasks.iter().map(|id| id.0);
    let found = db.slots_of(ids_of_tasks, |board, slot| Some(board.queue_name_of(slot)));
    for (id, found) in tasks.iter().zip(found) {
        match found {
            Some(queue) => {
                queues.insert(*id, queue.as_bytes().to_vec());
            }
            None => others.push(*id),
        }
    }
    if !others.is_empty() {
        let session = session(db);
        let rows = session.run(&QUEUES, &[ids(others.into_iter())]);
        for row in 0..rows.len() {
            queues.insert(id_at(&rows, row, 0), datum::text(rows.get(row, 1)));
        }
    }
    queues
}

//! Since when tasks are ready that no worker owns.

use crate::extension::database::Database;
use crate::ops::stats::queues;
use crate::pg::datum::{self, TEXTS};
use crate::pg::kept;
use crate::pg::spi::statement;
use crate::storage::rows::session;
use board::Wall;
use pgrx::pg_sys::MemoryContext;
use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::rc::Rc;

statement!(OLDEST_READY, "stats/oldest_ready", [TEXTS]);

type Oldest = HashMap<Vec<u8>, Wall>;

/// What a statement has asked for.
#[derive(Default)]
struct Asked {
    queues: Cell<usize>,
    all: OnceCell<Option<Oldest>>,
}

/// For how many queues a statement asks one by one, before it reads all.
const ASKED_MAX: usize = 16;

/// Since when the oldest task of a queue is ready that no worker owns. The statement whose memory
/// this is may ask for many queues: then it reads them together, as they are at that moment.
pub fn oldest_ready(db: &Database, queue: &[u8], statement: MemoryContext) -> Option<Wall> {
    let asked = kept::find::<Asked>(statement).unwrap_or_else(|| {
        let none = Rc::new(Asked::default());
        kept::keep(statement, none.clone());
        none
    });
    asked.queues.set(asked.queues.get() + 1);
    if asked.queues.get() > ASKED_MAX {
        let all = asked.all.get_or_init(|| queues::with_ready_tasks(db).map(|it| read(db, &it)));
        if let Some(all) = all {
            return all.get(queue).copied();
        }
    }
    read(db, &[queue.to_vec()]).remove(queue)
}

/// Of queues in the order of their names.
fn read(db: &Database, queues: &[Vec<u8>]) -> Oldest {
    let names = queues.iter().map(|it| Some(datum::varlena(it)));
    let session = session(db);
    let rows = session.run(&OLDEST_READY, &[Some(datum::array(TEXTS, names))]);
    let oldest = |row| Some((datum::text(rows.get(row, 0)), datum::wall(rows.get(row, 1)?)));
    (0..rows.len()).filter_map(oldest).collect()
}

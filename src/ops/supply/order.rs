//! Order: brings the next tasks of groups forward, in queues where one task of a group runs at a
//! time.
//!
//! In each such group one task is *first*: the only one that may be owned. The others are behind
//! it. A commit that may leave a group without a first task, or with several, notes the group on
//! the board. The scheduler alone makes a task first, with one exception: a transaction that
//! settles the first task may bring the next one forward itself. While it has the row locked, the
//! group has a first task for all others.

use crate::extension::database::Database;
use crate::ops::supply::search::{Found, texts};
use crate::pg::datum::{self, BIGINT, BIGINTS, TEXT, TEXTS, UUID, UUIDS};
use crate::pg::process;
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::time;
use crate::pg::uuid::{Uuid, group_hash};
use crate::shmem::segment::{self, AT_ONCE, with_board};
use crate::storage::rows::{BoardKey, ROWS_PER_TX, id_at, ids_of, session};
use crate::xact::{self, Change, Offer};
use board::{Board, GroupHash, GroupNote, Micros, Monotonic, NoteRef, Refusal, Wall};
use pgrx::pg_sys::{self, Datum};
use std::rc::Rc;

statement!(FIRSTS, "order/firsts", [TEXTS, UUIDS, UUID]);
statement!(PUT_BEHIND, "order/put_behind", [TEXTS, UUIDS, UUID, BIGINT]);
statement!(STEP_BACK, "order/step_back", [UUIDS]);
statement!(BRING_FORWARD, "order/bring_forward", [TEXTS, UUIDS, BIGINTS]);
statement!(BRING_OWN, "order/bring_own", [TEXT, UUIDS, TEXTS, UUID, UUID]);
statement!(GROUPS_BEHIND, "order/groups_behind", [TEXT, UUID, BIGINT]);
statement!(NEXT_QUEUE, "order/next_queue", [TEXT]);
statement!(GROUPS_OF_FIRSTS, "order/groups_of_firsts", [TEXT, UUID, BIGINT]);

/// A group of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub queue: Rc<[u8]>,
    /// Of its key, or of an empty one for the tasks without a group.
    hash: GroupHash,
}

impl Group {
    pub fn of(queue: &[u8], group: Option<GroupHash>) -> Group {
        Group { queue: queue.into(), hash: group.unwrap_or_else(no_group) }
    }

    /// The group; `None`: the tasks without one.
    pub fn group(&self) -> Option<GroupHash> {
        (self.hash != no_group()).then_some(self.hash)
    }
}

/// The hash of the tasks without a group: no group's key is empty.
fn no_group() -> GroupHash {
    group_hash(b"")
}

/// The outcome of looking at a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looked {
    /// It has one first task, or none at all.
    Done,
    /// It has more tasks to be moved.
    More,
    /// The row of a task that is to be moved is locked.
    Locked,
}

/// Has one transaction at a time bring tasks forward.
fn alone(db: &Database) {
    // SAFETY: a lock on an object of this database, released at the transaction's end. A process
    // that has it waits for no row.
    unsafe {
        let mode = pg_sys::ExclusiveLock as i32;
        pg_sys::LockDatabaseObject(pg_sys::ExtensionRelationId, db.extension, 2, mode);
    }
}

/// Gives each of some groups one first task, its oldest one unless a younger one was taken, and
/// offers it if it is ready. Of queues that do not keep the
/// order, brings all tasks forward. Moves some thousand tasks at most.
pub fn look_at(db: &Database, groups: &[Group]) -> Vec<Looked> {
    let mut looked = vec![Looked::Done; groups.len()];
    if groups.is_empty() {
        return looked;
    }
    alone(db);
    let session = session(db);
    let all: Vec<usize> = (0..groups.len()).collect();
    let rows = session.run(&FIRSTS, &with_plain(groups, &all, []));
    let mut firsts = vec![0; groups.len()];
    let mut keeps_order = vec![false; groups.len()];
    let mut steps_back: Vec<(Uuid, usize)> = Vec::new();
    for row in 0..rows.len() {
        let at = number_at(&rows, row);
        keeps_order[at] = datum::number(rows.get(row, 1)) != 0;
        if rows.get(row, 2).is_none() {
            continue;
        }
        firsts[at] += 1;
        let is_ready = datum::number(rows.get(row, 10)) != 0;
        let is_only = firsts[at] == 1 && !(row + 1 < rows.len() && number_at(&rows, row + 1) == at);
        if is_only && datum::number(rows.get(row, 12)) != 0 {
            let id = id_at(&rows, row, 2);
            let key = BoardKey::at(&rows, row, 3, id);
            match if is_ready { withdraw(db, &key) } else { Withdrawn::Yes } {
                Withdrawn::Yes => steps_back.push((id, at)),
                Withdrawn::Taken => {}
                Withdrawn::Later => looked[at] = Looked::Locked,
            }
        } else if firsts[at] == 1 && is_ready {
            offer(db, &rows, row, 2);
        }
    }
    rows.free();
    if !steps_back.is_empty() {
        let back = ids_of(&session, &STEP_BACK, steps_back.iter().map(|it| it.0));
        for (id, at) in steps_back {
            if back.contains(&id) {
                firsts[at] = 0;
            } else {
                looked[at] = Looked::Locked;
            }
        }
    }
    let several: Vec<usize> = all.iter().copied().filter(|at| firsts[*at] > 1).collect();
    if !several.is_empty() {
        let most = Some(Datum::from(ROWS_PER_TX));
        // The next look finds out whether the one that stays is the oldest.
        let rows = session.run(&PUT_BEHIND, &with_plain(groups, &several, [most]));
        note(&rows, &several, &mut looked, |_| 1, 1, |it| datum::number(it) != 0);
        rows.free();
    }
    // Where there is no order, as many as there may be in one transaction, of the first groups at
    // least.
    let mut room = ROWS_PER_TX;
    let mut most = vec![0; groups.len()];
    for at in all.iter().copied().filter(|at| firsts[*at] == 0) {
        most[at] = if keeps_order[at] { 1 } else { room.max(1) };
        if !keeps_order[at] {
            room /= 2;
        }
    }
    let lacking: Vec<usize> = all.iter().copied().filter(|at| most[*at] > 0).collect();
    if !lacking.is_empty() {
        let numbers = lacking.iter().map(|at| Some(Datum::from(most[*at] as i64)));
        let mut values = names(groups, &lacking);
        values.push(Some(datum::array(BIGINTS, numbers)));
        let rows = session.run(&BRING_FORWARD, &values);
        for row in (0..rows.len()).filter(|row| rows.get(*row, 1).is_some()) {
            if datum::number(rows.get(row, 9)) != 0 {
                offer(db, &rows, row, 1);
            }
        }
        let is_all = |at: usize| if keeps_order[at] { usize::MAX } else { most[at] };
        note(&rows, &lacking, &mut looked, is_all, 1, |it| it.is_some());
        rows.free();
    }
    looked
}

/// Whether a first task was taken off the board.
enum Withdrawn {
    Yes,
    /// A worker owns it, or a transaction is about to end it.
    Taken,
    /// It cannot be now.
    Later,
}

/// Takes a first task off the board that is to go behind an older one, unless it was taken.
fn withdraw(db: &Database, key: &BoardKey) -> Withdrawn {
    let me = process::id();
    xact::reserve(1);
    let answer = with_board(|board| {
        let entry = db.find(board)?;
        board.withdraw(entry, key.lane(), key.rank, key.timeout, me)
    });
    match answer {
        Some(Ok(ticket)) => {
            xact::at_commit(db, [Change::Finish(ticket, None)]);
            Withdrawn::Yes
        }
        Some(Err(Refusal::Busy)) | None => Withdrawn::Later,
        Some(Err(_)) => Withdrawn::Taken,
    }
}

/// Notes what became of some groups whose rows a statement was to move: `most`: how many of each at
/// most; `moved`: whether it did, by a column.
fn note(
    rows: &Rows,
    some: &[usize],
    looked: &mut [Looked],
    most: impl Fn(usize) -> usize,
    column: usize,
    moved: fn(Option<Datum>) -> bool,
) {
    let mut counts = vec![0; looked.len()];
    for row in 0..rows.len() {
        let at = some[number_at(rows, row)];
        counts[at] += 1;
        if !moved(rows.get(row, column)) {
            looked[at] = Looked::Locked;
        } else if counts[at] >= most(at) && looked[at] == Looked::Done {
            looked[at] = Looked::More;
        }
    }
}

/// Registers the offer of a first task.
fn offer(db: &Database, rows: &Rows, row: usize, column: usize) {
    let key = BoardKey::at(rows, row, column + 1, id_at(rows, row, column));
    let aged_since = rows.get(row, column + 7).map(datum::wall);
    xact::at_commit(db, [Change::Forward(Offer { aged_since, ..key.offer() })]);
}

fn number_at(rows: &Rows, row: usize) -> usize {
    datum::number(rows.get(row, 0)) as usize - 1
}

/// The queues and the hashes of some groups.
fn names(groups: &[Group], some: &[usize]) -> Vec<Option<Datum>> {
    let queues = some.iter().map(|at| Some(datum::varlena(&groups[*at].queue)));
    let hashes = some.iter().map(|at| Some(Uuid(groups[*at].hash).datum()));
    vec![Some(datum::array(TEXTS, queues)), Some(datum::array(UUIDS, hashes))]
}

/// As `names`, then the hash of no group, and more.
fn with_plain<const N: usize>(
    groups: &[Group],
    some: &[usize],
    more: [Option<Datum>; N],
) -> Vec<Option<Datum>> {
    let mut values = names(groups, some);
    values.push(Some(Uuid(no_group()).datum()));
    values.extend(more);
    values
}

/// The notes of a database, at most so many.
pub fn notes(entry: u32, most: usize) -> Vec<(NoteRef, Group)> {
    let mut notes: Vec<(NoteRef, GroupNote)> = Vec::new();
    let mut more = true;
    while more && notes.len() < most {
        notes.reserve(AT_ONCE);
        more = with_board(|board| {
            (0..AT_ONCE).all(|_| {
                let next = board.next_note(entry, notes.last().map(|it| it.0));
                let found = next.is_some();
                notes.extend(next);
                found
            })
        });
    }
    notes.into_iter().map(|(at, note)| (at, Group::of(note.queue(), note.group()))).collect()
}

/// Forgets notes, unless their groups were noted again since they were read.
pub fn forget(entry: u32, notes: impl Iterator<Item = NoteRef>) {
    let notes: Vec<NoteRef> = notes.collect();
    for some in notes.chunks(AT_ONCE) {
        with_board(|board| some.iter().for_each(|it| board.forget_note(entry, *it)));
    }
}

/// Notes groups on the board.
pub fn note_again(entry: u32, groups: &[Group]) {
    for some in groups.chunks(AT_ONCE) {
        with_board(|board| {
            some.iter().for_each(|it| board.note_group(entry, &it.queue, it.group()));
        });
    }
}

/// A look at all groups that may lack a first task, or have several.
pub struct Sweep {
    queue: Vec<u8>,
    hash: GroupHash,
    /// All groups with tasks behind were looked at; what is left are those with several first
    /// tasks.
    knows_behind: bool,
    /// Of the queue, the tasks without a group were looked at.
    knows_plain: bool,
}

/// How many groups are looked at in one transaction: callers wait for its end.
pub const GROUPS_PER_TX: usize = 200;

/// How many groups a step of a sweep goes through.
const HOPS: usize = GROUPS_PER_TX;

impl Sweep {
    pub fn begin() -> Sweep {
        Sweep { queue: Vec::new(), hash: 0, knows_behind: false, knows_plain: true }
    }

    /// The next groups to be looked at; `None`: there are no more. Changes nothing: a step that
    /// fails is made again with what was there before.
    pub fn step(&self, db: &Database) -> Option<(Vec<Group>, Sweep)> {
        let session = session(db);
        let (queue, hash) = (Some(datum::varlena(&self.queue)), Some(Uuid(self.hash).datum()));
        let most = Some(Datum::from(HOPS as i64));
        if !self.knows_behind {
            let rows = session.run(&GROUPS_BEHIND, &[queue, hash, most]);
            let group = |row| Group {
                queue: datum::text(rows.get(row, 0)).into(),
                hash: id_at(&rows, row, 1).0,
            };
            let groups: Vec<Group> = (0..rows.len()).map(group).collect();
            let next = match groups.last().filter(|_| groups.len() == HOPS) {
                Some(last) => Sweep { queue: last.queue.to_vec(), hash: last.hash, ..*self },
                None => Sweep { knows_behind: true, ..Sweep::begin() },
            };
            return Some((groups, next));
        }
        if self.knows_plain && self.hash == 0 {
            let next = session.run(&NEXT_QUEUE, &[queue]).first()?;
            let next = Sweep { queue: datum::text(Some(next)), knows_plain: false, ..*self };
            return Some((Vec::new(), next));
        }
        let rows = session.run(&GROUPS_OF_FIRSTS, &[queue, hash, most]);
        let several = (0..rows.len()).filter(|row| datum::number(rows.get(*row, 1)) != 0);
        let group = |hash| Group { queue: self.queue.as_slice().into(), hash };
        let mut groups: Vec<Group> = several.map(|row| group(id_at(&rows, row, 0).0)).collect();
        if !self.knows_plain {
            groups.push(group(no_group()));
        }
        let last = (rows.len() == HOPS).then(|| id_at(&rows, HOPS - 1, 0).0);
        let queue = self.queue.clone();
        Some((groups, Sweep { queue, hash: last.unwrap_or(0), knows_plain: true, ..*self }))
    }
}

/// Does it all for a caller, in its transaction, where no scheduler does; true when there is more.
pub fn serve(db: &Database, entry: u32) {
    let looks = with_board(|board| {
        let it = board.entry_mut(entry);
        (it.is_looking, it.changes_order) = (false, false);
        std::mem::take(&mut it.looks_for_groups)
    });
    let notes = notes(entry, GROUPS_PER_TX);
    let groups: Vec<Group> = notes.iter().map(|it| it.1.clone()).collect();
    let looked = look_at(db, &groups);
    let done = notes.iter().zip(looked).filter(|(_, looked)| *looked == Looked::Done);
    forget(entry, done.map(|((note, _), _)| *note));
    let mut sweep = Sweep::begin();
    while looks && let Some((groups, next)) = sweep.step(db) {
        let mut left = groups;
        // Rows that are locked are for another caller.
        while !left.is_empty() {
            let looked = look_at(db, &left);
            let (locked, more): (Vec<_>, Vec<_>) = (left.into_iter().zip(looked))
                .filter(|(_, looked)| *looked != Looked::Done)
                .partition(|(_, looked)| *looked == Looked::Locked);
            note_again(entry, &locked.into_iter().map(|it| it.0).collect::<Vec<_>>());
            left = more.into_iter().map(|it| it.0).collect();
        }
        sweep = next;
    }
}

/// Brings the next tasks of groups forward whose first task this transaction has settled, for it to
/// own them. `only`: the one task that it wants.
pub fn bring_own(
    db: &Database,
    session: &Session,
    queue: &[u8],
    actions: Option<&[&[u8]]>,
    only: Option<Uuid>,
) -> Vec<Found> {
    let places = xact::endings_in_groups();
    if places.is_empty() {
        return Vec::new();
    }
    let (groups, aging) = db.on_board(|board, entry| {
        let queue = board.find_queue(entry, queue);
        (board.groups_in_order(queue, &places), board.aging(queue))
    });
    if groups.is_empty() {
        return Vec::new();
    }
    let hashes = groups.iter().map(|it| Some(Uuid(it.unwrap_or_else(no_group)).datum()));
    let values = [
        Some(datum::varlena(queue)),
        Some(datum::array(UUIDS, hashes)),
        actions.map(|actions| texts(actions.iter().copied()).0),
        only.map(Uuid::datum),
        Some(Uuid(no_group()).datum()),
    ];
    let rows = session.run(&BRING_OWN, &values);
    let mut page: Vec<Found> = (0..rows.len())
        .map(|row| {
            let group = rows.get(row, 7).map(|_| id_at(&rows, row, 7).0);
            Found::at(&rows, row, group, aging)
        })
        .collect();
    page.sort_by_key(Found::position);
    let queue: Rc<[u8]> = queue.into();
    // At the commit the tasks are there for all, unless they are owned.
    xact::at_commit(db, page.iter().map(|it| Change::Forward(it.offer(queue.clone()))));
    page
}

/// What a task that is behind waits for.
pub struct First {
    pub id: Uuid,
    pub action: Vec<u8>,
    /// When it is ready again; `None`: it is.
    pub due: Option<Wall>,
}

/// The first task of a group.
pub fn first(session: &Session, queue: &[u8], group: Option<GroupHash>) -> Option<First> {
    let group = [Group::of(queue, group)];
    let rows = session.run(&FIRSTS, &with_plain(&group, &[0], []));
    if rows.len() == 0 {
        return None;
    }
    rows.get(0, 2)?;
    let is_ready = datum::number(rows.get(0, 10)) != 0;
    Some(First {
        id: id_at(&rows, 0, 2),
        action: datum::text(rows.get(0, 4)),
        due: rows.get(0, 11).map(datum::wall).filter(|_| !is_ready),
    })
}

/// How long a call waits for the scheduler at most.
const MOST_WAIT: Micros = Micros::from_secs(1);

/// Waiting for the scheduler to bring tasks forward, by a call that has found none.
#[derive(Default)]
pub struct Wait(Option<Monotonic>);

impl Wait {
    /// Waits until the tasks of a queue are in order that has been given the setting a moment ago.
    pub fn until_in_order(&mut self, db: &Database, queue: &[u8]) {
        if segment::any_queue_keeps_order() {
            while self.goes_on(db, |board, entry| {
                board.entry(entry).changes_order && board.keeps_order_named(entry, queue)
            }) {}
        }
    }

    /// Waits a moment; false: there is nothing to wait for any more.
    pub fn wait(&mut self, db: &Database, queue: &[u8]) -> bool {
        self.goes_on(db, |board, entry| {
            let is_meant =
                board.keeps_order_named(entry, queue) || board.entry(entry).changes_order;
            is_meant && board.has_notes(entry)
        })
    }

    fn goes_on(&mut self, db: &Database, asks: impl Fn(&Board, u32) -> bool) -> bool {
        let is_due =
            db.on_board(|board, entry| board.entry(entry).scheduler != 0 && asks(board, entry));
        let now = time::monotonic();
        let waits = is_due && now < *self.0.get_or_insert(now + MOST_WAIT);
        if waits {
            segment::wait();
        }
        waits
    }
}

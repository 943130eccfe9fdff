//! Searching the table for ready tasks of a queue that the board does not cover (I4).
//!
//! A search reads pages. For each lane that the caller asks for, a page has the first tasks that
//! may be owned. The lanes of groups come in the order of the groups' hashes, from where the
//! queue's last search stopped, so each group has its turn, however many there are. A page costs a
//! hop in an index for each lane, whatever the lane's length. It skips tasks that are held and
//! groups that are full. A task that was found may be gone when it is claimed.

use crate::extension::database::Database;
use crate::pg::datum::{self, BIGINT, BOOL, TEXT, TEXTS, UUID};
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::segment::with_board;
use crate::storage::rows::{id_at, rank, row_hint_at};
use crate::xact::{self, Offer};
use board::{Blocked, GroupHash, LaneName, Micros, Rank, RowHint, State, Wall, raised};
use pgrx::pg_sys::Datum;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

statement!(ACTIONS, "supply/actions", [TEXT, TEXT, BIGINT]);
statement!(SEARCH, "supply/search", [TEXT, TEXTS, BIGINT]);
statement!(SEARCH_LEVELS, "supply/search_levels", [TEXT, TEXTS, BIGINT]);
statement!(SEARCH_GROUPS, "supply/search_groups", [TEXT, TEXTS, UUID, UUID, BIGINT, BIGINT, BOOL]);

/// How many actions are searched at once, for those who name none.
const MOST_ACTIONS: usize = 2_048;

/// How many lanes of groups a page has at least and at most, of all actions together.
const LEAST_LANES: usize = 32;
const MOST_LANES: usize = 1_024;

/// How many tasks of each lane of a group a page has at most.
const TASKS_OF_GROUP: i64 = 4;

/// How many tasks without a group a page has at most, of all lanes together, and what it has of
/// each in any case.
const MOST_PLAIN: usize = 4_096;
const LEAST_PLAIN: usize = 4;

/// What a caller asks for.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub queue: &'a [u8],
    /// `None`: all.
    pub actions: Option<&'a [&'a [u8]]>,
    pub most: usize,
}

/// A task that was found.
pub struct Found {
    pub action: Vec<u8>,
    pub group: Option<GroupHash>,
    pub rank: Rank,
    pub timeout: Micros,
    pub row: RowHint,
    /// Its priority, raised by its age.
    raised: i64,
    /// How many tasks of its group and priority come before it.
    turn: usize,
}

impl Found {
    /// The task's lane.
    pub fn lane<'a>(&'a self, queue: &'a [u8]) -> LaneName<'a> {
        LaneName { queue, action: &self.action, group: self.group }
    }

    /// From a row with id, priority, created, timeout, run_at, where the row is, and the action.
    pub fn at(rows: &Rows, row: usize, group: Option<GroupHash>, aging: Micros) -> Found {
        let number = |column| datum::number(rows.get(row, column));
        let rank = rank(id_at(rows, row, 0), Wall(number(2)), number(1));
        let since = rows.get(row, 4).map_or(rank.created, datum::wall);
        Found {
            action: datum::text(rows.get(row, 6)),
            group,
            rank,
            timeout: datum::interval_length(rows.get(row, 3)),
            row: row_hint_at(rows, row, 5),
            raised: raised(rank.priority, since, time::now().wall, aging),
            turn: 0,
        }
    }

    /// Its position among first tasks of groups.
    pub fn position(&self) -> (Reverse<i64>, Rank) {
        (Reverse(self.raised), self.rank)
    }

    /// How to offer the task on the board.
    pub fn offer(&self, queue: Rc<[u8]>) -> Offer {
        Offer {
            queue,
            action: self.action.as_slice().into(),
            group: self.group,
            rank: self.rank,
            timeout: self.timeout,
            aged_since: None,
            row: Some(self.row),
            behind: false,
        }
    }
}

/// How far a search has come.
pub struct Search {
    actions: Actions,
    /// Of groups: where it began.
    start: GroupHash,
    /// The groups that are still to be read: up to the last hash, then up to where it began.
    left: Vec<RangeInclusive<GroupHash>>,
    read_plain: bool,
    /// How long a task waits for a point of priority; zero: it gains none.
    aging: Micros,
}

impl Search {
    /// Begins where the last search of the queue stopped.
    pub fn begin(entry: u32, asked: &Asked) -> Search {
        let (start, aging) = with_board(|board| {
            let queue = board.find_queue(entry, asked.queue);
            (board.next_group(queue), board.aging(queue))
        });
        Search { actions: Actions::begin(asked), start, left: Vec::new(), read_plain: true, aging }
    }

    /// The next page, in the order in which its tasks are to be handed out; `None`: there are none.
    pub fn next(&mut self, session: &Session, asked: &Asked) -> Option<Vec<Found>> {
        let mut page = Vec::new();
        while page.is_empty() {
            pgrx::check_for_interrupts!();
            if self.read_plain && self.left.is_empty() {
                if !self.actions.go_on(session, asked.queue) {
                    return None;
                }
                let before = self.start.checked_sub(1).map(|last| 0..=last);
                self.left = before.into_iter().chain([self.start..=GroupHash::MAX]).collect();
                self.read_plain = false;
            }
            let actions = self.actions.page.iter();
            let actions = texts(actions.map(Vec::as_slice));
            if !std::mem::replace(&mut self.read_plain, true) {
                self.read_plain(session, asked, actions, &mut page);
            }
            self.read_groups(session, asked, actions, &mut page);
        }
        self.sort(&mut page);
        Some(page)
    }

    /// Reads the first tasks of the lanes without a group.
    fn read_plain(
        &self,
        session: &Session,
        asked: &Asked,
        (actions, count): (Datum, usize),
        page: &mut Vec<Found>,
    ) {
        let most = asked.most.min((MOST_PLAIN / count.max(1)).max(LEAST_PLAIN));
        let statement = if self.aging > Micros::ZERO { &SEARCH_LEVELS } else { &SEARCH };
        let values = [datum::varlena(asked.queue), actions, Datum::from(most as i64)];
        let rows = session.run(statement, &values.map(Some));
        page.extend((0..rows.len()).map(|row| Found::at(&rows, row, None, self.aging)));
        rows.free();
    }

    /// Reads the first tasks of the next groups, as many of each action.
    fn read_groups(
        &mut self,
        session: &Session,
        asked: &Asked,
        (actions, count): (Datum, usize),
        page: &mut Vec<Found>,
    ) {
        let Some(range) = self.left.pop() else { return };
        let lanes = (2 * asked.most).clamp(LEAST_LANES, MOST_LANES) / count.max(1);
        let lanes = lanes.max(1) as i64;
        let [from, until] = [*range.start(), *range.end()].map(|hash| Uuid(hash).datum());
        let values = [
            datum::varlena(asked.queue),
            actions,
            from,
            until,
            Datum::from(lanes),
            Datum::from(TASKS_OF_GROUP),
            Datum::from(self.aging > Micros::ZERO),
        ];
        let rows = session.run(&SEARCH_GROUPS, &values.map(Some));
        // The last group of an action that may have more.
        let mut last: Option<GroupHash> = None;
        for row in 0..rows.len() {
            let group = id_at(&rows, row, 7).0;
            if datum::number(rows.get(row, 8)) == lanes {
                last = Some(last.map_or(group, |last| last.min(group)));
            }
            if rows.get(row, 0).is_some() {
                page.push(Found::at(&rows, row, Some(group), self.aging));
            }
        }
        rows.free();
        if let Some(last) = last.filter(|last| last < range.end()) {
            self.left.push(last + 1..=*range.end());
        }
    }

    /// Sorts a page by priority, then by the groups' turns; those without a group are one, which
    /// comes first.
    fn sort(&self, page: &mut [Found]) {
        if page.iter().any(|it| it.group.is_some()) {
            page.sort_by_key(|it| (it.group, Reverse(it.raised), it.rank));
            for at in 1..page.len() {
                let (before, it) = (&page[at - 1], &page[at]);
                if (before.group, before.raised) == (it.group, it.raised) {
                    page[at].turn = page[at - 1].turn + 1;
                }
            }
        }
        let turn = |group: Option<GroupHash>| group.map(|it| it.wrapping_sub(self.start));
        page.sort_by_key(|it| (Reverse(it.raised), it.turn, turn(it.group), it.rank));
    }
}

/// The actions of a search: those that were asked for, or all that the queue has, some at once.
struct Actions {
    page: Vec<Vec<u8>>,
    asked: Option<Vec<Vec<u8>>>,
    /// The ranges that are still to be read, the next one last: from an action on, up to one or to
    /// the end.
    left: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

thread_local! {
    /// The actions with which this process goes on, of the queues that it has not read to the end.
    static NEXT_ACTIONS: RefCell<HashMap<Vec<u8>, Vec<u8>>> = RefCell::new(HashMap::new());
}

impl Actions {
    fn begin(asked: &Asked) -> Actions {
        if let Some(actions) = asked.actions {
            let named = actions.iter().map(|it| it.to_vec()).collect();
            return Actions { page: Vec::new(), asked: Some(named), left: Vec::new() };
        }
        let start = NEXT_ACTIONS.with_borrow(|next| next.get(asked.queue).cloned());
        let before = start.clone().map(|start| (Vec::new(), Some(start)));
        let left = before.into_iter().chain([(start.unwrap_or_default(), None)]).collect();
        Actions { page: Vec::new(), asked: None, left }
    }

    /// Goes on to the next ones; false: there are none.
    fn go_on(&mut self, session: &Session, queue: &[u8]) -> bool {
        self.page = self.asked.take().unwrap_or_default();
        while self.page.is_empty()
            && let Some((from, until)) = self.left.pop()
        {
            let values = [datum::varlena(queue), datum::varlena(&from), Datum::from(MOST_ACTIONS)];
            let rows = session.run(&ACTIONS, &values.map(Some));
            let read = (0..rows.len()).map(|row| datum::text(rows.get(row, 0)));
            self.page =
                read.take_while(|it| until.as_ref().is_none_or(|until| it < until)).collect();
            let next = (self.page.len() == MOST_ACTIONS).then(|| {
                let last = self.page.last().map_or(&[][..], Vec::as_slice);
                // No text has a byte of zero.
                [last, &[1]].concat()
            });
            NEXT_ACTIONS.with_borrow_mut(|known| match &next {
                Some(next) => known.insert(queue.to_vec(), next.clone()),
                None => known.remove(queue),
            });
            self.left.extend(next.map(|next| (next, until)));
            rows.free();
        }
        !self.page.is_empty()
    }
}

/// An array of texts, and how many there are.
pub fn texts<'t>(texts: impl ExactSizeIterator<Item = &'t [u8]>) -> (Datum, usize) {
    let count = texts.len();
    (datum::array(TEXTS, texts.map(|it| Some(datum::varlena(it)))), count)
}

/// Whether nothing holds a task, as far as the board knows.
pub fn is_free(db: &Database, task: Uuid) -> bool {
    with_board(|board| {
        let entry = db.find(board)?;
        board.slot_of(entry, task.0).map(|it| it.state() == State::Queued)
    })
    .unwrap_or(true)
}

/// Whether a group may run one more task, for a transaction that ends leases itself.
pub fn group_may_run(db: &Database, queue: &[u8], group: GroupHash) -> bool {
    let blocked = with_board(|board| {
        let queue = board.find_queue(db.find(board)?, queue)?;
        Some((queue, board.group_blocked(queue, Some(group))?))
    });
    let Some((queue, Blocked::MaxRunningPerGroup(place))) = blocked else { return true };
    let freed = xact::endings_in_groups().into_iter().find(|it| it.0 == place);
    freed.is_some_and(|freed| {
        with_board(|board| board.group_blocked_beside(queue, Some(group), freed.1).is_none())
    })
}

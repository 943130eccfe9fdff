//! Bringing ready tasks from the table onto the board: refilling a lane from where the last refill
//! stopped, and surveying which lanes the table has (I4).

use crate::ops::queues::configure;
use crate::pg::datum::{self, BIGINT, BOOL, TEXT, TIMESTAMPTZ, UUID};
use crate::pg::process;
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::segment::{self, with_board};
use crate::shmem::xact::{self, AT_ONCE};
use crate::storage::lookup::{TaskLookup, View};
use crate::storage::rows::{id_at, is_own, rank, row_hint_at, session};
use board::{
    Board, GroupHash, GroupRead, Id, LaneName, LaneRef, LineTask, Micros, NeedsGroups, NeedsRefill,
    Next, Order, Rank, RowHint, Wall,
};
use pgrx::pg_sys::{self, Datum};
use std::collections::BTreeMap;

statement!(REFILL, "maintenance/refill", [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT]);
statement!(
    REFILL_LEVEL,
    "maintenance/refill_level",
    [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT]
);
statement!(
    REFILL_GROUP,
    "maintenance/refill_group",
    [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT, UUID]
);
statement!(
    REFILL_GROUP_LEVEL,
    "maintenance/refill_group_level",
    [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT, UUID]
);
statement!(REFILL_LINE, "maintenance/refill_line", [TEXT, UUID, TIMESTAMPTZ, UUID, BIGINT]);
statement!(
    REFILL_LINE_UNGROUPED,
    "maintenance/refill_line_ungrouped",
    [TEXT, TIMESTAMPTZ, UUID, BIGINT]
);
statement!(READ_GROUPS, "maintenance/read_groups", [TEXT, TEXT, UUID, BIGINT, BIGINT]);
statement!(SURVEY, "maintenance/survey", []);
statement!(SURVEY_LINES, "maintenance/survey_lines", [TEXT]);
statement!(SURVEY_GROUPS, "maintenance/survey_groups", [TEXT, BOOL]);
statement!(SURVEY_QUEUE, "maintenance/survey_queue", [TEXT]);

/// Bounds of how many tasks one refill reads. It reads no more than the board has room for.
const LEAST_READ: usize = AT_ONCE;
const MOST_READ: usize = 2_048;

/// How many refills one call makes without a task from any.
const REFILLS_MAX: u32 = 1 << 17;

/// How many passes over an action's groups one call sees: it may come into the middle of the first.
const PASSES_MAX: u32 = 2;

/// How often a call reads groups without a task from any. It takes what the board has then, and is
/// content with the tasks that it has.
const READINGS_MAX: u32 = 16;

/// How many tasks of each group are read that has no place on the board.
const TASKS_READ: usize = 4;

/// How often one call surveys a queue whose lanes find no place.
const SURVEYS_MAX: u32 = 100;

/// What a caller does for whom the board has no task of a queue.
#[derive(Default)]
pub struct Supply {
    surveys: u32,
    refills: u32,
    /// How many passes over groups there were since, and which was the last one, by the lane that they
    /// belong to.
    passes: BTreeMap<u32, (u32, u64)>,
    /// How often groups were read since, and how often none of them found a place.
    readings: u32,
    stuck: u32,
    /// How often lanes of the database had found no place, at the last survey.
    spilled: u32,
    /// A survey found lanes for which there is no place.
    full: bool,
}

/// What became of it.
pub enum Supplied {
    /// Ask the board again.
    Again,
    /// No task is ready.
    Nothing,
    /// All slots of the board are leased, or all lanes have leases, so that a lane cannot be read;
    /// `None`: there is no place for it.
    NoRoom(Option<LaneRef>),
}

impl Supply {
    /// Notes that the board had something.
    pub fn found(&mut self) {
        let Supply { surveys, spilled, full, .. } = *self;
        *self = Supply { surveys, spilled, full, ..Supply::default() };
    }

    /// What is next for the caller in a queue.
    pub fn next(
        &self,
        board: &mut Board,
        entry: u32,
        queue: Option<u32>,
        actions: Option<&[&[u8]]>,
        now: Wall,
    ) -> Next {
        match board.next_in_queue(entry, queue, actions, now) {
            Next::NeedsGroups(groups) if self.is_hasty() => {
                let beside = queue.and_then(|queue| board.next_beside_passes(queue, actions));
                beside.unwrap_or(Next::NeedsGroups(groups))
            }
            next => next,
        }
    }

    /// Whether the caller has read groups often enough, or for them there is no place.
    fn is_hasty(&self) -> bool {
        self.readings > READINGS_MAX || self.stuck > 1
    }

    /// Whether nothing more is found for the caller, but by a survey; one that has owned some tasks does
    /// not look at all groups.
    pub fn is_at_end(&mut self, next: &Next, has_some: bool) -> bool {
        match next {
            Next::Empty => true,
            Next::NeedsGroups(groups) => {
                let (passes, last) = self.passes.entry(groups.lane).or_default();
                *passes += u32::from(std::mem::replace(last, groups.pass) != groups.pass);
                *passes > PASSES_MAX || (has_some && self.is_hasty())
            }
            _ => false,
        }
    }

    /// Brings tasks of a queue onto the board, as far as what is next there calls for it; waits for
    /// another process that does.
    pub fn bring(
        &mut self,
        db: &Database,
        session: &Session,
        entry: u32,
        queue: &[u8],
        next: Next,
    ) -> Supplied {
        match next {
            Next::Task(_) => Supplied::Again,
            // On a board with next to no lanes, lines could have each other read again for ever.
            Next::NeedsRefill(lane) if self.refills == REFILLS_MAX => {
                Supplied::NoRoom(Some(lane.lane_ref()))
            }
            Next::NeedsRefill(lane) if refill(db, session, entry, queue, &lane) => {
                self.refills += 1;
                Supplied::Again
            }
            Next::NeedsRefill(lane) => Supplied::NoRoom(Some(lane.lane_ref())),
            Next::NeedsGroups(_) if self.is_at_end(&next, false) => Supplied::Nothing,
            Next::NeedsGroups(groups) if self.stuck > 1 => {
                Supplied::NoRoom(Some(groups.lane_ref()))
            }
            Next::NeedsGroups(groups) => {
                self.readings += 1;
                self.stuck += u32::from(!read_groups(db, session, entry, queue, &groups));
                Supplied::Again
            }
            Next::Refilling => {
                segment::wait();
                Supplied::Again
            }
            Next::Spilled(_) if self.full => Supplied::NoRoom(None),
            // Another process may have spilled the lanes that the last survey made.
            Next::Spilled(times) if times != self.spilled && self.surveys < SURVEYS_MAX => {
                (self.spilled, self.surveys) = (times, self.surveys + 1);
                self.full = !survey_queue(session, entry, queue);
                Supplied::Again
            }
            Next::Spilled(_) | Next::Empty => Supplied::Nothing,
        }
    }
}

/// Refills a lane, unless another process does. False when the board has no slot or no lane for what
/// was read.
fn refill(db: &Database, session: &Session, entry: u32, queue: &[u8], lane: &NeedsRefill) -> bool {
    let me = process::id();
    let begun = with_board(|board| board.begin_refill(lane, me).then(|| board.room()));
    let Some(room) = begun else { return true };
    xact::refilling(Some(lane.lane));
    let most = (room as usize).clamp(LEAST_READ, MOST_READ);
    let mut tasks = read(session, queue, lane, most);
    let is_line = lane.order == Order::Line;
    let cursor = behind(&tasks, most, lane.order);
    leave_own(db, &mut tasks);
    let ages = tasks.iter().filter(|_| lane.order != Order::Priority);
    let ages: Vec<(Id, Wall)> = ages.map(|it| (it.rank.id, it.since())).collect();
    let mut room = true;
    for some in tasks.chunks(AT_ONCE) {
        let in_line: Vec<LineTask> = some.iter().filter(|_| is_line).map(Read::in_line).collect();
        let ranks: Vec<(Rank, Micros)> = some.iter().map(|it| (it.rank, it.timeout)).collect();
        room = room
            && with_board(|board| {
                let room = if is_line {
                    board.refill_line(entry, lane.lane, me, &in_line)
                } else {
                    board.refill(entry, lane.lane, me, &ranks)
                };
                some.iter().for_each(|it| board.note_row(entry, it.rank.id, it.row));
                room
            });
    }
    for some in ages.chunks(AT_ONCE) {
        with_board(|board| some.iter().for_each(|(id, since)| board.note_age(entry, *id, *since)));
    }
    let full = with_board(|board| {
        board.end_refill(lane.lane, me, cursor);
        !room && (board.is_leased_out() || board.is_out_of_lanes())
    });
    xact::refilling(None);
    segment::broadcast();
    !full
}

/// Reads the next groups of a pass, unless another process does. False: there is no place for them.
fn read_groups(
    db: &Database,
    session: &Session,
    entry: u32,
    queue: &[u8],
    wanted: &NeedsGroups,
) -> bool {
    let me = process::id();
    let Some(most) = with_board(|board| board.begin_groups(wanted, me)) else { return true };
    xact::refilling(Some(wanted.lane));
    let [most_groups, most_tasks] = [most, TASKS_READ].map(|count| Some(Datum::from(count as i64)));
    let names = [queue, wanted.action.as_bytes()].map(|name| Some(datum::varlena(name)));
    let from = Some(Uuid(wanted.from).datum());
    let values = [names[0], names[1], from, most_groups, most_tasks];
    let rows = session.run(&READ_GROUPS, &values);
    let mut tasks = read_rows(&rows, false);
    tasks.iter_mut().enumerate().for_each(|(row, it)| it.group = id_at(&rows, row, 7).0);
    rows.free();
    let groups: Vec<(GroupHash, Rank)> = tasks
        .chunk_by(|a, b| a.group == b.group)
        .map(|tasks| (tasks[0].group, behind(tasks, TASKS_READ, Order::Priority)))
        .collect();
    leave_own(db, &mut tasks);
    let until = groups.last().map_or(GroupHash::MAX, |it| it.0);
    let (mut from, mut added) = (0, 0);
    let places: Vec<(Rank, Micros)> = tasks.iter().map(|it| (it.rank, it.timeout)).collect();
    for some in groups.chunks(AT_ONCE / TASKS_READ) {
        let begin = from;
        let reads = some.iter().map(|&(group, cursor)| {
            let count = tasks[from..].iter().take_while(|it| it.group == group).count();
            from += count;
            GroupRead { group, tasks: &places[from - count..from], cursor }
        });
        let reads: Vec<GroupRead> = reads.collect();
        let count = with_board(|board| {
            let count = board.add_groups(entry, wanted.lane, me, &reads, until);
            tasks[begin..from].iter().for_each(|it| board.note_row(entry, it.rank.id, it.row));
            count
        });
        added += count;
        if count < reads.len() {
            break;
        }
    }
    let next = match groups.get(added) {
        Some(left) => Some(left.0),
        None => groups.last().filter(|_| groups.len() == most).and_then(|it| it.0.checked_add(1)),
    };
    let has_no_place = with_board(|board| {
        board.end_groups(wanted.lane, me, next);
        board.is_leased_out() || board.is_out_of_lanes()
    });
    xact::refilling(None);
    segment::broadcast();
    added > 0 || groups.is_empty() || !has_no_place
}

/// Where a lane goes on of which so many tasks at most were read.
fn behind(tasks: &[Read], most: usize, order: Order) -> Rank {
    match tasks.last() {
        Some(last) if tasks.len() == most => {
            let is_line = order == Order::Line;
            if is_line { last.rank.in_line().next() } else { last.rank.next() }
        }
        _ => Rank::END,
    }
}

/// A ready task that was read from the table.
struct Read {
    rank: Rank,
    timeout: Micros,
    run_at: Option<Wall>,
    row: RowHint,
    /// This transaction wrote the row.
    is_own: bool,
    /// Of a line.
    action: Vec<u8>,
    waits: bool,
    /// Of groups that were read.
    group: GroupHash,
}

impl Read {
    fn in_line(&self) -> LineTask<'_> {
        let Read { rank, timeout, waits, .. } = *self;
        LineTask { rank, timeout, action: &self.action, waits }
    }

    /// Since when it ages.
    fn since(&self) -> Wall {
        self.run_at.unwrap_or(self.rank.created)
    }
}

/// Leaves out the tasks that this transaction itself made ready: they are offered at its commit
/// (I2). A task that was ready before stays, even if this transaction has written its row.
fn leave_own(db: &Database, tasks: &mut Vec<Read>) {
    if !tasks.iter().any(|it| it.is_own) {
        return;
    }
    let view = View::OfOthers;
    let Some(mut others) = TaskLookup::open_with(db, pg_sys::AccessShareLock, view) else { return };
    tasks.retain(|it| !it.is_own || others.at(Uuid(it.rank.id), it.row).is_some());
    others.close();
}

fn read(session: &Session, queue: &[u8], lane: &NeedsRefill, most: usize) -> Vec<Read> {
    let Rank { id, created, priority } = lane.cursor;
    let is_line = lane.order == Order::Line;
    let group = lane.group.map(|group| Some(Uuid(group).datum()));
    let from =
        [Some(datum::timestamptz(created)), Some(Uuid(id).datum()), Some(Datum::from(most as i64))];
    let mut values = vec![Some(datum::varlena(queue))];
    if is_line {
        values.extend(group);
        values.extend(from);
    } else {
        values.push(Some(datum::varlena(lane.action.as_bytes())));
        values.push(Some(Datum::from(-i64::from(priority))));
        values.extend(from);
        values.extend(group);
    }
    let statement = match (lane.group, lane.order) {
        (None, Order::Line) => &REFILL_LINE_UNGROUPED,
        (Some(_), Order::Line) => &REFILL_LINE,
        (None, Order::Level(_)) => &REFILL_LEVEL,
        (None, _) => &REFILL,
        (Some(_), Order::Level(_)) => &REFILL_GROUP_LEVEL,
        (Some(_), _) => &REFILL_GROUP,
    };
    let rows = session.run(statement, &values);
    let tasks = read_rows(&rows, is_line);
    rows.free();
    tasks
}

fn read_rows(rows: &Rows, has_actions: bool) -> Vec<Read> {
    let number = |row, column| datum::number(rows.get(row, column));
    (0..rows.len())
        .map(|row| {
            let rank = rank(id_at(rows, row, 0), Wall(number(row, 2)), number(row, 1));
            let timeout = datum::interval_length(rows.get(row, 3));
            let run_at = rows.get(row, 5).map(datum::wall);
            let (action, waits) = match has_actions {
                true => (datum::text(rows.get(row, 7)), number(row, 8) == 0),
                false => (Vec::new(), false),
            };
            Read {
                rank,
                timeout,
                run_at,
                row: row_hint_at(rows, row, 6),
                is_own: is_own(rows.get(row, 4)),
                action,
                waits,
                group: 0,
            }
        })
        .collect()
}

/// What comes first in a group of a queue that keeps the order.
pub struct FirstInLine {
    pub id: Uuid,
    pub action: Vec<u8>,
    /// When it is ready again; `None`: it is.
    pub due: Option<Wall>,
}

/// The first task of a group's line, as the table has it.
pub fn first_in_line(
    session: &Session,
    queue: &[u8],
    group: Option<GroupHash>,
) -> Option<FirstInLine> {
    let from =
        [Some(datum::timestamptz(Wall(i64::MIN))), Some(Uuid(0).datum()), Some(Datum::from(1_i64))];
    let mut values = vec![Some(datum::varlena(queue))];
    values.extend(group.map(|group| Some(Uuid(group).datum())));
    values.extend(from);
    let statement = if group.is_some() { &REFILL_LINE } else { &REFILL_LINE_UNGROUPED };
    let rows = session.run(statement, &values);
    rows.first()?;
    let is_ready = datum::number(rows.get(0, 8)) != 0;
    Some(FirstInLine {
        id: id_at(&rows, 0, 0),
        action: datum::text(rows.get(0, 7)),
        due: rows.get(0, 5).map(datum::wall).filter(|_| !is_ready),
    })
}

/// Reads the settings of all queues, and marks all lanes of a database as to be refilled, from the
/// first task on that is not owned: those before have slots. False when the board has no room for
/// some.
pub fn survey(db: &Database, entry: u32) -> bool {
    // What is asked for from now on may come too late for this survey.
    let (asked, spilled) = with_board(|board| {
        let it = board.entry(entry);
        (it.surveys_asked, it.lanes_spilled)
    });
    configure::load(db, entry);
    let room = mark(entry, &session(db).run(&SURVEY, &[]), first_to_refill);
    let room = mark_groups(entry, &session(db), b"", true) && room;
    let room = mark_lines(entry, &session(db), None) && room;
    with_board(|board| {
        let entry = board.entry_mut(entry);
        entry.surveyed = asked;
        if room && entry.lanes_spilled == spilled {
            entry.lanes_spilled = 0;
        }
    });
    room
}

/// Marks all lanes of a queue as to be refilled. False when the board has no room for some.
fn survey_queue(session: &Session, entry: u32, queue: &[u8]) -> bool {
    let rows = session.run(&SURVEY_QUEUE, &[Some(datum::varlena(queue))]);
    let room = mark(entry, &rows, |_, _| Rank::FIRST);
    let room = mark_groups(entry, session, queue, false) && room;
    mark_lines(entry, session, Some(queue)) && room
}

/// As `mark`, of the lanes of groups, from a queue on.
fn mark_groups(entry: u32, session: &Session, queue: &[u8], and_later: bool) -> bool {
    let values = [Some(datum::varlena(queue)), Some(Datum::from(and_later))];
    mark(entry, &session.run(&SURVEY_GROUPS, &values), |_, _| Rank::FIRST)
}

/// As `mark`, of the lines of a queue; `None`: of all queues.
fn mark_lines(entry: u32, session: &Session, queue: Option<&[u8]>) -> bool {
    let rows = session.run(&SURVEY_LINES, &[queue.map(datum::varlena)]);
    mark(entry, &rows, |_, _| Rank::FIRST)
}

/// Where the refill of a lane begins that the full survey found.
fn first_to_refill(rows: &Rows, row: usize) -> Rank {
    let number = |column| datum::number(rows.get(row, column));
    match (rows.get(row, 2), rows.get(row, 4)) {
        // A refill of a lane that ages also finds since when its tasks age.
        (Some(_), _) => Rank::FIRST,
        (None, None) => Rank::END,
        (None, Some(_)) => rank(id_at(rows, row, 4), Wall(number(6)), number(5)),
    }
}

fn mark(entry: u32, rows: &Rows, from: fn(&Rows, usize) -> Rank) -> bool {
    let name = |row, column| datum::text(rows.get(row, column));
    let level = |row| rows.get(row, 2).map(|it| it.value() as u32);
    let group = |row| rows.get(row, 3).is_some().then(|| id_at(rows, row, 3).0);
    let lane = |row| (name(row, 0), name(row, 1), level(row), group(row), from(rows, row));
    let lanes: Vec<_> = (0..rows.len()).map(lane).collect();
    let mut room = true;
    for some in lanes.chunks(AT_ONCE) {
        with_board(|board| {
            for (queue, action, level, group, from) in some {
                let lane = LaneName { queue, action, group: *group };
                room &= match level {
                    None => board.survey_from(entry, lane, *from),
                    Some(priority) => board.survey_level(entry, lane, *priority),
                };
            }
        });
    }
    room
}

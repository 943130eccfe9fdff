//! B131, I4: boards that are too small for the world: whatever is ready and allowed is found, in
//! few steps.
//!
//! The table is a naive one, and so is the search of it; the rest is the board's. Tasks have some
//! queues, tens of actions and priorities and hundreds of groups, the queues every combination of
//! aging, limits and order, and the board from one slot on. Of each transaction the table has the
//! effect first, and the board at once or later.

use crate::memory::Memory;
use board::{
    Board, Bucket, BuildState, Claim, Expired, GroupHash, Id, LaneName, Micros, Monotonic, Next,
    Order, QueueSettings, Rank, Sizes, State, Ticket, Timestamp, Wall,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::{BTreeMap, BTreeSet};

const QUEUES: u8 = 3;
const ACTIONS: u8 = 30;
const PRIORITIES: u32 = 20;

/// How many refills a caller makes before it searches the table.
const REFILLS_MAX: u32 = 64;

/// How many tasks a refill reads at most.
const READ: usize = 5;

#[derive(Clone, Debug)]
struct Row {
    queue: u8,
    action: u8,
    group: Option<GroupHash>,
    rank: Rank,
    ready: bool,
    /// It was ready, and waits for its time.
    held: bool,
    /// An older task of its group runs first.
    behind: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Submit { queue: u8, action: u8, group: u16, priority: u8, waits: bool, late: bool },
    Flood { queue: u8, action: u8, group: u16, many: u8, kind: u8 },
    Own { queue: u8, actions: u8, most: u8, commits: bool },
    Return { pick: u8, how: u8, late: bool },
    Expire,
    Cancel { pick: u8, late: bool },
    Fire { pick: u8 },
    CatchUp { pick: u8 },
    Forward,
    Cover,
    Refresh,
    Configure { queue: u8, aging: bool, limit: u8, of_group: u8 },
    Crash,
    Pass,
}

fn steps() -> impl Strategy<Value = Step> {
    let late = || prop::bool::weighted(0.2);
    let group = || prop_oneof![2 => Just(0_u16), 4 => 1..6_u16, 4 => 1..300_u16];
    prop_oneof![
        20 => (0..QUEUES, 0..ACTIONS, group(), 0..PRIORITIES as u8, prop::bool::weighted(0.1), late())
            .prop_map(|(queue, action, group, priority, waits, late)| Step::Submit {
                queue, action, group, priority, waits, late
            }),
        6 => (0..QUEUES, 0..ACTIONS, group(), 2..80_u8, 0..4_u8)
            .prop_map(|(queue, action, group, many, kind)| Step::Flood {
                queue, action, group, many, kind
            }),
        20 => (0..QUEUES, any::<u8>(), 1..20_u8, prop::bool::weighted(0.8)).prop_map(
            |(queue, actions, most, commits)| Step::Own { queue, actions, most, commits }
        ),
        20 => (any::<u8>(), 0..4_u8, late())
            .prop_map(|(pick, how, late)| Step::Return { pick, how, late }),
        2 => Just(Step::Expire),
        4 => (any::<u8>(), late()).prop_map(|(pick, late)| Step::Cancel { pick, late }),
        4 => any::<u8>().prop_map(|pick| Step::Fire { pick }),
        6 => any::<u8>().prop_map(|pick| Step::CatchUp { pick }),
        8 => Just(Step::Forward),
        3 => Just(Step::Cover),
        1 => Just(Step::Refresh),
        3 => (0..QUEUES, any::<bool>(), 0..6_u8, 0..4_u8).prop_map(
            |(queue, aging, limit, of_group)| Step::Configure { queue, aging, limit, of_group }
        ),
        1 => Just(Step::Crash),
        3 => Just(Step::Pass),
    ]
}

/// What a transaction that has committed still has to do on the board.
#[derive(Clone, Debug)]
enum Late {
    Offer(Id),
    Gone(Id),
    End(Ticket),
    Requeue(Ticket),
}

struct World<'b> {
    board: Board<'b>,
    rows: BTreeMap<Id, Row>,
    /// Tasks that are over: the board may not know yet.
    gone: BTreeMap<Id, Row>,
    /// The leases, each with its token's number.
    leases: BTreeMap<Id, u8>,
    late: Vec<Late>,
    settings: [QueueSettings; QUEUES as usize],
    now: i64,
    ids: Id,
    version: u64,
    searches: u64,
    most_steps: u32,
}

fn queue_name(queue: u8) -> [u8; 2] {
    [b'q', b'0' + queue]
}

fn action_name(action: u8) -> [u8; 2] {
    [b'a' + action / 26, b'a' + action % 26]
}

/// Scattered as hashes are.
fn group_of(group: u16) -> Option<GroupHash> {
    (group > 0).then(|| u128::from(group).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

impl<'b> World<'b> {
    fn on(board: Board<'b>) -> World<'b> {
        let settings = [QueueSettings::NONE; QUEUES as usize];
        let mut world = World {
            board,
            rows: BTreeMap::new(),
            gone: BTreeMap::new(),
            leases: BTreeMap::new(),
            late: Vec::new(),
            settings,
            now: 0,
            ids: 0,
            version: 0,
            searches: 0,
            most_steps: 0,
        };
        world.build();
        world
    }

    /// Builds the board from the table.
    fn build(&mut self) {
        self.leases.clear();
        self.late.clear();
        assert_eq!(self.board.register(1, 1), Some(0));
        (0..QUEUES).for_each(|queue| self.configure(queue));
        self.refresh();
        let entry = self.board.entry_mut(0);
        (entry.build_state, entry.looks_for_groups) = (BuildState::Built, true);
        self.forward();
    }

    fn configure(&mut self, queue: u8) {
        let (name, settings) = (queue_name(queue), self.settings[usize::from(queue)]);
        assert!(self.board.configure(0, &name, &settings, Monotonic(0), Bucket::Full));
        let mut from = Some(0);
        while let Some(at) = from {
            from = self.board.release_lanes(0, Some(&name), at, 3);
        }
    }

    fn ages(&self, queue: u8) -> bool {
        self.settings[usize::from(queue)].aging > Micros::ZERO
    }

    fn keeps_order(&self, queue: u8) -> bool {
        self.settings[usize::from(queue)].max_running_per_group == 1
    }

    /// Marks the lanes of a queue, or of all; whether there was room.
    fn survey(&mut self, queue: Option<u8>) -> bool {
        let mut room = true;
        let rows = self.rows.values().filter(|row| row.ready && !row.behind);
        let rows: Vec<Row> =
            rows.filter(|row| queue.is_none_or(|it| it == row.queue)).cloned().collect();
        for row in rows {
            let level = self.ages(row.queue).then_some(row.rank.priority);
            room &= self.named(&row, |board, name| board.survey(0, name, level, Rank::FIRST));
        }
        room
    }

    fn refresh(&mut self) {
        self.board.begin_survey(0);
        self.survey(None);
    }

    /// As the scheduler does with queues that are searched.
    fn cover(&mut self) {
        let mut from = Some(0);
        while let Some(at) = from {
            from = self.board.shed_lanes(0, at, 3, true);
        }
        for queue in 0..QUEUES {
            let name = queue_name(queue);
            if self.board.begin_coverage(0, &name) {
                let complete = self.survey(Some(queue));
                self.board.end_coverage(0, &name, complete);
            }
        }
    }

    /// Brings the next task of each group forward that has no first one.
    fn forward(&mut self) {
        let mut notes = Vec::new();
        let mut after = None;
        while let Some((note, it)) = self.board.next_note(0, after) {
            notes.push((note, it.queue().to_vec(), it.group()));
            after = Some(note);
        }
        let all = std::mem::take(&mut self.board.entry_mut(0).looks_for_groups);
        let noted: BTreeSet<(Vec<u8>, Option<GroupHash>)> =
            notes.iter().map(|it| (it.1.clone(), it.2)).collect();
        let mut groups: BTreeMap<(u8, Option<GroupHash>), Vec<Id>> = BTreeMap::new();
        for row in self.rows.values().filter(|row| row.ready || row.held) {
            if all || noted.contains(&(queue_name(row.queue).to_vec(), row.group)) {
                groups.entry((row.queue, row.group)).or_default().push(row.rank.id);
            }
        }
        for ((queue, _), mut ids) in groups {
            ids.sort_by_key(|id| (self.rows[id].rank.created, *id));
            let has_first = ids.iter().any(|id| !self.rows[id].behind);
            let mut offers = Vec::new();
            for id in ids {
                let row = self.rows.get_mut(&id).expect("a row");
                if row.behind
                    && (offers.is_empty() && !has_first
                        || self.settings[usize::from(queue)].max_running_per_group != 1)
                {
                    row.behind = false;
                }
                if !row.behind {
                    offers.push(id);
                }
            }
            for id in offers {
                if self.rows[&id].ready {
                    self.put(id);
                }
            }
        }
        notes.into_iter().for_each(|(note, ..)| self.board.forget_note(0, note));
    }

    fn named<T>(&mut self, row: &Row, call: impl FnOnce(&mut Board<'b>, LaneName) -> T) -> T {
        let (queue, action) = (queue_name(row.queue), action_name(row.action));
        call(&mut self.board, LaneName { queue: &queue, action: &action, group: row.group })
    }

    fn put(&mut self, id: Id) {
        if let Some(row) = self.rows.get(&id).cloned() {
            self.named(&row, |board, name| board.offer(0, name, row.rank, Micros::ZERO));
        }
    }

    /// As the commit of a transaction that made a task ready.
    fn offer(&mut self, id: Id, late: bool) {
        if late {
            return self.late.push(Late::Offer(id));
        }
        let Some(row) = self.rows.get(&id).cloned() else { return };
        if self.keeps_order(row.queue) || row.behind {
            self.board.note_group(0, &queue_name(row.queue), row.group);
        } else if row.ready {
            self.put(id);
        }
    }

    fn note(&mut self, row: &Row) {
        if self.keeps_order(row.queue) {
            self.board.note_group(0, &queue_name(row.queue), row.group);
        }
    }

    fn submit(
        &mut self,
        queue: u8,
        action: u8,
        group: u16,
        priority: u32,
        waits: bool,
        late: bool,
    ) {
        self.ids += 1;
        self.now += 1;
        let rank = Rank { id: self.ids, created: Wall(self.now), priority };
        let behind = self.keeps_order(queue) && !waits;
        let group = group_of(group);
        let row = Row { queue, action, group, rank, ready: !waits, held: false, behind };
        self.rows.insert(self.ids, row);
        if !waits {
            self.offer(self.ids, late);
        }
    }

    /// How many tasks run of a queue, and of each of its groups.
    fn running(&self, queue: u8) -> (u32, BTreeMap<Option<GroupHash>, u32>) {
        let mut groups: BTreeMap<Option<GroupHash>, u32> = BTreeMap::new();
        let mut all = 0;
        for at in 0..self.board.slots_end() {
            if let Some(slot) = self.board.slot_at(at, 0)
                && matches!(slot.state(), State::Reserved | State::Leased | State::Ending)
                && let Some(row) = self.rows.get(&slot.id).or_else(|| self.gone.get(&slot.id))
                && row.queue == queue
            {
                all += 1;
                *groups.entry(row.group).or_default() += 1;
            }
        }
        (all, groups)
    }

    /// The tasks that may be handed out: ready, not held, and allowed by the limits.
    fn allowed(&self, queue: u8, actions: Option<&[u8]>) -> Vec<Id> {
        let settings = self.settings[usize::from(queue)];
        let (all, groups) = self.running(queue);
        if settings.max_running > 0 && all >= settings.max_running {
            return Vec::new();
        }
        let pending =
            |id: Id| self.late.iter().any(|it| matches!(it, Late::Offer(late) if *late == id));
        let rows = self.rows.values().filter(|row| {
            let of_group = groups.get(&row.group).copied().unwrap_or(0);
            row.queue == queue
                && row.ready
                && !row.behind
                && actions.is_none_or(|actions| actions.contains(&row.action))
                && self.board.slot_of(0, row.rank.id).is_none_or(|it| it.state() == State::Queued)
                && (settings.max_running_per_group == 0
                    || of_group < settings.max_running_per_group)
                && !pending(row.rank.id)
        });
        rows.map(|row| row.rank.id).collect()
    }

    /// Claims one task as a caller does; how many refills and searches it took. `None`: nothing.
    fn claim(&mut self, queue: u8, actions: Option<&[u8]>) -> (Option<(Id, Ticket)>, u32) {
        let name = queue_name(queue);
        let names: Option<Vec<[u8; 2]>> =
            actions.map(|actions| actions.iter().map(|it| action_name(*it)).collect());
        let names: Option<Vec<&[u8]>> =
            names.as_ref().map(|names| names.iter().map(|it| &it[..]).collect());
        let now = Timestamp { monotonic: Monotonic(self.now), wall: Wall(self.now) };
        let claim = Claim {
            worker: b"w",
            holder: 1,
            now,
            length: Some(Micros(1_000)),
            fallback: Micros(1_000),
            longest: Micros::MAX,
        };
        let mut steps = 0;
        loop {
            let at = self.board.find_queue(0, &name);
            if self.board.blocked(0, at, Monotonic(self.now), None).is_some() {
                return (None, steps);
            }
            let next = self.board.next_in_queue(0, at, names.as_deref(), Wall(self.now));
            steps += 1;
            match next {
                Next::Task(slot) => {
                    if !self.board.fits(&mut self.board.room_of(0)) {
                        return (None, steps);
                    }
                    let id = self.board.slot_at(slot, 0).expect("a task").id;
                    let claimed = self.board.reserve(slot, &claim, [1; 16]);
                    let row = self.rows.get(&id).filter(|row| row.ready && !row.behind);
                    if row.is_some() {
                        return (Some((id, claimed.ticket)), steps);
                    }
                    // Its end is not known to the board yet.
                    self.board.drop_stray(claimed.ticket, false);
                    steps -= 1;
                }
                Next::NeedsRefill(lane) if steps <= REFILLS_MAX => {
                    assert!(self.board.begin_refill(&lane, 5));
                    let mut read: Vec<Rank> = self
                        .rows
                        .values()
                        .filter(|row| {
                            row.ready
                                && !row.behind
                                && row.queue == queue
                                && action_name(row.action) == lane.action.as_bytes()
                                && row.group == lane.group
                                && row.rank >= lane.cursor
                                && [Order::Priority, Order::Level(row.rank.priority)]
                                    .contains(&lane.order)
                        })
                        .map(|row| row.rank)
                        .collect();
                    read.sort();
                    let cursor = read.get(READ).map_or(Rank::END, |_| read[READ - 1].next());
                    read.truncate(READ);
                    let tasks: Vec<_> = read.iter().map(|rank| (*rank, Micros::ZERO)).collect();
                    self.board.refill(0, lane.lane, 5, &tasks);
                    self.board.end_refill(lane.lane, 5, cursor);
                }
                Next::Empty => return (None, steps),
                Next::Refilling => panic!("no other process refills"),
                Next::NeedsRefill(_) | Next::Search => {
                    self.searches += 1;
                    let found = self.search(queue, actions);
                    for id in found {
                        let row = self.rows[&id].clone();
                        let slot = self.named(&row, |board, name| {
                            board.ensure_slot(0, name, row.rank, Micros::ZERO)
                        });
                        let Some(slot) = slot else { return (None, steps) };
                        let is_queued = self
                            .board
                            .slot_at(slot, 0)
                            .is_some_and(|it| it.state() == State::Queued);
                        if is_queued
                            && self.board.slot_blocked(slot, &[]).is_none()
                            && self.board.fits(&mut self.board.room_of(0))
                        {
                            let claimed = self.board.reserve(slot, &claim, [1; 16]);
                            let at = self.board.find_queue(0, &name);
                            if let Some(group) = row.group {
                                self.board.set_next_group(at, group.wrapping_add(1));
                            }
                            return (Some((id, claimed.ticket)), steps);
                        }
                        self.board.release_unpinned(slot);
                    }
                    return (None, steps);
                }
            }
        }
    }

    /// What a search of the table finds: the queue's groups from where the last one stopped.
    fn search(&self, queue: u8, actions: Option<&[u8]>) -> Vec<Id> {
        let at = self.board.find_queue(0, &queue_name(queue));
        let start = self.board.next_group(at);
        let mut found: Vec<&Row> = self
            .rows
            .values()
            .filter(|row| {
                row.queue == queue
                    && row.ready
                    && !row.behind
                    && actions.is_none_or(|actions| actions.contains(&row.action))
                    && self
                        .board
                        .slot_of(0, row.rank.id)
                        .is_none_or(|it| it.state() == State::Queued)
                    && at.is_none_or(|at| self.board.group_blocked(at, row.group).is_none())
            })
            .collect();
        found.sort_by_key(|row| (row.group.map(|it| it.wrapping_sub(start)), row.rank));
        found.into_iter().map(|row| row.rank.id).collect()
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Submit { queue, action, group, priority, waits, late } => {
                self.submit(queue, action, group, priority.into(), waits, late);
            }
            // Of one group, of many groups, of many actions, or of many priorities.
            Step::Flood { queue, action, group, many, kind } => {
                for at in 0..u16::from(many) {
                    let (action, group, priority) = match kind {
                        0 => (action, group, 0),
                        1 => (action, 1 + (group + at) % 300, 0),
                        2 => ((action + at as u8) % ACTIONS, group, 0),
                        _ => (action, group, u32::from(at) % PRIORITIES),
                    };
                    self.submit(queue, action, group, priority, false, false);
                }
            }
            Step::Own { queue, actions, most, commits } => {
                let asked: Vec<u8> =
                    (0..ACTIONS).filter(|it| (actions >> (it % 8)) & 1 == 1).collect();
                let asked = (actions % 3 > 0).then_some(&asked[..]);
                let mut claims = Vec::new();
                while claims.len() < usize::from(most)
                    && let (Some(claimed), _) = self.claim(queue, asked)
                {
                    claims.push(claimed);
                }
                for (id, ticket) in claims.into_iter().rev() {
                    if commits {
                        self.board.commit_claim(ticket);
                        self.leases.insert(id, 1);
                    } else {
                        self.board.undo_claim(ticket);
                    }
                }
            }
            Step::Return { pick, how, late } => {
                let Some(id) = nth(pick, self.leases.keys().copied()) else { return };
                self.leases.remove(&id);
                let Ok((ticket, _)) = self.board.begin_end(0, id, &[1; 16], 1) else { return };
                let Some(row) = self.rows.get(&id).cloned() else {
                    return self.board.commit_end(ticket);
                };
                match how {
                    // A retry at once.
                    0 => self.later(Late::Requeue(ticket), late),
                    // A retry with a pause.
                    1 => {
                        let it = self.rows.get_mut(&id).expect("a row");
                        (it.ready, it.held) = (false, true);
                        self.later(Late::End(ticket), late);
                    }
                    // A rollback.
                    2 => {
                        self.board.undo_end(ticket, Monotonic(0));
                        self.leases.insert(id, 1);
                    }
                    _ => {
                        self.rows.remove(&id);
                        self.gone.insert(id, row.clone());
                        self.later(Late::End(ticket), late);
                        if !late {
                            self.note(&row);
                        }
                    }
                }
            }
            Step::Expire => {
                self.now += 2_000;
                while let Some(expired) = self.board.take_expired(0, Monotonic(self.now)) {
                    if let Expired::Lease(ticket, lease) = expired {
                        self.leases.remove(&lease.id);
                        self.board.requeue(ticket, true);
                    }
                }
            }
            Step::Cancel { pick, late } => {
                let Some(id) = nth(pick, self.rows.keys().copied()) else { return };
                let row = self.rows.remove(&id).expect("a row");
                self.gone.insert(id, row.clone());
                if late {
                    return self.late.push(Late::Gone(id));
                }
                self.board.remove_task(0, id);
                self.note(&row);
            }
            Step::Fire { pick } => {
                let waiting = self.rows.values().filter(|row| !row.ready).map(|row| row.rank.id);
                let Some(id) = nth(pick, waiting) else { return };
                let keeps = self.keeps_order(self.rows[&id].queue);
                let row = self.rows.get_mut(&id).expect("a row");
                row.ready = true;
                if !std::mem::take(&mut row.held) {
                    row.behind = keeps;
                }
                self.offer(id, false);
            }
            Step::CatchUp { pick } => {
                if let Some(at) = nth(pick, 0..self.late.len()) {
                    let late = self.late.remove(at);
                    self.catch_up(late);
                }
            }
            Step::Forward => self.forward(),
            Step::Cover => self.cover(),
            Step::Refresh => self.refresh(),
            Step::Configure { queue, aging, limit, of_group } => {
                self.version += 1;
                let at = usize::from(queue);
                let kept_order = self.keeps_order(queue);
                self.settings[at] = QueueSettings {
                    version: self.version,
                    aging: Micros(if aging { 50 } else { 0 }),
                    max_running: if limit < 4 { 0 } else { limit.into() },
                    max_running_per_group: of_group.into(),
                    ..QueueSettings::NONE
                };
                self.configure(queue);
                if kept_order != self.keeps_order(queue) {
                    self.board.entry_mut(0).looks_for_groups = true;
                }
            }
            Step::Crash => {
                self.board.clear();
                self.build();
            }
            Step::Pass => self.now += 100,
        }
    }

    fn later(&mut self, late: Late, is_late: bool) {
        if is_late { self.late.push(late) } else { self.catch_up(late) }
    }

    fn catch_up(&mut self, late: Late) {
        match late {
            Late::Offer(id) => self.offer(id, false),
            Late::Gone(id) => {
                self.board.remove_task(0, id);
                // The row is gone: its group is noted by its name at the commit.
                self.board.entry_mut(0).looks_for_groups = true;
            }
            Late::End(ticket) => self.board.commit_end(ticket),
            Late::Requeue(ticket) => self.board.requeue(ticket, false),
        }
    }

    /// Whatever is ready and allowed is found, for any actions, and in few steps.
    fn check(&mut self, seed: u64) {
        self.board.audit();
        let queue = (seed % u64::from(QUEUES)) as u8;
        let action = (seed / 7 % u64::from(ACTIONS)) as u8;
        let some = [action, (action + 11) % ACTIONS];
        if self.board.has_notes(0) {
            // Callers of a queue that keeps the order wait for the scheduler.
            self.forward();
        }
        for asked in [None, Some(&some[..1]), Some(&some[..])] {
            let allowed = self.allowed(queue, asked);
            let usage = self.board.usage();
            let held = (0..self.board.slots_end())
                .filter_map(|at| self.board.slot_at(at, 0))
                .filter(|it| it.state() != State::Queued)
                .count() as u32;
            let (found, steps) = self.claim(queue, asked);
            self.most_steps = self.most_steps.max(steps);
            assert!(steps <= REFILLS_MAX + 2, "{steps} steps");
            match found {
                Some((id, ticket)) => {
                    // A late offer may be found already.
                    let row = &self.rows[&id];
                    assert!(asked.is_none_or(|asked| asked.contains(&row.action)));
                    assert!(row.queue == queue && row.ready && !row.behind);
                    assert!(held < usage.slots);
                    self.board.undo_claim(ticket);
                }
                None => assert!(
                    allowed.is_empty() || held == usage.slots,
                    "{} tasks are stranded, {held} of {} slots held: {}",
                    allowed.len(),
                    usage.slots,
                    self.state(queue, allowed[0])
                ),
            }
            self.board.audit();
            self.check_limits(queue);
        }
    }

    /// What the board has of a queue and of a task, for a message.
    fn state(&mut self, queue: u8, id: Id) -> String {
        let name = queue_name(queue);
        let at = self.board.find_queue(0, &name);
        let next = self.board.next_in_queue(0, at, None, Wall(self.now));
        let lanes = self.board.audit().lanes.into_iter().filter(|it| it.queue == name);
        let lanes: Vec<_> = lanes.collect();
        let slot = self.board.slot_of(0, id).copied();
        let (row, settings) = (&self.rows[&id], self.settings[usize::from(queue)]);
        let is_searched = self.board.is_searched(0, at);
        format!(
            "{row:?} {slot:?} {settings:?} {next:?} searched {is_searched} {lanes:#?} {:?}",
            self.late
        )
    }

    /// The board counts as the model does.
    fn check_limits(&mut self, queue: u8) {
        let (all, groups) = self.running(queue);
        let settings = self.settings[usize::from(queue)];
        let Some(at) = self.board.find_queue(0, &queue_name(queue)) else { return };
        let is_full = self.board.blocked(0, Some(at), Monotonic(self.now), None).is_some();
        assert_eq!(is_full, settings.max_running > 0 && all >= settings.max_running);
        for (group, running) in groups {
            let most = settings.max_running_per_group;
            let is_full = self.board.group_blocked(at, group).is_some();
            assert_eq!(is_full, most > 0 && running >= most, "{running} of {most}");
        }
    }
}

fn nth<T>(pick: u8, mut from: impl Iterator<Item = T> + Clone) -> Option<T> {
    let count = from.clone().count();
    if count == 0 { None } else { from.nth(usize::from(pick) % count) }
}

fn run(seed: u32, slots: usize, steps: &[Step]) -> (u64, u32) {
    let mut memory = Memory::new(Sizes {
        slot_buckets: 8,
        lane_buckets: 8,
        queue_buckets: 8,
        counted: 1,
        ..Sizes::of(slots, 2)
    });
    memory.board().set_seed(seed);
    let mut world = World::on(memory.board());
    for (at, step) in steps.iter().enumerate() {
        world.apply(step);
        world.check(u64::from(seed) + at as u64 * 13);
    }
    // At the end all late commits are known, and each task can be had.
    for late in std::mem::take(&mut world.late) {
        world.catch_up(late);
    }
    world.drain();
    (world.searches, world.most_steps)
}

impl World<'_> {
    /// Owns and settles one task after the other, until none is left.
    fn drain(&mut self) {
        self.apply(&Step::Expire);
        while self.rows.values().any(|row| !row.ready) {
            self.apply(&Step::Fire { pick: 0 });
        }
        for queue in 0..QUEUES {
            loop {
                self.forward();
                let (Some((id, ticket)), _) = self.claim(queue, None) else { break };
                self.board.commit_claim(ticket);
                self.leases.insert(id, 1);
                let row = self.rows.remove(&id).expect("a row");
                self.leases.remove(&id);
                let (ticket, _) = self.board.begin_end(0, id, &[1; 16], 1).expect("a lease");
                self.board.commit_end(ticket);
                self.note(&row);
                self.board.audit();
            }
            let left = self.rows.values().filter(|row| row.queue == queue).count();
            assert_eq!(left, 0, "stranded in queue {queue}");
        }
    }
}

#[test]
fn whatever_is_ready_and_allowed_is_found_on_a_board_of_any_size() {
    // A thousand times a thousand steps with SMALL_BOARDS_CASES=1000 and a release build.
    let default = if cfg!(debug_assertions) { 5 } else { 60 };
    let cases = std::env::var("SMALL_BOARDS_CASES").ok().and_then(|it| it.parse().ok());
    let cases: u32 = cases.unwrap_or(default);
    let lengths = if cases > 100 { 1_000..=1_000 } else { 1..=400 };
    let slots = prop_oneof![2 => 1..8_usize, 2 => 8..65_usize, 1 => Just(1_024_usize)];
    let worlds = (any::<u32>(), slots, prop::collection::vec(steps(), lengths));
    let (searches, most) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let played = TestRunner::new(config).run(&worlds, |(seed, slots, steps)| {
        let (count, steps) = run(seed, slots, &steps);
        searches.set(searches.get() + count);
        most.set(most.get().max(steps));
        Ok(())
    });
    if let Err(error) = played {
        panic!("{error}");
    }
    println!("{} searches; {} steps at most for one task", searches.get(), most.get());
    assert!(searches.get() > 100, "the boards were too small: {} searches", searches.get());
}

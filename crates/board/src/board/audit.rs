//! A walk over a whole board that finds any inconsistency. For tests: it allocates and takes long.

use crate::board::Board;
use crate::board::databases::BuildState;
use crate::board::lanes::{ByFront, ByLength, ByRank};
use crate::board::leases::ByDeadline;
use crate::board::notify::NotifyState;
use crate::board::waiters::WaiterState;
use crate::containers::list;
use crate::containers::pool::NIL;
use crate::containers::treap::{TreapNodes, weight};
use crate::layout::rank::{Id, Rank};
use crate::layout::slot::State;

/// A lane as an audit found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneAudit {
    pub entry: u32,
    pub queue: Vec<u8>,
    pub action: Vec<u8>,
    pub cursor: Rank,
    pub refiller: i32,
    /// In order.
    pub queued: Vec<Id>,
    pub slots: u32,
}

#[derive(Clone, Debug)]
pub struct Audit {
    /// In the order of their places.
    pub lanes: Vec<LaneAudit>,
    /// The depth of the deepest tree.
    pub depth: usize,
}

impl Board<'_> {
    /// Panics if anything on the board contradicts anything else.
    #[doc(hidden)]
    pub fn audit(&mut self) -> Audit {
        let (slots, lanes, queues) = (self.slots.audit(), self.lanes.audit(), self.queues.audit());
        let mut audit = Audit { lanes: Vec::new(), depth: 0 };
        // How many trees a slot stands in, and how many slots a lane has.
        let mut stands = vec![0; slots.len()];
        let mut members = vec![0; lanes.len()];
        for (at, live) in (0..).zip(&slots) {
            let state = self.slots[at].state;
            assert_eq!(*live, state != State::Free, "slot {at} is live or free");
            if *live {
                let lane = self.slots[at].lane;
                assert!(lanes[lane as usize], "slot {at} has a lane");
                members[lane as usize] += 1;
                let (entry, id) = (self.entry_of(at), self.slots[at].id);
                assert_eq!(self.find_slot(entry, id), Some(at), "a task has one slot (I3)");
            }
        }

        let lengths = self.head.lengths;
        let measured = in_order(&mut ByLength(self), lengths, &mut audit.depth);
        assert_eq!(measured.len(), lanes.iter().filter(|live| **live).count(), "lanes measured");
        assert!(measured.iter().all(|lane| lanes[*lane as usize]), "a measured lane is live");

        let mut listed = vec![false; lanes.len()];
        for (at, _) in (0..).zip(&queues).filter(|(_, live)| **live) {
            let queue = &self.queues[at];
            let (entry, fronts) = (queue.entry, queue.fronts);
            assert_ne!(self.entry(entry).build_state, BuildState::Vacant, "a queue has a entry");
            assert_eq!(
                self.find_queue(entry, queue.name.as_bytes()),
                Some(at),
                "queue {at} is found"
            );
            for lane in in_order(&mut ByFront(self), fronts, &mut audit.depth) {
                assert!(lanes[lane as usize], "a listed lane is live");
                assert_eq!(self.lanes[lane].queue, at, "a lane is listed in its own queue");
                listed[lane as usize] = true;
            }
        }

        let mut of_queue = vec![0; queues.len()];
        for (at, live) in (0..).zip(&lanes) {
            assert_eq!(self.lanes.used() as usize, lanes.len());
            if !live {
                continue;
            }
            let it = self.lanes[at];
            assert!(it.is_used() && queues[it.queue as usize], "lane {at} has a queue");
            of_queue[it.queue as usize] += 1;
            assert_eq!(self.find_lane(it.queue, it.action()), Some(at), "lane {at} is found");
            let queued = in_order(&mut ByRank(self), it.root, &mut audit.depth);
            assert_eq!(it.first, queued.first().copied().unwrap_or(NIL), "lane {at}'s first");
            assert_eq!(it.counts.queued as usize, queued.len(), "lane {at}'s queued");
            assert_eq!(it.counts.slots, members[at as usize], "lane {at}'s slots");
            assert_eq!(listed[at as usize], self.front(at) != Rank::END, "lane {at} is listed");
            let wanted = it.counts.slots > 0 || it.refiller != 0 || it.cursor != Rank::END;
            assert!(wanted, "lane {at} is free when nothing refers to it");
            for slot in &queued {
                assert_eq!(self.slots[*slot].lane, at);
                assert_eq!(self.slots[*slot].state, State::Queued);
                stands[*slot as usize] += 1;
            }
            let queue = &self.queues[it.queue];
            audit.lanes.push(LaneAudit {
                entry: queue.entry,
                queue: queue.name.as_bytes().to_vec(),
                action: it.action().to_vec(),
                cursor: it.cursor,
                refiller: it.refiller,
                queued: queued.iter().map(|slot| self.slots[*slot].id).collect(),
                slots: it.counts.slots,
            });
        }
        for (at, _) in (0..).zip(&queues).filter(|(_, live)| **live) {
            let count: u32 = of_queue[at as usize];
            assert_eq!(self.queues[at].lanes, count, "queue {at}'s lanes");
            let kept = count > 0 || self.queues[at].news != NotifyState::Idle;
            assert!(kept, "queue {at} is free when it has neither lane nor news");
        }
        self.audit_news(&queues);

        for entry in 0..self.entries().len() as u32 {
            let timer = self.entry(entry).timer;
            for slot in in_order(&mut ByDeadline(self), timer, &mut audit.depth) {
                assert_eq!(self.entry_of(slot), entry, "a lease is in its own entry's timer");
                assert!(matches!(self.slots[slot].state, State::Reserved | State::Leased));
                stands[slot as usize] += 1;
            }
        }
        for (at, stands) in (0..).zip(stands) {
            let due = match self.slots[at].state {
                State::Queued | State::Reserved | State::Leased => 1,
                State::Free | State::Ending => 0,
            };
            assert_eq!(stands, due, "slot {at} stands where its state says");
        }
        audit
    }
}

impl Board<'_> {
    fn audit_news(&mut self, queues: &[bool]) {
        let (mut listed, mut settled) = (vec![false; queues.len()], 0);
        for entry in 0..self.entries().len() {
            let it = self.head.entries[entry];
            let news = list::in_order(&mut self.queues, it.news);
            assert_eq!(news.len(), it.listed as usize, "queues with news");
            for queue in &news {
                assert_eq!(self.queues[*queue].entry as usize, entry, "a queue's entry");
                listed[*queue as usize] = true;
            }
            let results = list::in_order(&mut self.settled, it.settled).len();
            let fresh =
                news.iter().filter(|queue| self.queues[**queue].news == NotifyState::Pending);
            assert_eq!(fresh.count() + results, it.unsent as usize, "what is to be announced");
            settled += results;
        }
        let live = self.settled.audit().into_iter().filter(|live| *live).count();
        assert_eq!(live, settled, "settled tasks");
        let held = (0..).zip(queues).filter(|(at, live)| {
            assert!(
                !**live || (self.queues[*at].news != NotifyState::Idle) == listed[*at as usize]
            );
            **live && self.queues[*at].lanes == 0
        });
        assert_eq!(held.count(), self.head.parked as usize, "queues kept for their news");

        let stages = self.waiters.audit();
        let waiting = stages.iter().filter(|stage| **stage == WaiterState::Waiting).count();
        assert_eq!(waiting, self.head.waiting as usize, "who waits is counted");
        let called = stages.iter().filter(|stage| **stage == WaiterState::Signalled).count();
        assert_eq!(self.signalled().len(), called, "who is called is listed");
    }
}

/// The nodes of a tree in order, after checking that it is one: ordered, and a heap.
fn in_order(forest: &mut impl TreapNodes, root: u32, deepest: &mut usize) -> Vec<u32> {
    let (mut nodes, mut path) = (Vec::new(), Vec::new());
    let (mut at, mut depth, mut parent) = (root, 0, NIL);
    loop {
        while at != NIL {
            // Each child weighs less, so that a walk down ends whatever the links say.
            let is_below = parent == NIL || weight(forest, at) < weight(forest, parent);
            assert!(is_below, "a tree is a heap");
            depth += 1;
            *deepest = depth.max(*deepest);
            path.push((at, depth));
            (parent, at) = (at, forest.links(at).left);
        }
        let Some((node, level)) = path.pop() else {
            return nodes;
        };
        if let Some(before) = nodes.last() {
            assert!(forest.before(*before, node), "the nodes of a tree are in order");
        }
        nodes.push(node);
        (parent, at, depth) = (node, forest.links(node).right, level);
    }
}

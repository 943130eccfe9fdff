//! Order: brings the next tasks of groups forward, of which one runs at a time.

use crate::extension::database::Database;
use crate::ops::maintenance::QUARANTINE;
use crate::ops::supply::order::{self, GROUPS_PER_TX, Group, Looked, Sweep};
use crate::pg::time;
use crate::scheduler::process::{Commit, in_extension_transaction};
use crate::shmem::segment::{self, with_board};
use board::{COUNTDOWN_DELAY, Micros, Monotonic, ROW_RETRY_DELAY};

const WHAT: &str = "bring tasks of groups forward";

/// Groups that are looked at again later.
struct Deferred {
    groups: Vec<Group>,
    at: Monotonic,
}

/// What the scheduler remembers of groups between its turns.
pub struct Order {
    sweep: Option<Sweep>,
    /// Another one is to follow: it was asked for meanwhile.
    again: bool,
    /// When a sweep that failed begins again.
    sweep_at: Monotonic,
    /// Groups of the sweep that have more tasks to be moved.
    left: Vec<Group>,
    deferred: Vec<Deferred>,
    /// How long the next group waits whose rows are locked.
    pause: Micros,
}

impl Order {
    pub fn new() -> Order {
        Order {
            sweep: None,
            again: false,
            sweep_at: Monotonic::NEVER,
            left: Vec::new(),
            deferred: Vec::new(),
            pause: COUNTDOWN_DELAY,
        }
    }

    /// When a group is to be looked at again.
    pub fn next(&self) -> Monotonic {
        self.deferred.iter().map(|it| it.at).min().unwrap_or(Monotonic::NEVER).min(self.sweep_at)
    }

    /// Looks at the groups that were noted, and makes a step of the look at all groups, if that was
    /// asked for.
    pub fn keep(&mut self, db: &Database, entry: u32) {
        let now = time::monotonic();
        for it in self.deferred.extract_if(.., |it| it.at <= now) {
            order::note_again(entry, &it.groups);
        }
        if self.sweep_at <= now {
            self.sweep_at = Monotonic::NEVER;
            with_board(|board| board.entry_mut(entry).looks_for_groups = true);
        }
        if !with_board(|board| board.has_notes(entry)) {
            return;
        }
        let notes = order::notes(entry, GROUPS_PER_TX);
        let groups: Vec<Group> = notes.iter().map(|it| it.1.clone()).collect();
        let looked = self.look_at(db, &groups);
        let locked: Vec<Group> = pick(&groups, &looked, Looked::Locked);
        let is_over = |looked: &Looked| *looked != Looked::More;
        let over = notes.iter().zip(&looked).filter(|(_, looked)| is_over(looked));
        order::forget(entry, over.map(|((note, _), _)| *note));
        let is_any_done = looked.contains(&Looked::Done);
        self.defer(locked, is_any_done);
        self.sweep(db, entry);
        segment::broadcast();
    }

    /// Looks at groups in one transaction, or if that fails in one for each.
    fn look_at(&mut self, db: &Database, groups: &[Group]) -> Vec<Looked> {
        let look = |groups: &[Group]| {
            in_extension_transaction(db, WHAT, Commit::Ahead, || order::look_at(db, groups))
        };
        if groups.is_empty() {
            return Vec::new();
        }
        if let Some(looked) = look(groups) {
            return looked;
        }
        let mut failed = Vec::new();
        let mut alone = |group: &Group| match look(std::slice::from_ref(group)) {
            Some(looked) => looked[0],
            None => {
                failed.push(group.clone());
                Looked::Done
            }
        };
        let looked = groups.iter().map(&mut alone).collect();
        self.deferred.push(Deferred { groups: failed, at: time::monotonic() + QUARANTINE });
        looked
    }

    /// Has groups looked at again after a pause, which gets longer while all are locked.
    fn defer(&mut self, groups: Vec<Group>, is_any_done: bool) {
        if is_any_done {
            self.pause = COUNTDOWN_DELAY;
        }
        if !groups.is_empty() {
            let at = time::monotonic() + self.pause;
            self.deferred.push(Deferred { groups, at });
            self.pause = (self.pause * 2).min(ROW_RETRY_DELAY);
        }
    }

    /// Makes a step of the look at all groups.
    fn sweep(&mut self, db: &Database, entry: u32) {
        let asked = with_board(|board| {
            let it = board.entry_mut(entry);
            it.is_looking |= it.looks_for_groups;
            std::mem::take(&mut it.looks_for_groups)
        });
        if self.sweep.is_none() && self.left.is_empty() {
            if asked || std::mem::take(&mut self.again) {
                self.sweep = Some(Sweep::begin());
            }
        } else {
            // What was looked at before may have changed. One that began again each time would
            // never come to the last groups.
            self.again |= asked;
        }
        if self.left.is_empty()
            && let Some(sweep) = &self.sweep
        {
            let step = || sweep.step(db);
            match in_extension_transaction(db, WHAT, Commit::Ahead, step) {
                Some(Some((groups, next))) => (self.left, self.sweep) = (groups, Some(next)),
                Some(None) => self.sweep = None,
                None => {
                    self.sweep = None;
                    self.sweep_at = time::monotonic() + QUARANTINE;
                }
            }
        }
        let groups = std::mem::take(&mut self.left);
        let looked = self.look_at(db, &groups);
        self.defer(pick(&groups, &looked, Looked::Locked), looked.contains(&Looked::Done));
        self.left = pick(&groups, &looked, Looked::More);
        if self.sweep.is_none() && self.left.is_empty() && !self.again {
            with_board(|board| {
                let it = board.entry_mut(entry);
                it.is_looking = false;
                it.changes_order &= it.looks_for_groups;
            });
        }
    }
}

/// The groups of which a look had this outcome.
fn pick(groups: &[Group], looked: &[Looked], outcome: Looked) -> Vec<Group> {
    let some = groups.iter().zip(looked).filter(|(_, looked)| **looked == outcome);
    some.map(|(group, _)| group.clone()).collect()
}

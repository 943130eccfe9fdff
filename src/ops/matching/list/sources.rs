//! Where the tasks of a page come from: its sources, and those that are found at once.

use crate::error::{self, Result};
use crate::ops::matching::filter::Status;
use crate::ops::matching::list::{AHEAD, CHUNK_MAX, CHUNK_MIN, FIRST, Found, Page, Part, Source};
use crate::ops::query::inspect::is_owned;
use crate::ops::stats::queues;
use crate::pg::datum::{self, BIGINT, TEXT, TEXTS};
use crate::pg::uuid::Uuid;
use crate::shmem::segment::{scan_pinned, with_board};
use crate::storage::privileges::Privileges;
use crate::storage::rows::id_at;
use board::Wall;
use pgrx::pg_sys::Datum;

/// How many lanes, or queues, a page goes through at most.
const SOURCES_MAX: usize = 1_024;

/// A kind of parts with live tasks.
struct LivePart {
    /// The statement that finds those that there are.
    text: &'static str,
    /// The part of an action and a number.
    part: fn(Vec<u8>, i64) -> Part,
    status: Status,
    is_without_group: bool,
}

const LIVE: &[LivePart] = &[
    LivePart {
        text: text!("lanes"),
        part: |action, rank| Part::Lane { action, rank },
        status: Status::Ready,
        is_without_group: true,
    },
    LivePart {
        text: text!("grouped"),
        part: |_, _| Part::Grouped,
        status: Status::Ready,
        is_without_group: false,
    },
    LivePart {
        text: text!("behind"),
        part: |_, _| Part::Behind,
        status: Status::Ready,
        is_without_group: true,
    },
    LivePart {
        text: text!("waiting"),
        part: |_, held| Part::Waiting { held: held != 0 },
        status: Status::Waiting,
        is_without_group: false,
    },
];

impl Page<'_> {
    /// Finds the sources that the filter asks for, and the tasks that are read at once.
    pub(super) fn find_sources(&mut self) -> Result<()> {
        if self.filter.key.is_some() {
            return self.find_by_key();
        }
        if self.filter.takes_live() {
            if self.filter.is_of_owned() {
                self.add_owned();
            } else if let (Some(queue), Some(_)) = (&self.filter.queue, &self.filter.group_key) {
                let queue = queue.clone();
                self.find_never_ready()?;
                self.add(Part::FirstOfGroup, queue.clone(), FIRST.0);
                self.add(Part::BehindInGroup, queue, FIRST.0);
            } else {
                self.add_live()?;
            }
        }
        if self.filter.takes_settled() {
            self.add_settled()?;
        }
        Ok(())
    }

    /// Adds a source whose newest task has this time.
    fn add(&mut self, part: Part, queue: Vec<u8>, newest: i64) {
        let is_settled = matches!(part, Part::SettledIn | Part::Unsuccessful);
        // The order in which a source is read is that of the list, or that of the time of settling.
        let mut at = if is_settled && !self.is_by_settling() { FIRST } else { self.from };
        if let Some(before) = self.filter.created_before.filter(|_| !is_settled) {
            at = at.min((before.0, i64::MAX, 0));
        }
        let newest = if is_settled && !self.is_by_settling() {
            newest.saturating_add(AHEAD.0)
        } else {
            newest
        };
        let bound = at.min(self.from).min((newest, i64::MAX, u128::MAX));
        let chunk = self.most.clamp(CHUNK_MIN, CHUNK_MAX);
        self.sources.push(Source { part, queue, bound, at, chunk });
    }

    fn add_live(&mut self) -> Result<()> {
        let (first, last) = self.granted.queues_to_look_at();
        for kind in LIVE {
            let has_none = kind.is_without_group && self.filter.group_key.is_some();
            if has_none || self.filter.status.is_some_and(|it| it != kind.status) {
                continue;
            }
            let others = [
                Some(datum::varlena(&first)),
                Some(datum::varlena(&last)),
                Some(Datum::from(SOURCES_MAX as i64 + 1)),
            ];
            let rows = self.run(kind.text, &[], &[TEXT, TEXT, BIGINT], &others);
            if rows.len() > SOURCES_MAX {
                return Err(error::too_many_lanes(SOURCES_MAX, self.fewer_lanes()));
            }
            for row in 0..rows.len() {
                let queue = datum::text(rows.get(row, 0));
                let action = datum::text(rows.get(row, 1));
                let [number, newest] = [2, 3].map(|it| datum::number(rows.get(row, it)));
                let part = (kind.part)(action, number);
                let is_wanted = match (&part, &self.filter.action) {
                    (Part::Lane { action, .. }, Some(wanted)) => action == wanted,
                    _ => true,
                };
                if is_wanted && self.may_look(&queue) {
                    self.add(part, queue, newest);
                }
            }
        }
        Ok(())
    }

    /// How to ask for fewer actions and priorities.
    fn fewer_lanes(&self) -> &'static str {
        match (&self.filter.queue, &self.filter.action) {
            (None, _) => "Add queue to the filter.",
            (Some(_), None) => "Add action to the filter, or key.",
            (Some(_), Some(_)) => "Add key to the filter, or a status other than ready.",
        }
    }

    fn add_settled(&mut self) -> Result<()> {
        if let Some(queue) = self.filter.queue.clone() {
            self.add(Part::SettledIn, queue, FIRST.0);
            return Ok(());
        }
        let all_of_them = self.granted.everywhere.has_any(Privileges::LOOK);
        if self.filter.status.is_some_and(|it| it != Status::Completed) && all_of_them {
            self.add(Part::Unsuccessful, Vec::new(), FIRST.0);
            return Ok(());
        }
        let known: Vec<Vec<u8>> =
            queues::all(self.db).into_keys().filter(|queue| self.may_look(queue)).collect();
        if known.len() > SOURCES_MAX {
            return Err(error::too_many_lanes(SOURCES_MAX, self.fewer_lanes()));
        }
        let names = known.iter().map(|it| Some(datum::varlena(it)));
        let names = Some(datum::array(TEXTS, names));
        let rows = self.run(text!("settled_queues"), &[], &[TEXTS], &[names]);
        for row in 0..rows.len() {
            let newest = datum::number(rows.get(row, 1));
            self.add(Part::SettledIn, datum::text(rows.get(row, 0)), newest);
        }
        Ok(())
    }

    /// Those that workers own, as the board knows them.
    fn add_owned(&mut self) {
        let Some(entry) = with_board(|board| self.db.find(board)) else { return };
        let mut all = Vec::new();
        let owned = scan_pinned(entry, |board, it, _| {
            is_owned(it).then(|| (board.lease(it), board.queue_name_of(it), it.rank().created))
        });
        for (lease, queue, created) in owned.flatten() {
            let key = (created.0, i64::MAX, lease.id);
            if self.may_look(queue.as_bytes())
                && self.filter.takes_lease(Some(&lease))
                && key < self.from
            {
                all.push(key);
                self.leases.insert(Uuid(lease.id), lease);
            }
        }
        all.sort_unstable_by(|one, other| other.cmp(one));
        self.add(Part::Owned { all, read: 0 }, Vec::new(), FIRST.0);
    }

    fn find_by_key(&mut self) -> Result<()> {
        let most = Some(Datum::from(self.read_at_once_most() as i64 + 1));
        let rows = self.run(text!("by_key"), &[], &[BIGINT], &[most]);
        self.limit(rows.len())?;
        let mut live = Vec::new();
        for row in 0..rows.len() {
            let id = id_at(&rows, row, 0);
            let created = Wall(datum::number(rows.get(row, 1)));
            let settled = rows.get(row, 2).map(datum::wall);
            let key = self.key(id, created, settled);
            let queue = datum::text(rows.get(row, 3));
            let matches = datum::number(rows.get(row, 4)) != 0;
            if !matches || key >= self.from || !self.may_look(&queue) {
                continue;
            }
            match settled {
                Some(at) if self.filter.takes_settled() => {
                    self.found.push(Found { key, settled: Some(at.0) });
                }
                None if self.filter.takes_live() => {
                    live.push(key);
                }
                _ => {}
            }
        }
        self.add_found(&live);
        Ok(())
    }

    fn find_never_ready(&mut self) -> Result<()> {
        if self.filter.status == Some(Status::Ready) {
            return Ok(());
        }
        let most = Some(Datum::from(self.read_at_once_most() as i64 + 1));
        let rows = self.run(text!("never_ready"), &[], &[BIGINT], &[most]);
        self.limit(rows.len())?;
        let keys = self.taken(&rows);
        self.add_found(&keys);
        Ok(())
    }
}

//! Reading on in the sources of a page, and in another order when that has cost too much.

use crate::error::{self, Result};
use crate::ops::matching::filter::BY_ID;
use crate::ops::matching::list::{
    ABOUT, AHEAD, CHUNK_MAX, CHUNK_MIN, EXAMINED_MAX, FIRST, Found, Key, Page, Part, Source, Stage,
};
use crate::pg::datum::{self, BIGINT, TEXT, TIMESTAMPTZ, UUID, UUIDS};
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::storage::rows::{id_at, ids};
use board::{Micros, Wall};
use pgrx::pg_sys::Datum;

/// How many tasks a page examines by their ids at most.
const EXAMINED_BY_ID_MAX: usize = 50_000;

/// The time with which an id begins that scylla has made.
fn time_of(id: Uuid) -> Option<Wall> {
    id.unix_millis().map(time::of_unix_millis)
}

impl Page<'_> {
    /// Reads on in a source.
    pub(super) fn read_on(&mut self, at: usize) {
        let mut source = self.sources.swap_remove(at);
        let chunk = source.chunk;
        source.chunk = (2 * chunk).min(CHUNK_MAX);
        let has_more = match &mut source.part {
            Part::Owned { all, read } => {
                let some: Vec<Key> = all[*read..].iter().take(chunk).copied().collect();
                *read += some.len();
                source.bound = all.get(*read).copied().unwrap_or((i64::MIN, 0, 0));
                let has_more = *read < all.len();
                let wanted = ids(some.iter().map(|it| Uuid(it.2)));
                let rows = self.run(BY_ID, &[], &[UUIDS], &[wanted]);
                self.examined += some.len();
                let keys = self.taken(&rows);
                // Their leases are those by which they were taken.
                self.found.extend(keys.into_iter().map(|key| Found { key, settled: None }));
                has_more
            }
            Part::SettledIn | Part::Unsuccessful | Part::SettledById => {
                self.read_settled(&mut source, chunk)
            }
            _ => self.read_live(&mut source, chunk),
        };
        let ends = self.filter.created_after.is_some_and(|after| source.bound.0 <= after.0);
        if has_more && !ends {
            self.sources.push(source);
        }
    }

    fn read_live(&mut self, source: &mut Source, chunk: usize) -> bool {
        let (marks, action, number): (&[&str], &[u8], i64) = match &source.part {
            Part::Lane { action, rank } => (&["lane"], action, *rank),
            Part::Grouped => (&["grouped"], b"", 0),
            Part::Behind => (&["behind"], b"", 0),
            Part::Waiting { held } => (&["waiting"], b"", i64::from(*held)),
            Part::FirstOfGroup => (&["of_group", "first_of_group"], b"", 0),
            _ => (&["of_group", "behind_in_group"], b"", 0),
        };
        let others = [
            Some(datum::varlena(&source.queue)),
            Some(datum::varlena(action)),
            Some(Datum::from(number)),
            Some(datum::timestamptz(Wall(source.at.0))),
            Some(Uuid(source.at.2).datum()),
            Some(Datum::from(chunk as i64)),
        ];
        let kinds = [TEXT, TEXT, BIGINT, TIMESTAMPTZ, UUID, BIGINT];
        let rows = self.run(text!("live"), marks, &kinds, &others);
        self.examined += rows.len();
        if let Some(last) = rows.len().checked_sub(1) {
            let created = Wall(datum::number(rows.get(last, 1)));
            source.at = self.key(id_at(&rows, last, 0), created, None);
            source.bound = source.bound.min(source.at);
        }
        let keys = self.taken(&rows);
        let has_more = rows.len() == chunk;
        rows.free();
        self.add_found(&keys);
        has_more
    }

    fn read_settled(&mut self, source: &mut Source, chunk: usize) -> bool {
        let is_by_id = matches!(source.part, Part::SettledById);
        let most = Some(Datum::from(chunk as i64));
        let rows = if is_by_id {
            let others = [Some(Uuid(source.at.2).datum()), most];
            self.run(text!("settled_by_id"), &[], &[UUID, BIGINT], &others)
        } else {
            let marks: &[&str] = match source.part {
                Part::SettledIn => &["one_queue"],
                _ => &[],
            };
            let others = [
                Some(datum::varlena(&source.queue)),
                Some(datum::timestamptz(Wall(source.at.0))),
                Some(datum::timestamptz(Wall(source.at.1))),
                Some(Uuid(source.at.2).datum()),
                most,
            ];
            let kinds = [TEXT, TIMESTAMPTZ, TIMESTAMPTZ, UUID, BIGINT];
            self.run(text!("settled"), marks, &kinds, &others)
        };
        for row in 0..rows.len() {
            let id = id_at(&rows, row, 0);
            let [created, settled] = [1, 2].map(|it| Wall(datum::number(rows.get(row, it))));
            source.at = (settled.0, created.0, id.0);
            let submitted = time_of(id);
            self.has_timed_ids &=
                submitted.is_some_and(|at| (created.0 - at.0).unsigned_abs() < ABOUT.0 as u64);
            let key = self.key(id, created, Some(settled));
            let matches = datum::number(rows.get(row, 4)) != 0;
            if matches && key < self.from && self.may_look(&datum::text(rows.get(row, 3))) {
                self.found.push(Found { key, settled: Some(settled.0) });
            }
        }
        let bound_at = |at: i64, by: Micros| (at.saturating_add(by.0), i64::MAX, u128::MAX);
        let read_to = match (self.is_by_settling(), time_of(Uuid(source.at.2))) {
            (true, _) => source.at,
            (false, submitted) if is_by_id => submitted.map_or(FIRST, |at| bound_at(at.0, ABOUT)),
            _ => bound_at(source.at.0, AHEAD),
        };
        source.bound = source.bound.min(read_to);
        let (count, has_more) = (rows.len(), rows.len() == chunk);
        rows.free();
        self.examined += count;
        has_more
    }

    /// Fails, or goes on in another way, when the page has cost as much as it may.
    pub(super) fn check_cost(&mut self) -> Result<()> {
        let is_elsewhere = self.stage == Stage::ById && !self.has_timed_ids;
        if self.examined > self.examined_most || is_elsewhere {
            self.read_otherwise()?;
        }
        Ok(())
    }

    /// Goes on to read the settled tasks in another order; fails after the last one.
    fn read_otherwise(&mut self) -> Result<()> {
        let is_mixed = self.filter.status.is_none() && self.filter.key.is_none();
        let most = match self.stage {
            Stage::First if is_mixed && self.has_timed_ids => {
                self.stage = Stage::ById;
                self.set_aside();
                EXAMINED_BY_ID_MAX
            }
            Stage::First if is_mixed => {
                self.stage = Stage::Last;
                EXAMINED_MAX
            }
            Stage::ById => {
                self.stage = Stage::Last;
                self.take_back();
                EXAMINED_MAX
            }
            _ => return Err(error::reads_too_much(self.examined, self.narrower())),
        };
        self.examined = 0;
        self.examined_most = most.max(self.most.saturating_mul(2));
        Ok(())
    }

    /// Sets the settled tasks and their sources aside, and reads them by their ids.
    fn set_aside(&mut self) {
        let is_settled = |it: &mut Source| matches!(it.part, Part::SettledIn);
        self.aside.extend(self.sources.extract_if(.., is_settled));
        let found = std::mem::take(&mut self.found);
        let (settled, live): (Vec<Found>, Vec<Found>) =
            found.into_iter().partition(|it| it.settled.is_some());
        (self.found, self.found_aside) = (live.into(), settled);
        let first = Wall(self.from.0.saturating_add(ABOUT.0));
        let at = match self.from {
            FIRST => FIRST,
            _ => (0, 0, Uuid::last_timed(time::unix_millis(first)).0),
        };
        let chunk = self.most.clamp(CHUNK_MIN, CHUNK_MAX);
        let bound = self.from;
        self.sources.push(Source { part: Part::SettledById, queue: Vec::new(), bound, at, chunk });
    }

    /// Goes on with what was set aside, but for what the page has by now.
    fn take_back(&mut self) {
        self.sources.retain(|it| !matches!(it.part, Part::SettledById));
        self.sources.append(&mut self.aside);
        self.found.retain(|it| it.settled.is_none());
        let from = self.from;
        self.found.extend(self.found_aside.drain(..).filter(|it| it.key < from));
    }
}

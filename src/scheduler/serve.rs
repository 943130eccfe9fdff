//! The scheduler of one database: sleeps until the next duty, and does it.

use crate::error;
use crate::extension::database::{self, Database};
use crate::extension::members;
use crate::guc;
use crate::memory;
use crate::pg::{process, time};
use crate::scheduler::duties::order::Order;
use crate::scheduler::duties::retention::Retention;
use crate::scheduler::duties::stats::{self, Stats};
use crate::scheduler::duties::{announce, countdowns, lanes, leases};
use crate::scheduler::firing::Firing;
use crate::scheduler::firing::due_tasks::DueTasks;
use crate::scheduler::firing::schedules::Schedules;
use crate::scheduler::process::{
    Commit, heed_interrupts, install_signal_handlers, publish_durable, sleep, transaction,
};
use crate::scheduler::settings;
use crate::scheduler::sql::SqlTasks;
use crate::shmem::schedulers;
use crate::shmem::segment::{self, with_board};
use crate::xact;
use crate::xact::on_board::not_as_made;
use board::{Board, BuildState, Counted, Micros, Monotonic, Wall};
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;

/// The shortest sleep: a duty that failed is not tried again at once.
const LEAST_SLEEP: Micros = Micros(500);
/// How long to wait before a board that could not be built is tried again.
const TRY_AGAIN: Micros = Micros::from_secs(1);

/// How long to wait at least and at most before checking whether what is withheld is durable.
const LEAST_CHECK: Micros = Micros(500);
const MOST_CHECK: Micros = Micros::from_millis(20);

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn scylla_scheduler(database: pg_sys::Datum) {
    let database = database.value() as u32;
    install_signal_handlers();
    // Before it connects: a second one, or one that comes while the database is wanted, must not be
    // in the way of a command for a moment.
    if !schedulers::claim(database, xact::end_withholding) {
        return;
    }
    // SAFETY: connects as the bootstrap superuser to the database that the launcher named.
    unsafe {
        let database = pg_sys::Oid::from_u32(database);
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0);
    }
    memory::with_reserve(serve_while_there);
    schedulers::note_absent(database);
}

/// Serves the database until the extension is dropped.
fn serve_while_there() {
    settings::pin();
    loop {
        match transaction("find the extension", Commit::Ahead, database::find_again) {
            Some(Some(db)) => {
                remove_others(Some(db.extension));
                serve(&db);
            }
            Some(None) => {
                // Its leases are kept where the next call after a repair goes on.
                let kept = transaction("find the extension", Commit::Ahead, report_why).flatten();
                remove_others(kept);
                break;
            }
            // Whether there is one is not known.
            None => drop(sleep(TRY_AGAIN)),
        }
    }
}

/// Says what must be done where there is the extension, but cannot be served. Returns it, if it is
/// of this library's version.
fn report_why() -> Option<Oid> {
    let extension = members::extension()?;
    let version = database::other_version(extension);
    let is_of_this = version.is_none();
    let other = version.map(|version| error::other_version(&version, database::VERSION));
    if let Some(why) = other.or_else(|| not_as_made(extension)) {
        why.report(PgLogLevel::WARNING);
    }
    is_of_this.then_some(extension)
}

/// Serves the database until the extension is dropped, created again, or given another owner.
fn serve(db: &Database) {
    stats::write_at_exit(db);
    let mut scheduler = Scheduler::new(db);
    while scheduler.turn() {}
}

struct Scheduler<'h> {
    db: &'h Database,
    next_sweep: Monotonic,
    /// How long to wait before deferred countdowns run again.
    pause: Micros,
    /// How long to wait before the lanes of queues that are searched are brought back, and until
    /// when.
    cover_pause: Micros,
    next_cover: Monotonic,
    firing: Firing<DueTasks>,
    schedules: Schedules,
    order: Order,
    sql: SqlTasks,
    /// When to look after SQL tasks again.
    next_sql: Monotonic,
    stats: Stats,
    retention: Retention,
    retains: bool,
    was_served: bool,
    /// Since when it hears of workers, and when it looks after them next.
    hears_since: Wall,
    next_workers: Monotonic,
    /// Since when something is withheld that is not durable.
    withheld_since: Option<Monotonic>,
}

/// How often it looks after workers.
const WORKERS_INTERVAL: Micros = Micros::from_secs(30);

/// What the scheduler finds when it wakes.
struct Wakeup {
    build_state: BuildState,
    /// Another process is building the board.
    being_built: bool,
    refresh: bool,
    sweeping: bool,
    /// The tasks are to be counted.
    wants_recount: bool,
    /// The entry was served by another scheduler before, or by none.
    is_new: bool,
    /// A duty waits that is only done after checking that the extension still exists.
    is_called: bool,
}

impl Scheduler<'_> {
    fn new(db: &Database) -> Scheduler<'_> {
        Scheduler {
            db,
            next_sweep: Monotonic::MIN,
            pause: board::COUNTDOWN_DELAY,
            cover_pause: guc::sweep_interval(),
            next_cover: Monotonic::MIN,
            firing: Firing::new(DueTasks),
            schedules: Schedules::new(),
            order: Order::new(),
            sql: SqlTasks::new(),
            next_sql: Monotonic::NEVER,
            stats: Stats::new(),
            retention: Retention::default(),
            retains: false,
            was_served: false,
            hears_since: time::now().wall,
            next_workers: Monotonic::MIN,
            withheld_since: None,
        }
    }

    /// Does what is due, and sleeps. False when the extension does not exist any more.
    fn turn(&mut self) -> bool {
        // After a crash under the board's lock the entry is gone: it is registered again.
        let entry = self.db.enter();
        let wakeup = self.wake(entry);
        // No duty is done for an extension that was dropped, or whose tables have another owner.
        let is_called = wakeup.refresh || wakeup.sweeping || wakeup.is_called;
        if is_called
            && transaction("find the extension", Commit::Ahead, database::find_again)
                .is_some_and(|found| found != Some(*self.db))
        {
            return false;
        }
        if !self.prepare(entry, &wakeup) {
            sleep(TRY_AGAIN);
            return true;
        }
        // Before anything fires: a restored database must be recognised.
        if wakeup.sweeping {
            lanes::check_identity(self.db, entry);
        }
        let more = self.keep_times(entry);
        if is_served(entry) {
            self.order.keep(self.db, entry);
        }
        if with_board(|board| board.entry(entry).countdown_at) <= time::monotonic()
            && publish_durable()
        {
            countdowns::run_deferred(self.db, entry, &mut self.pause);
        }
        if wakeup.sweeping {
            leases::persist(self.db, entry);
            lanes::cover(self.db, entry, &mut self.cover_pause, &mut self.next_cover);
            let interval = guc::sweep_interval().min(persist_interval());
            self.next_sweep = time::monotonic() + interval;
            if self.next_workers <= time::monotonic() {
                self.next_workers = time::monotonic() + WORKERS_INTERVAL;
                leases::keep_workers(self.db, entry, self.hears_since);
            }
        }
        self.schedules.count(self.db, entry);
        self.next_sql = self.sql.turn(self.db, entry, is_served(entry));
        self.retain(entry, wakeup.sweeping);
        if self.was_served {
            // A board that was built or surveyed in this turn was found before that.
            let is_surveyed = wakeup.refresh || wakeup.build_state != BuildState::Built;
            self.stats.keep(self.db, entry, wakeup.wants_recount || is_surveyed);
        }
        lanes::release_permits(entry);
        announce::announce(entry);
        self.rest(entry, more || self.retains);
        true
    }

    fn wake(&self, entry: u32) -> Wakeup {
        let me = process::id();
        let now = time::monotonic();
        let wakeup = with_board(|board| {
            // Another creation of the extension in this database calls for its scheduler as well.
            let is_called = board.next_expiry(entry) <= now
                || find_other(board, Some(self.db.extension)).is_some();
            let wants_recount = board.wants_recount(entry);
            let it = board.entry_mut(entry);
            let is_new = std::mem::replace(&mut it.scheduler, me) != me;
            // An earlier scheduler may have ended while it ran deferred countdowns, or looked at
            // groups.
            it.countdown_deferred |= is_new;
            it.looks_for_groups |= is_new;
            // The scheduler is awake: no other process has to wake it.
            (it.wake_at, it.awake_since) = (Monotonic::MIN, now);
            if is_new {
                it.scheduler_since = self.hears_since;
            }
            Wakeup {
                build_state: it.build_state,
                being_built: it.builder != 0,
                refresh: it.wants_survey(),
                sweeping: now >= self.next_sweep,
                wants_recount,
                is_new,
                is_called,
            }
        });
        if wakeup.is_new {
            segment::serve_as(Some(entry));
        }
        wakeup
    }

    /// Builds the board where it is unbuilt, or surveys the tables. False when it could not be
    /// built.
    fn prepare(&mut self, entry: u32, wakeup: &Wakeup) -> bool {
        if wakeup.build_state != BuildState::Built || wakeup.refresh || wakeup.is_new {
            self.firing.rescan();
            self.schedules.rescan();
        }
        if wakeup.build_state != BuildState::Built {
            // Partitions come first: a task that settles before them goes to the default partition.
            let known = lanes::check_identity(self.db, entry);
            if known && is_served(entry) {
                self.retention.supervise(self.db);
            }
            return !wakeup.being_built && known && lanes::build(self.db, entry);
        }
        if wakeup.refresh {
            with_board(|board| board.entry_mut(entry).counted = Counted::No);
            lanes::survey(self.db, entry);
        }
        true
    }

    /// Ends expired leases and fires due tasks. True when there are more: a backlog does not keep
    /// the scheduler from its other duties.
    fn keep_times(&mut self, entry: u32) -> bool {
        loop {
            let fires = is_served(entry)
                && (self.firing.fire(self.db, entry) | self.schedules.fire(self.db, entry));
            let more = leases::expire(self.db, entry) | fires;
            heed_interrupts();
            if more {
                announce::announce(entry);
            }
            if !more || time::monotonic() >= self.next_sweep {
                return more;
            }
        }
    }

    fn retain(&mut self, entry: u32, sweeping: bool) {
        let served = is_served(entry);
        let wanted = self.retains || sweeping || !self.was_served;
        self.retains = served && wanted && self.retention.supervise(self.db);
        if served && !self.was_served {
            with_board(|board| board.entry_mut(entry).prepared = true);
            segment::broadcast();
        }
        self.was_served = served;
    }

    fn rest(&mut self, entry: u32, more: bool) {
        let wake_at = with_board(|board| {
            let wake_at = board
                .next_duty(entry)
                .min(self.next_sweep)
                .min(self.next_sql)
                .min(self.order.next());
            board.entry_mut(entry).wake_at = wake_at;
            wake_at
        });
        let idle = if publish_durable() {
            self.withheld_since = None;
            (wake_at - time::monotonic()).max(LEAST_SLEEP)
        } else {
            // What is due may wait for that, too.
            let now = time::monotonic();
            let since = *self.withheld_since.get_or_insert(now);
            ((now - since) / 4).max(LEAST_CHECK).min(MOST_CHECK)
        };
        if sleep(if more { Micros::ZERO } else { idle }) {
            self.next_sweep = Monotonic::MIN;
        }
    }
}

/// Whether tasks are fired and partitions are made. A database that is being restored gets its
/// partitions from the dump; a closed one is left as it is (I12).
fn is_served(entry: u32) -> bool {
    with_board(|board| board.entry(entry).may_fire())
}

/// How often leases are written: each is, before it has twice the age from which it outlives a
/// crash.
fn persist_interval() -> Micros {
    guc::persist_leases_after().max(Micros::from_millis(10))
}

/// Removes the entries of this database from the board, except the one of this creation of the
/// extension, `mine` (I12).
fn remove_others(mine: Option<Oid>) {
    while let Some(key) = with_board(|board| {
        find_other(board, mine).map(|at| {
            let it = board.entry(at);
            (it.database, it.extension)
        })
    }) {
        database::remove_entry(key);
    }
}

fn find_other(board: &Board, mine: Option<Oid>) -> Option<u32> {
    let database = process::database().to_u32();
    let mine = mine.map(|it| it.to_u32());
    let other = board.entries().iter().position(|it| {
        it.build_state != BuildState::Vacant
            && it.database == database
            && Some(it.extension) != mine
    });
    other.map(|entry| entry as u32)
}

//! The worker of one database: it sleeps until the next due time, and does what is due.

use crate::clock::firing::Firing;
use crate::clock::retention::Retention;
use crate::clock::{duties, heed_signals, sleep, transaction};
use crate::desk::{self, Home, with_board};
use crate::moves::build;
use crate::{moment, settings};
use board::{Board, Door};
use pgrx::pg_sys;
use pgrx::prelude::*;

/// How long to sleep at the least, in microseconds: what could not be done now is not tried at once.
const LEAST_SLEEP: i64 = 500;
/// How long to wait before a board that could not be built is tried again, in microseconds.
const TRY_AGAIN: i64 = 1_000_000;

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn scylla_clock(database: pg_sys::Datum) {
    heed_signals();
    // SAFETY: connects as the bootstrap superuser to the database that the launcher named.
    unsafe {
        let database = pg_sys::Oid::from_u32(database.value() as u32);
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0);
        for (name, value) in SETTINGS {
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_OVERRIDE,
            );
        }
    }
    while let Some(home) = transaction("find the extension", desk::find_anew).flatten() {
        vacate_others(Some(&home));
        serve(&home);
    }
    vacate_others(None);
}

/// What a database or role may have set otherwise, and must not for the clock: it never waits long
/// for a lock (I10), and never gets a serialisation failure.
const SETTINGS: [(&std::ffi::CStr, &std::ffi::CStr); 5] = [
    (c"lock_timeout", c"200ms"),
    (c"default_transaction_isolation", c"read committed"),
    (c"default_transaction_read_only", c"off"),
    // Bounds of partitions are read as they are printed.
    (c"timezone", c"UTC"),
    (c"datestyle", c"ISO"),
];

/// Keeps the clock until the extension is dropped, created anew, or given another owner.
fn serve(home: &Home) {
    // SAFETY: reads this process's id.
    let me = unsafe { pg_sys::MyProcPid };
    let (mut next_sweep, mut singly, mut pause) = (0, 0, desk::SOON);
    let (mut retention, mut was_served, mut retains) = (Retention::default(), false, false);
    let mut firing = Firing::new();
    loop {
        // After a crash under the board's lock there is no house any more: it is entered anew.
        let house = home.enter();
        let now = moment::monotonic();
        let sweeping = now >= next_sweep;
        let (door, builder, refresh, is_mine, overdue) = with_board(|board| {
            // Another creation of the extension calls for its clock as well.
            let overdue =
                board.next_deadline(house) <= now || find_other(board, Some(home)).is_some();
            let it = board.house_mut(house);
            let is_mine = std::mem::replace(&mut it.clock, me) == me;
            // An earlier clock may have ended amid taking up.
            it.put_off |= !is_mine;
            // Awake: nobody need wake it.
            it.wake_at = i64::MIN;
            (it.door, it.builder, std::mem::take(&mut it.refresh), is_mine, overdue)
        });
        if !is_mine {
            desk::serve_as(Some(house));
        }
        // No duty is done for an extension that is dropped, or whose tables are another's now.
        if (refresh || sweeping || overdue)
            && transaction("find the extension", desk::find_anew)
                .is_some_and(|found| found != Some(*home))
        {
            return;
        }
        if door != Door::Open || refresh || !is_mine {
            firing.look_anew();
        }
        if door != Door::Open {
            // Before anybody settles a task, lest its day begin in the default partition.
            let known = duties::look(home, house);
            if known && is_served(house) {
                retention.tend(home);
            }
            if builder != 0 || !known || !duties::build(home, house) {
                sleep(TRY_AGAIN);
                continue;
            }
        } else if refresh && duties::survey(home, house).is_none() {
            with_board(|board| board.house_mut(house).refresh = true);
        }
        // Before anything fires: a restored database is to be known as one.
        if sweeping {
            duties::look(home, house);
        }
        // A backlog does not keep the clock from its other duties.
        let more = loop {
            let fires = is_served(house) && firing.fire(home, house);
            let more = duties::reclaim(home, house, &mut singly) | fires;
            pgrx::check_for_interrupts!();
            if more {
                duties::announce(house);
            }
            if !more || moment::monotonic() >= next_sweep {
                break more;
            }
        };
        if with_board(|board| board.house(house).take_up_at) <= moment::monotonic() {
            duties::take_up(home, house, &mut pause);
        }
        if sweeping {
            duties::persist(home, house);
            next_sweep = now + settings::sweep_interval().min(persist_interval());
        }
        let served = is_served(house);
        retains = served && (retains || sweeping || !was_served) && retention.tend(home);
        if served && !was_served {
            with_board(|board| board.house_mut(house).prepared = true);
            desk::broadcast();
        }
        was_served = served;
        duties::announce(house);
        let wake_at = with_board(|board| {
            let wake_at = board.next_duty(house).min(next_sweep);
            board.house_mut(house).wake_at = wake_at;
            wake_at
        });
        let idle = (wake_at - moment::monotonic()).max(LEAST_SLEEP);
        if sleep(if more || retains { 0 } else { idle }) {
            next_sweep = 0;
        }
    }
}

/// Whether tasks fire, and settled ones are looked after: a database that is being restored gets its
/// partitions from there, a closed one is left as it is (I12).
fn is_served(house: u32) -> bool {
    with_board(|board| board.house(house).used && !board.house(house).shut)
}

/// Leases are written behind no later than twice the age from which they are to outlive a crash.
fn persist_interval() -> i64 {
    settings::persist_leases_after().max(10_000)
}

/// Takes the houses of this database off the board, but for the one of this creation of the
/// extension (I12).
fn vacate_others(home: Option<&Home>) {
    while let Some(house) = with_board(|board| find_other(board, home)) {
        build::clear(house);
        with_board(|board| board.vacate_house(house));
    }
}

fn find_other(board: &Board, home: Option<&Home>) -> Option<u32> {
    // SAFETY: reads this process's database.
    let database = unsafe { pg_sys::MyDatabaseId }.to_u32();
    let mine = home.map(|home| home.extension.to_u32());
    let other = board.houses().iter().position(|it| {
        it.door != Door::Vacant && it.database == database && Some(it.extension) != mine
    });
    other.map(|house| house as u32)
}

//! A database on the board.

use crate::board::Board;
use crate::list::Ends;
use crate::pool::NIL;

/// How many databases of one server may use the extension at once.
pub const HOUSES: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Door {
    /// No such house.
    Vacant,
    /// Known, but not built from its tables yet: hands out nothing.
    Closed,
    Open,
}

/// One database with one creation of the extension in it (I12).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct House {
    /// When the clock means to wake, on the monotonic clock. An earlier deadline must wake it.
    pub wake_at: i64,
    /// When the clock takes up what was put off, at the earliest.
    pub take_up_at: i64,
    /// When the next waiting task falls due, on the wall clock, or earlier; `i64::MAX`: none.
    pub next_due: i64,
    /// What the clock takes off a time of the wall clock to find it on the monotonic one; it looks
    /// anew each time it is awake, lest a step of the wall clock go unnoticed.
    pub lag: i64,
    /// The database's oid.
    pub database: u32,
    /// The extension's oid: another one after each CREATE EXTENSION.
    pub extension: u32,
    /// The clock's process; 0: none.
    pub clock: i32,
    /// Leases that stand in the table though they have ended.
    pub ended_persisted: u32,
    pub(crate) timer: u32,
    pub door: Door,
    /// A transaction put something off that the clock is to take up.
    pub put_off: bool,
    /// Somebody changed the tables by hand: the lanes are to be surveyed.
    pub refresh: bool,
    /// The database hands out and fires nothing (I12).
    pub shut: bool,
    /// Somebody has called from this database: it is not one that is being restored.
    pub used: bool,
    /// The clock has looked after the partitions of settled tasks.
    pub prepared: bool,
    /// The process that builds the board while there is no clock; 0: none.
    pub builder: i32,
    /// How often a lane found no room on the board since the last survey: its tasks are known to
    /// the table only (I4).
    pub spilled: u32,
    /// Queues with news, and how many they are.
    pub(crate) news: Ends,
    pub(crate) listed: u32,
    /// Settled tasks to be announced.
    pub(crate) settled: Ends,
    /// How much there is to announce.
    pub(crate) untold: u32,
    /// How many tasks got ready since the last announcement.
    pub(crate) noted: u32,
    /// Nothing is announced before, on the monotonic clock.
    pub(crate) quiet_until: i64,
}

impl House {
    pub const VACANT: House = House {
        wake_at: i64::MAX,
        take_up_at: 0,
        next_due: i64::MAX,
        lag: 0,
        database: 0,
        extension: 0,
        clock: 0,
        ended_persisted: 0,
        timer: NIL,
        door: Door::Vacant,
        put_off: false,
        refresh: false,
        shut: false,
        used: false,
        prepared: false,
        builder: 0,
        spilled: 0,
        news: Ends::NONE,
        listed: 0,
        settled: Ends::NONE,
        untold: 0,
        noted: 0,
        quiet_until: i64::MIN,
    };
}

impl Board<'_> {
    pub fn find_house(&self, database: u32, extension: u32) -> Option<u32> {
        let found = self.head.houses.iter().position(|house| {
            house.door != Door::Vacant && house.database == database && house.extension == extension
        })?;
        Some(found as u32)
    }

    /// The house of a database, closed if it is new; `None` when there is no room for another.
    pub fn enter_house(&mut self, database: u32, extension: u32) -> Option<u32> {
        if let Some(house) = self.find_house(database, extension) {
            return Some(house);
        }
        let vacant = self.head.houses.iter().position(|house| house.door == Door::Vacant)?;
        self.head.houses[vacant] =
            House { database, extension, door: Door::Closed, ..House::VACANT };
        Some(vacant as u32)
    }

    pub fn house(&self, house: u32) -> &House {
        &self.head.houses[house as usize]
    }

    pub fn house_mut(&mut self, house: u32) -> &mut House {
        &mut self.head.houses[house as usize]
    }

    pub fn houses(&self) -> &[House] {
        &self.head.houses
    }

    /// Notes that a database's clock has ended; false when the board does not know the database.
    pub fn dismiss_clock(&mut self, database: u32) -> bool {
        let houses = self.head.houses.iter_mut();
        houses.filter(|it| it.door != Door::Vacant && it.database == database).fold(
            false,
            |_, house| {
                house.clock = 0;
                true
            },
        )
    }

    /// Makes a process the only one that builds a board without a clock; false when it need not.
    pub fn begin_build(&mut self, house: u32, builder: i32) -> bool {
        let it = self.house_mut(house);
        let wanted = it.door == Door::Closed && it.clock == 0 && it.builder == 0;
        if wanted {
            it.builder = builder;
        }
        wanted
    }

    /// Ends it, built or not.
    pub fn end_build(&mut self, house: u32, builder: i32) {
        let it = self.house_mut(house);
        if it.builder == builder {
            it.builder = 0;
        }
    }

    /// Whether settled tasks have no partitions yet, though the clock is about to make them.
    pub fn is_unprepared(&self, house: u32) -> bool {
        let it = self.house(house);
        !it.prepared && it.used && !it.shut && it.clock != 0
    }

    /// Notes that somebody has called from the database; whether he is the first.
    pub fn begin_use(&mut self, house: u32) -> bool {
        !std::mem::replace(&mut self.house_mut(house).used, true)
    }

    /// Notes that a task falls due at a time of the wall clock.
    pub fn note_due(&mut self, house: u32, at: i64) {
        let house = self.house_mut(house);
        house.next_due = house.next_due.min(at);
    }

    /// When the clock is to look at the house again, on the monotonic clock: at the end of a lease, when
    /// a task falls due, to announce news, or to take up what was put off.
    pub fn next_duty(&mut self, house: u32) -> i64 {
        let duty = self.next_deadline(house).min(self.next_announcement(house));
        let it = self.house(house);
        let due = match it.next_due {
            i64::MAX => i64::MAX,
            // Nothing fires there (I12).
            _ if it.shut || !it.used => i64::MAX,
            at => at.saturating_sub(it.lag),
        };
        let put_off = if it.put_off { it.take_up_at } else { i64::MAX };
        duty.min(due).min(put_off)
    }

    /// Whether something is to be done before the clock means to look. It is to be woken then, once:
    /// who comes later with nothing more urgent need not.
    pub fn wants_clock(&mut self, house: u32) -> bool {
        let duty = self.next_duty(house);
        let wanted = duty < self.house(house).wake_at;
        if wanted {
            self.house_mut(house).wake_at = duty;
        }
        wanted
    }

    /// Frees what a closed house has among `count` places from `from` on, the slots' first, then
    /// the lanes'; returns where to go on, or `None` when the house is empty.
    pub fn clear_house(&mut self, house: u32, from: u32, count: u32) -> Option<u32> {
        let slots = self.slots.capacity();
        let (to, end) = (from.saturating_add(count), slots + self.lanes.used());
        for at in from..to.min(self.slots.used()) {
            if self.is_in_house(at, house) {
                self.drop_slot(at);
            }
        }
        // Once no slot refers to them.
        for at in from.max(slots)..to.min(end) {
            let lane = at - slots;
            if self.lanes[lane].is_used() && self.queues[self.lanes[lane].queue].house == house {
                self.forget_lane(lane);
            }
        }
        let next = if to < self.slots.used() { to } else { to.max(slots) };
        (next < end || self.forget_news(house, count)).then_some(next)
    }

    /// Forgets a cleared house. Whoever waits in it learns of it.
    pub fn vacate_house(&mut self, house: u32) {
        self.forget_news(house, u32::MAX);
        self.wake_house(house);
        *self.house_mut(house) = House::VACANT;
    }
}

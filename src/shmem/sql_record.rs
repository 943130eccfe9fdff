//! The processes that run SQL commands: a record in shared memory each. The state of a record says
//! which side may write the other fields: the scheduler that uses the record, or its process.

use board::{Micros, Monotonic, TokenHash};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// The queue of the tasks that are SQL commands. No worker owns them.
pub const QUEUE: &[u8] = b"sql";

/// The owner of a command that runs.
pub const WORKER: &[u8] = b"scylla sql worker";

/// What a record's process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum SqlState {
    /// There is no process.
    Free,
    /// A scheduler has taken the record and assigns a command.
    Taken,
    /// A command is assigned; the process has not begun it.
    Assigned,
    /// The process runs the command.
    Running,
    /// The command has ended; its reply waits for the scheduler.
    Done,
    /// The process waits for another command of its role and database.
    Idle,
    /// The process ended while it ran the command.
    Lost,
    /// The process ended before it began the command.
    Unbegun,
    /// The process is about to end.
    Leaving,
}

use SqlState::{Assigned, Done, Free, Idle, Leaving, Lost, Running, Taken, Unbegun};

const STATES: [SqlState; 9] = [Free, Taken, Assigned, Running, Done, Idle, Lost, Unbegun, Leaving];

/// A command that is assigned to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The database and the extension whose task it is, and their entry on the board.
    pub home: (u32, u32),
    pub entry: u32,
    /// The task and the hash of its token (I7).
    pub id: u128,
    pub token_hash: TokenHash,
    /// With whose rights the command runs, and in which database.
    pub role: u32,
    pub database: u32,
    /// The handle of the memory with the command and its reply.
    pub area: u32,
    /// How long the command may run, in milliseconds; 0: no limit.
    pub timeout: i32,
}

/// One process, or room for one. All bits zero: no process uses it.
#[derive(Default)]
#[repr(C)]
pub struct SqlRecord {
    state: AtomicU32,
    pid: AtomicI32,
    home: [AtomicU32; 2],
    entry: AtomicU32,
    role: AtomicU32,
    database: AtomicU32,
    area: AtomicU32,
    timeout: AtomicI32,
    /// Counts the processes that were started for the record: one of before does not serve it.
    generation: AtomicU32,
    /// Since when the command is assigned, or runs: microseconds of the monotonic clock.
    since: AtomicI64,
    id: [AtomicU64; 2],
    token_hash: [AtomicU64; 2],
}

/// What a database waits for: a process for its next command. All bits zero: for nothing.
#[derive(Default)]
#[repr(C)]
pub struct SqlWant {
    /// Until when the wish counts, by the monotonic clock: the scheduler renews it.
    until: AtomicI64,
    /// The server has no background worker left, so that a free record is of no use.
    lacks_worker: AtomicBool,
    /// The number of the last command that the database began, among all databases' commands.
    turn: AtomicU64,
}

impl SqlWant {
    /// Wishes for a process until a time.
    pub fn set(&self, until: Monotonic, lacks_worker: bool) {
        self.lacks_worker.store(lacks_worker, Ordering::SeqCst);
        self.until.store(until.0, Ordering::SeqCst);
    }

    /// Wishes for none any more.
    pub fn clear(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    /// Whether the wish counts.
    pub fn is_set(&self, now: Monotonic) -> bool {
        self.until.load(Ordering::SeqCst) > now.0
    }

    /// Whether the database waits for a background worker.
    pub fn lacks_worker(&self) -> bool {
        self.lacks_worker.load(Ordering::SeqCst)
    }

    /// When the database began its last command, as a number.
    pub fn turn(&self) -> u64 {
        self.turn.load(Ordering::SeqCst)
    }

    /// Notes that the database begins a command.
    pub fn note_turn(&self, turn: u64) {
        self.turn.store(turn, Ordering::SeqCst);
        self.clear();
    }
}

impl SqlState {
    /// Whether there is a command whose task is not returned yet.
    pub fn has_command(self) -> bool {
        matches!(self, Assigned | Running | Done | Lost | Unbegun)
    }

    /// Whether the record has a command, or is about to get one.
    pub fn is_used(self) -> bool {
        self == Taken || self.has_command()
    }
}

impl SqlRecord {
    /// What the process does.
    pub fn state(&self) -> SqlState {
        STATES[self.state.load(Ordering::SeqCst) as usize]
    }

    /// Sets the state. Only the side may do so to which the present state belongs.
    pub fn set(&self, state: SqlState) {
        self.state.store(state as u32, Ordering::SeqCst);
    }

    /// Goes from one state to another; false: it was in a third one.
    pub fn change(&self, from: SqlState, to: SqlState) -> bool {
        let (from, to) = (from as u32, to as u32);
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The process; `None`: it has not started, or has ended.
    pub fn pid(&self) -> Option<i32> {
        Some(self.pid.load(Ordering::SeqCst)).filter(|pid| *pid != 0)
    }

    /// What was assigned last.
    pub fn assignment(&self) -> Assignment {
        let read = |it: &AtomicU32| it.load(Ordering::SeqCst);
        Assignment {
            home: (read(&self.home[0]), read(&self.home[1])),
            entry: read(&self.entry),
            id: whole(&self.id),
            token_hash: whole(&self.token_hash).to_ne_bytes(),
            role: read(&self.role),
            database: read(&self.database),
            area: read(&self.area),
            timeout: self.timeout.load(Ordering::SeqCst),
        }
    }

    /// The number of this database's entry on the board.
    pub fn entry(&self) -> u32 {
        self.entry.load(Ordering::SeqCst)
    }

    /// The role of the record's commands.
    pub fn role(&self) -> u32 {
        self.role.load(Ordering::SeqCst)
    }

    /// Since when the command is assigned, or runs.
    pub fn since(&self) -> Monotonic {
        Monotonic(self.since.load(Ordering::SeqCst))
    }

    /// When the time of the command is up that runs; `None`: it has no limit.
    pub fn deadline(&self) -> Option<Monotonic> {
        let timeout = self.timeout.load(Ordering::SeqCst);
        (timeout > 0).then(|| self.since() + Micros::from_millis(timeout.into()))
    }

    /// Whether the process has the command of this task, or its reply waits for the scheduler.
    pub fn has_command_of(&self, home: (u32, u32), id: u128) -> bool {
        let it = self.assignment();
        self.state().has_command() && it.home == home && it.id == id
    }

    /// Notes whose commands the record is for, in a record that this scheduler has taken.
    pub fn note_use(&self, home: (u32, u32), entry: u32, role: u32, database: u32) {
        self.home[0].store(home.0, Ordering::SeqCst);
        self.home[1].store(home.1, Ordering::SeqCst);
        self.entry.store(entry, Ordering::SeqCst);
        self.role.store(role, Ordering::SeqCst);
        self.database.store(database, Ordering::SeqCst);
    }

    /// Assigns a command, in a record that this scheduler has taken.
    pub fn assign(&self, it: &Assignment, now: Monotonic) {
        self.note_use(it.home, it.entry, it.role, it.database);
        self.timeout.store(it.timeout, Ordering::SeqCst);
        self.since.store(now.0, Ordering::SeqCst);
        self.area.store(it.area, Ordering::SeqCst);
        split(&self.id, it.id);
        split(&self.token_hash, u128::from_ne_bytes(it.token_hash));
        self.set(Assigned);
    }

    /// Begins another use of the record, for which a process is started: the number of that.
    pub fn expect_process(&self) -> u32 {
        self.pid.store(0, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst).wrapping_add(1)
    }

    /// Notes that a process serves the record; false: it was started for an earlier use.
    pub fn starts(&self, generation: u32, pid: i32) -> bool {
        let is_expected = self.generation.load(Ordering::SeqCst) == generation
            && matches!(self.state(), Taken | Assigned | Idle);
        if is_expected {
            self.pid.store(pid, Ordering::SeqCst);
        }
        is_expected
    }

    /// Begins the command that is assigned. False: none is.
    pub fn begins(&self, now: Monotonic) -> bool {
        if self.state() == Assigned {
            self.since.store(now.0, Ordering::SeqCst);
        }
        self.change(Assigned, Running)
    }

    /// Notes that the process ends, however it does.
    pub fn ends(&self) {
        self.pid.store(0, Ordering::SeqCst);
        let after = [(Running, Lost), (Assigned, Unbegun), (Idle, Free), (Leaving, Free)];
        _ = after.into_iter().any(|(from, to)| self.change(from, to));
    }

    /// After a command was assigned to a process that served the record before: notes that this
    /// process has ended meanwhile, if it has.
    pub fn note_absence(&self) {
        if self.pid().is_none() {
            self.change(Assigned, Unbegun);
        }
    }

    /// Makes the process available, whose command has ended and whose reply was read.
    pub fn release(&self) {
        self.set(Idle);
        if self.pid().is_none() {
            self.change(Idle, Free);
        }
    }
}

fn whole(halves: &[AtomicU64; 2]) -> u128 {
    let [high, low] = [0, 1].map(|at| u128::from(halves[at].load(Ordering::SeqCst)));
    high << 64 | low
}

fn split(halves: &[AtomicU64; 2], whole: u128) {
    halves[0].store((whole >> 64) as u64, Ordering::SeqCst);
    halves[1].store(whole as u64, Ordering::SeqCst);
}

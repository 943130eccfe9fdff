//! Shared memory: its layout, its one lock, and the latches of the schedulers.

use crate::pg::compat::server;
use crate::shmem::sql_record::{SqlRecord, SqlWant};
use crate::{error, guc};
use board::{Board, Header, MAX_DATABASES, Parts, Sizes, Slot};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};

const NAME: &std::ffi::CStr = c"scylla";

const CACHE_LINE: usize = 64;

/// How many moves one hold of the lock makes at most (I8). For what cannot be written as one of
/// `in_steps`, `scan` and `repeat`.
pub const AT_ONCE: usize = 64;

/// Which databases a process serves, helps or suspends, by oid; 0: no database.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct ProcessRole {
    pub pid: i32,
    /// The database whose scheduler the process is.
    pub schedules: u32,
    /// The database whose long work the process does, beside its scheduler.
    pub helps: u32,
    /// The database that the process's command needs for itself.
    pub suspends: u32,
}

/// How many reports of databases without the extension wait for the launcher at most.
pub const MAX_ABSENT: usize = 16;

/// The beginning of the segment; the slices follow.
#[repr(C)]
pub struct Shared {
    /// Signalled when a refill or a build ends: processes that wait for one check again.
    news: pg_sys::ConditionVariable,
    launcher: *mut pg_sys::Latch,
    schedulers: [*mut pg_sys::Latch; MAX_DATABASES],
    /// Databases that were looked into and do not have the extension.
    absent: [u32; MAX_ABSENT],
    /// Whether any queue refuses ready tasks beyond a number: to be read without the lock.
    refuses: AtomicBool,
    /// Whether any queue runs the tasks of each group in their order, as above.
    orders: AtomicBool,
    /// Set while the board is being changed. A process that takes the lock and finds it set knows
    /// that the board is half changed, and has it built again (I8).
    dirty: bool,
    header: Header,
}

thread_local! {
    static SHARED: Cell<Option<NonNull<Shared>>> = const { Cell::new(None) };
    static SLICES: Cell<Option<Slices>> = const { Cell::new(None) };
    static LOCK: Cell<*mut pg_sys::LWLock> = const { Cell::new(ptr::null_mut()) };
    static SQL_LOCK: Cell<*mut pg_sys::LWLock> = const { Cell::new(ptr::null_mut()) };
}

/// The slices behind `Shared`.
#[derive(Clone, Copy)]
struct Slices {
    board: BoardSlices,
    processes: *mut [ProcessRole],
    sql: *mut [SqlRecord],
    wants: *mut [SqlWant],
}

/// Where the next slice lies: the base, and how far from it.
struct Cursor(*mut u8, usize);

impl Cursor {
    fn slice<T>(&mut self, count: usize) -> *mut [T] {
        let at = self.1.next_multiple_of(CACHE_LINE);
        self.1 = at + count * size_of::<T>();
        ptr::slice_from_raw_parts_mut(self.0.wrapping_add(at).cast(), count)
    }
}

macro_rules! declare_board_slices {
    ($sizes:ident; $($name:ident: $record:ty, $count:expr;)*) => {
        #[derive(Clone, Copy)]
        struct BoardSlices {
            $($name: *mut [$record],)*
        }

        impl BoardSlices {
            fn lay_out($sizes: &Sizes, behind: &mut Cursor) -> BoardSlices {
                BoardSlices { $($name: behind.slice($count),)* }
            }

            /// # Safety
            /// The slices lie within memory that is the caller's as long as it uses them.
            unsafe fn lend<'a>(self, header: &'a mut Header) -> Parts<'a> {
                // SAFETY: the caller's promise; the slices do not overlap.
                unsafe { Parts { header, $($name: &mut *self.$name,)* } }
            }
        }
    };
}

board::slices!(declare_board_slices, sizes);

/// Lays the slices out behind `Shared`, which begins at `base`; also returns where they end. Reads
/// and writes no memory: with a null base the end is the size of the segment.
fn lay_out(base: *mut u8) -> (Slices, usize) {
    let sizes = Sizes::of(guc::board_size(), server::max_processes());
    let mut behind = Cursor(base, size_of::<Shared>());
    let slices = Slices {
        board: BoardSlices::lay_out(&sizes, &mut behind),
        processes: behind.slice(sizes.waiters),
        sql: behind.slice(guc::sql_workers()),
        wants: behind.slice(MAX_DATABASES),
    };
    (slices, behind.1)
}

/// Asks for the memory and hooks into its creation; called while the library is preloaded.
pub fn request_memory() {
    // SAFETY: the hooks are this process's, which is still alone; earlier ones are called first.
    unsafe {
        server::at_shmem_request(request);
        static mut BEFORE_STARTUP: pg_sys::shmem_startup_hook_type = None;
        #[pg_guard]
        unsafe extern "C-unwind" fn startup() {
            // SAFETY: written once, before the hook can be called.
            unsafe {
                if let Some(before) = BEFORE_STARTUP {
                    before();
                }
            }
            attach();
        }
        BEFORE_STARTUP = pg_sys::shmem_startup_hook;
        pg_sys::shmem_startup_hook = Some(startup);
    }
}

fn request() {
    // SAFETY: called where PostgreSQL takes such requests.
    unsafe {
        pg_sys::RequestAddinShmemSpace(lay_out(ptr::null_mut()).1);
        pg_sys::RequestNamedLWLockTranche(NAME.as_ptr(), 2);
    }
}

/// Lays the board out. After a crash this runs again, on memory that is zero: nothing of the old
/// board is trusted.
fn attach() {
    let mut found = false;
    // SAFETY: the memory is `end` bytes long and aligned to a cache line; `AddinShmemInitLock`
    // makes the first one here lay it out alone.
    unsafe {
        let lock = &raw mut (*pg_sys::MainLWLockArray.add(server::ADDIN_SHMEM_INIT_LOCK)).lock;
        pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
        let size = lay_out(ptr::null_mut()).1;
        let memory = pg_sys::ShmemInitStruct(NAME.as_ptr(), size, &mut found);
        let shared = memory.cast::<Shared>();
        let slices = lay_out(memory.cast()).0;
        SLICES.set(Some(slices));
        SHARED.set(NonNull::new(shared));
        let locks = pg_sys::GetNamedLWLockTranche(NAME.as_ptr());
        LOCK.set(&raw mut (*locks).lock);
        SQL_LOCK.set(&raw mut (*locks.add(1)).lock);
        if !found {
            pg_sys::ConditionVariableInit(&raw mut (*shared).news);
            (*shared).launcher = ptr::null_mut();
            (*shared).schedulers = [ptr::null_mut(); MAX_DATABASES];
            (*shared).absent = [0; MAX_ABSENT];
            (*slices.processes).fill(ProcessRole::default());
            (*slices.sql).fill_with(SqlRecord::default);
            (*slices.wants).fill_with(SqlWant::default);
            (*shared).refuses = AtomicBool::new(false);
            (*shared).orders = AtomicBool::new(false);
            (*shared).dirty = false;
            let mut seed = [0; 4];
            pg_sys::pg_strong_random(seed.as_mut_ptr().cast(), seed.len());
            board(shared).clear();
            board(shared).set_seed(u32::from_ne_bytes(seed));
        }
        pg_sys::LWLockRelease(lock);
    }
}

fn shared() -> NonNull<Shared> {
    SHARED.get().unwrap_or_else(|| error::not_preloaded().raise())
}

/// # Safety
/// `shared` is the start of the segment, which this process has attached, and the caller holds the
/// lock.
unsafe fn board<'a>(shared: *mut Shared) -> Board<'a> {
    let at = SLICES.get().unwrap_or_else(|| error::not_preloaded().raise());
    // SAFETY: the slices lie within the memory; every bit pattern that the board reads was written
    // by it: its pools only look at records that were used.
    unsafe { Board::on(at.board.lend(&mut (*shared).header)) }
}

/// Holds the lock; releases it when dropped, and takes the flag down only if all went well.
struct BoardGuard {
    shared: *mut Shared,
    done: bool,
}

impl Drop for BoardGuard {
    fn drop(&mut self) {
        // SAFETY: this process holds the lock.
        unsafe {
            if self.done {
                (*self.shared).dirty = false;
            }
            pg_sys::LWLockRelease(LOCK.get());
        }
    }
}

/// Runs `moves` on the board, alone. They must be few, and neither allocate, nor raise, nor wait
/// (I8). Whom they woke is told once the lock is free.
pub fn with_board<T>(moves: impl FnOnce(&mut Board) -> T) -> T {
    let (answer, mut called) = lock_board(moves);
    while let Some(process) = called {
        wake_process(process);
        called = lock_board(|_| ()).1;
    }
    answer
}

/// Makes a move for each of `items`, under holds of the lock that are short (I8). Returns what they
/// answered, in order.
pub fn in_steps<I, T>(
    items: impl IntoIterator<Item = I>,
    mut moves: impl FnMut(&mut Board, I) -> T,
) -> Vec<T> {
    let mut items = items.into_iter().peekable();
    let mut answers = Vec::with_capacity(items.size_hint().0);
    while items.peek().is_some() {
        answers.reserve(AT_ONCE);
        with_board(|board| {
            answers.extend(items.by_ref().take(AT_ONCE).map(|it| moves(board, it)));
        });
    }
    answers
}

/// Looks at each numbered record before `end`, under short holds of the lock, between which it can
/// be interrupted. Yields what each hold found.
pub fn scan<T>(
    end: impl Fn(&Board) -> u32,
    mut look: impl FnMut(&mut Board, u32) -> Option<T>,
) -> impl Iterator<Item = Vec<T>> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let from = next?;
        pgrx::check_for_interrupts!();
        let mut found = Vec::with_capacity(AT_ONCE);
        next = with_board(|board| {
            let end = end(board);
            let to = end.min(from + AT_ONCE as u32);
            found.extend((from..to).filter_map(|at| look(board, at)));
            (to < end).then_some(to)
        });
        Some(found)
    })
}

/// As `scan`, at the slots of a database, queued ones among them, if any of them is pinned.
pub fn scan_pinned<T>(
    entry: u32,
    look: impl Fn(&Board, &Slot, u32) -> Option<T>,
) -> impl Iterator<Item = Vec<T>> {
    scan(
        move |board| board.pinned_end(entry),
        move |board, at| look(board, board.slot_at(at, entry)?, at),
    )
}

/// Repeats a move under one short hold of the lock until it answers `None`, at most so many times.
/// An empty answer means that there is nothing more.
pub fn repeat<T>(most: usize, mut moves: impl FnMut(&mut Board) -> Option<T>) -> Vec<T> {
    let most = most.min(AT_ONCE);
    let mut answers = Vec::with_capacity(most);
    with_board(|board| answers.extend((0..most).map_while(|_| moves(board))));
    answers
}

/// Runs `moves` under the lock; also returns one of the processes that are to be told that they
/// were woken. A function of its own in the binary: `bench/run --only lock` counts what it runs.
#[inline(never)]
fn lock_board<T>(moves: impl FnOnce(&mut Board) -> T) -> (T, Option<u32>) {
    let shared = shared().as_ptr();
    // SAFETY: the lock makes the board this process's until `hold` is dropped. While it is held
    // interrupts are held off, so that no FATAL ends the process in between.
    unsafe {
        acquire(LOCK.get());
        let mut hold = BoardGuard { shared, done: false };
        let mut board = board(shared);
        if std::mem::replace(&mut (*shared).dirty, true) {
            // Every entry is vacant now; the next caller registers its database and has it built.
            board.clear();
        }
        let answer = moves(&mut board);
        let refuses = board.refuses();
        if (*shared).refuses.load(Ordering::Relaxed) != refuses {
            (*shared).refuses.store(refuses, Ordering::Relaxed);
        }
        let orders = board.orders();
        if (*shared).orders.load(Ordering::Relaxed) != orders {
            (*shared).orders.store(orders, Ordering::Relaxed);
        }
        let called = board.next_signalled();
        hold.done = true;
        (answer, called)
    }
}

/// Whether any queue of the server refuses ready tasks beyond a number. Without the lock: a change
/// is seen by all calls that begin after its commit.
pub fn any_queue_refuses() -> bool {
    // SAFETY: initialised with the memory.
    unsafe { (*shared().as_ptr()).refuses.load(Ordering::Relaxed) }
}

/// Whether any queue of the server runs the tasks of each group in their order. As above.
pub fn any_queue_keeps_order() -> bool {
    // SAFETY: initialised with the memory.
    unsafe { (*shared().as_ptr()).orders.load(Ordering::Relaxed) }
}

/// Marks the board as half changed, so that it is built again: it may lack what a transaction did.
pub fn discard_board() {
    locked(|shared| shared.dirty = true);
}

/// Runs `change` on what the processes have to do with databases, alone. It may neither allocate,
/// nor raise, nor wait.
pub(super) fn with_processes<T>(change: impl FnOnce(&mut [ProcessRole]) -> T) -> T {
    let slices = SLICES.get().unwrap_or_else(|| error::not_preloaded().raise());
    // SAFETY: the slice lies within the segment and is this process's while the lock is held.
    locked(|_| change(unsafe { &mut *slices.processes }))
}

/// The records of the processes that run SQL commands. Their fields are atomic: no lock is needed.
pub fn sql_records() -> &'static [SqlRecord] {
    let slices = SLICES.get().unwrap_or_else(|| error::not_preloaded().raise());
    // SAFETY: the slice lies within the segment, which lives as long as the process.
    unsafe { &*slices.sql }
}

/// What the databases wait for, by their entries on the board.
pub fn sql_wants() -> &'static [SqlWant] {
    let slices = SLICES.get().unwrap_or_else(|| error::not_preloaded().raise());
    // SAFETY: as in `sql_records`.
    unsafe { &*slices.wants }
}

/// Decides, alone, which record goes to whom. The decision may neither allocate, nor raise, nor
/// wait.
pub fn with_sql_lock<T>(decide: impl FnOnce() -> T) -> T {
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            // SAFETY: this process holds the lock.
            unsafe { pg_sys::LWLockRelease(SQL_LOCK.get()) };
        }
    }
    // SAFETY: the named lock of this library.
    unsafe { acquire(SQL_LOCK.get()) };
    let _guard = Guard;
    decide()
}

/// As `with_processes`, for the reports to the launcher.
pub(super) fn with_absent<T>(change: impl FnOnce(&mut [u32; MAX_ABSENT]) -> T) -> T {
    locked(|shared| change(&mut shared.absent))
}

/// Runs `change` under the board's lock, the board left as it is.
fn locked<T>(change: impl FnOnce(&mut Shared) -> T) -> T {
    let shared = shared().as_ptr();
    // SAFETY: the lock makes the memory this process's until the guard is dropped; of the flag,
    // which is not this one's, it changes nothing.
    unsafe {
        acquire(LOCK.get());
        let _guard = BoardGuard { shared, done: false };
        change(&mut *shared)
    }
}

/// How often the lock is tried before this process sleeps for it: a hold takes a microsecond or
/// two, a sleep and its waking ten.
const TRIES: u32 = 100;

unsafe fn acquire(lock: *mut pg_sys::LWLock) {
    // SAFETY: the named lock of this library.
    unsafe {
        for _ in 0..TRIES {
            if pg_sys::LWLockConditionalAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE) {
                return;
            }
            (0..16).for_each(|_| std::hint::spin_loop());
        }
        pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
    }
}

/// Tells everybody who waits to look again.
pub fn broadcast() {
    // SAFETY: initialised with the memory.
    unsafe { pg_sys::ConditionVariableBroadcast(&raw mut (*shared().as_ptr()).news) };
}

/// Waits until there are news, at most 20 ms. Interruptible (I9).
pub fn wait() {
    // SAFETY: as in broadcast; no lock is held. A sleep that is prepared at once may miss news
    // from before: hence the short limit.
    unsafe {
        let news = &raw mut (*shared().as_ptr()).news;
        pg_sys::ConditionVariablePrepareToSleep(news);
        pg_sys::ConditionVariableTimedSleep(news, 20, pg_sys::PG_WAIT_EXTENSION);
        pg_sys::ConditionVariableCancelSleep();
    }
    pgrx::check_for_interrupts!();
}

/// Makes this process the one that the launcher's calls wake, or the scheduler of a database.
pub fn serve_as(entry: Option<u32>) {
    // SAFETY: a process's latch lies in shared memory and outlives the process.
    unsafe {
        let shared = shared().as_ptr();
        match entry {
            None => (*shared).launcher = pg_sys::MyLatch,
            Some(entry) => (*shared).schedulers[entry as usize] = pg_sys::MyLatch,
        }
    }
}

pub fn wake_launcher() {
    // SAFETY: a latch once set stays a valid one; waking its next owner does no harm.
    unsafe { set_latch((*shared().as_ptr()).launcher) };
}

pub fn wake_scheduler(entry: u32) {
    // SAFETY: as in wake_launcher.
    unsafe { set_latch((*shared().as_ptr()).schedulers[entry as usize]) };
}

fn wake_process(process: u32) {
    // SAFETY: the number of a process that waited; its latch outlives it, as in wake_launcher.
    unsafe {
        set_latch(&raw mut (*(*pg_sys::ProcGlobal).allProcs.add(process as usize)).procLatch)
    };
}

unsafe fn set_latch(latch: *mut pg_sys::Latch) {
    if !latch.is_null() {
        // SAFETY: a latch of this server.
        unsafe { pg_sys::SetLatch(latch) };
    }
}

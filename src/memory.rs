//! Memory that runs out: an allocation that fails is an error of its call, in Rust as in
//! PostgreSQL.
//!
//! Reporting an error takes memory, too. pgrx copies it in the memory context that the failed
//! function was called in, and raises it by unwinding, which allocates. Without any memory left
//! that fails, and an error while an error is reported is a PANIC of the server or an abort of the
//! process. So each call holds some memory back, and an error releases it.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

/// What a call holds back for PostgreSQL, in bytes. The copy of an error may take a block of 1 MB:
/// the least that PostgreSQL makes do with in a context that has grown.
const FOR_POSTGRES: usize = 2 << 20;

/// And for Rust: an error on its way out is small.
const FOR_RUST: usize = 1 << 20;

/// How much of its stack each process has from its start, in bytes. A stack that has to grow while
/// no memory is left ends the process by SIGSEGV, for example as it rolls back.
const STACK: usize = 512 << 10;

/// Lets the postmaster's stack grow: the processes that it starts inherit that.
#[inline(never)]
pub fn grow_stack() {
    let mut room = [0_u8; STACK];
    for byte in room.iter_mut().step_by(4096) {
        // SAFETY: a byte of the array.
        unsafe { ptr::write_volatile(byte, 1) };
    }
    std::hint::black_box(&room);
}

/// A call that holds memory back. Calls nest, by functions of indexes.
struct Frame {
    /// How PostgreSQL tells of an error before anything handles it.
    callback: pg_sys::ErrorContextCallback,
    reserve: Reserve,
    outer: *mut Frame,
}

/// Two pieces of memory; null: released.
#[derive(Clone, Copy)]
struct Reserve {
    postgres: *mut c_void,
    rust: *mut c_void,
}

impl Reserve {
    const NONE: Reserve = Reserve { postgres: ptr::null_mut(), rust: ptr::null_mut() };
}

thread_local! {
    static INNERMOST: Cell<*mut Frame> = const { Cell::new(ptr::null_mut()) };
    /// The reserve that the last call has left, for the next one.
    static UNUSED: Cell<Reserve> = const { Cell::new(Reserve::NONE) };
}

/// The system's allocator, which takes what is held back when there is nothing else.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: the system's allocator, asked twice.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as of the caller.
        twice(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as of the caller.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as of the caller.
        twice(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as of the caller; where it fails, the old memory is untouched.
        twice(|| unsafe { System.realloc(memory, layout, new_size) })
    }
}

fn twice(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = allocate();
    if memory.is_null() && release(|it| &mut it.rust, FOR_RUST) { allocate() } else { memory }
}

/// Makes an allocation that fails in Rust an error; called while the library is preloaded.
pub fn raise_failed_allocations() {
    std::alloc::set_alloc_error_hook(|layout: Layout| {
        release_all();
        raise(layout.size())
    });
}

/// As PostgreSQL says it of its own allocations.
fn raise(bytes: usize) {
    ErrorReport::new(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, "out of memory", "")
        .set_detail(format!("Failed on request of size {bytes}."))
        .report(PgLogLevel::ERROR);
}

/// Runs `work` with some memory held back for an error.
pub fn with_reserve<T>(work: impl FnOnce() -> T) -> T {
    let mut frame = Frame {
        callback: pg_sys::ErrorContextCallback {
            callback: Some(message_is_reported),
            ..Default::default()
        },
        reserve: UNUSED.replace(Reserve::NONE),
        outer: INNERMOST.get(),
    };
    // SAFETY: the frame stays in its place until `Entered` is dropped, which takes it off both
    // lists.
    unsafe {
        frame.callback.previous = pg_sys::error_context_stack;
        pg_sys::error_context_stack = &mut frame.callback;
    }
    INNERMOST.set(&mut frame);
    let _entered = Entered(&mut frame);
    replenish();
    work()
}

struct Entered(*mut Frame);

impl Drop for Entered {
    fn drop(&mut self) {
        // An error is on its way out, to be reported to PostgreSQL from here.
        if std::thread::panicking() {
            release_all();
            // SAFETY: the one context that has room in any case; whatever handles the error goes to
            // another.
            unsafe { pg_sys::CurrentMemoryContext = pg_sys::ErrorContext };
        }
        // SAFETY: the frame outlives this, and is the innermost one: frames end in turn.
        unsafe {
            let frame = &*self.0;
            pg_sys::error_context_stack = frame.callback.previous;
            INNERMOST.set(frame.outer);
            let unused = UNUSED.replace(frame.reserve);
            unmap(unused.postgres, FOR_POSTGRES);
            unmap(unused.rust, FOR_RUST);
        }
    }
}

/// Holds memory back again after an error that did not end the call.
pub fn replenish() {
    let frame = INNERMOST.get();
    if !frame.is_null() {
        // SAFETY: the innermost frame is alive.
        let reserve = unsafe { &mut (*frame).reserve };
        map(&mut reserve.postgres, FOR_POSTGRES);
        map(&mut reserve.rust, FOR_RUST);
    }
}

fn map(piece: &mut *mut c_void, len: usize) {
    if piece.is_null() {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, that is never touched.
        let memory = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            raise(len);
        }
        *piece = memory;
    }
}

fn unmap(piece: *mut c_void, len: usize) {
    if !piece.is_null() {
        // SAFETY: memory that `map` got.
        unsafe { libc::munmap(piece, len) };
    }
}

/// Releases a piece of what the innermost call holds back; false if it was released before.
fn release(piece: fn(&mut Reserve) -> &mut *mut c_void, len: usize) -> bool {
    let frame = INNERMOST.get();
    if frame.is_null() {
        return false;
    }
    // SAFETY: the innermost frame is alive.
    let piece = std::mem::replace(unsafe { piece(&mut (*frame).reserve) }, ptr::null_mut());
    unmap(piece, len);
    !piece.is_null()
}

fn release_all() {
    release(|it| &mut it.postgres, FOR_POSTGRES);
    release(|it| &mut it.rust, FOR_RUST);
}

/// Called by PostgreSQL when a message is reported, before an error is handled.
unsafe extern "C-unwind" fn message_is_reported(_arg: *mut c_void) {
    // Of a code's five characters, each in six bits, the first two are its class.
    const CLASS: i32 = 0xfff;
    const NO_ERROR: [i32; 3] = [0, 1 << 6, 2 << 6];
    // SAFETY: reads the code of the message that is being reported.
    let class = unsafe { pg_sys::geterrcode() } & CLASS;
    if !NO_ERROR.contains(&class) {
        release(|it| &mut it.postgres, FOR_POSTGRES);
    }
}

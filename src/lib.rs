//! scylla: a task scheduler inside PostgreSQL.
//!
//! The tables are the truth, shared memory holds the ready order and the leases, background workers
//! act when time comes. From the SQL function down, a call goes through these folders; none imports
//! one above it:
//!
//! * [`api`]: the SQL functions. Check the arguments, call one operation, answer.
//! * [`scheduler`]: the background workers.
//! * [`ops`]: what can happen to a task, by subject.
//! * [`storage`]: finding, moving and linking rows.
//! * [`xact`]: what a transaction does to the board, when it ends.
//! * [`extension`]: this database's creation of the extension.
//! * [`shmem`]: shared memory, which has the board.
//! * [`pg`]: PostgreSQL's interfaces, wrapped thinly.
//! * `board` (a crate): the data structure itself, without PostgreSQL.

#![feature(alloc_error_hook)]

mod api;
mod error;
mod extension;
mod guc;
mod memory;
mod ops;
mod pg;
mod scheduler;
mod shmem;
mod storage;
mod xact;

use pgrx::prelude::*;

::pgrx::pg_module_magic!(name, version);

#[allow(non_snake_case)]
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    // SAFETY: a plain flag that the postmaster sets while it loads libraries.
    if !unsafe { pg_sys::process_shared_preload_libraries_in_progress } {
        error::not_preloaded().raise();
    }
    quieten();
    memory::raise_failed_allocations();
    memory::grow_stack();
    guc::define();
    pg::planner::register(extension::members::require_members);
    ops::query::live_paths::register();
    shmem::segment::request_memory();
    xact::register();
    xact::on_board::load_board_with(ops::supply::load_board::build);
    scheduler::register_launcher();
}

/// pgrx puts a backtrace into the DETAIL of PostgreSQL's own errors when RUST_BACKTRACE is set:
/// slow, and nothing for a client's eyes. RUST_LIB_BACKTRACE=1 brings it back.
fn quieten() {
    if std::env::var_os("RUST_LIB_BACKTRACE").is_none() {
        // SAFETY: the postmaster has one thread.
        unsafe { std::env::set_var("RUST_LIB_BACKTRACE", "0") };
    }
}

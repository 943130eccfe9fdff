//! scylla: a task scheduler inside PostgreSQL.
//!
//! The tables are the truth, shared memory is the desk, the background workers keep the clock.
//! A task's way: `doors` check a call's arguments, `moves` change the tables through kept
//! `statement`s, and the `desk` changes the board when the transaction ends.

mod api;
mod due;
mod error;
mod guc;
mod ops;
mod pg;
mod scheduler;
mod shmem;
mod storage;

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
    guc::define();
    shmem::segment::request_memory();
    shmem::on_board::load_board_with(ops::maintenance::load_board::build);
    scheduler::register_launcher();
}

/// pgrx puts a backtrace into the DETAIL of PostgreSQL's own errors when RUST_BACKTRACE is set: slow,
/// and nothing for a client's eyes. RUST_LIB_BACKTRACE=1 brings it back.
fn quieten() {
    if std::env::var_os("RUST_LIB_BACKTRACE").is_none() {
        // SAFETY: the postmaster has one thread.
        unsafe { std::env::set_var("RUST_LIB_BACKTRACE", "0") };
    }
}

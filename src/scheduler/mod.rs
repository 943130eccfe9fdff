//! The scheduler: one launcher a server, one worker a database that has the extension.

mod ddl_hook;
mod duties;
mod firing;
mod helper;
mod launcher;
mod process;
mod serve;
mod settings;
mod sql;

use crate::scheduler::process::builder;
use pgrx::pg_sys;
use std::time::Duration;

/// Registers the launcher; called while the library is preloaded.
pub fn register_launcher() {
    // SAFETY: a plain flag of the server. pg_upgrade wants no workers.
    if unsafe { pg_sys::IsBinaryUpgrade } {
        return;
    }
    ddl_hook::register();
    builder("scylla launcher", "scylla_launcher")
        .set_restart_time(Some(Duration::from_secs(1)))
        .load();
}

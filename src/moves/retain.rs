//! The partitions of the finished tasks: one a day, made ahead.

use crate::desk::Home;
use crate::moves::session;
use crate::payload;
use crate::statement::statement;
use pgrx::pg_sys;
use std::ffi::CString;

statement!(PARTITIONS, "partitions", []);

/// Makes the partitions that are missing among today's and the next days'. Returns how many.
pub fn make_partitions(home: &Home) -> usize {
    let session = session(home);
    let rows = session.run(&PARTITIONS, &[]);
    let commands: Vec<String> =
        (0..rows.len()).map(|row| payload::string(rows.get(row, 0))).collect();
    for command in &commands {
        let command = CString::new(command.as_str()).unwrap_or_default();
        // SAFETY: an SPI session is open; the command is made of dates only.
        unsafe { pg_sys::SPI_execute(command.as_ptr(), false, 0) };
    }
    commands.len()
}

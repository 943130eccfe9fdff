//! Schedules: registering them, firing their runs, counting how the runs end, and looking ahead.

pub mod catch_up;
pub mod counts;
pub mod cron;
pub mod cron_table;
pub mod definition;
pub mod fire;
pub mod owner;
pub mod register;
pub mod runs;
pub mod timing;
pub mod upcoming;

//! When schedules run: expressions against a naive implementation, changes of the clocks, policies.

mod clocks;
mod cron;
mod naive;
mod policies;
mod zones;

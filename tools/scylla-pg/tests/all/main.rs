//! The program, as it is called from a shell, against private servers. `test` runs them.

mod bulk;
mod connecting;
mod doctor;
mod metrics;
mod monitoring;
mod relay;
mod server;
mod tasks;
mod watching;
mod web;

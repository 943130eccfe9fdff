//! The tests, against servers that the script `test` and they themselves start.

mod examples;
mod handlers;
mod leases;
mod middleware;
mod package;
mod pooler;
mod processes;
mod proxy;
mod restarts;
mod server;
mod stop;
mod submit;
mod testing;

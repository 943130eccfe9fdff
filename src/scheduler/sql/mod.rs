//! SQL commands: the scheduler of a database owns the tasks of the queue `sql` and assigns each to
//! a process that runs it as its role. The process tells what became of the command, and the
//! scheduler returns the task.
//!
//! * `exchange`: what the two tell each other.
//! * `processes`: the processes, from the scheduler's side.
//! * `tasks`: the tasks, from owning to returning.
//! * `worker`: the process.

mod exchange;
mod processes;
mod tasks;
mod worker;

pub use processes::Orphans;
pub use tasks::SqlTasks;

//! What the view `queues` says of each queue, against the tables.

use crate::session::Session;
use crate::wait::{milliseconds, patience, sleep};
use std::time::{Duration, Instant};

/// What the view says of each queue: waiting, ready, running.
const SHOWN: &str =
    "select coalesce(string_agg(format('%s %s %s %s', queue, waiting, ready, running),
        ', ' order by queue), '')
    from scylla.queues where waiting is null or waiting + ready + running > 0";

/// The same, counted.
const COUNTED: &str =
    "select coalesce(string_agg(format('%s %s %s %s', queue, waiting, ready, running),
        ', ' order by queue), '')
    from (select queue, count(*) filter (where status = 'waiting') as waiting,
            count(*) filter (where status = 'ready') as ready,
            count(*) filter (where status = 'running') as running
        from scylla.tasks where status in ('waiting', 'ready', 'running') group by queue) t";

impl Session {
    /// Asserts that the view and the tables agree at last: the scheduler counts in the background
    /// after the board was built, and leases expire meanwhile.
    #[track_caller]
    pub fn counts_agree(&mut self, quiet: Duration) {
        let ends = Instant::now() + patience(quiet);
        loop {
            let (counted, shown) = (self.text(COUNTED), self.text(SHOWN));
            if counted == shown {
                return;
            }
            assert!(Instant::now() < ends, "shown: {shown}; counted: {counted}");
            sleep(milliseconds(20));
        }
    }
}

//! The queues of the load: one without limits, one with a limit, one of groups in order; and one
//! that a schedule fills.

use client::{Database, eventually, seconds};

pub struct Queue {
    pub name: &'static str,
    /// How many groups its tasks are in.
    pub groups: usize,
    pub max_running: Option<i32>,
    pub max_running_per_group: Option<i32>,
}

pub const QUEUES: [Queue; 3] = [
    Queue { name: "red", groups: 1, max_running: None, max_running_per_group: None },
    Queue { name: "green", groups: 4, max_running: Some(30), max_running_per_group: Some(10) },
    Queue { name: "blue", groups: 12, max_running: None, max_running_per_group: Some(1) },
];

/// The queue of the runs of a schedule, one each second.
pub const TICKS: &str = "ticks";

pub fn queue(name: &str) -> &'static Queue {
    QUEUES.iter().find(|it| it.name == name).expect("a queue of the load")
}

/// Sets the limits, and begins the schedule.
pub fn set_up(database: &Database) {
    let mut s = database.connect();
    for it in &QUEUES {
        let sql =
            "select scylla.configure_queue($1, max_running => $2, max_running_per_group => $3)";
        s.execute(sql, &[&it.name, &it.max_running, &it.max_running_per_group]).expect("limits");
    }
    let sql = "select scylla.schedule('tick', 'every 1 second', $1, misfire => 'all')";
    s.value::<i64>(sql, &[&TICKS]);
}

/// Ends the schedule when it has caught up. Asserts that each second of its time has one run;
/// returns how many these are.
pub fn end_ticks(database: &Database) -> usize {
    let mut s = database.connect();
    eventually(seconds(30), "the schedule has caught up", || {
        let late = "select count(*) from scylla.schedules where next_run < clock_timestamp()";
        (s.count(late) == 0).then_some(())
    });
    s.run("select scylla.unschedule('tick')");
    let look =
        "select count(*), count(distinct key), extract(epoch from max(t) - min(t))::bigint + 1
                from (select key, split_part(key, '@', 2)::timestamptz as t
                      from scylla.tasks where queue = $1) run";
    let row = s.query_one(look, &[&TICKS]).expect("the runs");
    let (all, keys, seconds): (i64, i64, Option<i64>) = (row.get(0), row.get(1), row.get(2));
    let said = format!("{all} runs, {keys} keys, in {seconds:?} seconds");
    assert!(all > 0 && all == keys && Some(all) == seconds, "{said}");
    all as usize
}

//! Clients that repeat a transaction until the time is up. Parameters and results are binary.

use crate::connection::connect;
use postgres::{Client, Row};
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Makes the transaction of a client: prepares its statements and returns what is repeated.
pub type Prepare = fn(Client, i32) -> Box<dyn FnMut()>;

/// Runs the clients, each in a thread; prints how many transactions were made, and how many a
/// second.
pub fn run(connection: &str, clients: usize, seconds: usize, size: usize, prepare: Prepare) {
    let size = i32::try_from(size).expect("a batch is not that large");
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let connection = connection.to_owned();
            thread::spawn(move || {
                let mut transaction = prepare(connect(&connection), size);
                let begun = Instant::now();
                let mut count = 0_u32;
                while begun.elapsed() < Duration::from_secs(seconds as u64) {
                    transaction();
                    count += 1;
                }
                (count, f64::from(count) / begun.elapsed().as_secs_f64())
            })
        })
        .collect();
    let (mut count, mut rate) = (0, 0.0);
    for thread in threads {
        let (of_client, its_rate) = thread.join().expect("a client failed");
        count += of_client;
        rate += its_rate;
    }
    println!("{count} {rate:.3}");
}

/// Owns tasks and returns them, each in a transaction of its own, with the statements of pgbench's
/// scripts work-1 and work-many; fails if there were fewer.
pub fn work(client: Client, size: i32) -> Box<dyn FnMut()> {
    if size == 1 { work_one(client) } else { work_many(client, size) }
}

fn work_one(mut client: Client) -> Box<dyn FnMut()> {
    let own = "select id, token from scylla.own_tasks('bench', 'bench')";
    let own = client.prepare(own).expect("prepare");
    let end = client.prepare("select scylla.return_task($1, $2)").expect("prepare");
    Box::new(move || {
        let task = client.query_one(&own, &[]).expect("own_tasks");
        let (id, token): (Uuid, Uuid) = (task.get(0), task.get(1));
        client.query_one(&end, &[&id, &token]).expect("return_task");
    })
}

fn work_many(mut client: Client, size: i32) -> Box<dyn FnMut()> {
    let own = "select array_agg(id), array_agg(token) from scylla.own_tasks('bench', 'bench', $1)";
    let own = client.prepare(own).expect("prepare");
    let end = "select cardinality(array_remove(scylla.return_tasks($1, $2), null))";
    let end = client.prepare(end).expect("prepare");
    Box::new(move || {
        let tasks = client.query_one(&own, &[&size]).expect("own_tasks");
        let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) = (tasks.get(0), tasks.get(1));
        let returned: i32 = client.query_one(&end, &[&ids, &tokens]).expect("return_tasks").get(0);
        assert_eq!(returned, size, "a task was not returned");
    })
}

/// Returns tasks and owns the next ones, in the statement of the client's worker; fails if there
/// were fewer. The last ones of each client are left to their leases.
pub fn joined(mut client: Client, size: i32) -> Box<dyn FnMut()> {
    let own = "select id, token from scylla.own_tasks('bench', 'bench', $1)";
    let both = "select case when o.ordinality is null or o.ordinality = 1 then r end, o.id, o.token, null::text,
            o.action, o.spec, o.priority, o.key, o.tries, o.num_failures, o.group_key, o.created, o.max_tries,
            o.meta, o.deadline, clock_timestamp()
        from scylla.return_many($2, $3, $4) as r
        left join lateral scylla.own_tasks('bench', 'bench', $1) with ordinality as o on true";
    let both = client.prepare(both).expect("prepare");
    let owned = client.query(own, &[&size]).expect("own_tasks");
    let (mut ids, mut tokens): (Vec<Uuid>, Vec<Uuid>) =
        owned.iter().map(|row| (row.get::<_, Uuid>(0), row.get::<_, Uuid>(1))).unzip();
    let outcomes = vec!["completed"; size as usize];
    Box::new(move || {
        let rows = client.query(&both, &[&size, &ids, &tokens, &outcomes]).expect("return_many");
        let task =
            |row: &Row| (row.get::<_, Uuid>(1), row.get::<_, Uuid>(2), row.get::<_, Value>(5));
        let tasks: Vec<(Uuid, Uuid, Value)> = rows.iter().map(task).collect();
        assert_eq!(tasks.len(), size as usize, "there were fewer tasks");
        (ids, tokens) = tasks.into_iter().map(|(id, token, _)| (id, token)).unzip();
    })
}

/// Submits tasks with small specs.
pub fn submit(mut client: Client, size: i32) -> Box<dyn FnMut()> {
    let specs: Vec<Value> = (1..=size).map(|n| json!({ "n": n })).collect();
    let submit =
        client.prepare("select cardinality(scylla.submit_many('bench', $1))").expect("prepare");
    Box::new(move || {
        let ids: i32 = client.query_one(&submit, &[&specs]).expect("submit_many").get(0);
        assert_eq!(ids, size);
    })
}

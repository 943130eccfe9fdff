//! A worker whose handler does nothing beside bare tokio-postgres that makes the same calls, in
//! turns: own and return in one statement, all columns of a task, singly, by 32 on one connection,
//! by 100 on three; without prepared statements, and with them.
//!
//! `DATABASE_URL=postgres://… cargo bench --bench overhead [-- ROUNDS]`

use std::{
    env,
    error::Error,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use scylla_pg::{
    Client, Connector, HandlerError, NewTasks, Task, Worker,
    tokio_postgres::{
        NoTls,
        types::{ToSql, Type},
    },
    uuid::Uuid,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Tasks that the worker has not run yet.
static LEFT: AtomicUsize = AtomicUsize::new(0);
static ALL_RAN: Notify = Notify::const_new();

async fn nothing(_: Task<Value>) -> Result<(), HandlerError> {
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        ALL_RAN.notify_one();
    }
    Ok(())
}

async fn worker(
    url: &str,
    queue: &str,
    concurrency: usize,
    prepares: bool,
    total: usize,
) -> Fallible<()> {
    LEFT.store(total, Ordering::Relaxed);
    let connector: Connector = url.parse()?;
    let worker = Worker::builder(connector).queue(queue).concurrency(concurrency);
    let worker = worker.prepared_statements(prepares).handler("", nothing).build()?;
    worker.run_until(ALL_RAN.notified()).await?;
    Ok(())
}

/// Until the queue is empty.
async fn bare(url: String, queue: String, each: i32, prepares: bool) -> Fallible<()> {
    let (client, connection) = scylla_pg::tokio_postgres::connect(&url, NoTls).await?;
    let connection = tokio::spawn(connection);
    let sql = "select o.* from scylla.return_many($1, $2, $3) r \
               left join lateral scylla.own_tasks('bare', $4, $5, '{\"\"}') o on true";
    let types = [Type::UUID_ARRAY, Type::UUID_ARRAY, Type::TEXT_ARRAY, Type::TEXT, Type::INT4];
    let prepared = if prepares { Some(client.prepare_typed(sql, &types).await?) } else { None };
    let (mut ids, mut tokens) = (Vec::<Uuid>::new(), Vec::<Uuid>::new());
    loop {
        let outcomes = vec!["completed"; ids.len()];
        let params: [&(dyn ToSql + Sync); 5] = [&ids, &tokens, &outcomes, &queue, &each];
        let rows = match &prepared {
            Some(statement) => client.query(statement, &params).await?,
            None => {
                let typed: Vec<_> = params.into_iter().zip(types.clone()).collect();
                client.query_typed(sql, &typed).await?
            }
        };
        ids.clear();
        tokens.clear();
        for row in &rows {
            let Some(id) = row.get(0) else { break };
            ids.push(id);
            tokens.push(row.get(1));
        }
        if ids.is_empty() {
            break;
        }
    }
    drop(client);
    connection.await??;
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main]
async fn main() -> Fallible<()> {
    let url = env::var("DATABASE_URL").map_err(|_| "DATABASE_URL says where the database is")?;
    let rounds = env::args().skip(1).find_map(|it| it.parse().ok()).unwrap_or(3);
    let client = Client::connect(url.parse::<Connector>()?);
    println!("prepared   concurrency   worker tasks/s   bare tasks/s   bare / worker");
    let sizes = [(1, 1, 1, 5_000), (32, 32, 1, 60_000), (300, 100, 3, 100_000)];
    let cases = [false, true].into_iter().flat_map(|prepares| sizes.map(|size| (prepares, size)));
    for (prepares, (concurrency, each, connections, total)) in cases {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            for is_bare in [false, true] {
                let queue = Uuid::now_v7().to_string();
                client.submit_many(NewTasks::new(queue.clone(), vec![json!({}); total])).await?;
                let begun = Instant::now();
                if is_bare {
                    let each = (0..connections)
                        .map(|_| tokio::spawn(bare(url.clone(), queue.clone(), each, prepares)));
                    for one in each.collect::<Vec<_>>() {
                        one.await??;
                    }
                } else {
                    worker(&url, &queue, concurrency, prepares, total).await?;
                }
                let rate = total as f64 / begun.elapsed().as_secs_f64();
                if is_bare { &mut theirs } else { &mut ours }.push(rate);
            }
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "{prepares:>8}   {concurrency:>11}   {ours:>14.0}   {theirs:>12.0}   {:>13.2}",
            theirs / ours
        );
    }
    Ok(())
}

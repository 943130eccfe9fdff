//! An order and the task that ships it are there together, or not at all.
//!
//! `DATABASE_URL=postgres://… cargo run --example transaction`

use std::{env, sync::Arc};

use scylla_pg::{
    Client, Connector, Error, Handler, HandlerError, NewTask, Spec, Task, Worker,
    deadpool_postgres::{Manager, Pool},
    tokio_postgres::{Config, NoTls},
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

#[derive(Serialize, Deserialize)]
struct Ship {
    order: i32,
}

impl Spec for Ship {
    const QUEUE: &'static str = "shop";
    const ACTION: &'static str = "ship";
}

/// A handler that has what its work needs.
struct Shipping {
    pool: Pool,
    shipped: Arc<Notify>,
}

impl Handler<Ship> for Shipping {
    type Output = ();
    type Error = HandlerError;

    async fn handle(&self, task: Task<Ship>) -> Result<(), HandlerError> {
        let connection = self.pool.get().await?;
        // run twice, it does no harm
        let sql = "update orders set shipped = true where number = $1";
        connection.execute(sql, &[&task.spec.order]).await?;
        println!("order {} is shipped", task.spec.order);
        self.shipped.notify_one();
        Ok(())
    }
}

async fn order(pool: &Pool, client: &Client, number: i32, paid: bool) -> Result<(), Error> {
    let mut connection = pool.get().await?;
    let tx = connection.transaction().await?;
    tx.execute("insert into orders values ($1)", &[&number]).await?;
    client.in_tx(&tx).submit(NewTask::from(Ship { order: number }).priority(5)).await?;
    if paid {
        tx.commit().await?;
    } else {
        tx.rollback().await?; // and there is no task
        println!("order {number} is not paid");
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = env::var("DATABASE_URL").expect("DATABASE_URL says where the database is");
    let config: Config = url.parse()?;
    let pool = Pool::builder(Manager::new(config.clone(), NoTls)).build().expect("a pool");
    let table =
        "create table if not exists orders (number int, shipped boolean not null default false)";
    pool.get().await?.execute(table, &[]).await?;

    let client = Client::new(pool.clone());
    order(&pool, &client, 1, false).await?;
    order(&pool, &client, 2, true).await?;

    let shipped = Arc::new(Notify::new());
    let handler = Shipping { pool, shipped: shipped.clone() };
    let worker = Worker::builder(Connector::from(config)).register(handler).build()?;
    worker.run_until(async move { shipped.notified().await }).await
}

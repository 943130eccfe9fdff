// An order and the task that ships it: both, or neither.
import pg from "pg";
import { Client } from "scylla-pg";

const pool = new pg.Pool();
const tasks = new Client(pool);
await pool.query("create table if not exists orders (id int primary key)");

async function order(id: number): Promise<string> {
  const connection = await pool.connect();
  try {
    await connection.query("begin");
    const task = await tasks.with(connection).submit("shop", { order: id }, { action: "ship", key: `order-${id}` });
    await connection.query("insert into orders values ($1)", [id]);
    await connection.query("commit");
    return task;
  } catch (error) {
    await connection.query("rollback");
    throw error;
  } finally {
    connection.release();
  }
}

const task = await order(1);
console.log((await tasks.task(task)).status);
await order(1).catch((error: Error) => console.log(error.name));
await pool.query("delete from orders");
await tasks.delete([task]);
await pool.query("insert into orders values (2)");
await order(2).catch((error: Error) => console.log(`${error.message.split(" ")[0]}: no task for the order that failed`));
console.log(await tasks.taskId("shop", "order-2"));
await pool.query("drop table orders");
await pool.end();

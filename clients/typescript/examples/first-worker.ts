// A worker and a client in one process. The connection comes from PGHOST, PGUSER, PGDATABASE ….
import pg from "pg";
import { Client, Worker } from "scylla-pg";
import { pgConnector } from "scylla-pg/pg";

const worker = new Worker(pgConnector(pg.Client), {
  queues: "mail",
  handlers: {
    welcome: async (task) => {
      const { to } = task.spec as { to: string };
      console.log(`welcome, ${to}`);
      return { sent: true };
    },
  },
});
await worker.start();

const pool = new pg.Pool();
const client = new Client(pool);
const id = await client.submit("mail", { to: "ann@example.com" }, { action: "welcome", postResult: true });
console.log(await client.result(id));

await worker.stop();
await pool.end();

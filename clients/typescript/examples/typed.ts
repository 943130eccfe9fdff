// One definition for both sides: the client checks what it submits, the worker gets what the schema makes of it.
import pg from "pg";
import { Abort, Client, defineTask, handle, Snooze, Worker } from "scylla-pg";
import { pgConnector } from "scylla-pg/pg";
import { z } from "zod";

const resize = defineTask("images", "resize", z.object({ url: z.url(), width: z.number().int().positive() }));

let busy = true;
await using worker = new Worker(pgConnector(pg.Client), {
  queues: resize.queue,
  concurrency: 4,
  handlers: {
    resize: handle(
      resize,
      async (task) => {
        if (task.spec.width > 10_000) throw new Abort("too_wide", `${task.spec.width} pixels`);
        if (busy) {
          busy = false;
          throw new Snooze(100); // a tenth of a second later, and no try is counted
        }
        task.progress(0.5);
        task.signal.throwIfAborted(); // cancelled, lease lost, time-out or shutdown
        return `${task.spec.url}?w=${task.spec.width}`;
      },
      { timeLimit: 30_000 },
    ),
  },
});
await worker.start();

const pool = new pg.Pool();
const client = new Client(pool);
const good = await client.submit(resize, { url: "https://example.com/a.png", width: 320 }, { postResult: true });
console.log(await client.result(good));
const wide = await client.submit(resize, { url: "https://example.com/a.png", width: 20_000 }, { postResult: true });
await client.result(wide).catch((error: Error) => console.log(error.message.replace(wide, "…")));
// @ts-expect-error: a width is a number
await client.submit(resize, { url: "https://example.com/a.png", width: "wide" }).catch((error: Error) => console.log(error.name));
await pool.end();

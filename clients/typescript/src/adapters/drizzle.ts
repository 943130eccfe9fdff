import { sql, type SQL } from "drizzle-orm";
import type { Queryable } from "../sql.js";

/** What this adapter needs of Drizzle: a database for PostgreSQL, or a transaction of it. */
export interface DrizzleLike {
  execute(query: SQL): PromiseLike<any>;
}

/** Statements through Drizzle, in its transaction if it is one. */
export function fromDrizzle(db: DrizzleLike): Queryable {
  return {
    async query(text, values = []) {
      const query = sql.empty();
      let at = 0;
      for (const { index, 0: placeholder, 1: number } of text.matchAll(/\$(\d+)/g)) {
        query.append(sql.raw(text.slice(at, index))).append(sql`${values[Number(number) - 1] ?? null}`);
        at = index + placeholder.length;
      }
      query.append(sql.raw(text.slice(at)));
      const result = await db.execute(query);
      // node-postgres gives { rows }, postgres.js an array
      return { rows: Array.isArray(result) ? [...result] : result.rows };
    },
  };
}

import { CompiledQuery } from "kysely";
import type { Queryable } from "../sql.js";

/** What this adapter needs of Kysely: an instance, or a transaction of it. */
export interface KyselyLike {
  executeQuery(query: CompiledQuery<any>): Promise<{ rows: any[] }>;
}

/** Statements through Kysely, in its transaction if it is one. */
export function fromKysely(db: KyselyLike): Queryable {
  return {
    async query(text, values = []) {
      return { rows: (await db.executeQuery(CompiledQuery.raw(text, [...values]))).rows };
    },
  };
}

import type { Queryable } from "../sql.js";

/** What this adapter needs of Knex: an instance, or a transaction of it. */
export interface KnexLike {
  raw(text: string, bindings: any): PromiseLike<any>;
}

/** Statements through Knex, in its transaction if it is one. */
export function fromKnex(knex: KnexLike): Queryable {
  return {
    async query(text, values = []) {
      // Knex counts question marks, and this library's placeholders may come in any order
      const bindings: (string | null)[] = [];
      const sql = text.replace(/\$(\d+)/g, (_, number: string) => {
        bindings.push(values[Number(number) - 1] ?? null);
        return "?";
      });
      return { rows: (await knex.raw(sql, bindings)).rows };
    },
  };
}

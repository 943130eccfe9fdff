import type { Connection, Connector } from "../link.js";
import type { Queryable, Row } from "../sql.js";

/** What this adapter needs of postgres.js: `sql`, the `sql` of a transaction, or a reserved one. */
export interface PostgresSql {
  unsafe(text: string, values?: any[], options?: any): PromiseLike<readonly any[]>;
}

/** Statements through `sql`: outside of transactions, or in the one that `sql` is of. */
export function fromPostgres(sql: PostgresSql): Queryable {
  return { query: async (text, values = []) => ({ rows: [...(await sql.unsafe(text, values))] as Row[] }) };
}

/**
 * Connections for a worker, through postgres.js.
 * @param postgres the function that the package `postgres` exports
 * @param config what that function takes: a connection string, options, or both in an array
 */
export function postgresConnector(
  postgres: (...args: any[]) => PostgresSql & { end(options?: { timeout?: number }): Promise<void> },
  ...config: [string | Record<string, unknown>, Record<string, unknown>?] | []
): Connector {
  return {
    async connect(applicationName): Promise<Connection> {
      const [first, second] = config;
      const [url, options] = typeof first === "string" ? [first, second] : [undefined, first];
      let ended = false;
      const callbacks: (() => void)[] = [];
      const end = () => {
        if (ended) return;
        ended = true;
        for (const callback of callbacks.splice(0)) callback();
      };
      const settings = {
        connect_timeout: 10,
        onnotice: () => {},
        ...options,
        max: 1,
        idle_timeout: 0,
        max_lifetime: null,
        fetch_types: false,
        backoff: false,
        connection: { ...(options?.connection as object | undefined), application_name: applicationName },
        onclose: end,
      };
      const sql = url === undefined ? postgres(settings) : postgres(url, settings);
      const destroy = () => {
        end();
        void sql.end({ timeout: 0 }).catch(() => {});
      };
      const query: Connection["query"] = async (text, values = [], prepare = false) => {
        // postgres.js would connect again, and to another session
        if (ended) throw new Error("the connection has ended");
        return { rows: [...(await sql.unsafe(text, values, { prepare }))] as Row[] };
      };
      try {
        await query("select 1");
      } catch (error) {
        destroy();
        throw error;
      }
      return {
        query,
        close: async () => {
          end();
          await sql.end({ timeout: 1 });
        },
        destroy,
        onEnd: (callback) => {
          if (ended) callback();
          else callbacks.push(callback);
        },
      };
    },
  };
}

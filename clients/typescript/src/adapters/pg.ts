import type { Connection, Connector } from "../link.js";
import type { Row } from "../sql.js";

/** What this adapter needs of the class `Client` of `pg`. */
export interface PgClient {
  connect(): Promise<unknown>;
  query(text: string, values?: (string | null)[]): Promise<{ rows: Row[] }>;
  end(): Promise<void>;
  on(event: "error", listener: (error: Error) => void): unknown;
  once(event: "end", listener: () => void): unknown;
}

/**
 * Connections for a worker, through `pg`.
 * @param Client the class: `pg.Client`
 * @param config what that class takes: a connection string, an object, or a function that gives either,
 *   called for each connect, for example to read a password that changes
 */
export function pgConnector<Config extends object>(
  Client: new (config?: any) => PgClient,
  config: string | Config | (() => string | Config | Promise<string | Config>) = {} as Config,
): Connector {
  return {
    async connect(applicationName): Promise<Connection> {
      const given = typeof config === "function" ? await (config as () => string | Config | Promise<string | Config>)() : config;
      const client = new Client({
        keepAlive: true,
        connectionTimeoutMillis: 10_000,
        ...(typeof given === "string" ? { connectionString: given } : given),
        application_name: applicationName,
      });
      let ended = false;
      const callbacks: (() => void)[] = [];
      const end = () => {
        if (ended) return;
        ended = true;
        for (const callback of callbacks.splice(0)) callback();
      };
      client.on("error", end); // an idle connection that breaks; a running query reports it
      client.once("end", end);
      const destroy = () => {
        end();
        // pg has no cancel, and `end` would wait for the statement
        (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
      };
      try {
        await client.connect();
      } catch (error) {
        destroy();
        throw error;
      }
      return {
        query: (text, values) => client.query(text, values),
        close: async () => {
          end();
          await client.end();
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

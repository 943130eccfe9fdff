import { createHash } from "node:crypto";
import type { Connection, Connector } from "../link.js";
import type { Row } from "../sql.js";

/** What this adapter needs of the class `Client` of `pg`. */
export interface PgClient {
  connect(): Promise<unknown>;
  query(query: { text: string; values?: (string | null)[] | undefined; name?: string }): Promise<{ rows: Row[] }>;
  end(): Promise<void>;
  on(event: "error", listener: (error: Error) => void): unknown;
  once(event: "end", listener: () => void): unknown;
}

/**
 * The connection strings of the hosts of one: `pg` itself takes a single host.
 * @internal
 */
export function eachHost(text: string): string[] {
  const parts = /^(\w+:\/\/(?:[^@/]*@)?)([^/?]*)(.*)$/.exec(text);
  if (!parts?.[2]?.includes(",")) return [text];
  const [, before, hosts, after] = parts;
  const rest = after!.replace(/([?&])target_session_attrs=[^&]*(&|$)/, (_, first, last) => (last ? first : ""));
  return hosts!.split(",").map((host) => `${before}${host}${rest}`);
}

/**
 * Connections for a worker, through `pg`.
 * @param Client the class: `pg.Client`
 * @param config what that class takes: a connection string, an object, or a function that gives either,
 *   called for each connect, for example to read a password that changes. A connection string may name
 *   several hosts, `postgres://app@one:5432,two:5432/app`: the first one that takes writes is taken
 */
export function pgConnector<Config extends object>(
  Client: new (config?: any) => PgClient,
  config: string | Config | (() => string | Config | Promise<string | Config>) = {} as Config,
): Connector {
  return {
    async connect(applicationName): Promise<Connection> {
      const given = typeof config === "function" ? await (config as () => string | Config | Promise<string | Config>)() : config;
      const { connectionString, ...others } =
        typeof given === "string" ? { connectionString: given } : (given as { connectionString?: string });
      if (connectionString === undefined) return await open(Client, applicationName, given as object);
      const hosts = eachHost(connectionString);
      let failure: unknown;
      for (const host of hosts) {
        try {
          const connection = await open(Client, applicationName, { ...others, connectionString: host });
          if (hosts.length === 1) return connection;
          const { rows } = await connection.query("show transaction_read_only");
          if (rows[0]!.transaction_read_only === "off") return connection;
          connection.destroy();
          failure = new Error("each of the hosts takes reads only");
        } catch (error) {
          failure = error;
        }
      }
      throw failure;
    },
  };
}

async function open(Client: new (config?: any) => PgClient, applicationName: string, config: object): Promise<Connection> {
  const client = new Client({
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
    ...config,
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
    query: (text, values, prepare) => client.query(prepare ? { text, values, name: nameOf(text) } : { text, values }),
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
}

const names = new Map<string, string>();

/** The same for each session: behind a pooler a name is never another statement's. */
function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) names.set(text, (name = `scylla_${createHash("sha256").update(text).digest("hex").slice(0, 32)}`));
  return name;
}

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { until } from "./server.js";

export interface Said {
  event: "ready" | "begin" | "stop" | "end" | "stopped" | "log";
  [more: string]: any;
}

/** A worker in a process of its own. */
export interface WorkerProcess extends AsyncDisposable {
  process: ChildProcess;
  said: Said[];
  /** Waits until it has said something. */
  says(event: Said["event"], more?: object): Promise<Said>;
  /** Waits until it has ended; its exit status, or the signal that ended it. */
  ended(): Promise<number | string>;
}

export async function workerProcess(config: object, options: object = {}): Promise<WorkerProcess> {
  const program = fileURLToPath(new URL("worker-process.js", import.meta.url));
  const child = spawn(process.execPath, [program, JSON.stringify(config), JSON.stringify(options)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const said: Said[] = [];
  createInterface({ input: child.stdout! }).on("line", (line) => said.push(JSON.parse(line)));
  const exit = once(child, "exit");
  const self: WorkerProcess = {
    process: child,
    said,
    says: async (event, more = {}) =>
      await until(`${event} ${JSON.stringify(more)}`, () =>
        said.find((line) => line.event === event && Object.entries(more).every(([key, value]) => line[key] === value)),
      ),
    ended: async () => {
      const [code, signal] = (await exit) as [number | null, string | null];
      return code ?? signal!;
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill("SIGKILL");
        await exit;
      }
    },
  };
  await self.says("ready");
  return self;
}

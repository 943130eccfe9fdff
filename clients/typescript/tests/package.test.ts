import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { database, type Database } from "./lib/server.js";

const run = promisify(execFile);
const home = fileURLToPath(new URL("../..", import.meta.url));
const manifest = JSON.parse(readFileSync(join(home, "package.json"), "utf8")) as { version: string; exports: Record<string, unknown>; dependencies?: object };

let db: Database;
let folder: string;
before(async () => {
  db = await database();
  folder = mkdtempSync(join(process.env.SCYLLA_FOLDER ?? "/tmp", "package-"));
  // from the packed file, into a project with nothing else; the drivers are those of this folder
  await run("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], { cwd: home });
  const [packed] = readdirSync(folder);
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "consumer", private: true }));
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", "--omit=peer", join(folder, packed!)], { cwd: folder });
  assert.deepEqual(readdirSync(join(folder, "node_modules")).filter((name) => !name.startsWith(".")), ["scylla-pg"]);
  for (const name of ["pg", "@types/pg", "@types/node", "drizzle-orm", "kysely", "@opentelemetry/api"]) {
    const from = join(home, "node_modules", name);
    const to = join(folder, "node_modules", name);
    mkdirSync(dirname(to), { recursive: true });
    symlinkSync(from, to);
  }
});
after(async () => {
  rmSync(folder, { recursive: true, force: true });
  await db[Symbol.asyncDispose]();
});

const program = `
  const pool = new pg.Pool();
  const worker = new Worker(pgConnector(pg.Client), { queues: "packed", handlers: { "*": (task) => task.spec }, logger: { info() {}, warn: console.warn, error: console.error } });
  await worker.start();
  const client = new Client(pool);
  console.log(await client.result(await client.submit("packed", "works", { postResult: true })));
  await worker.stop();
  await pool.end();
`;
const modules = Object.keys(manifest.exports).filter((name) => name !== "./package.json").map((name) => join("scylla-pg", name));

test("the package has no dependency at run time, and holds what it should", () => {
  assert.equal(manifest.dependencies, undefined);
  const there = readdirSync(join(folder, "node_modules/scylla-pg"));
  assert.deepEqual(there.sort(), ["CHANGELOG.md", "LICENSE", "README.md", "dist", "package.json"]);
  assert.match(readFileSync(join(folder, "node_modules/scylla-pg/CHANGELOG.md"), "utf8"), new RegExp(`^## ${manifest.version.replaceAll(".", "\\.")}`, "m"));
});

const kinds = {
  "main.mjs": `${modules.map((name) => `import ${JSON.stringify(name)};`).join("\n")}
    import pg from "pg"; import { Client, Worker } from "scylla-pg"; import { pgConnector } from "scylla-pg/pg";
    ${program}`,
  "main.cjs": `${modules.map((name) => `require(${JSON.stringify(name)});`).join("\n")}
    const pg = require("pg"); const { Client, Worker } = require("scylla-pg"); const { pgConnector } = require("scylla-pg/pg");
    (async () => { ${program} })();`,
};
for (const [name, text] of Object.entries(kinds)) {
  test(`${name} loads each module, and works`, async () => {
    writeFileSync(join(folder, name), text);
    const { stdout, stderr } = await run(process.execPath, [name], { cwd: folder, env: { ...process.env, PGDATABASE: db.config.database }, timeout: 30_000 });
    assert.equal(stdout, "works\n");
    assert.equal(stderr, "");
  });
}

test("types are found and hold, for both kinds of modules", async () => {
  const types = `
    import pg from "pg";
    import { Client, Worker, handle, defineTask, type StandardSchema } from "scylla-pg";
    import { pgConnector } from "scylla-pg/pg";
    declare const schema: StandardSchema<{ a: string }, { a: Date }>;
    const definition = defineTask("q", "a", schema);
    const client = new Client(new pg.Pool());
    export const id: Promise<string> = client.submit(definition, { a: "" });
    export const known: Promise<string | null> = client.submit("q", {}, { key: "k", onConflict: "ignore" });
    // @ts-expect-error: the input has a string
    void client.submit(definition, { a: new Date() });
    // @ts-expect-error: ignore may give null
    export const wrong: Promise<string> = client.submit("q", {}, { onConflict: "ignore" });
    // @ts-expect-error: no such option
    void client.submit("q", {}, { prio: 1 });
    export const worker = new Worker(pgConnector(pg.Client, { host: "h" }), {
      queues: "q",
      handlers: { a: handle(definition, (task) => task.spec.a.getTime()), b: (task) => task.signal.aborted },
    });
  `;
  for (const file of ["types.mts", "types.cts"]) writeFileSync(join(folder, file), types);
  const tsc = join(home, "node_modules/typescript/bin/tsc");
  const strict = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,esnext.disposable", "--esModuleInterop", "--types", "node"];
  await run(process.execPath, [tsc, ...strict, "--skipLibCheck", "types.mts", "types.cts"], { cwd: folder }).catch((error: { stdout: string }) => assert.fail(error.stdout));
});

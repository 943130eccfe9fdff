// The pages of docs/ with TypeScript in them, followed as a reader would.
import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { database } from "./lib/server.js";

const run = promisify(execFile);
const build = fileURLToPath(new URL("../pages/", import.meta.url));
const tsc = fileURLToPath(new URL("../../node_modules/typescript/bin/tsc", import.meta.url));
const { SCYLLA_REPO: repo = "", SCYLLA_BIN: bin = "", PATH: path = "" } = process.env;
const docs = join(repo, "docs");
const pages = (readdirSync(docs, { recursive: true }) as string[]).filter(
  (page) => page.endsWith(".md") && readFileSync(join(docs, page), "utf8").includes("\n```ts\n"),
);
if (!pages.includes("tutorial/typescript.md")) throw new Error("the tutorial is missing");

for (const page of pages) {
  test(`the page ${page} can be followed`, async () => {
    await using db = await database();
    const folder = join(build, page.replaceAll("/", "-"));
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const config = { extends: "../../../tsconfig.json", compilerOptions: { rootDir: ".", outDir: ".", declaration: false }, include: ["*.ts"], exclude: [] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
    const options = ["--build", `${process.execPath} ${tsc} -p .`, "--rename", ".ts=.js"];
    await run(join(repo, "scripts/check/follow"), ["ts", join(docs, page), folder, ...options], {
      env: { ...process.env, PGDATABASE: db.config.database, PATH: `${bin}:${path}` }, timeout: 120_000,
    });
  });
}

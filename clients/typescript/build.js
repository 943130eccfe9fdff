// Builds both kinds of modules into dist/, with their types.
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

process.chdir(import.meta.dirname ?? new URL(".", import.meta.url).pathname);
const { version } = JSON.parse(readFileSync("package.json", "utf8"));
if (!readFileSync("src/version.ts", "utf8").includes(`"${version}"`)) throw new Error(`src/version.ts is not ${version}`);
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
rmSync("dist", { recursive: true, force: true });
for (const project of ["tsconfig.json", "tsconfig.cjs.json"]) {
  execFileSync(process.execPath, [tsc, "-p", project], { stdio: "inherit" });
}
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');

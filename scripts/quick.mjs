// The answer while working: format, lints, tidy, the unit and in-process tests of the crates that changed since BASE (default
// HEAD) and of those that use them, and ten seconds of a challenge. `make test` runs everything.
//
// All programs are built with the whole workspace selected, as `make test` builds them: one set of features, nothing built twice.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const base = process.env.BASE || "HEAD";
const target = resolve(root, process.env.CARGO_TARGET_DIR || "target");
const env = { ...process.env, PEERS: "no" };
const seconds = [];

/** Runs a program; what it prints is returned if `quiet`, else shown. */
function run(program, args, { quiet = false, cwd = root } = {}) {
  const stdio = quiet ? ["ignore", "pipe", "inherit"] : ["ignore", "inherit", "inherit"];
  return spawnSync(program, args, { cwd, env, stdio, encoding: "utf8", maxBuffer: 1 << 30 });
}

function output(program, args) {
  const { status, stdout } = run(program, args, { quiet: true });
  if (status !== 0) process.exit(2);
  return stdout;
}

/** One step with its time. A step that fails ends the run. */
async function step(name, work) {
  const begin = Date.now();
  const good = await work();
  seconds.push([name, (Date.now() - begin) / 1000]);
  if (!good) {
    summary();
    console.error(`make quick: ${name} failed; what it says stands above`);
    process.exit(1);
  }
}

function summary() {
  const total = seconds.reduce((sum, [, time]) => sum + time, 0);
  for (const [name, time] of [...seconds, ["all", total]]) console.log(`make quick: ${time.toFixed(1).padStart(6)} s  ${name}`);
}

const cargo = (...args) => run("cargo", args).status === 0;

/** Packages of the workspace: name, folder, and the packages that it uses, for its tests too. */
function packages() {
  const all = JSON.parse(output("cargo", ["metadata", "--format-version", "1", "--no-deps", "--locked"])).packages;
  const names = new Set(all.map((one) => one.name));
  return all.map((one) => ({
    name: one.name,
    id: one.id,
    folder: relative(root, dirname(one.manifest_path)),
    uses: one.dependencies.filter((used) => names.has(used.name) && used.kind !== "dev").map((used) => used.name),
    tests_use: one.dependencies.filter((used) => names.has(used.name)).map((used) => used.name),
    tests: one.targets.filter((of) => of.kind.includes("test")).map((of) => of.name),
  }));
}

/** Files that changed since BASE, those that git does not know yet among them. */
function changed_files() {
  const lines = output("git", ["diff", "--name-only", base, "--"]) + output("git", ["ls-files", "--others", "--exclude-standard"]);
  return lines.split("\n").filter(Boolean);
}

/** The packages that changed, and those that use them, directly or not. */
function affected(all, files) {
  if (files.some((file) => /^(Cargo\.(toml|lock)|\.cargo\/|rust-toolchain)/.test(file))) return new Set(all.map((one) => one.name));
  const owner = (file) => all.filter((one) => file.startsWith(`${one.folder}/`)).sort((a, b) => b.folder.length - a.folder.length)[0];
  // The report page is part of the binary.
  const found = new Set(files.map((file) => (file.startsWith("web/src/") ? "weir-challenge" : owner(file)?.name)).filter(Boolean));
  for (let size = -1; size !== found.size; ) {
    size = found.size;
    for (const one of all) if (one.uses.some((used) => found.has(used))) found.add(one.name);
  }
  for (const one of all) if (one.tests_use.some((used) => found.has(used))) found.add(one.name);
  return found;
}

/** Builds the test programs that are to run, and tells where they are. */
function build(all, chosen) {
  // A test of the package `weir` has its binary built, which the challenge needs.
  const tests = all.filter((one) => chosen.has(one.name) || one.name === "weir").flatMap((one) => one.tests.map((test) => `--test=${test}`));
  const args = ["test", "--workspace", "--locked", "--no-run", "--lib", "--bins", ...tests, "--message-format=json-render-diagnostics"];
  const { status, stdout } = run("cargo", args, { quiet: true });
  const built = stdout.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  const programs = built.filter((one) => one.profile?.test && one.executable);
  // In-process tests take longest: they begin.
  programs.sort((a, b) => Number(b.target.kind.includes("test")) - Number(a.target.kind.includes("test")));
  const of = new Map(all.map((one) => [one.id, one]));
  return { good: status === 0, programs: programs.map((one) => ({ program: one.executable, of: of.get(one.package_id) })) };
}

/** Runs a test program; what it prints is shown if it fails. */
function test({ program, of }) {
  return new Promise((ended) => {
    const running = spawn(program, ["-q"], { cwd: join(root, of.folder), env, stdio: ["ignore", "pipe", "pipe"] });
    const said = [];
    for (const stream of [running.stdout, running.stderr]) stream.on("data", (data) => said.push(data));
    running.on("error", (error) => said.push(Buffer.from(`${error}\n`)));
    running.on("close", (status) => {
      if (status !== 0) console.error(`${Buffer.concat(said)}\nfailed: ${program}`);
      ended(status === 0);
    });
  });
}

/** Runs them side by side: they wait for most of their time. */
async function test_all(programs) {
  const left = [...programs];
  let good = true;
  const worker = async () => {
    for (let next = left.shift(); next; next = left.shift()) good = (await test(next)) && good;
  };
  await Promise.all(Array.from({ length: availableParallelism() + 2 }, worker));
  return good;
}

const all = packages();
const files = changed_files();
const touched = affected(all, files);
// The black-box tests speak to the binary and to other people's programs: `make blackbox`.
const chosen = new Set([...touched].filter((name) => name !== "weir-tests"));
const passed = all.filter((one) => !chosen.has(one.name)).map((one) => one.name);
console.log(`make quick: ${files.length} files changed since ${base}; tests of ${[...chosen].sort().join(", ") || "no crate"}`);

await step("format", () => cargo("fmt", "--all", "--check"));
await step("tidy", () => cargo("run", "-q", "--locked", "-p", "xtask", "--", "tidy"));
await step("clippy", () => cargo("clippy", "-q", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"));
let programs = [];
await step("build", () => {
  const built = build(all, chosen);
  programs = built.programs.filter(({ of }) => of && chosen.has(of.name));
  return built.good;
});
await step(`${programs.length} test programs`, () => test_all(programs));
if (files.some((file) => file.startsWith("web/"))) await step("web", () => run("npm", ["test"], { cwd: join(root, "web") }).status === 0);
await step("a challenge of ten seconds", () => {
  const scratch = mkdtempSync(join(tmpdir(), "weir-quick-"));
  try {
    const [weir, file] = [join(target, "debug", "weir"), join(scratch, "quick.toml")];
    const good = run(weir, ["challenge", "new", file]).status === 0 && run(weir, ["challenge", "run", file, "--out", join(scratch, "runs")]).status === 0;
    return good && readdirSync(join(scratch, "runs")).length === 1;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
});
summary();
console.log(`make quick: passed; left out: tests of documentation, black-box and browser tests, cargo deny and doc, tests of ${passed.sort().join(", ")}`);

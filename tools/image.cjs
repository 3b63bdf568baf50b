/**
 * Executes the Dockerfile without a container engine: each stage in its own folder, with the same commands and copies.
 * Not covered: the base image, its user and its file system around the stage's folder.
 */
const { execFileSync, execSync } = require("node:child_process");
const { cpSync, existsSync, mkdirSync, readFileSync, rmSync } = require("node:fs");
const { dirname, join, resolve } = require("node:path");

const ROOT = resolve(__dirname, "..");

/** Parses instructions as [name, rest], with continued lines joined and comments left out. */
function instructionsOf(dockerfile) {
  const text = dockerfile
    .split("\n")
    .filter((line) => !/^\s*#/.test(line))
    .join("\n")
    .replaceAll(/\\\n/g, " ");
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => /^(\w+)\s+(.*)$/.exec(line.trim()).slice(1));
}

/**
 * Copies the files in git, as a fresh clone has them. .dockerignore lets fewer files through, but none of the others is
 * built or secret.
 */
function copyContext(folder) {
  const files = execFileSync("git", ["ls-files", "-z"], { cwd: ROOT }).toString().split("\0").filter(Boolean);
  for (const file of files) if (existsSync(join(ROOT, file))) copy(join(ROOT, file), join(folder, file));
}

function copy(from, to) {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(from, to, { recursive: true, verbatimSymlinks: true });
}

/**
 * @param {string} home an empty folder
 * @returns {{ folder: string, env: Record<string, string>, command: string[] }} of the last stage
 */
function buildImage(home) {
  const stages = new Map();
  let stage;
  for (const [name, rest] of instructionsOf(readFileSync(join(ROOT, "Dockerfile"), "utf8"))) {
    const words = rest.split(/\s+/);
    switch (name) {
      case "FROM": {
        const label = words[2] ?? `stage ${stages.size}`;
        stage = { folder: join(home, label), env: {}, entrypoint: [], cmd: [] };
        mkdirSync(stage.folder, { recursive: true });
        stages.set(label, stage);
        break;
      }
      case "COPY": {
        const from = /^--from=(\w+)$/.exec(words[0])?.[1];
        const [to, ...sources] = words.slice(from ? 1 : 0).reverse();
        for (const source of sources) {
          if (source === ".") copyContext(stage.folder);
          else if (from)
            copy(join(stages.get(from).folder, source.replace("/app/", "")), join(stage.folder, intoOf(to, source)));
          else copy(join(ROOT, source), join(stage.folder, intoOf(to, source)));
        }
        break;
      }
      case "RUN":
        process.stdout.write(`RUN ${rest}\n`);
        execSync(rest, {
          cwd: stage.folder,
          stdio: ["ignore", "ignore", "inherit"],
          env: { ...process.env, ...stage.env },
        });
        break;
      case "ENV":
        for (const [, key, value] of rest.matchAll(/(\w+)=(\S+)/g)) stage.env[key] = value;
        break;
      case "ENTRYPOINT":
        stage.entrypoint = JSON.parse(rest);
        break;
      case "CMD":
        stage.cmd = JSON.parse(rest);
        break;
      // Applies to the container, not to its files.
      case "WORKDIR":
      case "USER":
      case "EXPOSE":
      case "HEALTHCHECK":
      case "STOPSIGNAL":
        break;
      default:
        throw new Error(`the Dockerfile says ${name}, which this tool does not know`);
    }
  }
  for (const other of stages.values()) if (other !== stage) rmSync(other.folder, { recursive: true, force: true });
  return { folder: stage.folder, env: stage.env, entrypoint: stage.entrypoint, cmd: stage.cmd };
}

/** With an existing folder, a trailing slash or several sources, the target keeps the source's own name. */
const intoOf = (to, source) =>
  to.endsWith("/") ? join(to, source.split("/").pop()) : to === "./" || to === "." ? source : to;

module.exports = { buildImage };

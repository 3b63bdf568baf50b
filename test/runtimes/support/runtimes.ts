/** Starts the same program in each runtime, with the package as it is published. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import { emptyProject, type Project } from "../../package/support/packed";
import { freePort } from "../../support/chain";
import { until } from "../../support/until";

const FOLDER = resolve(__dirname, "..");
const MODULES = join(FOLDER, "node_modules");

export const RUNTIMES = ["node 20", "node 22", "node 24", "bun", "deno", "workerd"] as const;

export type Runtime = (typeof RUNTIMES)[number];

/** A program that listens on a port of this machine. */
export interface Running {
  readonly url: string;
  readonly process: ChildProcess;
  stop(): Promise<void>;
}

/** @returns the package in an empty project, with the programs of the suite */
export async function runtimeProject(): Promise<Project> {
  const project = await emptyProject();
  await cp(join(FOLDER, "app"), project.folder, { recursive: true });
  await build({
    entryPoints: [join(project.folder, "worker.mjs")],
    outfile: join(project.folder, "worker.bundle.mjs"),
    absWorkingDir: project.folder,
    bundle: true,
    format: "esm",
    platform: "node",
    conditions: ["workerd", "worker"],
    mainFields: ["module", "main"],
    // As the platform's own bundler has it for packages in CommonJS.
    banner: { js: `import { createRequire as requireOf } from "node:module"; const require = requireOf("/");` },
    logLevel: "silent",
  });
  return project;
}

/** Starts the program in a runtime and waits until it listens. @param settings of `app/shop.mjs` */
export async function startRuntime(runtime: Runtime, { folder }: Project, settings: object): Promise<Running> {
  const port = await freePort();
  const shop = JSON.stringify(settings);
  const [command, ...args] = await commandOf(runtime, folder, { port, shop });
  const started = spawn(command as string, args, {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder, PORT: String(port), SHOP: shop, DENO_NO_UPDATE_CHECK: "1" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  started.stderr?.on("data", (chunk: Buffer) => {
    said += chunk;
  });
  const url = `http://127.0.0.1:${port}`;
  await until(async () => {
    if (started.exitCode !== null) throw new Error(`${runtime} ended: ${said}`);
    return isListening(port);
  }, `${runtime} listens`);
  return {
    url,
    process: started,
    async stop() {
      if (started.exitCode !== null || started.signalCode !== null) return;
      started.kill("SIGKILL");
      await once(started, "exit");
    },
  };
}

async function commandOf(runtime: Runtime, folder: string, { port, shop }: { port: number; shop: string }) {
  switch (runtime) {
    case "node 20":
      return [process.execPath, "node.mjs"];
    case "node 22":
      return [join(MODULES, "node22/bin/node"), "node.mjs"];
    case "node 24":
      return [join(MODULES, "node24/bin/node"), "node.mjs"];
    case "bun":
      return [join(MODULES, "@oven/bun-linux-x64/bin/bun"), "bun.mjs"];
    case "deno":
      return [join(MODULES, "@deno/linux-x64-glibc/deno"), "run", "-A", "--node-modules-dir=manual", "deno.mjs"];
    case "workerd": {
      const config = `worker-${port}.capnp`;
      await writeFile(join(folder, config), workerConfig(port, shop));
      return [join(MODULES, "@cloudflare/workerd-linux-64/bin/workerd"), "serve", config];
    }
  }
}

/** Text of Cap'n Proto, whose strings are escaped as those of JSON are. */
const workerConfig = (port: number, shop: string): string => `
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .shop),
    (name = "internet", network = (allow = ["private", "public", "local"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const shop :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.bundle.mjs")],
  bindings = [(name = "SHOP", text = ${JSON.stringify(shop)})],
  compatibilityDate = "2026-11-01",
);
`;

/** Connects and says nothing, so that the program's first request is the test's own. */
async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

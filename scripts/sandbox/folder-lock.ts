/**
 * Lets one sandbox run in a folder at a time. The holder answers on its own port with the id in the lock file. A lock
 * whose holder was killed is therefore recognized, also when another process has its pid.
 */
import { randomUUID } from "node:crypto";
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import path from "node:path";
import { WrongOption } from "./options";

/** Where a running sandbox publishes its addresses. */
export const stateFile = (folder: string): string => path.join(folder, "state.json");

/** The same as variables, for `node --env-file`. */
export const envFile = (folder: string): string => path.join(folder, "state.env");

export interface FolderLock {
  /** Removes this sandbox's files and the lock. Synchronous, so that it can run while the process exits. */
  release(): void;
}

/** The folder has a sandbox already. */
export class AlreadyRunning extends Error {
  override readonly name = "AlreadyRunning";
}

interface Holder {
  readonly id: string;
  readonly pid: number;
  readonly port: number;
}

interface Place {
  readonly folder: string;
  readonly command: string;
}

const LOCK = "lock.json";

/** The files that a sandbox writes into its folder. */
const OWN = /^(state\.(json|env)(\.draft)?|turnpike-run-\w{6})$/;

const STATE = "state.json";

const ATTEMPTS = 20;

const RETRY_MS = 50;

/** A sandbox that loads its modules does not answer for a moment. */
const ANSWER_MS = 3_000;

/**
 * Acquires the folder and removes what a killed sandbox left in it.
 * @param command what starts a sandbox, for the remedy
 * @throws AlreadyRunning, WrongOption
 */
export async function lockFolder(folder: string, command = "npm start --"): Promise<FolderLock> {
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new WrongOption(`The folder ${folder} cannot be used (${codeOf(error)}). Name another one with --folder.`);
  }
  const file = path.join(folder, LOCK);
  const id = randomUUID();
  const server = createServer((socket) => socket.on("error", () => undefined).end(id));
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  server.unref();
  const holder: Holder = { id, pid: process.pid, port: (server.address() as AddressInfo).port };
  try {
    refuseForeign(path.join(folder, STATE));
    await acquire({ folder, command }, file, holder);
  } catch (error) {
    server.close();
    throw error;
  }
  clean(folder);
  let isHeld = true;
  return {
    release() {
      if (!isHeld) return;
      isHeld = false;
      server.close();
      clean(folder);
      rmSync(file, { force: true });
    },
  };
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

/** A folder that the user named may contain another program's file of the same name. */
function refuseForeign(file: string): void {
  if (!existsSync(file) || readFileSync(file, "utf8").includes('"facilitatorUrl"')) return;
  throw new WrongOption(`${file} was not written by a sandbox. Name another folder with --folder.`);
}

async function acquire(place: Place, file: string, holder: Holder): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    try {
      writeFileSync(file, `${JSON.stringify(holder)}\n`, { flag: "wx" });
      return;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
    }
    const other = read(file);
    if (other && (await isRunning(other))) throw alreadyRunning(place, other);
    // An empty file may be half written: the next attempt reads it again.
    if (other ? read(file)?.id === other.id : attempt > ATTEMPTS / 2) rmSync(file, { force: true });
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
  throw new AlreadyRunning(`Another process holds ${file}. Remove the file when no sandbox is running.`);
}

function alreadyRunning({ folder, command }: Place, { pid }: Holder): AlreadyRunning {
  return new AlreadyRunning(
    `A sandbox is already running in ${folder} (process ${pid}). Stop it with Ctrl-C in its terminal, or start this one ` +
      `in a folder of its own: ${command} --folder PATH.`,
  );
}

function read(file: string): Holder | undefined {
  try {
    const { id, pid, port } = JSON.parse(readFileSync(file, "utf8")) as Partial<Holder>;
    return typeof id === "string" && Number.isInteger(port) ? { id, pid: pid ?? 0, port: port ?? 0 } : undefined;
  } catch {
    return undefined;
  }
}

function isRunning({ id, port }: Holder): Promise<boolean> {
  return new Promise((resolve) => {
    let answer = "";
    const socket = connect({ host: "127.0.0.1", port, timeout: ANSWER_MS });
    const done = (isHeld: boolean): void => {
      socket.destroy();
      resolve(isHeld);
    };
    socket.on("data", (chunk) => {
      answer += chunk;
      if (answer.length > id.length) done(false);
    });
    socket.on("end", () => done(answer === id));
    socket.on("error", () => done(false));
    // It accepts connections and is too busy to answer.
    socket.on("timeout", () => done(true));
  });
}

function clean(folder: string): void {
  for (const name of readdirSync(folder))
    if (OWN.test(name)) rmSync(path.join(folder, name), { recursive: true, force: true });
}

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { type RunningServer, startServer } from "../../../facilitator/src/http/server";
import { until } from "../../support/facilitator";

/** A process that opens connections for its former ones, asks on each, and leaves a file behind when all are connected. */
const CALLERS = `
  const { connect } = require("node:net");
  let sockets = [];
  process.on("message", ({ port, count, done }) => {
    for (const socket of sockets.splice(0)) socket.destroy();
    let connected = 0;
    for (let i = 0; i < count; i += 1) {
      const socket = connect(port, "127.0.0.1", () => {
        socket.write("GET / HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n");
        connected += 1;
        if (connected === count) require("node:fs").writeFileSync(done, "");
      });
      socket.on("error", () => {});
      sockets.push(socket);
    }
  });`;

describe("Facilitator: taking connections in", function () {
  this.timeout(60_000);

  const BURST = 100;
  let folder: string;
  let server: RunningServer | undefined;
  let callers: ChildProcess;
  let asked = 0;
  let bursts = 0;

  const port = (): number => Number(new URL(server?.url ?? "").port);

  /** Has a burst of connections made while this process takes nothing in; then counts the turns until all have asked. */
  async function turnsToHear(): Promise<number> {
    const done = path.join(folder, String(bursts++));
    await new Promise((resolve) => callers.send({ port: port(), count: BURST, done }, resolve));
    const pause = new Int32Array(new SharedArrayBuffer(4));
    while (!existsSync(done)) Atomics.wait(pause, 0, 0, 1);
    const goal = asked + BURST;
    let turns = 0;
    while (asked < goal && turns < 10 * BURST) {
      await new Promise((resolve) => setImmediate(resolve));
      turns += 1;
    }
    return turns;
  }

  beforeEach(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-accepting-"));
    callers = spawn(process.execPath, ["-e", CALLERS], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    await once(callers, "spawn");
    const fetch = (): Response => {
      asked += 1;
      return new Response("heard");
    };
    server = await startServer({ fetch, host: "127.0.0.1", port: 0 });
  });
  afterEach(async () => {
    await server?.stop(0);
    server = undefined;
    callers.kill("SIGKILL");
    await once(callers, "exit");
    rmSync(folder, { recursive: true });
  });

  const hearManyAtOnce = (): Promise<unknown> =>
    until(async () => (await turnsToHear()) < BURST / 2, "a burst is heard in few turns", 10_000);

  /** Nobody else holds the port: another server can have it. */
  async function takePort(wanted: number): Promise<void> {
    const another = createServer().listen(wanted, "127.0.0.1");
    await once(another, "listening");
    another.close();
    await once(another, "close");
  }

  it("hears a burst of new callers in a few turns of its loop, once many are connected", async () => {
    await hearManyAtOnce();
  });

  it("ends all of it when it stops: every connection, and nobody holds the port", async () => {
    await hearManyAtOnce();
    const held = port();
    await server?.stop(0);
    server = undefined;
    await takePort(held);
  });

  it("stops at once while it is just beginning to accept more", async () => {
    await turnsToHear();
    const held = port();
    await server?.stop(0);
    server = undefined;
    await takePort(held);
  });
});

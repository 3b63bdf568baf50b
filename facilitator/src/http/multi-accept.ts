/**
 * Accepts several new connections in one turn of the event loop.
 *
 * libuv (1.45 and later) accepts one connection per turn and listening handle, and a service under load makes some
 * hundred turns a second. A burst would wait in the kernel's queue until the callers give up. Several handles on one
 * socket accept one connection each. A process cannot open its own socket twice, but a socket passed to a child comes
 * back as another handle. The child therefore gets the socket, sends it back as often as needed, and exits.
 */
import { type ChildProcess, type SendHandle, spawn } from "node:child_process";
import { once } from "node:events";
import type { Server } from "node:http";
import { createServer, type Server as NetServer } from "node:net";

/** Open connections from which on the handles are worth their child's 40 ms; an idle service starts none. */
const BUSY = 64;

/**
 * A turn of a service at its capacity takes some 20 ms, and 100 ms when it has to share its processor: a thousand
 * connections a second must be accepted in these turns. Each handle costs a turn about a microsecond.
 */
const MORE_HANDLES = 127;

/**
 * The child's program. It must not outlive its parent, because it holds the port. Handles can be lost at the limit of
 * open files.
 */
const SEND_BACK = `
  process.once("disconnect", () => process.exit());
  setTimeout(() => process.exit(), 60_000);
  process.once("message", (count, handle) => {
    for (let sent = 0; sent < count; sent += 1) process.send(sent, handle);
  });`;

export interface Accepting {
  /** Ends with the last connection of the additional handles; the port is free once `server` is closed too. */
  close(): Promise<void>;
}

/**
 * @param server listening; receives every connection and closes it as its own.
 * @param backlog the one it listens with
 */
export function acceptMore(server: Server, backlog: number): Accepting {
  const more: NetServer[] = [];
  let open = 0;
  let child: ChildProcess | undefined;
  let closed = false;

  function listenOn(handle: unknown): void {
    // Same settings as `http.Server` uses for its own connections.
    const another = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit("connection", socket));
    // A connection that one handle cannot accept waits for the others.
    another.on("error", () => {});
    another.listen(handle, backlog);
    more.push(another);
  }

  function begin(): void {
    // Not `server` itself: a child that receives a server begins to accept.
    const { _handle: own } = server as Server & { _handle?: unknown };
    // The environment is not passed on: it contains keys.
    const helper = spawn(process.execPath, ["-e", SEND_BACK], {
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      env: {},
    });
    child = helper;
    // Without a child there is one handle, as before.
    helper.on("error", () => {});
    helper.on("message", (sent, handle) => {
      if (closed) (handle as { close?(): void } | undefined)?.close?.();
      else if (handle) listenOn(handle);
      if (sent === MORE_HANDLES - 1) helper.disconnect();
    });
    helper.send(MORE_HANDLES, own as SendHandle, () => {});
  }

  server.on("connection", (socket) => {
    open += 1;
    socket.once("close", () => {
      open -= 1;
    });
    if (open >= BUSY && !child && !closed) begin();
  });

  return {
    async close() {
      closed = true;
      const ended = more.map((each) => new Promise((resolve) => each.close(resolve)));
      if (child?.pid && child.exitCode === null && child.signalCode === null) {
        child.kill("SIGKILL");
        await once(child, "exit");
      }
      await Promise.all(ended);
    },
  };
}

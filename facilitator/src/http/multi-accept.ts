/**
 * Takes in several new connections in one turn of the event loop.
 *
 * libuv (1.45 and later) accepts one connection per turn and listening handle, and a service under load makes some
 * hundred turns a second: whoever comes in a burst waits in the system's queue, unseen, until the caller gives up. Several
 * handles on one socket take in one each. A process cannot open its own socket twice, but what it has handed to a child
 * comes back as another handle; so a child gets the socket, sends it back as often as is wanted, and ends.
 */
import { type ChildProcess, type SendHandle, spawn } from "node:child_process";
import { once } from "node:events";
import type { Server } from "node:http";
import { createServer, type Server as NetServer } from "node:net";

/** With this many connections open at once the handles are worth their child's 40 ms; a quiet service starts none. */
const BUSY = 64;

/** 1,000 connections in turns of 10 ms: 136 were in after 150 turns by one handle, 984 by eight. */
const MORE_HANDLES = 7;

/** What the child runs. It must not outlive its parent: it holds the port. Handles may be lost where files are at their limit. */
const SEND_BACK = `
  process.once("disconnect", () => process.exit());
  setTimeout(() => process.exit(), 10_000);
  process.once("message", (count, handle) => {
    for (let sent = 0; sent < count; sent += 1) process.send(sent, handle);
  });`;

export interface Accepting {
  /** Ends with the last connection that came in by the further handles; the port is free once `server` is closed too. */
  close(): Promise<void>;
}

/** @param server listening; is handed every connection, and closes them as its own. @param backlog as it listens with. */
export function acceptMore(server: Server, backlog: number): Accepting {
  const more: NetServer[] = [];
  let open = 0;
  let child: ChildProcess | undefined;
  let closed = false;

  function listenOn(handle: unknown): void {
    // As `http.Server` takes its own connections.
    const another = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit("connection", socket));
    // What one handle cannot take in waits for the others.
    another.on("error", () => {});
    another.listen(handle, backlog);
    more.push(another);
  }

  function begin(): void {
    // Not `server` itself: a child that is sent a server begins to accept.
    const { _handle: own } = server as Server & { _handle?: unknown };
    // Nothing of this process's environment: it holds keys.
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

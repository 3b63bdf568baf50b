/** A TCP address whose server can change: what a DNS name, a virtual address or a proxy is to the clients of a primary. */
import type { AddressInfo } from "node:net";
import { connect, createServer, type Socket } from "node:net";

export interface Relay {
  readonly port: number;
  /** From now on connections go to this port; the present ones break. */
  pointAt(port: number): void;
  stop(): Promise<void>;
}

export async function startRelay(first: number): Promise<Relay> {
  const sockets = new Set<Socket>();
  let target = first;
  const server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1");
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    pointAt(port) {
      target = port;
      cut();
    },
    async stop() {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

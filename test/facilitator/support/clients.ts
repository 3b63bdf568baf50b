/** Clients on bare sockets, to see what a connection gets and how it ends. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect } from "chai";

export interface Client {
  readonly socket: Socket;
  readonly text: () => string;
  /** @returns the error with which the connection ended, if any */
  readonly ended: Promise<string | undefined>;
}

export async function openClient(url: string, sent: string): Promise<Client> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  let text = "";
  let error: string | undefined;
  socket.on("data", (chunk) => (text += chunk));
  socket.on("error", ({ code }: NodeJS.ErrnoException) => {
    error = code;
  });
  const ended = new Promise<string | undefined>((resolve) => socket.once("close", () => resolve(error)));
  await once(socket, "connect");
  socket.write(sent);
  return { socket, text: () => text, ended };
}

export async function expectBusy({ text, ended }: Client): Promise<void> {
  expect(await ended, "the connection is closed, not reset").to.equal(undefined);
  expect(text()).to.match(/^HTTP\/1\.1 503 /);
  expect(text()).to.match(/\r\nretry-after: \d+\r\n/);
  expect(text()).to.match(/\r\nconnection: close\r\n/i);
  expect(JSON.parse(text().split("\r\n\r\n")[1] ?? "")).to.include({ code: "Unavailable", status: 503 });
}

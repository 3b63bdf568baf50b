/** A node in its own process, with the bench's chain. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { serveParent } from "../settle/process";
import { answer } from "./chain";

interface Request {
  readonly id: number;
  readonly method: string;
  readonly params: readonly unknown[];
}

const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    const asked: Request | readonly Request[] = JSON.parse(Buffer.concat(parts).toString());
    const one = ({ id, method, params }: Request) => ({ jsonrpc: "2.0", id, result: answer(method, params) });
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(Array.isArray(asked) ? asked.map(one) : one(asked as Request)));
  });
});

serveParent<"start", string>(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

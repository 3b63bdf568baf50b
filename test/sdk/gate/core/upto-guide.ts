import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { expect } from "chai";
import express, { type Express } from "express";
import { paymentGate } from "turnpike/gate/express";
import { decodeJsonHeader } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import { closeServer, listen } from "../../../support/gate";

describe("The guide's handler that charges what a request cost", () => {
  const world = createTestProvider();
  let server: Server;
  let url: string;

  before(async () => {
    const guide = readFileSync("docs/guides/prices.md", "utf8");
    const code = /```js\n([\s\S]*?)```/.exec(guide)?.[1]?.replace(/^import .*$/gm, "") ?? "";
    const bound = (options: object) => paymentGate({ provider: world.provider, ...options } as never);
    const complete = async (prompt: string) => ({ text: prompt.toUpperCase(), tokens: prompt.length });
    const run = new Function("express", "paymentGate", "complete", `${code}; return app;`);
    const app: Express = run(express, bound, complete);
    server = createServer(app);
    url = `${await listen(server)}/complete?prompt=four`;
  });
  after(() => closeServer(server));

  it("charges the tokens of the answer, of the maximum that was paid", async () => {
    const refused = await fetch(url);
    expect(refused.status).to.equal(402);
    const paid = await fetch(url, { headers: world.payUpto(refused.headers.get("PAYMENT-REQUIRED") ?? "") });
    expect([paid.status, await paid.json()]).to.deep.equal([200, { text: "FOUR" }]);
    expect(decodeJsonHeader(paid.headers.get("PAYMENT-RESPONSE") ?? "")).to.include({ amount: `${4 * 25}` });
  });
});

import { createServer } from "node:http";
import { expect } from "chai";
import { gated } from "turnpike/gate";
import { closeServer, listen, ONE_TIME, startSmallFacilitator, testProvider } from "../support/gate";
import { asksForPayment, type ServerResult, tryServer } from "./support/server";

async function all(url: string): Promise<ServerResult[]> {
  const results: ServerResult[] = [];
  for await (const result of tryServer(url)) results.push(result);
  return results;
}

describe("the hostile battery against servers", () => {
  it("finds nothing at this project's gate", async () => {
    const facilitator = await startSmallFacilitator();
    const provider = testProvider(facilitator, { publicUrl: "https://api.example" });
    const gate = provider.paymentGate({ pricing: ONE_TIME });
    const server = createServer(gated(gate, (_request, response) => response.end("content")));
    const url = `${await listen(server)}/api/paid`;
    try {
      expect(await asksForPayment(url)).to.equal(true);
      expect((await all(url)).filter(({ kind }) => kind === "unsafe")).to.deep.equal([]);
    } finally {
      await closeServer(server);
      await provider.close();
      await facilitator.stop();
    }
  }).timeout(60_000);

  it("sees a server that is taken in", async () => {
    const server = createServer(({ url, headers }, response) => {
      const payment = headers["x-payment"];
      // Two mistakes that gates make: a path compared as it came, and a payment that is only looked at.
      if (url !== "/api/paid" || String(payment).length > 500) response.end("content");
      else response.writeHead(402).end("{}");
    });
    const url = `${await listen(server)}/api/paid`;
    try {
      const unsafe = (await all(url)).filter(({ kind }) => kind === "unsafe").map(({ id }) => id);
      expect(unsafe).to.include.members(["target: a trailing slash", "target: upper case", "header: twice"]);
    } finally {
      await closeServer(server);
    }
  }).timeout(60_000);
});

import { expect } from "chai";
import { createApp } from "../../../facilitator/src/http/app";
import { type RunningServer, startServer } from "../../../facilitator/src/http/server";
import type { ErrorCode } from "../../../sdk/src/protocol";
import { unusedServices } from "../../support/unused-services";
import { openClient } from "../support/clients";
import { expectProblem } from "../support/problem";

describe("Facilitator: requests that no route gets", () => {
  let server: RunningServer;
  before(async () => {
    const { fetch } = createApp(unusedServices());
    server = await startServer({ fetch, host: "127.0.0.1", port: 0, requestTimeoutMs: 300 });
  });
  after(() => server.stop(0));

  async function answerTo(sent: string): Promise<Response> {
    const { text, ended } = await openClient(server.url, sent);
    await ended;
    const [head = "", body] = text().split("\r\n\r\n");
    const [line = "", ...headers] = head.split("\r\n");
    const pairs = headers.map((header): [string, string] => [
      header.slice(0, header.indexOf(":")),
      header.slice(header.indexOf(":") + 1).trim(),
    ]);
    return new Response(body, { status: Number(line.split(" ")[1]), headers: pairs });
  }

  const HEAD = "GET /healthz HTTP/1.1\r\nConnection: close\r\n";
  const broken: readonly (readonly [string, string, number, ErrorCode])[] = [
    ["is no HTTP", "nonsense\r\n\r\n", 400, "InvalidRequest"],
    ["has no host", `${HEAD}\r\n`, 400, "InvalidRequest"],
    ["has a host that is none", `${HEAD}Host: a b\r\n\r\n`, 400, "InvalidRequest"],
    ["has no path", "GET * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400, "InvalidRequest"],
    ["has chunks without length", `${HEAD}Host: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`, 400, "InvalidRequest"],
    ["has too large headers", `${HEAD}Host: x\r\nX-A: ${"y".repeat(20_000)}\r\n\r\n`, 431, "InvalidRequest"],
    ["does not arrive in time", HEAD, 408, "Unavailable"],
  ];
  for (const [what, sent, status, code] of broken) {
    it(`HB9 answers ${status} with a problem when a request ${what}`, async () => {
      const answer = await answerTo(sent);
      expect(answer.headers.get("content-type")).to.equal("application/problem+json");
      await expectProblem(answer, status, code);
    });
  }

  it("answers a request with an expectation that it does not know, which HTTP allows", async () => {
    const answer = await answerTo(`${HEAD}Host: x\r\nExpect: tea\r\n\r\n`);
    expect([answer.status, await answer.json()]).to.deep.equal([200, { status: "ok" }]);
  });
});

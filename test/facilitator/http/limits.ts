import { expect } from "chai";
import { MAX_BODY_BYTES } from "../../../facilitator/src/http/body";
import { until } from "../../support/facilitator";
import { openClient } from "../support/clients";
import { JSON_TYPE, useService } from "../support/http-service";
import { expectProblem } from "../support/problem";

const HEAD = "POST /authorize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";

describe("Facilitator: requests at its limits", function () {
  this.timeout(60_000);
  const http = useService();

  const bodyOf = (bytes: number): string => `{"a":"${"x".repeat(bytes - 8)}"}`;
  const inChunks = (text: string): ReadableStream =>
    new ReadableStream({
      start(controller) {
        for (let at = 0; at < text.length; at += 1_000) controller.enqueue(Buffer.from(text.slice(at, at + 1_000)));
        controller.close();
      },
    });

  for (const [what, framed] of [
    ["with its length", (text: string) => text],
    ["in chunks", inChunks],
  ] as const) {
    it(`B14 a body of the limit is read, and one of a byte more is refused, ${what}`, async () => {
      const send = (bytes: number) =>
        fetch(`${http.service.url}/authorize`, {
          method: "POST",
          headers: JSON_TYPE,
          body: framed(bodyOf(bytes)),
          duplex: "half",
        } as RequestInit);
      expect(bodyOf(MAX_BODY_BYTES).length).to.equal(MAX_BODY_BYTES);
      for (const bytes of [MAX_BODY_BYTES - 1, MAX_BODY_BYTES]) {
        await expectProblem(await send(bytes), 400, "InvalidRequest");
      }
      await expectProblem(await send(MAX_BODY_BYTES + 1), 413, "PayloadTooLarge");
    });
  }

  it("B14 a flood of headers gets an answer, is closed and not reset, and keeps nobody out", async () => {
    const large = Array.from({ length: 200 }, (_, i) => `X-${i}: ${"y".repeat(1_000)}\r\n`).join("");
    const many = Array.from({ length: 1_500 }, (_, i) => `X${i}: y\r\n`).join("");
    for (const [headers, status] of [
      [large, 431],
      [many, 400],
    ] as const) {
      const client = await openClient(
        http.service.url,
        `${HEAD}${headers}Content-Length: 2\r\nConnection: close\r\n\r\n{}`,
      );
      client.socket.end();
      expect(await client.ended, "closed, not reset").to.equal(undefined);
      expect(client.text()).to.match(new RegExp(`^HTTP/1\\.1 ${status} `));
      expect((await fetch(`${http.service.url}/healthz`)).status).to.equal(200);
    }
  });

  it("HB9 connections that are half open, in their head or body, end, and keep nobody out", async () => {
    const sent = ["", "POST /auth", HEAD, `${HEAD}Content-Length: 60\r\n\r\n{"signed`];
    const clients = await Promise.all(sent.map((text) => openClient(http.service.url, text)));
    for (const { socket } of clients) socket.end();
    for (const [index, { ended }] of clients.entries()) {
      expect(await ended, `after ${JSON.stringify(sent[index])}`).to.equal(undefined);
    }
    await until(async () => (await fetch(`${http.service.url}/healthz`)).status === 200, "others are served");
  });
});

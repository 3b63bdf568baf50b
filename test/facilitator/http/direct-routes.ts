import { expect } from "chai";
import { useService } from "../support/http-service";
import { paymentToWire } from "../support/payments";

/** Each answer's own: everything else has to be the same. */
const OWN = new Set(["x-request-id", "date", "connection", "keep-alive", "transfer-encoding", "content-length"]);

describe("Facilitator: the short way for authorize and settle", function () {
  this.timeout(120_000);
  const http = useService();

  /** A body of declared length goes the short way, one in chunks through the app. */
  async function answer(path: string, body: string, isInChunks: boolean) {
    const bytes = new TextEncoder().encode(body);
    const stream = new ReadableStream({
      start(controller) {
        controller.enqueue(bytes);
        controller.close();
      },
    });
    const init = { method: "POST", headers: { "content-type": "application/json" }, duplex: "half" };
    const response = await fetch(http.service.url + path, { ...init, body: isInChunks ? stream : bytes });
    const answer = (await response.json()) as Record<string, unknown>;
    expect(response.headers.get("x-request-id")).to.be.a("string");
    const headers = [...response.headers].filter(([name]) => !OWN.has(name)).sort();
    return { status: response.status, headers, answer: { ...answer, requestId: typeof answer.requestId } };
  }

  it("answers as the app does, whatever it is sent", async () => {
    const good = paymentToWire(await http.world.signPayment());
    const poor = paymentToWire(await http.world.signPayment({ payer: await http.world.payer(0n) }));
    const bodies = [
      JSON.stringify({ signedPayment: good }),
      JSON.stringify({ signedPayment: poor }),
      JSON.stringify({ signedPayment: { ...good, token: good.token.toLowerCase(), unknown: [1, { deep: true }] } }),
      JSON.stringify({ signedPayment: { ...good, memo: "" } }),
      JSON.stringify({ signedPayment: good }).replace("{", '{"signedPayment":1,'),
      '{"signedPayment":{"__proto__":{}}}',
      "[]",
      "null",
      "{",
      "",
    ];
    for (const path of ["/authorize", "/settle"]) {
      for (const body of bodies) {
        const short = await answer(path, body, false);
        const long = await answer(path, body, true);
        expect(short, `${path} ${body.slice(0, 80)}`).to.deep.equal(long);
      }
    }
  });
});

/** The first request of a process in every runtime, as platforms start one for it. */
import { createServer, type Server } from "node:net";
import { expect } from "chai";
import type { Project } from "../package/support/packed";
import { testKey } from "../support/chain";
import { PAY_TO, TOKEN } from "../support/gate";
import { RUNTIMES, runtimeProject, startRuntime } from "./support/runtimes";

describe("runtimes", function () {
  this.timeout(480_000);
  let project: Project;
  /** accepts connections and answers nothing */
  let blackHole: Server;
  let deadUrl: string;
  before(async () => {
    project = await runtimeProject();
    blackHole = createServer();
    await new Promise<void>((resolve) => blackHole.listen(0, "127.0.0.1", resolve));
    deadUrl = `http://127.0.0.1:${(blackHole.address() as { port: number }).port}`;
  });
  after(async () => {
    blackHole?.close();
    await project?.remove();
  });

  const settings = () => ({
    gate: {
      ...{ network: "base-mainnet", rpcUrl: deadUrl, facilitator: { url: deadUrl, signers: [PAY_TO] } },
      ...{ payTo: PAY_TO, secret: testKey("runtimes") },
    },
    amount: 500_000,
    upstream: deadUrl,
    agent: { key: testKey("runtimes"), policy: { perPayment: 1, perDay: 1, tokens: [TOKEN] }, facilitators: [deadUrl] },
  });

  for (const runtime of RUNTIMES) {
    describe(runtime, () => {
      it("asks for payment from a cold start while no backend answers", async () => {
        const cold = await startRuntime(runtime, project, settings());
        try {
          const beganMs = performance.now();
          const answer = await fetch(`${cold.url}/report`);
          expect(answer.status, answer.status === 500 ? await answer.text() : "").to.equal(402);
          expect(answer.headers.get("payment-required")).to.be.a("string");
          console.log(JSON.stringify({ runtime, coldMs: Math.round(performance.now() - beganMs) }));
        } finally {
          await cold.stop();
        }
      });
    });
  }
});

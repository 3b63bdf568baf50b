/** Tools that are sold by MPP beside x402: what an ask holds, and what a credential in `_meta` buys. */
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { paidTool } from "turnpike/mcp/server";
import * as z from "zod";
import { ONE_TIME, RESERVING, type SmallFacilitator, startSmallFacilitator, testProvider } from "../../../support/gate";
import { type Challenge, type Charge, credentialOf, encoded } from "../../gate/support/mpp";
import { call, payloadFor, type ServedTools, serveTools, textOf } from "../support/served";

type AskedChallenge = Omit<Challenge, "request"> & { readonly request: Charge };

const ABC = { tool: "quote", args: { symbol: "ABC" } };

const CREDENTIAL = "org.paymentauth/credential";

const KEYS = { required: "org.paymentauth/payment-required", receipt: "org.paymentauth/receipt" };

const requiredIn = ({ _meta }: CallToolResult) =>
  _meta?.[KEYS.required] as { challenges: AskedChallenge[]; problem?: { type: string } } | undefined;

for (const mpp of ["Authorization", "Payment-Authorization"] as const) {
  for (const settle of ["after", "before"] as const) {
    describe(`a tool that is sold by MPP in ${mpp} and settles ${settle} it runs`, () => {
      let facilitator: SmallFacilitator;
      let provider: Provider;
      let served: ServedTools;
      let client: Client;
      let runs: unknown[];
      let isFailing: boolean;

      beforeEach(async () => {
        facilitator = await startSmallFacilitator();
        facilitator.supported = RESERVING;
        provider = testProvider(facilitator, { mpp, replay: {}, publicUrl: "https://tools.example" });
        runs = [];
        isFailing = false;
        const sold = { provider, serverId: "https://tools.example/mcp", pricing: ONE_TIME, settle };
        const inputSchema = { symbol: z.string() };
        const quote = { ...sold, inputSchema };
        const other = { ...sold, inputSchema };
        served = await serveTools((server) => {
          paidTool(server, "quote", quote, ({ symbol }, { payment, _meta }) => {
            runs.push(payment.kind === "one-time" && payment.dialect, _meta?.[CREDENTIAL]);
            return { isError: isFailing, content: [{ type: "text", text: symbol }] };
          });
          paidTool(server, "other", other, () => ({ content: [] }));
        });
        client = await served.connect();
      });
      afterEach(async () => {
        await served.close();
        await provider.close();
        await facilitator.stop();
      });

      async function credentialFor(asked: CallToolResult) {
        const [challenge] = requiredIn(asked)?.challenges ?? [];
        if (!challenge) throw new TypeError(`no challenge: ${JSON.stringify(asked)}`);
        const signed = await credentialOf({ ...challenge, request: encoded(challenge.request) });
        return { ...signed, challenge };
      }

      it("asks for it beside x402, with the request as JSON", async () => {
        const asked = await call(client, ABC);
        expect(asked.isError).to.equal(true);
        const { challenges, problem } = requiredIn(asked) ?? { challenges: [] };
        expect(challenges).to.have.length(1);
        expect(challenges[0]).to.include({ realm: "tools.example", method: "evm", intent: "charge" });
        expect(challenges[0]).to.not.have.any.keys("header", "digest");
        expect(challenges[0]?.request).to.deep.include({ amount: "500000" });
        expect(problem).to.equal(undefined);
        expect((await payloadFor(asked)).accepted).to.include({ amount: "500000" });
      });

      it("is bought by a credential once, with its receipt, and again by the same call", async () => {
        const credential = await credentialFor(await call(client, ABC));
        const meta = { [CREDENTIAL]: credential };
        const bought = await call(client, { ...ABC, meta });
        expect(textOf(bought)).to.equal("ABC");
        expect(bought._meta?.[KEYS.receipt]).to.include({
          method: "evm",
          status: "success",
          challengeId: credential.challenge.id,
        });
        const again = await call(client, { ...ABC, meta });
        expect([textOf(again), again._meta?.["turnpike/replayed"]]).to.deep.equal(["ABC", true]);
        expect(again._meta?.[KEYS.receipt]).to.deep.equal(bought._meta?.[KEYS.receipt]);
        expect(runs).to.deep.equal(["mpp", undefined]);
        expect(facilitator.calls.filter(({ path }) => path === "/settle")).to.have.length(1);
      });

      it("takes a credential for no other call, and none that was changed, with what is wrong", async () => {
        const credential = await credentialFor(await call(client, ABC));
        for (const [called, given, problem] of [
          [{ ...ABC, args: { symbol: "XYZ" } }, credential, "invalid-challenge"],
          [{ ...ABC, tool: "other" }, credential, "invalid-challenge"],
          [ABC, { ...credential, challenge: { ...credential.challenge, realm: "other.example" } }, "invalid-challenge"],
          [ABC, { ...credential, source: "did:pkh:eip155:1:0x0" }, "verification-failed"],
          [ABC, { ...credential, payload: {} }, "malformed-credential"],
          [ABC, "text", "malformed-credential"],
        ] as const) {
          const refused = await call(client, { ...called, meta: { [CREDENTIAL]: given } });
          expect(requiredIn(refused)?.problem?.type).to.equal(`https://paymentauth.org/problems/${problem}`);
          expect(requiredIn(refused)?.challenges).to.have.length(1);
        }
        const both = { [CREDENTIAL]: credential, "x402/payment": await payloadFor(await call(client, ABC)) };
        const ambiguous = await call(client, { ...ABC, meta: both });
        expect(ambiguous._meta?.["turnpike/error"]).to.include({ error: "AmbiguousCredentials" });
        expect([runs, facilitator.calls]).to.deep.equal([[], []]);
      });

      it("asks nobody again whose payment may have moved", async () => {
        facilitator.settle = () => ({ success: false, errorReason: "settlement_pending", transaction: "" });
        const meta = { [CREDENTIAL]: await credentialFor(await call(client, ABC)) };
        const unknown = await call(client, { ...ABC, meta });
        expect(requiredIn(unknown)).to.equal(undefined);
        expect(unknown._meta?.["turnpike/error"]).to.include({ retryable: true });
      });

      it("keeps the payment of a failed call for the next, and reports none of it", async () => {
        const meta = { [CREDENTIAL]: await credentialFor(await call(client, ABC)) };
        isFailing = true;
        const failed = await call(client, { ...ABC, meta });
        expect([failed.isError, failed._meta?.[KEYS.receipt]]).to.deep.equal([true, undefined]);
        isFailing = false;
        expect(textOf(await call(client, { ...ABC, meta }))).to.equal("ABC");
      });
    });
  }
}

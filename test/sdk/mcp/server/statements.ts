/** What a server of paid tools signs (the extension offer-receipt), over an in-process connection. */
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { paidTool } from "turnpike/mcp/server";
import {
  offerTypedData,
  type PaymentRequiredWire,
  proofToWire,
  receiptTypedData,
  recoverSigner,
  typedDataDigest,
} from "turnpike/protocol";
import {
  addressOf,
  keyOf,
  ONE_TIME,
  proofOf,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { askOf, call, type ServedTools, serveTools } from "../support/served";

type Signed = { readonly payload: { readonly resourceUrl: string }; readonly signature: string };

const statementsIn = (extensions: unknown): { readonly offers?: readonly Signed[]; readonly receipt?: Signed } =>
  (extensions as Record<string, { info: object }> | undefined)?.["offer-receipt"]?.info ?? {};

interface Report {
  readonly success: boolean;
  readonly extensions?: unknown;
}

const reportIn = ({ _meta }: { readonly _meta?: object }, key = "x402/payment-response"): Report | undefined =>
  (_meta as Readonly<Record<string, Report>> | undefined)?.[key];

describe("mcp > server > offers and receipts", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let served: ServedTools;
  let isFailing = false;

  before(async () => {
    facilitator = await startSmallFacilitator();
    provider = testProvider(facilitator, { replay: {}, offerReceipt: { key: keyOf("statements") } });
    served = await serveTools((server: McpServer) => {
      paidTool(server, "quote", { provider, serverId: "https://tools.example/mcp", pricing: ONE_TIME }, () => ({
        isError: isFailing,
        content: [{ type: "text", text: "fine" }],
      }));
    });
  });
  after(async () => {
    await served.close();
    await provider.close();
    await facilitator.stop();
  });

  it("HA31 name the tool, and a failed call gets no receipt until its payment buys a result", async () => {
    const client = await served.connect();
    const { required, quote } = askOf(await call(client, {}));
    const [offer] = statementsIn(required.extensions).offers ?? [];
    expect(offer?.payload.resourceUrl).to.equal("mcp://tool/quote");
    expect(recoverSigner(typedDataDigest(offerTypedData(offer?.payload as never)), String(offer?.signature))).to.equal(
      addressOf("statements"),
    );

    const [entry] = (quote as unknown as PaymentRequiredWire).accepts;
    const meta = { "x402/payment": proofToWire(proofOf(entry as never)) };
    isFailing = true;
    const failed = await call(client, { meta });
    expect([failed.isError, reportIn(failed)?.success]).to.deep.equal([true, true]);
    expect(statementsIn(reportIn(failed)?.extensions)).to.deep.equal({});
    isFailing = false;
    const paid = await call(client, { meta });
    const { receipt } = statementsIn(reportIn(paid)?.extensions);
    expect(receipt?.payload).to.include({ resourceUrl: "mcp://tool/quote", payer: addressOf("payer") });
    expect(
      recoverSigner(typedDataDigest(receiptTypedData(receipt?.payload as never)), String(receipt?.signature)),
    ).to.equal(addressOf("statements"));
    expect(statementsIn(reportIn(paid, "x402.payment-response")?.extensions)).to.deep.equal({});
  });
});

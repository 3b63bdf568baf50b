/** Results that the MCP SDK would refuse to send: nobody pays for them, in either release and every revision. */
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { expect } from "chai";
import { memoryClaims, type Provider } from "turnpike/gate";
import { paidTool as firstPaidTool } from "turnpike/mcp/server";
import { paidTool } from "turnpike/mcp/server/v2";
import { RESERVING, type SmallFacilitator, startSmallFacilitator, testProvider } from "../../../support/gate";
import { payloadFor, serveTools } from "../support/served";
import { serveReplicas } from "../support/served-v2";

const text = { type: "text", text: "seven" };
const image = { type: "image", data: "AAEC", mimeType: "image/png" };
const link = { type: "resource_link", uri: "https://a.example/7", name: "seven" };
const embedded = (resource: object) => ({ type: "resource", resource: { uri: "https://a.example/7", ...resource } });

const block = (content: object) => ({ content: [content] });

const SENT: Readonly<Record<string, object>> = {
  "every kind of content": {
    content: [text, image, { ...image, type: "audio" }, link, embedded({ text: "7" }), embedded({ blob: "AAEC" })],
  },
  "content with all that may be added": block({
    ...link,
    title: "7",
    description: "a number",
    mimeType: "text/plain",
    size: 1,
    icons: [{ src: "https://a.example/7.png", sizes: ["48x48"], theme: "dark" }],
    annotations: { audience: ["user"], priority: 1, lastModified: "2027-01-31T00:00:00Z" },
    _meta: { more: 1 },
  }),
  "structured content": { content: [], structuredContent: { price: 7 } },
};

const REFUSED: Readonly<Record<string, unknown>> = {
  "an image that is no base64": block({ ...image, data: "seven?" }),
  "a sound that is no base64": block({ ...image, type: "audio", data: "seven?" }),
  "a resource with neither text nor a blob": block(embedded({})),
  "a blob that is no base64": block(embedded({ blob: "seven?" })),
  "a resource whose type is no text": block(embedded({ text: "7", mimeType: 7 })),
  "annotations that are null": block({ ...text, annotations: null }),
  "a priority above 1": block({ ...text, annotations: { priority: 2 } }),
  "an audience of nobody": block({ ...text, annotations: { audience: ["nobody"] } }),
  "a date that is none": block({ ...text, annotations: { lastModified: "yesterday" } }),
  "a block's _meta that is no object": block({ ...text, _meta: "more" }),
  "a link's size as text": block({ ...link, size: "1" }),
  "a link's title that is no text": block({ ...link, title: 7 }),
  "a link's icon without a source": block({ ...link, icons: [{ theme: "dark" }] }),
  "a progress token that is none": { content: [text], _meta: { progressToken: {} } },
  "a task without an id": { content: [text], _meta: { "io.modelcontextprotocol/related-task": {} } },
};

/** Of one release alone. */
const REFUSED_BY_ONE: Readonly<Record<"older" | "newer", Readonly<Record<string, unknown>>>> = {
  older: { "structured content that is no object": { content: [], structuredContent: [7, 8] } },
  newer: { "a type of result that no client knows": { resultType: "task", content: [text] } },
};

type Buyer = { callTool(params: { name: string; _meta?: object }): Promise<unknown> };

describe("mcp > server > results", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let returned: unknown;
  const open: { close(): Promise<unknown> }[] = [];
  const buyers: Record<string, Buyer> = {};

  before(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    provider = testProvider(facilitator, { claims: memoryClaims({ warn: false }), replay: {} });
    const pricing = [{ type: "one-time", amount: 50_000n }] as const;
    const options = { provider, serverId: "https://tools.example/mcp", pricing };
    const answer = () => returned as never;
    const first = await serveTools((server) => void firstPaidTool(server, "quote", options, answer));
    const second = await serveReplicas([(server) => void paidTool(server, "quote", options, answer)]);
    open.push(first, second, provider);
    buyers["@modelcontextprotocol/sdk"] = (await first.connect()) as Buyer;
    buyers["@modelcontextprotocol/server"] = (await second.connect()) as Buyer;
    buyers["@modelcontextprotocol/server, in a revision before"] = (await second.connect("legacy")) as Buyer;
  });
  after(async () => {
    for (const each of open.splice(0)) await each.close();
    await facilitator.stop();
  });
  beforeEach(() => {
    facilitator.calls.length = 0;
  });

  async function bought(client: Buyer) {
    const asked = await client.callTool({ name: "quote" });
    const result = await client.callTool({
      name: "quote",
      _meta: { "x402/payment": await payloadFor(asked as never) },
    });
    const settles = facilitator.calls.filter(({ path }) => path === "/settle").length;
    return { settles, result: result as { readonly isError?: boolean } };
  }

  for (const name of [
    "@modelcontextprotocol/sdk",
    "@modelcontextprotocol/server",
    "@modelcontextprotocol/server, in a revision before",
  ]) {
    const client = () => buyers[name] as Buyer;
    for (const [what, result] of Object.entries(SENT)) {
      it(`sells ${what}: ${name}`, async () => {
        returned = result;
        const paid = await bought(client());
        expect([paid.result.isError, paid.settles]).to.deep.equal([undefined, 1]);
      });
    }
    const alone = REFUSED_BY_ONE[name === "@modelcontextprotocol/sdk" ? "older" : "newer"];
    for (const [what, result] of Object.entries({ ...REFUSED, ...alone })) {
      it(`MC3 charges nothing for ${what}: ${name}`, async () => {
        returned = result;
        const paid = await bought(client());
        expect([paid.result.isError, paid.settles]).to.deep.equal([true, 0]);
      });
    }
  }

  it("names only results that the SDK itself refuses, and those that it sends", () => {
    const refuses = (result: unknown) => !CallToolResultSchema.safeParse(result).success;
    for (const [what, result] of Object.entries({ ...REFUSED, ...REFUSED_BY_ONE.older })) {
      expect(refuses(result), what).to.equal(true);
    }
    for (const [what, result] of Object.entries(SENT)) expect(refuses(result), what).to.equal(false);
  });
});

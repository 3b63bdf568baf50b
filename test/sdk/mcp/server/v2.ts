import { inspect } from "node:util";
import { Client, type ProtocolError, type VersionNegotiationMode } from "@modelcontextprotocol/client";
import { Client as FirstClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  acceptedContent,
  fromJsonSchema,
  InMemoryTransport,
  inputRequired,
  McpServer,
  UrlElicitationRequiredError,
} from "@modelcontextprotocol/server";
import { expect } from "chai";
import { memoryClaims, type Provider } from "turnpike/gate";
import { type PaidToolContext, type PaidToolHandler, paidTool } from "turnpike/mcp/server/v2";
import { encodeJsonHeader } from "turnpike/protocol";
import * as z from "zod";
import {
  RESERVING,
  type SettleBody,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { askOf, payloadFor, textOf } from "../support/served";
import { REVISION, type ServedReplicas, serveReplicas } from "../support/served-v2";

type Buyer = Pick<Client, "callTool">;
type Meta = Record<string, unknown>;

const PRICE = { type: "one-time", amount: 50_000n } as const;
const ABC = { name: "quote", arguments: { symbol: "ABC" } };

describe("mcp > server > on @modelcontextprotocol/server", () => {
  let facilitator: SmallFacilitator;
  const providers: Provider[] = [];
  const open: { close(): Promise<unknown> }[] = [];
  let runs: string[];
  let onRun: (context: PaidToolContext) => void | Promise<void>;

  before(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
  });
  beforeEach(() => {
    runs = [];
    onRun = () => undefined;
    facilitator.held = undefined;
    facilitator.calls.length = 0;
  });
  afterEach(async () => {
    await Promise.all([...open.splice(0), ...providers.splice(0)].map((each) => each.close()));
  });
  after(() => facilitator.stop());

  /** The tools of one replica. */
  function tools(claims = memoryClaims({ warn: false })) {
    const provider = testProvider(facilitator, { claims, replay: {} });
    providers.push(provider);
    const shared = { provider, serverId: "https://tools.example/mcp", pricing: [PRICE] } as const;
    const quote = { ...shared, inputSchema: z.object({ symbol: z.string(), days: z.number().default(1) }) };
    const list = { ...shared, outputSchema: z.array(z.number()) };
    const report = {
      ...shared,
      outputSchema: fromJsonSchema<{ price: number }>({
        type: "object",
        properties: { price: { type: "number" } },
        required: ["price"],
      }),
    };
    const confirmed = { ...shared };
    const prepaid = { ...shared, settle: "before" } as const;
    const linked = { ...shared };
    return (server: Parameters<typeof paidTool>[0]) => {
      paidTool(server, "quote", quote, async ({ symbol, days }, context) => {
        runs.push(`${symbol} ${days} ${context.payment.kind}`);
        await onRun(context);
        return { content: [{ type: "text", text: `${symbol}: 7` }] };
      });
      paidTool(server, "list", list, () => ({ content: [], structuredContent: [7, 8] }));
      paidTool(server, "report", report, () => ({ content: [], structuredContent: { price: "none" } }));
      const ask: PaidToolHandler = (_args, { mcpReq }) => {
        const answer = acceptedContent<{ ok: boolean }>(mcpReq.inputResponses, "ok");
        runs.push(`confirmed ${answer?.ok}`);
        if (answer?.ok) return { content: [{ type: "text", text: "done" }] };
        const requestedSchema = z.object({ ok: z.boolean() });
        return inputRequired({ inputRequests: { ok: inputRequired.elicit({ message: "Sure?", requestedSchema }) } });
      };
      paidTool(server, "confirmed", confirmed, ask);
      paidTool(server, "prepaid", prepaid, ask);
      paidTool(server, "linked", linked, () => {
        throw new UrlElicitationRequiredError([
          { mode: "url", message: "Sign in", url: "https://a.example", elicitationId: "1" },
        ]);
      });
    };
  }

  async function serve(options: { readonly legacy?: "stateless" | "reject" } = {}): Promise<ServedReplicas> {
    const served = await serveReplicas([tools()], options);
    open.push(served);
    return served;
  }

  async function firstClient({ url }: ServedReplicas): Promise<Buyer> {
    const client = new FirstClient({ name: "buyer", version: "1.0.0" });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)) as never);
    open.push(client);
    return client as unknown as Buyer;
  }

  async function paying(client: Buyer, params: object = ABC): Promise<Meta> {
    return { "x402/payment": await payloadFor((await client.callTool(params as typeof ABC)) as never) };
  }

  /** Repeats a call until the one before has ended. */
  async function repeated(client: Buyer, _meta: Meta) {
    let result = await client.callTool({ ...ABC, _meta });
    for (let i = 0; i < 500 && result._meta?.["turnpike/error"] !== undefined; i++) {
      result = await client.callTool({ ...ABC, _meta });
    }
    return result;
  }

  const settles = (): number => facilitator.calls.filter(({ path }) => path === "/settle").length;

  const buyers: Record<string, (served: ServedReplicas) => Promise<Buyer>> = {
    "a client of the new revision": (served) => served.connect(),
    "a client that finds the revision out": (served) => served.connect("auto"),
    "a client of the revisions before": (served) => served.connect("legacy"),
    "a client of @modelcontextprotocol/sdk": firstClient,
  };
  for (const [name, connect] of Object.entries(buyers)) {
    it(`asks ${name} by a result, and MC1 sells once, whichever of two replicas is asked`, async () => {
      const claims = memoryClaims({ warn: false });
      const served = await serveReplicas([tools(claims), tools(claims)], { legacy: "stateless" });
      open.push(served);
      const client = await connect(served);
      const asked = await client.callTool(ABC);
      expect(asked.isError).to.equal(true);
      const { required, quote } = askOf(asked as never);
      expect(required.resource.url).to.equal("mcp://tool/quote");
      expect(required).to.deep.equal(asked._meta?.["x402/error"]);
      expect(quote).to.include({ error: "PaymentRequired" });
      const _meta = { "x402/payment": await payloadFor(asked as never) };
      const bought = await client.callTool({ ...ABC, _meta });
      expect(textOf(bought as never)).to.equal("ABC: 7");
      expect(bought._meta?.["x402/payment-response"]).to.include({ success: true });
      for (let i = 0; i < 2; i++) {
        const again = await client.callTool({ ...ABC, _meta });
        expect(again.content).to.deep.equal(bought.content);
        expect(again._meta?.["turnpike/replayed"]).to.equal(true);
      }
      expect([runs, settles()]).to.deep.equal([["ABC 1 one-time"], 1]);
    });

    it(`MC10 keeps the result for ${name} that gives up while its payment settles`, async () => {
      const served = await serve({ legacy: "stateless" });
      const client = await connect(served);
      const _meta = await paying(client);
      let settle = (): void => undefined;
      facilitator.holds = (path) => path === "/settle";
      facilitator.held = new Promise((resolve) => {
        settle = () => resolve(undefined);
      });
      const leaving = new AbortController();
      const broken = served.broken();
      const call = (options: object) =>
        name.includes("sdk")
          ? (client as unknown as FirstClient).callTool({ ...ABC, _meta }, undefined, options)
          : client.callTool({ ...ABC, _meta }, options);
      const left = call({ signal: leaving.signal }).then(
        () => "answered",
        () => "left",
      );
      while (settles() === 0) await new Promise((resolve) => setImmediate(resolve));
      leaving.abort();
      expect(await left).to.equal("left");
      if (name.includes("new revision")) await broken;
      settle();
      const result = await repeated(await connect(served), _meta);
      expect(textOf(result as never)).to.equal("ABC: 7");
      expect(result._meta?.["turnpike/replayed"]).to.equal(true);
      expect([runs, settles()]).to.deep.equal([["ABC 1 one-time"], 1]);
    });
  }

  it("MC10 keeps the result for a client that gives up while the tool runs, and charges when the call is repeated", async () => {
    const served = await serve();
    const client = await served.connect();
    const _meta = await paying(client);
    const leaving = new AbortController();
    const broken = served.broken();
    onRun = ({ mcpReq }) => {
      leaving.abort();
      return new Promise((resolve) => mcpReq.signal.addEventListener("abort", () => resolve()));
    };
    await client.callTool({ ...ABC, _meta }, { signal: leaving.signal }).catch((error: Error) => error);
    await broken;
    const result = await repeated(await served.connect(), _meta);
    expect(textOf(result as never)).to.equal("ABC: 7");
    expect(result._meta?.["turnpike/replayed"]).to.equal(true);
    expect([runs, settles()]).to.deep.equal([["ABC 1 one-time"], 1]);
  });

  it("serves the new revision alone where the handler refuses the ones before", async () => {
    const served = await serve({ legacy: "reject" });
    const client = await served.connect();
    const result = await client.callTool({ ...ABC, _meta: await paying(client) });
    expect(textOf(result as never)).to.equal("ABC: 7");
    expect(client.getNegotiatedProtocolVersion()).to.equal(REVISION);
    const refused = await served.connect("legacy").then(
      () => "connected",
      (error: Error) => error.message,
    );
    expect(refused).to.not.equal("connected");
    expect(runs).to.have.length(1);
  });

  for (const header of ["payment-signature", "x-payment"]) {
    it(`takes a payment from the HTTP header ${header}, and MC1 returns its result when the call is repeated`, async () => {
      const client = await (await serve()).connect();
      const { "x402/payment": payload } = await paying(client);
      const headers = { [header]: encodeJsonHeader(payload) };
      const result = await client.callTool(ABC, { headers });
      expect(textOf(result as never)).to.equal("ABC: 7");
      expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
      for (const again of [
        await client.callTool(ABC, { headers }),
        await client.callTool({ ...ABC, _meta: { "x402/payment": payload } as Meta }),
      ]) {
        expect(again.content).to.deep.equal(result.content);
        expect(again._meta?.["turnpike/replayed"]).to.equal(true);
      }
      expect([runs, settles()]).to.deep.equal([["ABC 1 one-time"], 1]);
    });
  }

  it("MC2 refuses a payment of one call for other arguments, and a call whose headers name another tool", async () => {
    const served = await serve();
    const client = await served.connect();
    const _meta = await paying(client);
    const other = await client.callTool({ name: "quote", arguments: { symbol: "ABD" }, _meta });
    expect(askOf(other as never).quote).to.include({ error: "InvalidPaymentProof" });
    const raw = await fetch(served.url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": REVISION,
        "mcp-method": "tools/call",
        "mcp-name": "list",
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: {
          ...ABC,
          _meta: {
            ..._meta,
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
          },
        },
      }),
    });
    expect(raw.status).to.equal(400);
    expect(((await raw.json()) as { error: { code: number } }).error.code).to.equal(-32_020);
  });

  it("MC3 charges nothing for a result that the tool's schema of another library refuses, and takes any JSON", async () => {
    const client = await (await serve()).connect();
    const failed = await client.callTool({
      name: "report",
      arguments: {},
      _meta: await paying(client, { name: "report" }),
    });
    expect(failed.isError).to.equal(true);
    expect(textOf(failed as never)).to.include("that its outputSchema refuses");
    expect(settles()).to.equal(0);
    const listed = await client.callTool({
      name: "list",
      arguments: {},
      _meta: await paying(client, { name: "list" }),
    });
    expect(listed.structuredContent).to.deep.equal([7, 8]);
    expect(settles()).to.equal(1);
  });

  it("MC3 charges nothing for a thrown demand for a URL, which this revision does not have", async () => {
    const client = await (await serve()).connect();
    const _meta = await paying(client, { name: "linked" });
    const error = await client.callTool({ name: "linked", _meta }).catch((thrown: ProtocolError) => thrown);
    expect(error).to.include({ code: -32_603 });
    expect(settles()).to.equal(0);
  });

  for (const mode of [{ pin: REVISION }, "legacy"] as const satisfies VersionNegotiationMode[]) {
    it(`charges a tool that asks for input once, when it has answered (${mode === "legacy" ? mode : mode.pin})`, async () => {
      const served = mode === "legacy" ? undefined : await serve();
      const client = new Client(
        { name: "buyer", version: "1.0.0" },
        { versionNegotiation: { mode }, capabilities: { elicitation: { form: {} } } },
      );
      const questions: string[] = [];
      client.setRequestHandler("elicitation/create", ({ params }) => {
        questions.push(params.message);
        expect(settles(), "before the answer").to.equal(0);
        return { action: "accept", content: { ok: true } };
      });
      if (served) await served.connect(mode, client);
      else await connectInProcess(client);
      const _meta = await paying(client, { name: "confirmed" });
      const result = await client.callTool({ name: "confirmed", _meta });
      expect(textOf(result as never)).to.equal("done");
      expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
      expect([questions, settles()]).to.deep.equal([["Sure?"], 1]);
      expect(runs).to.deep.equal(["confirmed undefined", "confirmed true"]);
    });
  }

  it("asks for input by a payment that has settled before, and takes no second one", async () => {
    const mode = { pin: REVISION };
    const capabilities = { elicitation: { form: {} } };
    const client = new Client({ name: "buyer", version: "1.0.0" }, { versionNegotiation: { mode }, capabilities });
    client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { ok: true } }));
    await (await serve()).connect(mode, client);
    const _meta = await paying(client, { name: "prepaid" });
    const result = await client.callTool({ name: "prepaid", _meta });
    expect(textOf(result as never)).to.equal("done");
    expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
    const grants = facilitator.calls
      .filter(({ path }) => path === "/settle")
      .map(({ body }) => (body as SettleBody).grant);
    expect(new Set(grants.map((grant) => grant?.id)).size).to.equal(1);
    expect(runs).to.deep.equal(["confirmed undefined", "confirmed true"]);
  });

  /** Over a pipe in this process, where servers ask as before. */
  async function connectInProcess(client: Client): Promise<void> {
    const server = new McpServer({ name: "tools", version: "1.0.0" });
    tools()(server);
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    await server.connect(theirs);
    await client.connect(ours);
    open.push(client, server);
  }

  it("sends progress while a payment settles, above what the tool has reported", async () => {
    const client = await (await serve()).connect();
    const _meta = await paying(client);
    onRun = ({ mcpReq }) => {
      const progressToken = mcpReq._meta?.progressToken ?? 0;
      return mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress: 3 } });
    };
    const seen: number[] = [];
    facilitator.holds = (path) => path === "/settle";
    let settle = (): void => undefined;
    facilitator.held = new Promise((resolve) => {
      settle = () => resolve(undefined);
    });
    const onprogress = ({ progress }: { readonly progress: number }) => {
      seen.push(progress);
      if (seen.length === 2) settle();
    };
    const result = await client.callTool({ ...ABC, _meta }, { onprogress });
    expect(textOf(result as never)).to.equal("ABC: 7");
    const [reported, settling = 0] = seen;
    expect(reported).to.equal(3);
    expect(settling).to.be.above(3);
  });

  it("MC5 gives the handler no credential", async () => {
    const client = await (await serve()).connect();
    const _meta = await paying(client);
    let seen: PaidToolContext | undefined;
    onRun = (context) => {
      seen = context;
    };
    await client.callTool({ ...ABC, _meta });
    const { signature } = (_meta["x402/payment"] as { payload: { signature: string } }).payload;
    expect(seen?.payment.kind).to.equal("one-time");
    expect(inspect(seen, { depth: 20 })).to.not.include(signature);
  });
});

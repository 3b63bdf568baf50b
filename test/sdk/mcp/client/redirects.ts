import { createServer } from "node:http";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { JSONRPCMessageSchema } from "@modelcontextprotocol/sdk/types.js";
import { expect } from "chai";
import { receiptOf, wrapMcpClientWithPayment } from "turnpike/mcp/client";
import { closeServer, listen } from "../../../support/gate";
import { rejection } from "../../agent/support/rejection";
import { agentFor, Chain, transfersSigned } from "../../agent/support/world";
import { serveOverHttp, specServer } from "../support/spec-server";

const weather = { name: "weather", arguments: { city: "Oslo" } };

/** Sends as transports of older releases of the MCP SDK do: its fetch follows every redirect. */
class OldTransport extends StreamableHTTPClientTransport {
  readonly #target: URL;
  readonly #ownFetch: typeof fetch | undefined;

  constructor(url: URL, options: { readonly fetch?: typeof fetch } = {}) {
    super(url, options);
    this.#target = url;
    this.#ownFetch = options.fetch;
  }

  override async send(message: Parameters<StreamableHTTPClientTransport["send"]>[0]): Promise<void> {
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    const { _fetch: own = this.#ownFetch } = this as unknown as { readonly _fetch?: typeof fetch };
    const response = await (own ?? fetch)(this.#target, { method: "POST", headers, body: JSON.stringify(message) });
    if (response.status === 202) return;
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    this.onmessage?.(JSONRPCMessageSchema.parse(await response.json()));
  }
}

const TRANSPORTS = {
  "that follows redirects by its own policy": (url: URL, options: { readonly fetch?: typeof fetch } = {}) =>
    new StreamableHTTPClientTransport(url, { ...options, redirectPolicy: "follow" }),
  "of an older SDK": (url: URL, options: { readonly fetch?: typeof fetch } = {}) => new OldTransport(url, options),
};

describe("an agent's MCP client and redirects", () => {
  const open: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
  });

  /** An HTTP server that answers each request by what `target` returns for its body: a redirect, or it serves it. */
  async function redirecting(to: string, isRedirected: (body: string) => boolean, status = 307) {
    const bodies: string[] = [];
    const http = createServer(async (request, response) => {
      if (request.method !== "POST") return void response.writeHead(405).end();
      let body = "";
      for await (const chunk of request) body += chunk;
      bodies.push(body);
      const target = isRedirected(body) ? `${to}/steal` : `${to}/mcp`;
      if (isRedirected(body)) return void response.writeHead(status, { location: target }).end();
      const answer = await fetch(target, { method: "POST", headers: { ...accepts }, body });
      response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
    });
    const url = await listen(http);
    open.push({ close: () => closeServer(http) });
    return { url: `${url}/mcp`, bodies };
  }
  const accepts = { "content-type": "application/json", accept: "application/json, text/event-stream" };

  /** A server that sells, and records every call that reaches any of its paths. */
  async function shop() {
    const chain = new Chain();
    chain.nowSec = Math.floor(Date.now() / 1_000);
    const server = specServer(chain);
    const http = await serveOverHttp(server);
    open.push(http);
    return { server, origin: new URL(http.url).origin, chain };
  }

  async function payingAt(transport: StreamableHTTPClientTransport, server: string) {
    const client = new Client({ name: "test", version: "1" });
    open.push(client);
    await client.connect(transport as Parameters<Client["connect"]>[0]);
    const subject = agentFor("http://127.0.0.1:1", { sleep: async () => {} });
    return { subject, paying: wrapMcpClientWithPayment(client, subject.agent, { server }) };
  }

  for (const [name, transportTo] of Object.entries(TRANSPORTS)) {
    it(`D7 a paid call over a transport ${name}: its payment goes to no other origin`, async () => {
      const { server, origin } = await shop();
      const front = await redirecting(origin, (body) => body.includes('"x402/payment"'));
      const { subject, paying } = await payingAt(transportTo(new URL(front.url)), front.url);
      expect((await rejection(paying.callTool(weather))).code).to.equal("Unavailable");
      expect(front.bodies.some((body) => body.includes('"x402/payment"'))).to.equal(true);
      expect([server.payments.size, transfersSigned(subject)]).to.deep.equal([0, 1]);
    });

    it(`D7 an unpaid call over a transport ${name}: an ask of another origin is not paid`, async () => {
      const { server, origin } = await shop();
      const front = await redirecting(origin, (body) => body.includes('"tools/call"'));
      const { subject, paying } = await payingAt(transportTo(new URL(front.url)), front.url);
      const error = await rejection(paying.callTool(weather));
      expect([error.code, error.reason]).to.deep.equal(["PolicyRefused", "redirect"]);
      expect([server.metas, transfersSigned(subject)]).to.deep.equal([[], 0]);
    });

    it(`says of a redirect that drops the call what is wrong with it, over a transport ${name}`, async () => {
      const { origin } = await shop();
      const front = await redirecting(origin, () => false);
      const changing: typeof fetch = async (url, init) =>
        String(init?.body).includes('"tools/call"')
          ? new Response(null, { status: 303, headers: { location: `${String(url)}/` } })
          : fetch(url, init);
      const { paying } = await payingAt(transportTo(new URL(front.url), { fetch: changing }), front.url);
      const { reason, message } = await rejection(paying.callTool(weather));
      expect(reason).to.equal("redirect");
      expect(message).to.contain("would change it").and.not.contain("another origin");
    });

    it(`follows a redirect within the origin, over a transport ${name}`, async () => {
      const { server, origin, chain } = await shop();
      const front = await redirecting(origin, () => false);
      const within: typeof fetch = async (url, init) => {
        const isCall = String(init?.body).includes('"tools/call"') && String(url).endsWith("/mcp");
        if (isCall) return new Response(null, { status: 307, headers: { location: `${String(url)}/` } });
        return fetch(url, init);
      };
      const { paying } = await payingAt(transportTo(new URL(front.url), { fetch: within }), front.url);
      expect(receiptOf(await paying.callTool(weather))?.amount).to.equal(10_000n);
      expect([server.payments.size, chain.transfers.length]).to.deep.equal([1, 1]);
    });
  }

  it("D7 a transport with a URL whose requests cannot be watched is refused before anything is sent", async () => {
    const { server, origin } = await shop();
    const transport = new StreamableHTTPClientTransport(new URL(`${origin}/mcp`));
    const { paying } = await payingAt(transport, `${origin}/mcp`);
    delete (transport as unknown as { _fetch?: unknown })._fetch;
    const error = await rejection(paying.callTool(weather));
    expect([error.code, server.metas]).to.deep.equal(["ConfigError", []]);
    expect(error.message).to.include("transport");
  });
});

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import type { Browser } from "playwright-core";
import { createProvider, memoryClaims, type Provider } from "turnpike/gate";
import { launchBrowser, openPage } from "../support/browser";
import { testKey } from "../support/chain";
import { startSandbox, type World } from "../support/sandbox";
import { type Bundle, bundle } from "./support/bundle";
import { emptyProject, type Project } from "./support/packed";

/** The limit of a compressed bundle of the agent's entry point. */
const MAX_GZIP_BYTES = 119_500;

describe("the agent in a browser", function () {
  this.timeout(240_000);
  let project: Project;
  let world: World;
  let browser: Browser;
  let site: Server;
  let shop: Server;
  let provider: Provider;
  let agentBundle: Bundle;
  /** by path */
  const scripts = new Map<string, string>();

  before(async () => {
    project = await emptyProject();
    agentBundle = await bundle(`export * from "turnpike/agent";`, { cwd: project.folder });
    scripts.set("/agent.js", agentBundle.text);
    world = await startSandbox();
    const { contracts, facilitator, chain, providerAccount, plans } = world;
    provider = await createProvider({
      network: contracts.network,
      rpcUrl: chain.rpcUrl,
      turnpike: contracts.turnpike,
      token: contracts.token,
      facilitator: { url: facilitator.url, signers: [facilitator.signer] },
      payTo: providerAccount.address,
      claims: memoryClaims(),
      secret: testKey("gate of the page"),
      plans: [plans.reader],
      pollMs: 200,
    });
    const sold = provider.paymentGate({ pricing: [{ type: "one-time", amount: 500_000 }] });
    const read = provider.paymentGate({ pricing: [{ type: "subscription", plan: plans.reader }] });
    // A gate that sees every method answers the preflight of a page itself.
    shop = createServer((req, res) => {
      const gate = req.url?.startsWith("/quote") ? sold : read;
      void gate(req, res, () => res.end(JSON.stringify({ price: "1234.56" })));
    });
    site = createServer((req, res) => {
      const script = scripts.get(req.url ?? "");
      res.writeHead(200, { "content-type": script ? "text/javascript" : "text/html" });
      res.end(script ?? "<!doctype html><title>agent</title>");
    });
    for (const server of [shop, site]) {
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    }
    browser = await launchBrowser();
  });
  after(async () => {
    await browser?.close();
    for (const server of [shop, site]) {
      server?.closeAllConnections();
      server?.close();
    }
    await provider?.close();
    await world?.stop();
    await project?.remove();
  });
  const urlOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  it("pays a gated route of another origin from a page, gets its receipt, and is served once", async () => {
    const { wallet, address } = await world.agent("a page");
    const { page, errors } = await openPage(browser);
    await page.goto(`${urlOf(site)}/`);
    const job = {
      key: wallet.privateKey,
      token: world.contracts.token,
      turnpike: world.contracts.turnpike,
      chainId: world.contracts.chainId,
      facilitator: world.facilitator.url,
      url: `${urlOf(shop)}/quote?symbol=BROWSER`,
    };
    const before = await world.contracts.balanceOf(address);
    const outcome = await page.evaluate(async ({ key, token, turnpike, chainId, facilitator, url }) => {
      const { createAgent, walletFromKey } = await import("/agent.js" as string);
      const events: string[] = [];
      const agent = createAgent({
        wallet: walletFromKey(key),
        policy: { perPayment: 1_000_000, perDay: 10_000_000, tokens: [token] },
        facilitators: [facilitator],
        deployments: [{ chainId, turnpike }],
        onEvent: ({ type }: { type: string }) => events.push(type),
      });
      const quote = await agent.quote(url);
      const response = await agent.pay(url);
      const { amount, transaction, settledAtSec } = response.receipt;
      return {
        status: response.status,
        body: await response.json(),
        receipt: { amount: String(amount), transaction, isSettled: settledAtSec > 0 },
        offered: quote.options.map(({ kind }: { kind: string }) => kind),
        events,
      };
    }, job);
    expect(errors).to.deep.equal([]);
    expect(outcome.status).to.equal(200);
    expect(outcome.body).to.include({ price: "1234.56" });
    expect(outcome.receipt).to.include({ amount: "500000", isSettled: true });
    expect(outcome.offered).to.include("one-time");
    expect(outcome.events.at(-1)).to.equal("payment.served");
    expect(before - (await world.contracts.balanceOf(address))).to.equal(500_000n);
    const receipt = await world.chain.provider.getTransactionReceipt(outcome.receipt.transaction);
    expect(receipt?.status).to.equal(1);
  });

  it("subscribes from a page, and is served without paying", async () => {
    const { wallet, address } = await world.agent("a subscribing page");
    const { page, errors } = await openPage(browser);
    await page.goto(`${urlOf(site)}/`);
    const job = {
      key: wallet.privateKey,
      token: world.contracts.token,
      turnpike: world.contracts.turnpike,
      chainId: world.contracts.chainId,
      facilitator: world.facilitator.url,
      url: `${urlOf(shop)}/report`,
    };
    const outcome = await page.evaluate(async ({ key, token, turnpike, chainId, facilitator, url }) => {
      const { createAgent, walletFromKey } = await import("/agent.js" as string);
      const agent = createAgent({
        wallet: walletFromKey(key),
        policy: { perPayment: 1_000_000, perDay: 100_000_000, perSubscription: 50_000_000, tokens: [token] },
        facilitators: [facilitator],
        deployments: [{ chainId, turnpike }],
      });
      const { status } = await agent.subscribe({ url });
      const responses = [await agent.fetch(url), await agent.fetch(url)];
      return { status, served: responses.map((response) => response.status) };
    }, job);
    expect(errors).to.deep.equal([]);
    expect(outcome).to.deep.equal({ status: "ACTIVE", served: [200, 200] });
    expect(await world.chain.provider.getBalance(address), "no gas of its own").to.equal(0n);
  });

  it("pays by the fetch that `turnpike` wraps, as the package resolves for a page, without a module of Node", async () => {
    const whole = await bundle(`export * from "turnpike"; export * as protocol from "turnpike/protocol";`, {
      cwd: project.folder,
    });
    scripts.set("/turnpike.js", whole.text);
    expect(whole.packages).to.deep.equal(["@noble/curves", "@noble/hashes", "ipaddr.js", "zod"]);
    const { wallet, address } = await world.agent("a page with a wrapped fetch");
    const { page, errors } = await openPage(browser);
    await page.goto(`${urlOf(site)}/`);
    const job = {
      key: wallet.privateKey,
      token: world.contracts.token,
      facilitator: world.facilitator.url,
      url: `${urlOf(shop)}/quote?symbol=WRAPPED`,
    };
    const before = await world.contracts.balanceOf(address);
    const outcome = await page.evaluate(async ({ key, token, facilitator, url }) => {
      const { wrapFetchWithPayment, walletFromKey, PolicyRefused, protocol } = await import("/turnpike.js" as string);
      const options = { wallet: walletFromKey(key), facilitators: [facilitator] };
      const policy = { perPayment: 1_000_000, perDay: 10_000_000, tokens: [token] };
      const paying = wrapFetchWithPayment(fetch, { ...options, policy });
      const response = await paying(url);
      const paid = { status: response.status, body: await response.json() };
      return { ...paid, price: protocol.formatAmount(500_000n), names: typeof PolicyRefused };
    }, job);
    expect(errors).to.deep.equal([]);
    expect(outcome).to.deep.equal({ status: 200, body: { price: "1234.56" }, price: "0.50", names: "function" });
    expect(before - (await world.contracts.balanceOf(address))).to.equal(500_000n);
  });

  it("carries no chain library, no node module and no gate, and weighs what it may", () => {
    const { bytes, gzipBytes, packages, ownFolders } = agentBundle;
    process.stdout.write(`${JSON.stringify({ "agent.bundle.gzipBytes": gzipBytes, "agent.bundle.bytes": bytes })}\n`);
    expect(packages).to.deep.equal(["@noble/curves", "@noble/hashes", "zod"]);
    expect(ownFolders).to.include("turnpike/agent/payments");
    expect(ownFolders.filter((folder) => /^turnpike\/(gate|testing)/.test(folder))).to.deep.equal([]);
    expect(gzipBytes).to.be.lessThan(MAX_GZIP_BYTES);
  });
});

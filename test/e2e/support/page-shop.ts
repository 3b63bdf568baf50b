/** Routes with a payment page over a whole sandbox, a browser, and wallets in its pages. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import path from "node:path";
import type { Browser, Page } from "playwright-core";
import { createProvider, type GateOptions, gated, memoryClaims, type PricingEntry, type Provider } from "turnpike/gate";
import { launchBrowser, openPage } from "../../support/browser";
import { testKey } from "../../support/chain";
import { closeServer, listen } from "../../support/gate";
import { startSandbox, type World } from "../../support/sandbox";
import { SHOTS } from "./dashboard";
import { addPageWallet, type PageWallet, type PageWalletOptions } from "./page-wallet";

/** Base units: 0.50. */
export const PRICE = 500_000n;

export type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

export interface Shop {
  readonly world: World;
  readonly browser: Browser;
  /** settings of a provider of this sandbox whose token has decimals */
  readonly settings: Parameters<typeof createProvider>[0];
  /** Sells a path of a server of its own. @returns the address */
  sell(handler: Handler, options?: Partial<GateOptions>): Promise<string>;
  /** Opens an address in a new page with a wallet that has tokens. */
  open(url: string, options?: OpenOptions): Promise<Visit>;
}

export interface OpenOptions extends Partial<Pick<PageWalletOptions, "names" | "chainId">> {
  readonly tokens?: bigint;
  readonly colorScheme?: "light" | "dark";
  readonly width?: number;
}

export interface Visit {
  readonly page: Page;
  readonly wallet: PageWallet;
  readonly address: string;
  /** Returns another account with as many tokens. */
  account(): Promise<PageWallet["account"]>;
  /** that the page threw */
  readonly errors: readonly Error[];
  spent(): Promise<bigint>;
}

/** Registers the hooks that start and stop it. */
export function useShop(): Shop {
  let world: World;
  let browser: Browser;
  let provider: Provider;
  let settings: Shop["settings"];
  let visits = 0;
  const servers: Server[] = [];
  const opened: Page[] = [];
  before(async () => {
    world = await startSandbox();
    const { contracts, facilitator, chain, providerAccount } = world;
    const token = { address: contracts.token, name: contracts.tokenName, version: contracts.tokenVersion };
    settings = {
      network: contracts.network,
      rpcUrl: chain.rpcUrl,
      token: { ...token, decimals: 6, symbol: "tUSD", currency: "USD" },
      facilitator: { url: facilitator.url, signers: [facilitator.signer] },
      payTo: providerAccount.address,
      claims: memoryClaims({ warn: false }),
      secret: testKey("gate of the payment page"),
      pollMs: 200,
    };
    provider = createProvider(settings);
    browser = await launchBrowser();
  });
  // Pages that stay open go on asking.
  afterEach(async () => {
    for (const page of opened.splice(0)) await page.context().close();
  });
  after(async () => {
    await browser?.close();
    for (const server of servers) await closeServer(server);
    await provider?.close();
    await world?.stop();
  });
  return {
    get world() {
      return world;
    },
    get browser() {
      return browser;
    },
    get settings() {
      return settings;
    },
    async sell(handler, options = {}) {
      const pricing: readonly PricingEntry[] = [{ type: "one-time", price: "$0.50" }];
      const gate = provider.paymentGate({ pricing, page: true, description: "The report", ...options } as GateOptions);
      const server = createServer(
        gated(gate, (request, response) => {
          response.setHeader("Content-Type", "text/plain; charset=utf-8");
          return handler(request, response);
        }),
      );
      servers.push(server);
      await gate.ready();
      return `${await listen(server)}/report?of=today`;
    },
    async open(url, { tokens = 10n * PRICE, colorScheme, width, ...options } = {}) {
      const { wallet: keys, address } = await world.agent(`person ${visits++}`, { tokens });
      const { page, errors } = await openPage(browser);
      opened.push(page);
      await page.emulateMedia({ colorScheme: colorScheme ?? "light" });
      if (width) await page.setViewportSize({ width, height: 844 });
      const { chainId } = world.contracts;
      const at = { address, key: keys.privateKey, chainId, rpcUrl: world.chain.rpcUrl };
      const wallet = await addPageWallet(page, { ...at, ...options });
      if (options.chainId !== undefined) wallet.known.add(chainId);
      await page.goto(url);
      return {
        page,
        wallet,
        address,
        errors,
        async account() {
          const other = await world.agent(`person ${visits++}`, { tokens });
          return { address: other.address, key: other.wallet.privateKey };
        },
        spent: async () => tokens - (await world.contracts.balanceOf(address)),
      };
    },
  };
}

/** Connects the wallet and pays the price that is shown. */
export async function payOn(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Connect a wallet" }).click();
  await page.getByRole("button", { name: /^Pay 0\.50/ }).click();
}

/** Saves how the page looks, where CI keeps what the dashboard's tests saw. */
export async function shoot(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: path.join(SHOTS, `payment-page-${name}.png`) });
}

/** Every client of the matrix behind one face: pay a URL, and say what came back, as its own helpers read it. */
import { createAgent, memoryLedger, walletFromKey } from "turnpike/agent";
import {
  accounts,
  axios,
  baseSepolia,
  type Hex,
  type MppClient,
  mppx,
  type StockAccount,
  type StockReceipt,
  type V2Client,
  v1,
  v2,
  viem,
} from "./stock";
import { CHAIN_ID, type InteropWorld, type Payer } from "./world";

export interface Paid {
  readonly status: number;
  readonly body: string;
  /** by the client's own helper; undefined where no header came */
  readonly receipt: StockReceipt | undefined;
}

export interface ClientOptions {
  /** lifts the client's own limits on amount and token */
  readonly unlimited?: boolean;
}

export interface Client {
  readonly name: string;
  readonly version: 1 | 2 | "turnpike";
  /** @throws what the client throws: it paid nothing, or gave up */
  pay(url: string, payer: Payer, options?: ClientOptions): Promise<Paid>;
}

/** A wallet as version 1 takes it: bound to a chain, which is how these packages choose an entry. */
export function walletOf(world: InteropWorld, account: StockAccount): object {
  const transport = viem().http(world.chain.rpcUrl);
  return viem().createWalletClient({ account, chain: baseSepolia(), transport }).extend(viem().publicActions);
}

export function v2Client(
  { x402Client }: { x402Client: new () => V2Client },
  account: StockAccount,
  { unlimited = false }: ClientOptions = {},
): V2Client {
  const { ExactEvmScheme } = v2.clientScheme();
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(account));
  // 2.11 knows no spend controls.
  if (unlimited && typeof client.setSpendControls === "function") client.setSpendControls(false);
  return client;
}

async function paidByFetch(
  response: Response,
  names: readonly string[],
  decode: (header: string) => StockReceipt,
): Promise<Paid> {
  const header = names.map((name) => response.headers.get(name)).find((value) => value !== null);
  return {
    status: response.status,
    body: await response.text(),
    receipt: header ? decode(header) : undefined,
  };
}

const UNLIMITED = 2n ** 128n;

export function clientsOf(world: InteropWorld): Readonly<Record<string, Client>> {
  const clients: Client[] = [
    {
      name: "x402-fetch",
      version: 1,
      async pay(url, { account }, { unlimited } = {}) {
        const { wrapFetchWithPayment, decodeXPaymentResponse } = v1.fetch();
        const wallet = walletOf(world, account);
        const pay = unlimited ? wrapFetchWithPayment(fetch, wallet, UNLIMITED) : wrapFetchWithPayment(fetch, wallet);
        return paidByFetch(await pay(url), ["X-PAYMENT-RESPONSE"], decodeXPaymentResponse);
      },
    },
    {
      name: "x402-axios",
      version: 1,
      async pay(url, { account }) {
        const { withPaymentInterceptor, decodeXPaymentResponse } = v1.axios();
        const { status, data, headers } = await withPaymentInterceptor(axios().create(), walletOf(world, account)).get(
          url,
        );
        const header = headers["x-payment-response"];
        return { status, body: textOf(data), receipt: header ? decodeXPaymentResponse(header) : undefined };
      },
    },
    {
      name: "@x402/fetch",
      version: 2,
      async pay(url, { account }, options) {
        const stock = v2.fetch();
        const pay = stock.wrapFetchWithPayment(fetch, v2Client(stock, account, options));
        return paidByFetch(await pay(url), ["PAYMENT-RESPONSE"], stock.decodePaymentResponseHeader);
      },
    },
    {
      name: "@x402/axios",
      version: 2,
      async pay(url, { account }, options) {
        const stock = v2.axios();
        const client = stock.wrapAxiosWithPayment(axios().create(), v2Client(stock, account, options));
        const { status, data, headers } = await client.get(url);
        const header = headers["payment-response"];
        return { status, body: textOf(data), receipt: header ? stock.decodePaymentResponseHeader(header) : undefined };
      },
    },
    {
      name: "turnpike agent",
      version: "turnpike",
      async pay(url, payer, { unlimited = false } = {}) {
        const agent = agentOf(world, payer, unlimited ? UNLIMITED : 100_000n);
        try {
          const response = await agent.fetch(url);
          const { receipt } = response as { receipt?: { transaction?: string; payer: string; network: string } };
          const settled = receipt?.transaction
            ? { success: true, transaction: receipt.transaction, network: receipt.network, payer: receipt.payer }
            : undefined;
          return { status: response.status, body: await response.text(), receipt: settled };
        } finally {
          await agent.close();
        }
      },
    },
  ];
  return Object.fromEntries(clients.map((client) => [client.name, client]));
}

/** A stock client of MPP. */
export interface CountingMppClient extends MppClient {
  /** how often it has signed */
  signed(): number;
}

export function mppClientOf({ usdc }: InteropWorld, { account }: Payer, send: typeof fetch = fetch): CountingMppClient {
  let signed = 0;
  const counting: StockAccount = {
    ...account,
    signTypedData(message) {
      signed++;
      return account.signTypedData(message);
    },
  };
  const { Mppx, evm } = mppx.client();
  const { name, version } = usdc;
  const charge = evm.charge({ account: counting, authorization: { name, version }, networks: [CHAIN_ID] });
  const { fetch: pay } = Mppx.create({ methods: [charge], polyfill: false, fetch: send });
  return { fetch: pay, signed: () => signed };
}

const textOf = (data: unknown): string => (typeof data === "string" ? data : JSON.stringify(data));

export function agentOf(
  world: InteropWorld,
  payer: Payer,
  perPayment = 100_000n,
  ledger = memoryLedger(),
  send: typeof fetch = fetch,
) {
  const wallet =
    payer.kind === "ERC-1271" || payer.kind === "ERC-6492" ? contractWallet(payer) : walletFromKey(payer.key);
  return createAgent({
    wallet,
    policy: { perPayment, perDay: perPayment * 10n, tokens: [world.usdc.address, world.wide.address] },
    facilitators: [world.facilitatorUrl],
    deployments: [{ chainId: CHAIN_ID, turnpike: world.contracts.turnpike }],
    rpc: world.chain.rpcUrl,
    ledger,
    fetch: send,
  });
}

/** As viem has accounts: the contract's address, its owner's signature. */
function contractWallet({ address, account }: Payer) {
  return { address, signTypedData: (message: unknown) => account.signTypedData(message as never) } as never;
}

export const testAccount = (key: Hex): StockAccount => accounts().privateKeyToAccount(key);

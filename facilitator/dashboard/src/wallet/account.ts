/**
 * One account of a browser wallet: signs typed data and sends transactions, each only on the right account and chain.
 * A refusal changes nothing, and its message says so. Wallets are found as the payment page finds them.
 */
import type { TypedData } from "turnpike/protocol";
import { Problem, signTypedData, switchTo, type Wallet } from "../../../../sdk/src/gate/page/client/wallet";
import { plainText, shorten } from "../format";
import type { Call } from "./calls";
import { reasonOf } from "./reverts";

export { discoverWallets, Problem, type Wallet } from "../../../../sdk/src/gate/page/client/wallet";

/** Where the account acts. */
export interface Place {
  readonly chainId: number;
  readonly network: string;
}

/** Shows how far an act is. */
export interface Progress {
  say(text: string): void;
  /** @throws Problem after the person gave up: a late answer of the wallet is dropped */
  check(): void;
}

export interface Account {
  readonly address: string;
  /** @returns the signature in hex */
  sign(data: TypedData, progress: Progress): Promise<string>;
  /** Reads by the wallet's own node. @throws Problem with the contract's reason */
  read(call: Pick<Call, "to" | "data">): Promise<string>;
  /** @returns what a transaction may cost, in wei */
  cost(call: Call): Promise<bigint>;
  /** Sends a transaction and waits until it is in a block. @returns its hash */
  send(call: Call, progress: Progress): Promise<string>;
}

const ALREADY_ASKED = -32002;

const REJECTED = 4001;

/** Makes one request of a wallet. @throws Problem in words, with the contract's reason where there is one */
export async function ask({ provider }: Wallet, method: string, params: readonly unknown[]): Promise<unknown> {
  try {
    return await provider.request({ method, params });
  } catch (error) {
    const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
    if (code === REJECTED) throw new Problem("You declined the request in your wallet. Nothing was changed.");
    if (code === ALREADY_ASKED) throw new Problem("Your wallet already shows a request. Open it to continue.");
    const words = plainText(String(message ?? "no reason"));
    throw new Problem(reasonOf(error) ?? `The wallet refused the request: ${words}. Nothing was changed.`);
  }
}

/**
 * Returns an account that the wallet shares: this one, or without one the first.
 * @throws Problem when it shares others alone
 */
export async function sharedAccount(wallet: Wallet, address?: string): Promise<string> {
  const answer = await ask(wallet, "eth_requestAccounts", []);
  const accounts = (Array.isArray(answer) ? answer : []).filter((each) => /^0x[0-9a-f]{40}$/i.test(String(each)));
  const [first] = accounts;
  if (first === undefined) throw new Problem("The wallet shared no account. Unlock it, and try again.");
  const own = accounts.find((each) => each.toLowerCase() === address?.toLowerCase());
  if (address === undefined || own !== undefined) return own ?? first;
  throw new Problem(
    `Your wallet is on the account ${shorten(first)}, and this page is about ${shorten(address)}. Choose that account in your wallet. Nothing was changed.`,
  );
}

/**
 * Follows, without asking the person, which account the wallet is on.
 * @param say called with the account where it is another one than `address`, else with nothing
 * @returns ends it
 */
export function otherAccount({ provider }: Wallet, address: string, say: (other?: string) => void): () => void {
  const look = (accounts: unknown): void => {
    const shared = Array.isArray(accounts) ? accounts.map(String) : [];
    const isThere = shared.some((each) => each.toLowerCase() === address.toLowerCase());
    say(isThere ? undefined : shared[0]);
  };
  let isOver = false;
  provider.request({ method: "eth_accounts" }).then(
    (accounts) => !isOver && look(accounts),
    () => undefined,
  );
  provider.on?.("accountsChanged", look);
  return () => {
    isOver = true;
    provider.removeListener?.("accountsChanged", look);
  };
}

const WALLET_WAITS = "Your wallet shows the request. Nothing changes until you confirm it there.";

export function accountOf(wallet: Wallet, address: string, { chainId, network }: Place): Account {
  const from = address;

  const request = (method: string, params: readonly unknown[]) => ask(wallet, method, params);

  async function ready(): Promise<void> {
    await sharedAccount(wallet, address);
    await switchTo(wallet, chainId, network);
  }

  return {
    address,
    async sign(data, progress) {
      return inWords(async () => {
        progress.say("Checking your wallet.");
        await ready();
        progress.check();
        progress.say(WALLET_WAITS);
        const signature = await signTypedData(wallet, address, forWallet(data));
        progress.check();
        return signature;
      });
    },
    async read({ to, data }) {
      return inWords(async () => {
        await ready();
        return String(await request("eth_call", [{ from, to, data }, "latest"]));
      });
    },
    async cost({ to, data }) {
      const [gas, price] = await Promise.all([
        request("eth_estimateGas", [{ from, to, data }]),
        request("eth_gasPrice", []),
      ]);
      return BigInt(String(gas)) * BigInt(String(price));
    },
    async send({ to, data }, progress) {
      return inWords(async () => {
        await ready();
        // What would revert is not sent.
        await request("eth_call", [{ from, to, data }, "latest"]);
        progress.check();
        progress.say(WALLET_WAITS);
        const hash = await request("eth_sendTransaction", [{ from, to, data, value: "0x0" }]);
        if (typeof hash !== "string" || !/^0x[0-9a-f]{64}$/i.test(hash))
          throw new Problem("The wallet returned no transaction. Look there whether it sent one.");
        progress.say("Sent. Waiting for the block.");
        const receipt = await receiptOf(hash);
        if (receipt.status !== "0x1") throw new Problem("The transaction failed on the chain. Nothing was changed.");
        return hash;
      });
    },
  };

  async function receiptOf(hash: string): Promise<{ readonly status?: unknown }> {
    for (let round = 0; round < RECEIPT_ROUNDS; round++) {
      const receipt = await request("eth_getTransactionReceipt", [hash]);
      if (typeof receipt === "object" && receipt !== null) return receipt;
      await new Promise((resolve) => setTimeout(resolve, RECEIPT_WAIT_MS));
    }
    throw new Problem(`The transaction ${shorten(hash)} is in no block yet. Look in your wallet.`);
  }
}

const RECEIPT_WAIT_MS = 1_000;
const RECEIPT_ROUNDS = 180;

/** The payment page's words are about a charge; here something would be changed. */
async function inWords<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (error instanceof Problem)
      throw new Problem(error.message.replace("Nothing was charged", "Nothing was changed"));
    throw error;
  }
}

const DOMAIN = { name: "string", version: "string", chainId: "uint256", verifyingContract: "address" } as const;

/** Writes typed data as wallets read it: with the domain's type, and whole numbers as text. */
export function forWallet({ domain, types, ...data }: TypedData): object {
  const fields = (Object.keys(DOMAIN) as (keyof typeof DOMAIN)[]).filter((name) => domain[name] !== undefined);
  const all = { EIP712Domain: fields.map((name) => ({ name, type: DOMAIN[name] })), ...types };
  const plain = (_: string, value: unknown) => (typeof value === "bigint" ? value.toString() : value);
  return JSON.parse(JSON.stringify({ ...data, domain, types: all }, plain));
}

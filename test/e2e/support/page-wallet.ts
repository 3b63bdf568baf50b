/** A wallet in a browser page (EIP-1193, announced by EIP-6963) whose key stays in the test. It reads the real chain. */
import { JsonRpcProvider, Wallet } from "ethers";
import type { Page } from "playwright-core";
import { type Hex, personalDigest, signDigest, type TypedData, typedDataDigest } from "turnpike/protocol";

export interface PageWallet {
  /** every message that was signed */
  readonly signed: TypedData[];
  /** every method that was called */
  readonly calls: string[];
  /** the network that it is on */
  chainId: number;
  /** those that it can switch to */
  readonly known: Set<number>;
  /** the account that it shares and signs by */
  account: { readonly address: string; readonly key: string };
  /** what an answer waits for, where the test sets it */
  waits: (method: string) => Promise<unknown> | undefined;
  /** changes what it is asked to sign, as a wallet would that signs something else */
  alters: (typed: TypedData) => TypedData;
  /** Shares another account, and says so to the page. */
  switchAccount(account: PageWallet["account"]): Promise<void>;
  /** what each request is rejected with, where the test sets one */
  rejects: (method: string) => { readonly code: number; readonly message: string } | undefined;
}

export interface PageWalletOptions {
  readonly address: string;
  readonly key: string;
  readonly chainId: number;
  readonly rpcUrl: string;
  /** by which names it is announced; none: as `window.ethereum` alone */
  readonly names?: readonly string[];
}

/** Adds it to every document that the page loads. */
export async function addPageWallet(page: Page, options: PageWalletOptions): Promise<PageWallet> {
  const { address, key, chainId, rpcUrl, names = [] } = options;
  const wallet: PageWallet = {
    signed: [],
    calls: [],
    chainId,
    known: new Set([chainId]),
    account: { address, key },
    waits: () => undefined,
    alters: (typed) => typed,
    rejects: () => undefined,
    async switchAccount(account) {
      wallet.account = account;
      await page.evaluate((shared) => {
        const scope = window as unknown as { emitToPage(event: string, value: unknown): void };
        scope.emitToPage("accountsChanged", [shared]);
      }, account.address);
    },
  };
  async function answer(method: string, params: readonly unknown[]): Promise<unknown> {
    switch (method) {
      case "eth_requestAccounts":
        return [wallet.account.address.toLowerCase()];
      case "eth_accounts":
        // A wallet shows a page no account before the person has agreed once.
        return wallet.calls.includes("eth_requestAccounts") ? [wallet.account.address.toLowerCase()] : [];
      case "eth_chainId":
        return `0x${wallet.chainId.toString(16)}`;
      case "wallet_switchEthereumChain": {
        const asked = Number((params[0] as { chainId: string }).chainId);
        if (!wallet.known.has(asked)) throw Object.assign(new Error("Unrecognized chain"), { code: 4902 });
        wallet.chainId = asked;
        return null;
      }
      case "eth_signTypedData_v4": {
        const { types, ...data } = JSON.parse(String(params[1])) as TypedData;
        const { EIP712Domain: _domain, ...structs } = types;
        const typed = wallet.alters({ ...data, types: structs });
        wallet.signed.push(typed);
        return signDigest(typedDataDigest(typed), wallet.account.key as Hex);
      }
      case "personal_sign": {
        const text = Buffer.from(String(params[0]).slice(2), "hex").toString("utf8");
        return signDigest(personalDigest(text), wallet.account.key as Hex);
      }
      case "eth_sendTransaction": {
        const { to, data } = params[0] as { to: string; data: string };
        const node = new JsonRpcProvider(rpcUrl, undefined, { cacheTimeout: -1 });
        const { hash } = await new Wallet(wallet.account.key, node).sendTransaction({ to, data });
        node.destroy();
        return hash;
      }
      default: {
        const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
        const response = await fetch(rpcUrl, { method: "POST", headers: { "Content-Type": "application/json" }, body });
        const { result, error } = (await response.json()) as { result: unknown; error?: object };
        if (error) throw Object.assign(new Error("Refused"), error);
        return result;
      }
    }
  }
  await page.exposeFunction("askTestWallet", async (method: string, params: readonly unknown[]) => {
    wallet.calls.push(method);
    await wallet.waits(method);
    const rejection = wallet.rejects(method);
    if (rejection) return { error: rejection };
    return answer(method, params).then(
      (result) => ({ result }),
      ({ code, message, data }) => ({ error: { code, message, data } }),
    );
  });
  await page.addInitScript((announced) => {
    type Answer = { result?: unknown; error?: { code: number; message: string; data?: unknown } };
    const scope = window as unknown as { askTestWallet(method: string, params: unknown): Promise<Answer> } & {
      ethereum?: unknown;
      emitToPage?: (event: string, value: unknown) => void;
    };
    // A page that shows it makes a request to another site, which a test sees.
    const ICON = "https://icons.example/wallet.png";
    const listeners: [event: string, listener: (value: unknown) => void][] = [];
    scope.emitToPage = (event, value) => {
      for (const [name, listener] of listeners) if (name === event) listener(value);
    };
    const provider = {
      async request({ method, params = [] }: { method: string; params?: readonly unknown[] }) {
        const { result, error } = await scope.askTestWallet(method, params);
        if (error) throw Object.assign(new Error(error.message), { code: error.code, data: error.data });
        return result;
      },
      on: (event: string, listener: (value: unknown) => void) => void listeners.push([event, listener]),
    };
    if (announced.length === 0) scope.ethereum = provider;
    addEventListener("eip6963:requestProvider", () => {
      for (const name of announced) {
        const detail = Object.freeze({ info: { uuid: name, name, icon: ICON, rdns: "test" }, provider });
        dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail }));
      }
    });
  }, names);
  return wallet;
}

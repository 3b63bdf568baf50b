/** Finds wallets in the browser (EIP-6963, and `window.ethereum`) and makes requests to one (EIP-1193). */

/** A wallet's interface. */
export interface Provider {
  request(call: { readonly method: string; readonly params?: readonly unknown[] }): Promise<unknown>;
  on?(event: string, listener: (value: unknown) => void): void;
  removeListener?(event: string, listener: (value: unknown) => void): void;
}

export interface Wallet {
  readonly id: string;
  readonly name: string;
  readonly provider: Provider;
}

/** A failure whose message is written for the person who pays. */
export class Problem extends Error {}

interface Announcement {
  readonly info?: { readonly uuid?: unknown; readonly name?: unknown };
  readonly provider?: Provider;
}

const MAX_NAME = 40;

/** Listens for wallets that announce themselves. @returns the list of those known so far */
export function discoverWallets(): () => readonly Wallet[] {
  const announced = new Map<string, Wallet>();
  addEventListener("eip6963:announceProvider", (event) => {
    const { info, provider } = (event as CustomEvent<Announcement>).detail ?? {};
    if (typeof info?.uuid !== "string" || typeof info.name !== "string" || !provider) return;
    announced.set(info.uuid, { id: info.uuid, name: info.name.slice(0, MAX_NAME), provider });
  });
  dispatchEvent(new Event("eip6963:requestProvider"));
  return () => {
    if (announced.size > 0) return [...announced.values()];
    const injected = (window as { ethereum?: Provider }).ethereum;
    return injected ? [{ id: "injected", name: "Browser wallet", provider: injected }] : [];
  };
}

/** @returns the account that the wallet shares, as the wallet writes it */
export async function connect({ provider }: Wallet): Promise<string> {
  const accounts = await asked(provider, "eth_requestAccounts");
  const [account] = Array.isArray(accounts) ? accounts : [];
  if (typeof account === "string" && /^0x[0-9a-f]{40}$/i.test(account)) return account;
  throw new Problem("The wallet shared no account. Unlock it, and connect again.");
}

/** Makes sure that the wallet is on a network, and asks it to switch where it is not. */
export async function switchTo({ provider }: Wallet, chainId: number, network: string): Promise<void> {
  const hex = `0x${chainId.toString(16)}`;
  const isThere = async () => BigInt(String(await asked(provider, "eth_chainId"))) === BigInt(chainId);
  if (await isThere()) return;
  try {
    await provider.request({ method: "wallet_switchEthereumChain", params: [{ chainId: hex }] });
  } catch (error) {
    if (codeOf(error) === REJECTED) throw new Problem(`The wallet stayed on another network. Switch it to ${network}.`);
    throw new Problem(
      `The wallet does not know ${network}. Add that network to it (chain ID ${chainId}), and try again.`,
    );
  }
  if (!(await isThere())) throw new Problem(`The wallet is on another network. Switch it to ${network}.`);
}

/** A wallet whose node is silent would keep the person waiting; nobody is asked for a balance. */
const BALANCE_WAIT_MS = 5_000;

/** @returns the balance in base units; undefined where the wallet cannot read it in time */
export async function balanceOf({ provider }: Wallet, token: string, account: string): Promise<bigint | undefined> {
  const data = `0x70a08231${account.slice(2).toLowerCase().padStart(64, "0")}`;
  try {
    const asking = provider.request({ method: "eth_call", params: [{ to: token, data }, "latest"] });
    const silence = new Promise((resolve) => setTimeout(resolve, BALANCE_WAIT_MS));
    const answer = await Promise.race([asking, silence]);
    return typeof answer === "string" && /^0x[0-9a-f]{64}$/i.test(answer) ? BigInt(answer) : undefined;
  } catch {
    return undefined;
  }
}

/** @returns the signature in hex */
export async function signTypedData({ provider }: Wallet, account: string, typedData: object): Promise<string> {
  const signature = await asked(provider, "eth_signTypedData_v4", [account, JSON.stringify(typedData)]);
  if (typeof signature === "string" && /^0x(?:[0-9a-f]{2}){65,2048}$/i.test(signature)) return signature;
  throw new Problem("The wallet did not return a signature. Nothing was charged.");
}

const REJECTED = 4001;

const ALREADY_ASKED = -32002;

const MAX_WORDS = 160;

async function asked(provider: Provider, method: string, params?: readonly unknown[]): Promise<unknown> {
  try {
    return await provider.request(params ? { method, params } : { method });
  } catch (error) {
    const code = codeOf(error);
    if (code === REJECTED) throw new Problem("You declined the request in your wallet. Nothing was charged.");
    if (code === ALREADY_ASKED) throw new Problem("Your wallet already shows a request. Open it to continue.");
    const words = String((error as { message?: unknown } | null)?.message ?? "no reason").slice(0, MAX_WORDS);
    throw new Problem(`The wallet refused the request: ${words}. Nothing was charged.`);
  }
}

const codeOf = (error: unknown): unknown => (error as { code?: unknown } | null)?.code;

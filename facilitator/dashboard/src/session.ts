/** Stores the signed-in API key for this tab only. The key goes into a header, never into a URL. */
const NAME = "turnpike-key";
const KIND = "turnpike-key-kind";
const NETWORK = "turnpike-network";

/** `tab`: created for this tab alone, so it ends with it. */
export interface Session {
  readonly key: string;
  readonly kind: "given" | "tab";
}

export function savedSession(): Session | undefined {
  const key = sessionStorage.getItem(NAME);
  return key === null ? undefined : { key, kind: sessionStorage.getItem(KIND) === "tab" ? "tab" : "given" };
}

export function saveSession({ key, kind }: Session): void {
  sessionStorage.setItem(NAME, key);
  sessionStorage.setItem(KIND, kind);
}

export function endSession(): void {
  sessionStorage.removeItem(NAME);
  sessionStorage.removeItem(KIND);
  sessionStorage.removeItem(NETWORK);
}

/** Returns the chain that was chosen in this tab; the service may have stopped serving it. */
export function savedNetwork(): string | undefined {
  return sessionStorage.getItem(NETWORK) ?? undefined;
}

export function saveNetwork(network: string): void {
  sessionStorage.setItem(NETWORK, network);
}

/** Returns whether the service that served this page is a sandbox, which has an open key and a movable clock. */
export const isSandbox: boolean = document.querySelector("meta[name=turnpike]")?.getAttribute("content") === "sandbox";

export const LACKS_READ =
  "This key lacks the scope read, which every page needs. Use a key with the scope read, or sign in with your wallet.";

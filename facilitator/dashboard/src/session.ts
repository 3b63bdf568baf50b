/** Who is signed in: an API key, kept for this tab only. The key goes into a header, never into an address. */
const NAME = "turnpike-key";
const KIND = "turnpike-key-kind";

/** `tab`: made for this tab alone, so it ends with it. */
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
}

/** Whether the service that served this page is a sandbox, which has a key for whoever opens it, and a clock. */
export const isSandbox: boolean = document.querySelector("meta[name=turnpike]")?.getAttribute("content") === "sandbox";

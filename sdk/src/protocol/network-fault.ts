/** Reads from an error what the network did. */

/** Returns the code of the network error behind a failed exchange, such as ECONNREFUSED; undefined where there is none. */
export function networkFault(error: unknown): string | undefined {
  let at = error as { cause?: unknown; code?: unknown; errors?: readonly unknown[] } | undefined;
  for (let depth = 0; at && depth < 8; depth++) {
    if (typeof at.code === "string" && /^(?:E[A-Z_]+|UND_ERR_[A-Z_]+)$/.test(at.code)) return at.code;
    at = (at.cause ?? at.errors?.[0]) as typeof at;
  }
  return undefined;
}

const CLOSED: ReadonlySet<string> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

/** Returns whether the other side closed the connection before it answered: a kept one that it has given up, say. */
export function isConnectionClosed(error: unknown): boolean {
  return CLOSED.has(networkFault(error) ?? "");
}

/** Returns what has Node's own fetch open a connection, and keep none; other fetches ignore it. */
export function overOwnConnection(): object {
  const kept = (globalThis as Record<symbol, object | undefined>)[Symbol.for("undici.globalDispatcher.1")];
  const Dispatcher = kept?.constructor as (new (options: object) => object) | undefined;
  // A proxy's dispatcher knows more than this.
  return Dispatcher?.name === "Agent" ? { dispatcher: new Dispatcher({ pipelining: 0 }) } : {};
}

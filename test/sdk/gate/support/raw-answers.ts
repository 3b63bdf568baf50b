/** One answer as its bytes on a raw socket, so that a gated handler's can be compared with the same handler's without a gate. */
import { connect } from "node:net";

export interface RawAnswer {
  readonly status: string;
  /** sorted lines, without those that a gate adds and without the date */
  readonly headers: readonly string[];
  readonly body: string;
  readonly trailers?: string;
  /** its framing is complete: the client can know that it has everything */
  readonly isWhole: boolean;
  /** what came after it */
  readonly rest: string;
}

const OF_THE_GATE =
  /^(?:date|cache-control|vary|expires|etag|x-response-time|access-control-[a-z-]+|x-payment-response|payment-response|x-refund[a-z-]*):/i;

/** Sends one request on a connection of its own, and reads until it closes. */
export async function exchange(
  url: string,
  headers: Readonly<Record<string, string>> = {},
  method = "GET",
): Promise<RawAnswer> {
  const { hostname, port, pathname, search } = new URL(url);
  const lines = Object.entries({ Host: `${hostname}:${port}`, Connection: "close", ...headers });
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const chunks: Buffer[] = [];
  await new Promise<void>((resolve) => {
    const socket = connect(Number(port), hostname, () =>
      socket.write(`${method} ${pathname}${search} HTTP/1.1\r\n${head}\r\n`),
    );
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    // A reset is how a cut answer ends.
    socket.on("error", () => undefined);
    socket.on("close", () => resolve());
  });
  return parsed(Buffer.concat(chunks).toString("latin1"), method);
}

function parsed(text: string, method: string): RawAnswer {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return { status: text, headers: [], body: "", isWhole: false, rest: "" };
  const [status = "", ...all] = text.slice(0, end).split("\r\n");
  if (/^HTTP\/1\.1 1\d\d /.test(status)) return parsed(text.slice(end + 4), method);
  const headers = all.filter((line) => !OF_THE_GATE.test(line)).sort();
  const sent = text.slice(end + 4);
  const named = (name: string) => all.find((line) => line.toLowerCase().startsWith(`${name}:`))?.slice(name.length + 1);
  const hasNone = method === "HEAD" || / (?:204|304) /.test(status);
  if (hasNone) return { status, headers, body: "", isWhole: true, rest: sent };
  if (/chunked/.test(named("transfer-encoding") ?? "")) return { status, headers, ...dechunked(sent) };
  const length = named("content-length");
  if (length === undefined) return { status, headers, body: sent, isWhole: true, rest: "" };
  const body = sent.slice(0, Number(length));
  return { status, headers, body, isWhole: body.length === Number(length), rest: sent.slice(Number(length)) };
}

function dechunked(text: string): Pick<RawAnswer, "body" | "trailers" | "isWhole" | "rest"> {
  let body = "";
  for (let at = 0; ; ) {
    const line = text.indexOf("\r\n", at);
    const size = Number.parseInt(text.slice(at, line), 16);
    if (line < 0 || !(size >= 0)) return { body, isWhole: false, rest: text.slice(at) };
    at = line + 2;
    if (size > 0) {
      body += text.slice(at, at + size);
      at += size + 2;
      continue;
    }
    const end = text.indexOf("\r\n\r\n", line);
    const trailers = text.slice(at, end);
    return {
      body,
      ...(trailers && { trailers }),
      isWhole: end >= 0,
      rest: end < 0 ? "" : text.slice(end + 4),
    };
  }
}

/** HTTP/1.1 by hand: the bytes that no client library would send, and what came back for them. */
import { connect } from "node:net";

export interface RawRequest {
  readonly method?: string;
  /** as in the request line */
  readonly target: string;
  /** default "1.1" */
  readonly version?: string;
  /** header lines beside Host and Connection */
  readonly lines?: readonly string[];
  /** instead of the `Host` line; several, or none */
  readonly hosts?: readonly string[];
  readonly body?: string;
  /** more requests follow on this connection */
  readonly keepAlive?: boolean;
}

export interface RawAnswer {
  readonly status: number;
  /** names in lower case */
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies of all shapes are asserted on
  readonly json: any;
}

/** No server takes that long for an answer it means to give. */
const SILENCE_MS = 20_000;

export function requestText(host: string, request: RawRequest): string {
  const { method = "GET", target, version = "1.1", lines = [], hosts = [`Host: ${host}`], body = "" } = request;
  const ending = request.keepAlive ? [] : ["Connection: close"];
  return [`${method} ${target} HTTP/${version}`, ...hosts, ...lines, ...ending, "", body].join("\r\n");
}

/** Sends bytes (one per character) on one connection. @returns the final answers until the server closes it */
export function exchange(url: string, text: string): Promise<RawAnswer[]> {
  const { hostname, port } = new URL(url);
  const chunks: Buffer[] = [];
  return new Promise((resolve) => {
    const socket = connect(Number(port || 80), hostname, () => socket.write(Buffer.from(text, "latin1")));
    socket.setTimeout(SILENCE_MS, () => socket.destroy());
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    // A connection that is cut off answers with what came before.
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(answersIn(Buffer.concat(chunks).toString("latin1"), /^HEAD /.test(text))));
  });
}

/** One request on a connection of its own. @returns undefined when the server closed it without a word */
export async function ask(url: string, request: RawRequest): Promise<RawAnswer | undefined> {
  const [answer] = await exchange(url, requestText(new URL(url).host, request));
  return answer;
}

function answersIn(text: string, isHead: boolean): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let rest = text;
  while (rest !== "") {
    const end = rest.indexOf("\r\n\r\n");
    const [statusLine = "", ...lines] = rest.slice(0, end < 0 ? undefined : end).split("\r\n");
    const status = Number(/^HTTP\/1\.[01] ([0-9]{3})/.exec(statusLine)?.[1] ?? 0);
    const headers = Object.fromEntries(lines.map((line) => line.split(/:\s*(.*)/s, 2)).map(lowerName));
    const { body, after } = bodyOf(
      end < 0 ? "" : rest.slice(end + 4),
      headers,
      isHead || status < 200 || status === 204,
    );
    rest = after;
    if (status >= 200 || status === 0) {
      const text = Buffer.from(body, "latin1").toString("utf8");
      answers.push({ status, headers, text, json: parsed(text) });
    }
  }
  return answers;
}

const lowerName = ([name = "", value = ""]: string[]): [string, string] => [name.toLowerCase(), value];

function bodyOf(text: string, headers: Record<string, string>, isEmpty: boolean): { body: string; after: string } {
  if (isEmpty) return { body: "", after: text };
  if (headers["transfer-encoding"]?.includes("chunked")) return unchunked(text);
  const length = headers["content-length"] === undefined ? text.length : Number(headers["content-length"]);
  return { body: text.slice(0, length), after: text.slice(length) };
}

function unchunked(text: string): { body: string; after: string } {
  let body = "";
  let at = 0;
  for (;;) {
    const line = text.indexOf("\r\n", at);
    const size = line < 0 ? 0 : Number.parseInt(text.slice(at, line), 16) || 0;
    if (size === 0) return { body, after: line < 0 ? "" : text.slice(line + 4) };
    body += text.slice(line + 2, line + 2 + size);
    at = line + 2 + size + 2;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

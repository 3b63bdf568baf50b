import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { HEADER, resourceOfUrl } from "../../protocol";
import type { CommandContext, FlagSpec } from "../command";
import { UsageError } from "../command-errors";

/** The flags of commands that send one request. */
export const REQUEST_FLAGS = {
  method: { value: "METHOD", about: "the request's method; default GET, or POST with --data" },
  header: {
    value: "NAME:VALUE",
    about: "a header of the request, given once for each; credentials are refused",
    isMultiple: true,
  },
  data: { value: "TEXT", about: "the request's body; @FILE reads it from a file" },
} as const satisfies Record<string, FlagSpec>;

/** The argument of commands that send one request. */
export const URL_WORD = { name: "URL", about: "the absolute URL, http or https" } as const;

/** A request, as fetch takes it. */
export interface Requested {
  readonly url: string;
  readonly init: {
    readonly method: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: Uint8Array<ArrayBuffer>;
  };
}

const CREDENTIALS = new Set([
  ...["authorization", "proxy-authorization", "cookie", "x-api-key"],
  ...[HEADER.payment, HEADER.paymentSignatureV2, HEADER.subscription, HEADER.signIn].map((name) => name.toLowerCase()),
  HEADER.paymentAuthorization.toLowerCase(),
]);

/** @throws UsageError that names the argument */
export async function readRequest({ args, io }: CommandContext): Promise<Requested> {
  const url = readUrl(args.word("URL"));
  const headers: Record<string, string> = {};
  for (const text of args.values("header")) {
    const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):[ \t]*(.*)$/s.exec(text) ?? [];
    if (name === undefined || value === undefined || /[\r\n]/.test(value)) {
      throw new UsageError("--header is not NAME:VALUE.", 'Write it as --header "Accept: application/json".');
    }
    if (CREDENTIALS.has(name.toLowerCase())) {
      throw new UsageError(
        `--header gives ${name}, a credential. Credentials are never given on the command line.`,
        "Use createAgent of turnpike/agent in a program for a server that needs both a credential and a payment.",
      );
    }
    headers[name] = value;
  }
  const data = args.value("data");
  const body = data === undefined ? undefined : await bodyOf(io.cwd, data);
  const method = (args.value("method") ?? (body === undefined ? "GET" : "POST")).toUpperCase();
  if (body !== undefined && (method === "GET" || method === "HEAD")) {
    throw new UsageError(`A ${method} request has no body.`, "Leave out --data, or give another --method.");
  }
  return { url, init: { method, headers, ...(body && { body }) } };
}

/** @throws UsageError for what is no absolute http(s) URL, or holds a password */
export function readUrl(text: string): string {
  const url = resourceOfUrl(text);
  const hasPassword = URL.canParse(text) && (new URL(text).username !== "" || new URL(text).password !== "");
  if (url !== undefined && /^https?:\/\//.test(url) && !hasPassword) return url;
  throw new UsageError(
    hasPassword ? "The URL holds a user name or password." : "URL is no absolute http(s) address.",
    "Write it as https://api.example/path, without a user name.",
  );
}

async function bodyOf(cwd: string, data: string): Promise<Uint8Array<ArrayBuffer>> {
  if (!data.startsWith("@")) return new TextEncoder().encode(data);
  const file = resolve(cwd, data.slice(1));
  try {
    return new Uint8Array(await readFile(file));
  } catch {
    throw new UsageError(`The file ${file} of --data cannot be read.`, "Check its path.");
  }
}

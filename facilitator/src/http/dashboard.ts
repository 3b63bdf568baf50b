/**
 * Serves the dashboard at `/` and the payer's portal at `/me`. Their files are read and compressed once at the start, and named by their hash,
 * so that a browser requests them again only after a change. When they are not built, the plain page is served.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";
import type { Context, Hono } from "hono";
import type { RequestScope } from "./request";

const DIST = path.resolve(__dirname, "../../dashboard/dist");

/** The pages; every other file is at its own name. */
const PAGES: Readonly<Record<string, string>> = { "index.html": "/", "me.html": "/me" };

const TYPES: Readonly<Record<string, string>> = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };

/** Its name changes with its content. */
const IS_HASHED = /-[A-Z0-9]{8}\.js$/;

/**
 * Allows only this service's own files and responses; no frame, no form to another origin, no inline script or style.
 */
const SECURITY_HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const;

export interface DashboardOptions {
  /** whether the page offers the sandbox's key and clock */
  readonly isSandbox: boolean;
  readonly plainPage: () => string;
  readonly dir?: string;
}

/** The page's metadata about the service that serves it. */
const MODE = {
  service: '<meta name="turnpike" content="service">',
  sandbox: '<meta name="turnpike" content="sandbox">',
};

export function serveDashboard(app: Hono<RequestScope>, { isSandbox, plainPage, dir = DIST }: DashboardOptions): void {
  if (!existsSync(path.join(dir, "index.html"))) {
    app.get("/", (context) => context.html(plainPage(), 200, SECURITY_HEADERS_OF_PLAIN));
    return;
  }
  for (const name of readdirSync(dir)) {
    const file = readFileSync(path.join(dir, name));
    const plain = isSandbox ? Buffer.from(file.toString("utf8").replace(MODE.service, MODE.sandbox)) : file;
    const zipped = gzipSync(plain);
    const etag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`;
    const type = `${TYPES[path.extname(name)]}; charset=utf-8`;
    const caching = IS_HASHED.test(name) ? "public, max-age=31536000, immutable" : "no-cache";
    app.get(PAGES[name] ?? `/${name}`, (context) => answer(context, { plain, zipped, etag, type, caching }));
  }
}

/** The plain page has one style element of its own. */
const SECURITY_HEADERS_OF_PLAIN = {
  ...SECURITY_HEADERS,
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
} as const;

interface File {
  readonly plain: Buffer;
  readonly zipped: Buffer;
  readonly etag: string;
  readonly type: string;
  readonly caching: string;
}

function answer(context: Context, { plain, zipped, etag, type, caching }: File): Response {
  const headers = { ...SECURITY_HEADERS, etag, vary: "accept-encoding", "cache-control": caching };
  if (context.req.header("if-none-match") === etag) return context.body(null, 304, headers);
  const isZipped = /\bgzip\b/.test(context.req.header("accept-encoding") ?? "");
  return context.body(new Uint8Array(isZipped ? zipped : plain), 200, {
    ...headers,
    "content-type": type,
    ...(isZipped && { "content-encoding": "gzip" }),
  });
}

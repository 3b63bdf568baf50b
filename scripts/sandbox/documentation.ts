/**
 * Serves the documentation that `npm run docs` builds, on a port of its own: the Facilitator's page has an API key, which
 * a page of its origin could read.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";

export interface Documentation {
  readonly url: string;
  isBuilt(): boolean;
  stop(): Promise<void>;
}

const SITE = path.resolve(__dirname, "../../out/site");

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
};

/** @param folder of the site; read again at each request, so that a site that is built meanwhile is served */
export async function serveDocumentation(port: number, folder: string = SITE): Promise<Documentation> {
  const isBuilt = (): boolean => filesOf(folder).has("index.html");
  const server = createServer(({ method = "", url = "" }, response) => {
    const isRead = method === "GET" || method === "HEAD";
    const name = isRead ? fileFor(url, filesOf(folder)) : undefined;
    const content = name && contentOf(path.join(folder, name));
    if (!name || !content) {
      const headers = { "content-type": "text/plain; charset=utf-8", ...(!isRead && { allow: "GET, HEAD" }) };
      response.writeHead(isRead ? 404 : 405, { ...headers, ...headersOf("") });
      response.end(isRead ? `There is no such page.${isBuilt() ? "" : " `npm run docs` builds the pages."}\n` : "");
      return;
    }
    const type = TYPES[path.extname(name)] ?? "application/octet-stream";
    const headers = headersOf(name.endsWith(".html") ? content.toString("utf8") : "");
    response.writeHead(200, { "content-type": type, "content-length": content.length, ...headers });
    response.end(content);
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    isBuilt,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The site's own files, by their paths from its folder. */
function filesOf(folder: string): ReadonlySet<string> {
  try {
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    return new Set(files.map(({ parentPath, name }) => slashed(path.relative(folder, path.join(parentPath, name)))));
  } catch {
    return new Set();
  }
}

const slashed = (name: string): string => name.replaceAll(path.sep, "/");

/** Nothing when a build has just removed it. */
function contentOf(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}

/** What a URL names among `files`: a name that is not listed is never looked up. */
function fileFor(url: string, files: ReadonlySet<string>): string | undefined {
  const named = url.split(/[?#]/, 1)[0]?.slice(1) ?? "";
  const candidates = named === "" || named.endsWith("/") ? [`${named}index.html`] : [named, `${named}.html`];
  return candidates.map(decoded).find((name) => name !== undefined && files.has(name));
}

function decoded(name: string): string | undefined {
  try {
    return decodeURIComponent(name);
  } catch {
    return undefined;
  }
}

/** Allows the site's own files and the scripts that a page itself contains. */
function headersOf(page: string): Readonly<Record<string, string>> {
  const inline = [...page.matchAll(/<script(?![^>]*\ssrc=)[^>]*>([\s\S]*?)<\/script>/g)].map(
    ([, script = ""]) => script,
  );
  const hashes = inline.map((script) => ` 'sha256-${createHash("sha256").update(script).digest("base64")}'`).join("");
  return {
    "content-security-policy":
      `default-src 'none'; script-src 'self'${hashes}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; ` +
      "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
  };
}

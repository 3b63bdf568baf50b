/**
 * Finds body parsers that run before a gate in an Express 4 or 5 application and keep no bytes, by running each such
 * parser on a test body; and keeps the bytes of a parser that is given `keepBody`. Knows Express only by its stacks of
 * layers.
 */
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { anObject } from "../../protocol/arguments";

type Handle = (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => unknown;

interface Layer {
  readonly handle?: Handle & { readonly stack?: readonly Layer[] };
  readonly route?: { readonly stack: readonly Layer[] };
  /** Express 5: mounted at every path */
  readonly slash?: boolean;
  /** Express 4: the same */
  readonly regexp?: { readonly fast_slash?: boolean };
}

/** By the names of body-parser's middlewares. `raw` and `text` leave their bytes as `request.body`. */
const TYPES: Readonly<Record<string, string>> = {
  jsonParser: "application/json",
  urlencodedParser: "application/x-www-form-urlencoded",
};

/** @returns the parser's name, such as "jsonParser"; undefined where none is found */
export async function parserThatDropsBytes(app: unknown, gate: unknown): Promise<string | undefined> {
  const express = app as { readonly _router?: Router; readonly router?: Router };
  // Express 4 has the first and throws for the second.
  const stack = (express._router ?? express.router)?.stack ?? [];
  const parsers = parsersBefore({ stack, gate, above: [], isRoute: false }) ?? [];
  for (const parser of parsers) if (await dropsBytes(parser)) return parser.name;
  return undefined;
}

interface Router {
  readonly stack?: readonly Layer[];
}

interface Search {
  readonly stack: readonly Layer[];
  readonly gate: unknown;
  /** parsers that run before this stack */
  readonly above: readonly Handle[];
  readonly isRoute: boolean;
}

/** @returns undefined where the gate is not below `stack` */
function parsersBefore({ stack, gate, above, isRoute }: Search): Handle[] | undefined {
  const before = [...above];
  for (const layer of stack) {
    const { handle, route } = layer;
    if (handle === gate) return before;
    const below = route?.stack ?? handle?.stack;
    const found = below && parsersBefore({ stack: below, gate, above: before, isRoute: route !== undefined });
    if (found) return found;
    // A route's own middlewares match wherever the route does.
    if (handle && handle.name in TYPES && (isRoute || isEverywhere(layer))) before.push(handle);
  }
  return undefined;
}

function isEverywhere({ slash, regexp }: Layer): boolean {
  return slash === true || regexp?.fast_slash === true;
}

function dropsBytes(parser: Handle): Promise<boolean> {
  const body = Buffer.from("{}");
  const request: IncomingMessage & { rawBody?: unknown } = new IncomingMessage(new Socket());
  const type = TYPES[parser.name] as string;
  Object.assign(request, { method: "POST", url: "/", headers: { "content-type": type, "content-length": "2" } });
  request.push(body);
  request.push(null);
  return new Promise((resolve) => {
    const next = (error?: unknown): void => {
      // A parser that refuses this body, or is for other types, says nothing about those that clients send.
      resolve(error === undefined && request.readableDidRead && request.rawBody === undefined);
    };
    try {
      parser(request, new ServerResponse(request), next);
    } catch {
      resolve(false);
    }
  });
}

/**
 * Keeps a body's bytes as `request.rawBody`: `express.json({ verify: keepBody })`, and likewise `urlencoded()` and any
 * other parser of body-parser.
 */
export function keepBody(request: IncomingMessage, _response: unknown, bytes: Uint8Array): void {
  anObject(request, "request");
  Object.assign(request, { rawBody: bytes });
}

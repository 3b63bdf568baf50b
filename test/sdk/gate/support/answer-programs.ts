/** What a handler does to a Node response, step by step, as data: to be run with a gate and without one. */
import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import fc from "fast-check";

/** When a step comes after the one before; nothing to wait for in the same turn. */
export const WAITS = {
  same: () => undefined,
  microtask: () => Promise.resolve(),
  tick: () => new Promise<void>((resolve) => process.nextTick(resolve)),
  immediate: () => new Promise<void>((resolve) => setImmediate(resolve)),
} as const;

export type Time = keyof typeof WAITS;

export const times = fc.constantFrom(...(Object.keys(WAITS) as Time[]));

/** Some look like what Node writes around them. */
export const TEXTS = ["", "a part", "é", "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\n\r\n", "0\r\n\r\n"] as const;

type Part = { readonly text: string; readonly encoding: "utf8" | "latin1" | "hex" | "base64" | "buffer" };

export type Act =
  | { readonly kind: "writeHead"; readonly status: number; readonly headers: Readonly<Record<string, string>> }
  | { readonly kind: "setHeader" | "appendHeader"; readonly value: string }
  | { readonly kind: "removeHeader" | "flushHeaders" | "cork" | "uncork" | "destroy" | "setStatus" }
  | { readonly kind: "write" | "end"; readonly part: Part | undefined; readonly calls: boolean }
  | { readonly kind: "pipe"; readonly parts: readonly string[] };

export interface Step {
  readonly time: Time;
  readonly act: Act;
}

export interface Program {
  /** its Content-Length is set first */
  readonly declares: boolean;
  readonly steps: readonly Step[];
}

const part: fc.Arbitrary<Part> = fc.oneof(
  fc.record({
    text: fc.constantFrom<string>(...TEXTS, "x".repeat(20_000)),
    encoding: fc.constantFrom("utf8", "latin1", "buffer"),
  }),
  fc.record({ text: fc.constantFrom("616263", "00ff"), encoding: fc.constant("hex" as const) }),
  fc.record({ text: fc.constantFrom("YWJj", "AP8="), encoding: fc.constant("base64" as const) }),
);

const plain = fc.record({
  kind: fc.constantFrom("removeHeader", "flushHeaders", "cork", "uncork", "setStatus"),
}) as fc.Arbitrary<Act>;

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("write" as const), part, calls: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("writeHead" as const),
      status: fc.constantFrom(200, 201, 204, 404),
      headers: fc.constantFrom<Readonly<Record<string, string>>>(
        {},
        { "X-Own": "head" },
        { "Content-Type": "text/event-stream" },
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("setHeader" as const, "appendHeader" as const),
      value: fc.constantFrom("1", "2"),
    }),
  },
  { weight: 3, arbitrary: plain },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("pipe" as const),
      parts: fc.array(fc.constantFrom("one", "two", "y".repeat(9_000)), { maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "destroy" as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("end" as const),
      part: fc.option(part, { nil: undefined }),
      calls: fc.boolean(),
    }),
  },
);

export const programs: fc.Arbitrary<Program> = fc.record({
  declares: fc.boolean(),
  steps: fc.array(fc.record({ time: times, act }), { minLength: 1, maxLength: 8 }),
});

/** Whether it is cut before its end, and so never whole. */
export const isCut = ({ steps }: Program): boolean => {
  const first = steps.find(({ act: { kind } }) => kind === "destroy" || kind === "end" || kind === "pipe");
  return first?.act.kind === "destroy";
};

/** Whether it may settle before its end. */
export const isStreamed = ({ steps }: Program): boolean =>
  steps.some(
    ({ act: each }) => each.kind === "flushHeaders" || (each.kind === "writeHead" && "Content-Type" in each.headers),
  );

/** Whether it writes parts in more than one coding. */
export const mixesCodings = ({ steps }: Program): boolean =>
  new Set(steps.flatMap(({ act: each }) => ("part" in each && each.part ? [each.part.encoding] : []))).size > 1;

const bytesOf = ({ text, encoding }: Part): Buffer => Buffer.from(text, encoding === "buffer" ? "utf8" : encoding);

function lengthOf({ steps }: Program): number {
  let length = 0;
  for (const { act: each } of steps) {
    if ((each.kind === "write" || each.kind === "end") && each.part) length += bytesOf(each.part).length;
    if (each.kind === "pipe") length += each.parts.join("").length;
    if (each.kind === "end" || each.kind === "pipe") break;
  }
  return length;
}

/**
 * Runs a program to its end.
 * @returns what the handler saw: after each step the head and the end, errors by their code, callbacks in their order
 */
export async function run(program: Program, response: ServerResponse): Promise<readonly string[]> {
  const seen: string[] = [];
  // Parts that are refused get their error at once, and the others once the connection has taken them.
  const called: Record<"write" | "end" | "refused", string[]> = { write: [], end: [], refused: [] };
  const closed = new Promise<void>((resolve) => response.once("close", () => resolve()));
  // A late write ends the process of an application that does not listen.
  response.on("error", () => undefined);
  if (program.declares) response.setHeader("Content-Length", lengthOf(program));
  let isGone = false;
  for (const [at, { time, act: each }] of [...program.steps, LAST].entries()) {
    const wait = WAITS[time]();
    if (wait) await wait;
    const isEnded = response.writableEnded;
    const isLate = each.kind === "end" && isEnded;
    let outcome = "done";
    try {
      const performed = perform(each, response, (error) => {
        // What a second end gets depends on whether the first has finished.
        if (!isLate) called[error ? "refused" : (each.kind as "write" | "end")].push(`${at} ${codeOf(error)}`);
      });
      await Promise.race([closed, performed]);
    } catch (error) {
      outcome = codeOf(error);
    }
    isGone ||= each.kind === "destroy";
    // An HTTP/2 response whose stream has closed ignores heads, and one that ended before refuses them.
    if (isEnded && outcome === "ERR_HTTP2_HEADERS_SENT") outcome = "done";
    // What a response shows that is destroyed depends on when its socket closes.
    if (!isGone) seen.push(`${at} ${each.kind}: ${outcome}, ${response.headersSent}, ${response.writableEnded}`);
  }
  await closed;
  // An answer that waits finishes later.
  return isGone ? seen : [...seen, ...called.write, ...called.refused, ...called.end];
}

const LAST: Step = { time: "immediate", act: { kind: "end", part: undefined, calls: false } };

const codeOf = (error: unknown): string => (error ? String((error as { code?: unknown }).code ?? error) : "none");

function perform(each: Act, response: ServerResponse, callback: (error?: unknown) => void): unknown {
  switch (each.kind) {
    case "writeHead":
      response.writeHead(each.status, each.headers);
      break;
    case "setHeader":
      response.setHeader("X-Set", each.value);
      break;
    case "appendHeader":
      response.appendHeader("X-Set", each.value);
      break;
    case "removeHeader":
      response.removeHeader("X-Set");
      break;
    case "setStatus":
      response.statusCode = 202;
      break;
    case "pipe":
      // A corked response never drains.
      while (response.writableCorked > 0) response.uncork();
      return piped(Readable.from(each.parts), response);
    case "write":
    case "end": {
      const given = each.part && partOf(each.part);
      (response[each.kind] as (...args: unknown[]) => unknown)(...(given ?? []), ...(each.calls ? [callback] : []));
      break;
    }
    default:
      response[each.kind]();
  }
  return undefined;
}

/** To its end: what another step writes meanwhile comes between its parts by chance. */
const piped = (source: Readable, response: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    source.once("close", () => resolve());
    source.pipe(response);
    if (response.destroyed || response.writableEnded) resolve();
  });

const partOf = (given: Part): unknown[] =>
  given.encoding === "buffer" ? [bytesOf(given)] : [given.text, given.encoding];

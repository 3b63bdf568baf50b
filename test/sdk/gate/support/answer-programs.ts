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
  | {
      readonly kind: "writeHead";
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly form: (typeof FORMS)[number];
    }
  | { readonly kind: "setHeader" | "appendHeader" | "setMap" | "setHeaders" | "addTrailers"; readonly value: string }
  | { readonly kind: "removeHeader" | "flushHeaders" | "cork" | "uncork" | "destroy" | "setStatus" }
  | { readonly kind: "write" | "end"; readonly part: Part | undefined; readonly calls: boolean }
  | { readonly kind: "pipe"; readonly parts: readonly string[] };

/** How headers are given to `writeHead`. */
const FORMS = ["object", "list", "reason"] as const;

/** Interim answers, of which a server may send some before the head. */
const INTERIM = ["writeContinue", "writeProcessing", "writeEarlyHints"] as const;

export interface Step {
  readonly time: Time;
  readonly act: Act;
}

export interface Program {
  /** its Content-Length is set first */
  readonly declares: boolean;
  /** and Node checks it */
  readonly isStrict: boolean;
  readonly informs: (typeof INTERIM)[number] | undefined;
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

const head: fc.Arbitrary<Act> = fc.record({
  kind: fc.constant("writeHead" as const),
  status: fc.constantFrom(200, 201, 204, 404),
  headers: fc.constantFrom<Readonly<Record<string, string>>>(
    {},
    { "X-Own": "head" },
    { "Content-Type": "text/event-stream" },
  ),
  form: fc.constantFrom(...FORMS),
});

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("write" as const), part, calls: fc.boolean() }) },
  { weight: 2, arbitrary: head },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("setHeader", "appendHeader", "setMap", "setHeaders", "addTrailers"),
      value: fc.constantFrom("1", "2"),
    }) as fc.Arbitrary<Act>,
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

const steps = (of: fc.Arbitrary<Act>, minLength: number, maxLength: number): fc.Arbitrary<Step[]> =>
  fc.array(fc.record({ time: times, act: of }), { minLength, maxLength });

const programOf = (written: fc.Arbitrary<readonly Step[]>): fc.Arbitrary<Program> =>
  fc.record({
    declares: fc.boolean(),
    isStrict: fc.boolean(),
    informs: fc.option(fc.constantFrom(...INTERIM), { nil: undefined }),
    steps: written,
  });

export const programs = programOf(steps(act, 1, 8));

/** A head is written, and then another. */
export const secondHeads = programOf(
  fc
    .tuple(steps(plain, 0, 1), steps(head, 1, 1), steps(act, 0, 2), steps(head, 1, 2), steps(act, 0, 3))
    .map((all) => all.flat()),
);

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
  // What it throws within a pipe ends the process.
  response.strictContentLength = program.isStrict && program.steps.every(({ act: { kind } }) => kind !== "pipe");
  if (program.informs === "writeEarlyHints") response.writeEarlyHints({ link: "</style.css>; rel=preload" });
  else if (program.informs) response[program.informs]?.();
  let isGone = false;
  let mayClose = false;
  for (const [at, { time, act: each }] of [...program.steps, LAST].entries()) {
    const wait = WAITS[time]();
    if (wait) await wait;
    const isEnded = response.writableEnded;
    // The head of a 204 ends HTTP/2.
    mayClose ||= response.statusCode === 204 && response.req.httpVersionMajor === 2;
    const isLate = mayClose || (each.kind === "end" && isEnded);
    let outcome = "done";
    try {
      const performed = perform(each, response, at === 0 && !program.declares, (error) => {
        // What comes after the end gets what depends on whether that has finished.
        if (!isLate) called[error ? "refused" : (each.kind as "write" | "end")].push(`${at} ${codeOf(error)}`);
      });
      await Promise.race([closed, performed]);
    } catch (error) {
      outcome = codeOf(error);
    }
    isGone ||= each.kind === "destroy";
    // An HTTP/2 response whose stream has closed ignores heads and ends, and one that ended before refuses heads.
    if ((isEnded || mayClose) && outcome === "ERR_HTTP2_HEADERS_SENT") outcome = "done";
    // What a response shows that is destroyed depends on when its socket closes.
    if (!isGone)
      seen.push(`${at} ${each.kind}: ${outcome}, ${response.headersSent}, ${mayClose || response.writableEnded}`);
  }
  await closed;
  // An answer that waits finishes later.
  return isGone ? seen : [...seen, ...called.write, ...called.refused, ...called.end];
}

const LAST: Step = { time: "immediate", act: { kind: "end", part: undefined, calls: false } };

const codeOf = (error: unknown): string =>
  error
    ? String((error as { code?: unknown }).code ?? error)
        // Once an HTTP/2 stream has closed.
        .replace("ERR_HTTP2_INVALID_STREAM", "ERR_STREAM_WRITE_AFTER_END")
    : "none";

/** @param isFirst Node takes a list of pairs only where no header is set yet */
function perform(each: Act, response: ServerResponse, isFirst: boolean, callback: (error?: unknown) => void): unknown {
  switch (each.kind) {
    case "writeHead":
      (response.writeHead as (...args: unknown[]) => unknown)(each.status, ...headersIn(each, isFirst));
      break;
    case "setHeader":
      response.setHeader("X-Set", each.value);
      break;
    case "appendHeader":
      response.appendHeader("X-Set", each.value);
      break;
    case "setMap":
      response.setHeaders(new Map([["X-Set", each.value]]));
      break;
    case "setHeaders":
      response.setHeaders(new Headers({ "X-Set": each.value }));
      break;
    case "addTrailers":
      response.addTrailers({ "X-Trailer": each.value });
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

function headersIn({ headers, form }: Act & { kind: "writeHead" }, isFirst: boolean): unknown[] {
  if (form === "object") return [headers];
  if (form === "reason") return ["A reason", headers];
  return [isFirst ? Object.entries(headers) : Object.entries(headers).flat()];
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

/** What a fetch-style handler returns, or a framework's reply is given, as data: to be run with a gate and without one. */
import { Readable } from "node:stream";
import fc from "fast-check";
import { TEXTS, type Time, times, WAITS } from "./answer-programs";

interface Part {
  readonly text: string;
  readonly isString: boolean;
  readonly time: Time;
}

export interface ResponseProgram {
  readonly time: Time;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** its Content-Length is set */
  readonly declares: boolean;
  readonly kind: "none" | "text" | "bytes" | "stream" | "thrown";
  readonly parts: readonly Part[];
  /** its stream breaks after its parts */
  readonly breaks: boolean;
}

const part: fc.Arbitrary<Part> = fc.record({
  text: fc.constantFrom<string>(...TEXTS, "x".repeat(40_000)),
  isString: fc.boolean(),
  time: times,
});

export const responsePrograms: fc.Arbitrary<ResponseProgram> = fc.record({
  time: times,
  status: fc.constantFrom(200, 200, 200, 201, 204, 404),
  headers: fc.constantFrom<Readonly<Record<string, string>>>(
    {},
    { "X-Own": "head" },
    { "Content-Type": "text/event-stream" },
    { "Content-Type": "text/plain", "Set-Cookie": "session=1" },
  ),
  declares: fc.boolean(),
  kind: fc.oneof(
    { weight: 5, arbitrary: fc.constant("stream" as const) },
    { weight: 4, arbitrary: fc.constantFrom("none" as const, "text" as const, "bytes" as const) },
    { weight: 1, arbitrary: fc.constant("thrown" as const) },
  ),
  parts: fc.array(part, { maxLength: 5 }),
  breaks: fc.integer({ min: 0, max: 7 }).map((at) => at === 0),
});

const WITHOUT_BODY = new Set([204, 304]);

const hasBody = ({ status, kind }: ResponseProgram): boolean => kind !== "none" && !WITHOUT_BODY.has(status);

export const isBroken = (program: ResponseProgram): boolean =>
  hasBody(program) && program.kind === "stream" && program.breaks;

/** Whether it fails before its first byte. */
export const hasFailed = (program: ResponseProgram): boolean =>
  program.kind === "thrown" || (isBroken(program) && textOf(program) === "");

const textOf = ({ parts }: ResponseProgram): string => parts.map(({ text }) => text).join("");

async function* partsOf({ parts, breaks }: ResponseProgram): AsyncIterable<string | Uint8Array> {
  for (const { text, isString, time } of parts) {
    await WAITS[time]();
    yield isString ? text : Buffer.from(text);
  }
  if (breaks) throw new Error("upstream");
}

type Body = string | Uint8Array | Readable | null;

export interface Made {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Body;
}

/** Runs a program. */
export async function make(program: ResponseProgram): Promise<Made> {
  await WAITS[program.time]();
  if (program.kind === "thrown") throw new Error("handler");
  const { status, headers, declares } = program;
  const text = textOf(program);
  const length: Readonly<Record<string, string>> =
    declares && hasBody(program) && text !== "" ? { "Content-Length": String(Buffer.byteLength(text)) } : {};
  return { status, headers: { ...headers, ...length }, body: hasBody(program) ? bodyOf(program, text) : null };
}

function bodyOf(program: ResponseProgram, text: string): Body {
  if (program.kind === "text") return text;
  return program.kind === "bytes" ? Buffer.from(text) : Readable.from(partsOf(program), { objectMode: true });
}

/** As the body of a Response: a stream of bytes alone. */
export const bodyInitOf = (body: Body): BodyInit | null =>
  (body instanceof Readable ? Readable.toWeb(Readable.from(bytesIn(body))) : body) as BodyInit | null;

async function* bytesIn(parts: Readable): AsyncIterable<Uint8Array> {
  for await (const each of parts) yield Buffer.from(each);
}

/** As a fetch-style handler returns it. */
export const responseOf = ({ status, headers, body }: Made): Response =>
  new Response(bodyInitOf(body), { status, headers });

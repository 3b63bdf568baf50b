/**
 * Meters an upstream's answer as it passes: nothing leaves before it is counted, and the answer ends at the cap. Takes
 * event streams and JSON of language models, and any other stream with a count of its own.
 */
import { AbortError, AllowanceExhausted, isTurnpikeError, Unavailable } from "../../protocol";
import { anObject, wrongKind } from "../../protocol/arguments";
import { noteRefusal, requestScopes } from "../decision/request-scope";
import type { UsageMeter } from "../metering/usage-meter";
import {
  dataOf,
  EventBoundary,
  EventSplitter,
  errorEvent,
  isReceiptComments,
  joined,
  parsed,
  receiptComments,
} from "./event-stream";
import { TokenMeter, type TokenMeterOptions } from "./token-meter";
import type { TokenUsage, UsageReader } from "./token-usage";

interface StreamOptions {
  /** abort it when the client leaves: ends the upstream, once a stream that is paid by its tokens has stated its usage */
  readonly signal?: AbortSignal;
}

/** Meters a language model's answer, by what its chunks say of tokens. */
export interface TokenStreamOptions extends TokenMeterOptions, StreamOptions {
  /** new for each answer: `openAiUsage()`, `anthropicUsage()`, or a reader of your own */
  readonly read: UsageReader;
}

/** Meters an answer by its parts. */
export interface PartStreamOptions extends StreamOptions {
  readonly meter: UsageMeter;
  /** Returns the units of one part, at least 0. */
  readonly units: (part: Uint8Array) => bigint | number;
}

/** How an answer is metered: by its tokens, or by its parts. */
export type MeterStreamOptions = TokenStreamOptions | PartStreamOptions;

/** How much of a stream is read for its usage after its client has left. */
const READ_ON_MS = 5_000;

const READ_ON_BYTES = 1_048_576;

/** The longest answer that is collected before it is sent, bytes. */
const MAX_WHOLE_BYTES = 16_777_216;

/**
 * Returns a response with the upstream's status, headers and body, whose body is metered as it passes. Resolves once
 * its first part is counted, so that a refusal reaches the gate before any byte. A body that an `upto` payment pays for,
 * and a model's answer that is no stream, is collected first. Usage receipts leave as comments of an event stream, and
 * otherwise in the header of what is collected. A failed upstream's answer is passed on and not metered; one about the
 * provider's own account (401, 402, 403, 407) is `Unavailable`. Of the headers few are passed on: add others yourself.
 * @throws AllowanceExhausted, InsufficientFunds, SubscriptionNotActive, Unavailable before the first byte; later ones
 * end the body, in an event stream with an `error` event
 */
export async function meterStream(upstream: Response, options: MeterStreamOptions): Promise<Response> {
  if (typeof upstream?.headers?.get !== "function")
    throw wrongKind(upstream, "upstream", "the Response of the upstream's fetch");
  try {
    anObject(options, "options");
    return await metered(upstream, options);
  } catch (error) {
    const { body } = upstream;
    if (body && !body.locked) await body.cancel().catch(() => undefined);
    const scope = requestScopes.getStore();
    if (scope) noteRefusal(scope, error);
    throw error;
  }
}

/** What the upstream says of the provider's own account and key. */
const OF_PROVIDER: ReadonlySet<number> = new Set([401, 402, 403, 407]);

/** All others are about the connection, the upstream's encoding, or the provider's account. */
const PASSED_HEADERS = ["Content-Type", "Content-Disposition", "Content-Language", "Cache-Control", "Retry-After"];

async function metered(upstream: Response, options: MeterStreamOptions): Promise<Response> {
  const { body, status, statusText } = upstream;
  if (OF_PROVIDER.has(status)) throw new Unavailable(`The upstream refuses this gate with status ${status}.`);
  const headers = new Headers();
  for (const name of PASSED_HEADERS) {
    const value = upstream.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  const isHead = requestScopes.getStore()?.request.method === "HEAD";
  let passed: BodyInit | null = body;
  if (body && upstream.ok) {
    const isEventStream = (headers.get("Content-Type") ?? "").toLowerCase().startsWith("text/event-stream");
    const answer = new MeteredBody(body, isEventStream, options);
    const isCollected = isChargedBefore(options) || ("payment" in options && !isEventStream);
    if (isHead) await answer.close();
    else passed = (await (isCollected ? answer.collect() : answer.open())) as BodyInit;
  } else if (isHead) await body?.cancel();
  return new Response(isHead ? null : passed, { status, statusText, headers });
}

/** Returns whether the charge has to be known before the first byte leaves. */
function isChargedBefore(options: MeterStreamOptions): boolean {
  return "payment" in options && options.payment.kind === "one-time" && options.payment.max !== undefined;
}

/** Counts what passes of one answer. */
interface Metering extends Pick<TokenMeter, "finish" | "takeReceipts" | "isStated" | "countLeft"> {
  /** Counts one part. @returns whether the answer ends after it, because the cap did not cover all of it */
  count(part: Uint8Array): Promise<boolean>;
  /** Reads one part that is not delivered. */
  look(part: Uint8Array): void;
  end(): Promise<unknown>;
}

function byParts({ meter, units }: PartStreamOptions): Metering {
  return {
    count: async (part) => (await meter.add(units(part))).clipped && meter.atCap === "stop",
    isStated: true,
    look: () => undefined,
    countLeft: async () => undefined,
    finish: () => undefined,
    end: () => meter.end(),
    takeReceipts: () => meter.takeReceipts(),
  };
}

function byTokens(options: TokenStreamOptions, isEventStream: boolean): Metering {
  const tokens = new TokenMeter(options, !isEventStream);
  const read = (part: Uint8Array): TokenUsage | undefined => {
    const data = isEventStream ? dataOf(part) : parsed(new TextDecoder().decode(part));
    return data === undefined ? undefined : options.read(data);
  };
  return {
    async count(part) {
      const used = read(part);
      return used !== undefined && tokens.count(used);
    },
    look(part) {
      const used = read(part);
      if (used) tokens.look(used);
    },
    get isStated() {
      return tokens.isStated;
    },
    countLeft: () => tokens.countLeft(),
    finish: (canRefuse) => tokens.finish(canRefuse),
    end: () => tokens.end(),
    takeReceipts: () => tokens.takeReceipts(),
  };
}

class MeteredBody {
  readonly #source: ReadableStreamDefaultReader<Uint8Array>;
  readonly #parts: AsyncIterator<Uint8Array, undefined>;
  readonly #isEventStream: boolean;
  readonly #metering: Metering;
  readonly #signal: AbortSignal | undefined;
  readonly #boundary = new EventBoundary();
  readonly #leave = (): void => void (this.#isOpen ? this.#readOn() : this.#cancelSource());
  /** parts may have left */
  #isOpen = false;
  #isLeft = false;
  /** the part that is being read or counted */
  #reading: Promise<unknown> = Promise.resolve();

  /** @throws ConfigError, and why the signal was aborted: then the body is still unlocked */
  constructor(body: ReadableStream<Uint8Array>, isEventStream: boolean, options: MeterStreamOptions) {
    const isByParts = "meter" in options;
    this.#metering = isByParts ? byParts(options) : byTokens(options, isEventStream);
    this.#isEventStream = isEventStream;
    this.#signal = options.signal;
    this.#signal?.throwIfAborted();
    this.#source = body.getReader();
    this.#parts = (isByParts ? chunksOf : isEventStream ? eventsOf : wholeOf)(this.#source);
    this.#signal?.addEventListener("abort", this.#leave);
  }

  /** Returns the body as a stream, once its first part is counted. */
  async open(): Promise<ReadableStream<Uint8Array>> {
    let first: Passed | undefined = await this.#orClose(() => this.#next());
    this.#isOpen = true;
    const send = async (controller: ReadableStreamDefaultController<Uint8Array>, passed: Passed): Promise<void> => {
      if (passed.part) {
        controller.enqueue(passed.part);
        this.#boundary.sent(passed.part);
      }
      if (passed.part === undefined) this.#metering.finish(false);
      if (passed.isLast) await this.close();
      this.#sendReceipts(controller);
      if (!passed.isLast) return;
      if (passed.isCut && this.#isEventStream) controller.enqueue(endOf(new AllowanceExhausted()));
      controller.close();
    };
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            const passed = first ?? (await this.#orClose(() => this.#next()));
            first = undefined;
            if (this.#isLeft) controller.error(this.#signal?.reason ?? new AbortError("The client left."));
            else await send(controller, passed);
          } catch (error) {
            if (!this.#isEventStream || !isTurnpikeError(error)) throw error;
            this.#sendReceipts(controller);
            controller.enqueue(endOf(error));
            controller.close();
          }
        },
        cancel: () => this.#readOn(),
      },
      { highWaterMark: 0 },
    );
  }

  /** Sends what was charged and not sent yet, where a comment can carry it: between two events. */
  #sendReceipts(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const receipts = this.#isEventStream && this.#boundary.isHere ? this.#metering.takeReceipts() : [];
    if (receipts.length > 0) controller.enqueue(receiptComments(receipts));
  }

  /** Returns the whole body, once all of it is counted. */
  collect(): Promise<Uint8Array> {
    return this.#orClose(async () => {
      const parts: Uint8Array[] = [];
      let bytes = 0;
      for (;;) {
        const { part, isLast, isCut } = await this.#next();
        bytes += part?.length ?? 0;
        if (bytes > MAX_WHOLE_BYTES) throw tooLong();
        if (part) parts.push(part);
        if (!isLast) continue;
        if (!isCut) this.#metering.finish(true);
        await this.close();
        return joined(isCut && this.#isEventStream ? [...parts, endOf(new AllowanceExhausted())] : parts);
      }
    });
  }

  #next(): Promise<Passed> {
    const passed = this.#readNext();
    this.#reading = passed;
    return passed;
  }

  async #readNext(): Promise<Passed> {
    if (this.#isLeft) return NOTHING_MORE;
    const { value: part } = await this.#parts.next();
    if (!this.#isOpen) this.#signal?.throwIfAborted();
    if (part === undefined) return NOTHING_MORE;
    if (this.#isLeft) {
      this.#metering.look(part);
      return NOTHING_MORE;
    }
    const isCut = await this.#metering.count(part);
    return { part, isLast: isCut, isCut };
  }

  /** Reads what the client that left no longer gets, for its usage, and then ends. Never rejects. */
  async #readOn(): Promise<void> {
    if (this.#isLeft) return;
    this.#isLeft = true;
    const late = setTimeout(() => void this.#cancelSource(), READ_ON_MS);
    try {
      // An upstream that fails states nothing more.
      await this.#reading.then(() => this.#readToUsage()).catch(() => undefined);
      await this.#metering.countLeft();
    } catch {
      // What was counted before stays charged.
    } finally {
      clearTimeout(late);
      await this.close();
    }
  }

  async #readToUsage(): Promise<void> {
    for (let bytes = 0; !this.#metering.isStated && bytes <= READ_ON_BYTES; ) {
      const { value: part } = await this.#parts.next();
      if (part === undefined) return;
      bytes += part.length;
      this.#metering.look(part);
    }
  }

  async #cancelSource(): Promise<void> {
    await this.#source.cancel().catch(() => undefined);
  }

  async #orClose<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!this.#isLeft) await this.close();
      throw error;
    }
  }

  /** Ends the upstream and the meters. A meter that cannot record now tries again by itself. */
  async close(): Promise<void> {
    this.#signal?.removeEventListener("abort", this.#leave);
    await Promise.allSettled([this.#source.cancel(), this.#metering.end()]);
  }
}

const NOTHING_MORE: Passed = { part: undefined, isLast: true, isCut: false };

interface Passed {
  /** undefined: there are no more */
  readonly part: Uint8Array | undefined;
  readonly isLast: boolean;
  /** the cap ended it */
  readonly isCut: boolean;
}

async function* chunksOf(source: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<Uint8Array, undefined> {
  for (;;) {
    const { done, value } = await source.read();
    if (done) return undefined;
    yield value;
  }
}

/** A part for each event: what is incomplete waits until its tokens can be read. */
async function* eventsOf(source: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<Uint8Array, undefined> {
  const splitter = new EventSplitter();
  for await (const chunk of chunksOf(source)) {
    for (const event of splitter.push(chunk)) if (!isReceiptComments(event)) yield event;
  }
  const rest = splitter.rest();
  if (rest.length > 0) yield rest;
  return undefined;
}

/** One part: the tokens of an answer that is no stream are stated in it. */
async function* wholeOf(source: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<Uint8Array, undefined> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunksOf(source)) {
    bytes += chunk.length;
    if (bytes > MAX_WHOLE_BYTES) throw tooLong();
    chunks.push(chunk);
  }
  yield joined(chunks);
  return undefined;
}

const endOf = ({ code, message }: { readonly code: string; readonly message: string }): Uint8Array =>
  errorEvent(code, message);

const tooLong = (): Unavailable => new Unavailable(`The upstream's answer is longer than ${MAX_WHOLE_BYTES} bytes.`);

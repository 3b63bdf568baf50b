/**
 * Meters an upstream's answer as it passes: nothing leaves before it is counted, and the answer ends at the cap. Takes
 * event streams and JSON of language models, and any other stream with a count of its own.
 */
import { AllowanceExhausted, isTurnpikeError, Unavailable } from "../../protocol";
import { noteRefusal, requestScopes } from "../core/request-scope";
import type { UsageMeter } from "../metering/usage-meter";
import { dataOf, EventBoundary, EventSplitter, errorEvent, joined, parsed, receiptComments } from "./event-stream";
import { TokenMeter, type TokenMeterOptions } from "./token-meter";
import type { UsageReader } from "./token-usage";

/** Meters a language model's answer, by what its chunks say of tokens. */
export interface TokenStreamOptions extends TokenMeterOptions {
  /** new for each answer: `openAiUsage()`, `anthropicUsage()`, or a reader of your own */
  readonly read: UsageReader;
}

/** Meters an answer by its parts. */
export interface PartStreamOptions {
  readonly meter: UsageMeter;
  /** Returns the units of one part, at least 0. */
  readonly units: (part: Uint8Array) => bigint | number;
}

/** How an answer is metered: by its tokens, or by its parts. */
export type MeterStreamOptions = TokenStreamOptions | PartStreamOptions;

/** The longest answer that is collected before it is sent, bytes. */
const MAX_WHOLE_BYTES = 16_777_216;

/**
 * Returns a response with the upstream's status, headers and body, whose body is metered as it passes. Resolves once
 * its first part is counted, so that a refusal reaches the gate before any byte. A body that an `upto` payment pays for,
 * and a model's answer that is no stream, is collected first. Usage receipts leave as comments of an event stream, and
 * otherwise in the header of what is collected. A failed upstream response is returned as it is, and costs nothing.
 * @throws AllowanceExhausted, InsufficientFunds, SubscriptionNotActive, Unavailable before the first byte; later ones
 * end the body, in an event stream with an `error` event
 */
export async function meterStream(upstream: Response, options: MeterStreamOptions): Promise<Response> {
  const { body, status, statusText } = upstream;
  if (body === null || !upstream.ok) return upstream;
  const headers = new Headers(upstream.headers);
  // fetch has decoded the body, and the cap may shorten it.
  for (const name of ["Content-Encoding", "Content-Length", "Transfer-Encoding"]) headers.delete(name);
  const isEventStream = (headers.get("Content-Type") ?? "").toLowerCase().startsWith("text/event-stream");
  const metered = new MeteredBody(body, isEventStream, options);
  const isCollected = isChargedBefore(options) || ("payment" in options && !isEventStream);
  const passed = await (isCollected ? metered.collect() : metered.open()).catch((error: unknown) => {
    const scope = requestScopes.getStore();
    if (scope) noteRefusal(scope, error);
    throw error;
  });
  return new Response(passed as BodyInit, { status, statusText, headers });
}

/** Returns whether the charge has to be known before the first byte leaves. */
function isChargedBefore(options: MeterStreamOptions): boolean {
  return "payment" in options && options.payment.kind === "one-time" && options.payment.max !== undefined;
}

/** Counts one part. @returns whether the answer ends after it, because the cap did not cover all of it */
type Count = (part: Uint8Array) => Promise<boolean>;

class MeteredBody {
  readonly #source: ReadableStreamDefaultReader<Uint8Array>;
  readonly #parts: AsyncIterator<Uint8Array, undefined>;
  readonly #isEventStream: boolean;
  readonly #count: Count;
  /** for an answer that was not cut */
  readonly #finish: (canRefuse: boolean) => void;
  readonly #end: () => Promise<unknown>;
  readonly #meter: Pick<UsageMeter, "takeReceipts">;
  readonly #boundary = new EventBoundary();

  constructor(body: ReadableStream<Uint8Array>, isEventStream: boolean, options: MeterStreamOptions) {
    this.#source = body.getReader();
    this.#isEventStream = isEventStream;
    if ("meter" in options) {
      const { meter, units } = options;
      this.#finish = () => undefined;
      this.#parts = chunksOf(this.#source);
      this.#count = async (part) => (await meter.add(units(part))).clipped && meter.atCap === "stop";
      this.#end = () => meter.end();
      this.#meter = meter;
      return;
    }
    const tokens = new TokenMeter(options, !isEventStream);
    this.#parts = isEventStream ? eventsOf(this.#source) : wholeOf(this.#source);
    this.#count = async (part) => {
      const data = isEventStream ? dataOf(part) : parsed(new TextDecoder().decode(part));
      return data !== undefined && tokens.count(options.read(data));
    };
    this.#finish = (canRefuse) => tokens.finish(canRefuse);
    this.#end = () => tokens.end();
    this.#meter = tokens;
  }

  /** Returns the body as a stream, once its first part is counted. */
  async open(): Promise<ReadableStream<Uint8Array>> {
    let first: Passed | undefined = await this.#orClose(() => this.#next());
    const send = async (controller: ReadableStreamDefaultController<Uint8Array>, passed: Passed): Promise<void> => {
      if (passed.part) {
        controller.enqueue(passed.part);
        this.#boundary.sent(passed.part);
      }
      if (passed.part === undefined) this.#finish(false);
      if (passed.isLast) await this.#close();
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
            await send(controller, passed);
          } catch (error) {
            if (!this.#isEventStream || !isTurnpikeError(error)) throw error;
            this.#sendReceipts(controller);
            controller.enqueue(endOf(error));
            controller.close();
          }
        },
        cancel: () => this.#close(),
      },
      { highWaterMark: 0 },
    );
  }

  /** Sends what was charged and not sent yet, where a comment can carry it: between two events. */
  #sendReceipts(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const receipts = this.#isEventStream && this.#boundary.isHere ? this.#meter.takeReceipts() : [];
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
        if (!isCut) this.#finish(true);
        await this.#close();
        return joined(isCut && this.#isEventStream ? [...parts, endOf(new AllowanceExhausted())] : parts);
      }
    });
  }

  async #next(): Promise<Passed> {
    const { value: part } = await this.#parts.next();
    if (part === undefined) return { part, isLast: true, isCut: false };
    const isCut = await this.#count(part);
    return { part, isLast: isCut, isCut };
  }

  async #orClose<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      await this.#close();
      throw error;
    }
  }

  /** Ends the upstream and the meters. A meter that cannot record now tries again by itself. */
  async #close(): Promise<void> {
    await Promise.allSettled([this.#source.cancel(), this.#end()]);
  }
}

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
  for await (const chunk of chunksOf(source)) yield* splitter.push(chunk);
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

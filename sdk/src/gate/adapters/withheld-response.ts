/**
 * Withholds a Node response until its payment has settled: what the handler writes is held back, and leaves once the
 * Facilitator has settled, or never. A status of 400 or more costs nothing. A stream, or a body too long to hold,
 * settles before its first byte leaves.
 */
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import { type Answer, errorAnswer } from "../core/answer";
import { MAX_WITHHELD_BYTES, MAX_WITHHELD_MS } from "../core/deferred-settlement";
import type { Gate } from "../core/gate";
import { cancelDeferred, hasFailed, type RequestScope, type SettledScope } from "../core/request-scope";
import { isStream, type KeptAnswer, safeHeaders } from "../replay/keeper";
import { bytesOf, hasClientLeft, headOf, STREAM_MS } from "../replay/recorder";
import { keepHead, requireWritable, setAbsent, type Write } from "./node-headers";

export interface Withheld {
  readonly gate: Pick<Gate, "settle">;
  readonly response: ServerResponse;
  readonly scope: RequestScope;
  /** writes the head of a paid response */
  readonly writeHead: Write;
}

export function withhold(withheld: Withheld): void {
  new WithheldResponse(withheld).hold();
}

type Callback = () => void;

/** Takes the place of a response's own methods until its payment is settled or released. */
class WithheldResponse {
  readonly #gate: Withheld["gate"];
  readonly #response: ServerResponse;
  readonly #scope: RequestScope;
  readonly #own: { writeHead: Write; write: Write; end: Write; flushHeaders: () => void };
  /** what was set before the handler ran: a replacing answer has these, and nothing of the handler's */
  readonly #headersBefore: OutgoingHttpHeaders;
  /** held: the handler may still fail at no cost. settling: it may go on writing. passing: bytes leave */
  #phase: "held" | "settling" | "passing" | "replaced" = "held";
  #head: unknown[] | undefined;
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  /** whether what is held was written as a failure */
  #holdsFailure = false;
  #isFlushed = false;
  #settledStatus = 0;
  /** the handler failed after its stream was settled: the connection is cut, as without a gate */
  #isBroken = false;
  #isEnded = false;
  /** sets the head again that the answer had at its end */
  #restoreHead: Callback | undefined;
  #onEnded: Callback | undefined;
  #hasLeft = false;
  #timer: NodeJS.Timeout | undefined;

  constructor({ gate, response, scope, writeHead }: Withheld) {
    this.#gate = gate;
    this.#response = response;
    this.#scope = scope;
    this.#headersBefore = { ...response.getHeaders() };
    this.#own = {
      writeHead,
      write: response.write.bind(response) as unknown as Write,
      end: response.end.bind(response) as Write,
      flushHeaders: response.flushHeaders.bind(response),
    };
  }

  hold(): void {
    const response = this.#response;
    // Bound, as those of WatchedResponse are: function literals would keep the whole request in old space.
    response.writeHead = this.#onWriteHead.bind(this) as typeof response.writeHead;
    response.write = this.#onWrite.bind(this) as typeof response.write;
    response.end = this.#onEnd.bind(this) as typeof response.end;
    response.flushHeaders = this.#onFlush.bind(this);
    closeStream(response);
    // Links of an answer that may never leave.
    response.writeEarlyHints = (_hints, callback) => callback?.();
    response.once("close", () => this.#onClose());
  }

  #onWriteHead(...args: unknown[]): ServerResponse {
    if (this.#phase === "passing") return this.#own.writeHead(...args);
    if (this.#phase === "settling" && !this.#isEnded) this.#isBroken = true;
    if (this.#phase === "held") {
      requireWritable(this.#response, args);
      // A handler that fails midway writes its error as a new answer.
      this.#forgetBody();
      this.#head = args;
      this.#response.statusCode = args[0] as number;
    }
    return this.#response;
  }

  #onWrite(...args: unknown[]): boolean {
    if (this.#phase === "passing") return this.#own.write(...args) as unknown as boolean;
    later(callbackIn(args));
    if (this.#phase === "replaced" || this.#isEnded) return true;
    if (this.#phase === "held") requireWritable(this.#response);
    this.#push(args);
    if (this.#phase !== "held") return false;
    const isTooLong = this.#bytes > MAX_WITHHELD_BYTES;
    if (this.#isFailure()) {
      if (!isTooLong) return true;
      this.#finish();
      return false;
    }
    if (isTooLong || isStream(this.#headNow().headers.get("content-type"))) {
      this.#settleStream();
      return false;
    }
    this.#timer ??= setTimeout(() => this.#settleStream(), MAX_WITHHELD_MS).unref();
    return true;
  }

  #onEnd(...args: unknown[]): ServerResponse {
    if (this.#phase === "passing" && !this.#isEnded) return this.#own.end(...args);
    const callback = callbackIn(args);
    if (this.#phase === "replaced" || this.#isEnded) {
      later(callback);
      return this.#response;
    }
    if (this.#phase === "held") requireWritable(this.#response);
    this.#push(args);
    this.#isEnded = true;
    this.#restoreHead = keepHead(this.#response);
    this.#onEnded = callback;
    if (this.#phase === "held") this.#finish();
    return this.#response;
  }

  #onFlush(): void {
    if (this.#phase === "passing") this.#own.flushHeaders();
    if (this.#phase === "held") requireWritable(this.#response);
    this.#isFlushed = true;
    if (this.#phase === "held" && !this.#isFailure()) this.#settleStream();
  }

  /** The client has left, or the application has cut the response. */
  #onClose(): void {
    this.#hasLeft = true;
    if (this.#phase !== "held") return;
    clearTimeout(this.#timer);
    if (hasClientLeft(this.#response)) this.#timer = setTimeout(() => this.#giveUp(), STREAM_MS).unref();
    else this.#giveUp();
  }

  #giveUp(): void {
    if (this.#phase !== "held") return;
    this.#phase = "replaced";
    void cancelDeferred(this.#scope).catch(() => undefined);
  }

  #push(args: unknown[]): void {
    if (this.#phase === "held") {
      const isFailure = this.#isFailure();
      if (isFailure && !this.#holdsFailure) this.#forgetBody();
      this.#holdsFailure = isFailure;
    } else if (this.#response.statusCode !== this.#settledStatus) this.#isBroken = true;
    const chunk = this.#isBroken ? undefined : bytesOf(args);
    if (!chunk) return;
    this.#chunks.push(chunk);
    this.#bytes += chunk.byteLength;
  }

  #forgetBody(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#chunks = [];
    this.#bytes = 0;
  }

  /** An error handler that sets another status afterwards takes the head for unsent. */
  #forgetStaleHead(): void {
    if (this.#head && this.#head[0] !== this.#response.statusCode) this.#head = undefined;
  }

  #headNow(): ReturnType<typeof headOf> {
    this.#forgetStaleHead();
    return headOf(this.#response, this.#head);
  }

  #isFailure(): boolean {
    this.#forgetStaleHead();
    return hasFailed(this.#scope, this.#response.statusCode);
  }

  #answer(): KeptAnswer | undefined {
    const { status, headers: all } = this.#headNow();
    const headers = safeHeaders(all);
    return headers && { status, headers, body: Buffer.concat(this.#chunks) };
  }

  /** The handler has answered: settles, or gives the payment back. */
  #finish(): void {
    if (this.#isFailure()) this.#resolve(cancelDeferred(this.#scope).then(() => ({ kind: "settled", headers: {} })));
    else if (!this.#hasLeft) this.#settle(this.#answer());
    else {
      this.#phase = "replaced";
      void this.#shelve().catch(() => undefined);
    }
  }

  /** The client comes back for it. */
  async #shelve(): Promise<void> {
    await this.#scope.deferred?.shelve(this.#answer());
    await cancelDeferred(this.#scope);
  }

  #settleStream(): void {
    if (this.#phase !== "held") return;
    if (this.#hasLeft) this.#giveUp();
    else this.#settle(undefined);
  }

  #settle(answer: KeptAnswer | undefined): void {
    this.#resolve(this.#gate.settle(this.#scope, answer));
  }

  #resolve(settling: Promise<SettledScope>): void {
    clearTimeout(this.#timer);
    this.#forgetStaleHead();
    this.#settledStatus = this.#response.statusCode;
    this.#phase = "settling";
    settling
      .then(
        (settled) => (settled.kind === "settled" ? this.#pass(settled.headers) : this.#replaceWith(settled.answer)),
        (error) => this.#replaceWith(errorAnswer(error)),
      )
      // A fault of one answer never ends the process.
      .catch(() => this.#response.destroy());
  }

  /**
   * What is held leaves, and what the handler still writes follows it. The methods stay in place, because middleware behind
   * the gate may have put its own around them: what it does when the head is written happens now.
   */
  #pass(headers: Readonly<Record<string, string>>): void {
    const response = this.#response;
    if (this.#isBroken) {
      response.destroy();
      return;
    }
    this.#phase = "passing";
    this.#restoreHead?.();
    setAbsent(response, headers);
    openStream(response);
    if (this.#head) this.#own.writeHead(...this.#head);
    const body = this.#bytes > 0 ? [Buffer.concat(this.#chunks)] : [];
    this.#forgetBody();
    if (this.#isEnded) {
      this.#own.end(...body, ...(this.#onEnded ? [this.#onEnded] : []));
      return;
    }
    if (body.length > 0) this.#own.write(...body);
    if (this.#isFlushed) this.#own.flushHeaders();
    response.emit("drain");
  }

  #restore(): void {
    const response = this.#response;
    const { writeHead, write, end, flushHeaders } = this.#own;
    response.writeHead = writeHead as typeof response.writeHead;
    response.write = write as unknown as typeof response.write;
    response.end = end as typeof response.end;
    response.flushHeaders = flushHeaders;
  }

  /** Nothing of the handler's answer leaves; what it still writes is swallowed. */
  #replaceWith({ status, headers, body }: Answer): void {
    const response = this.#response;
    this.#phase = "replaced";
    this.#head = undefined;
    this.#forgetBody();
    for (const name of response.getHeaderNames()) response.removeHeader(name);
    for (const [name, value] of Object.entries(this.#headersBefore)) {
      if (value !== undefined) response.setHeader(name, value);
    }
    response.statusCode = status;
    if (response.req.httpVersionMajor < 2) response.statusMessage = "";
    setAbsent(response, headers);
    openStream(response);
    this.#restore();
    response.end(body);
    const swallow = (...args: unknown[]): void => later(callbackIn(args));
    response.writeHead = () => response;
    response.write = (...args: unknown[]) => {
      swallow(...args);
      return true;
    };
    response.end = (...args: unknown[]) => {
      swallow(...args);
      return response;
    };
  }
}

/** How a handler reaches an HTTP/2 stream past its response. */
const STREAM_METHODS = ["respond", "respondWithFD", "respondWithFile", "pushStream", "write", "end"];

type StreamMethods = Record<string, unknown>;

const streamOf = (response: ServerResponse): StreamMethods | undefined =>
  response.req.httpVersionMajor < 2 ? undefined : (response as unknown as { stream?: StreamMethods }).stream;

/** Makes a handler fail that answers past its response: nothing could be withheld there. */
function closeStream(response: ServerResponse): void {
  const stream = streamOf(response);
  if (!stream) return;
  for (const name of STREAM_METHODS) stream[name] = refuseStream;
}

function openStream(response: ServerResponse): void {
  const stream = streamOf(response);
  if (!stream) return;
  for (const name of STREAM_METHODS) delete stream[name];
}

function refuseStream(): never {
  throw new TypeError(
    'the answer to a payment that settles after its handler goes through the response, not its stream: use response.write and response.end, or settle: "before"',
  );
}

const callbackIn = (args: readonly unknown[]): Callback | undefined =>
  args.find((each): each is Callback => typeof each === "function");

/** The handler may hold the next part back until this one is taken. */
function later(callback: Callback | undefined): void {
  if (callback) process.nextTick(callback);
}

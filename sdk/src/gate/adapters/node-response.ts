/**
 * Watches a Node response while a paid handler writes it. The status decides the outcome before the first body byte:
 * 500 or more releases the payment, any other uses it up. The last byte waits until that is recorded, together with the
 * answer where it is kept for a client that loses it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Allowed, type Answer, errorAnswer } from "../core/answer";
import type { Gate } from "../core/gate";
import { hasFailed, isRefusedCharge, type RequestScope, settleScope, usageReceiptHeader } from "../core/request-scope";
import { hasClientLeft, type NodeRecording, recordNode, STREAM_MS } from "../replay/recorder";
import { keepHead, requireWritable, setAbsent, type Write, writeHeadOf, writePrivateHead } from "./node-headers";
import { withhold } from "./withheld-response";

export interface PaidResponse {
  readonly gate: Pick<Gate, "cors" | "settle" | "answerOfRefusedCharge">;
  readonly response: ServerResponse;
  readonly scope: RequestScope;
  /** its headers report the payment */
  readonly decision: Pick<Allowed, "headers" | "headersOfFailure">;
}

/** Returns whether the request is over: the client has left, or the application has answered. */
export function isOver(request: IncomingMessage, response: ServerResponse): boolean {
  return response.headersSent || response.writableEnded || response.destroyed || request.socket.destroyed;
}

/** Returns whether the connection was lost before the request's body had come whole. */
const isUploadCut = ({ destroyed, complete }: IncomingMessage): boolean => destroyed && !complete;

/**
 * A paid response: kept out of shared caches whatever the handler says, and watched; or withheld until its payment has
 * settled.
 */
export function watchPaid({ gate, response, scope, decision }: PaidResponse): void {
  const writeHead = writeHeadOf(response);
  const writePrivately = (...args: unknown[]) => writePrivateHead(response, gate.cors !== false, writeHead, args);
  if (scope.deferred) {
    withhold({ gate, response, scope, writeHead: writePrivately });
    return;
  }
  setAbsent(response, decision.headers);
  const { headersOfFailure } = decision;
  new WatchedResponse(
    { response, scope, headersOfFailure, onRefusedCharge: () => gate.answerOfRefusedCharge(scope) },
    writePrivately,
  ).watch();
}

export interface WatchOptions {
  readonly response: ServerResponse;
  readonly scope: RequestScope;
  /** set where the status is 400 or more */
  readonly headersOfFailure?: Readonly<Record<string, string>> | undefined;
  /** the answer instead of a failed one, when a charge was refused */
  readonly onRefusedCharge?: () => Promise<Answer>;
}

export function watchResponse(options: WatchOptions): void {
  new WatchedResponse(options, writeHeadOf(options.response)).watch();
}

/** Takes the place of a response's own `writeHead`, `write` and `end`. */
class WatchedResponse {
  readonly #response: ServerResponse;
  readonly #scope: RequestScope;
  readonly #onRefusedCharge: WatchOptions["onRefusedCharge"];
  readonly #headersOfFailure: WatchOptions["headersOfFailure"];
  readonly #writeHead: Write;
  readonly #write: (...args: unknown[]) => boolean;
  readonly #end: Write;
  #settling: Promise<unknown> | undefined;
  #isReplaced = false;
  /** the answer is complete, and leaves once its payment is recorded */
  #isWaiting = false;
  #hasBegun = false;
  /** the head of a response that may still be replaced */
  #heldHead: unknown[] | undefined;
  /** what of the answer is kept; undefined where nothing is, or nothing any more */
  #recording: NodeRecording | undefined;
  #streamTimer: NodeJS.Timeout | undefined;

  constructor({ response, scope, headersOfFailure, onRefusedCharge }: WatchOptions, writeHead: Write) {
    this.#response = response;
    this.#scope = scope;
    this.#onRefusedCharge = onRefusedCharge;
    this.#headersOfFailure = headersOfFailure;
    this.#writeHead = writeHead;
    this.#write = response.write.bind(response) as (...args: unknown[]) => boolean;
    this.#end = response.end.bind(response) as Write;
    this.#recording = scope.keeper && recordNode(response, scope.keeper.maxBytes);
  }

  watch(): void {
    const response = this.#response;
    const scope = this.#scope;
    // Bound: V8 puts a function literal that is assigned to a property into old space. A scavenge then keeps all that it
    // refers to, which is the whole request.
    response.writeHead = this.#onWriteHead.bind(this) as typeof response.writeHead;
    response.write = this.#onWrite.bind(this) as typeof response.write;
    response.end = this.#onEnd.bind(this) as typeof response.end;
    if (scope.claims.length > 0 || scope.onEnd) this.#settleWhenCut();
    else scope.onClaim = this.#settleWhenCut.bind(this);
  }

  /** Before the headers are recorded or written. */
  #markFailure(status: number): void {
    if (this.#headersOfFailure && status >= 400 && !this.#response.headersSent) {
      setAbsent(this.#response, this.#headersOfFailure);
    }
  }

  #onWriteHead(...args: unknown[]): ServerResponse {
    if (this.#isWaiting) return this.#response;
    this.#markFailure(args[0] as number);
    this.#recording?.head(args);
    const status = args[0] as number;
    const { refund } = this.#scope;
    if (refund && hasFailed(this.#scope, status)) setAbsent(this.#response, refund.headers);
    if (!this.#response.headersSent) setAbsent(this.#response, usageReceiptHeader(this.#scope));
    const mayReplace = this.#onRefusedCharge && !this.#isReplaced && !this.#hasBegun;
    if (!mayReplace || !isRefusedCharge(this.#scope, status)) return this.#writeHead(...args);
    this.#heldHead = args;
    this.#response.statusCode = status;
    return this.#response;
  }

  #onWrite(...args: unknown[]): boolean {
    if (this.#isReplaced) return true;
    if (!this.#response.headersSent) requireWritable(this.#response);
    this.#markFailure(this.#response.statusCode);
    this.#hasBegun = true;
    if (this.#heldHead) this.#writeHead(...this.#heldHead);
    this.#heldHead = undefined;
    const recorded = this.#record(args);
    if (recorded === "last") {
      void this.#settle("use", this.#recording)
        ?.then(() => this.#write(...args))
        .catch(() => this.#response.destroy());
      return true;
    }
    if (recorded === "open") this.#boundRecording();
    // The rejection is handled at the end, or ends the response here.
    else this.#settleByStatus()?.catch(() => this.#response.destroy());
    return this.#write(...args);
  }

  #onEnd(...args: unknown[]): ServerResponse {
    const response = this.#response;
    if (this.#isReplaced) return response;
    if (!response.headersSent) requireWritable(response);
    const onRefusedCharge = this.#onRefusedCharge;
    if (onRefusedCharge && !response.headersSent && isRefusedCharge(this.#scope, response.statusCode)) {
      this.#isReplaced = true;
      void this.#replaceWith(onRefusedCharge);
      return response;
    }
    this.#markFailure(response.statusCode);
    const waits = this.#record(args) === "void" ? this.#settleByStatus() : this.#settle("use", this.#recording);
    if (!waits) return this.#end(...args);
    this.#isReplaced = true;
    this.#isWaiting = true;
    const restoreHead = response.headersSent ? undefined : keepHead(response);
    waits
      .then(
        () => {
          this.#isWaiting = false;
          restoreHead?.();
          this.#finish(...args);
        },
        (error) => {
          this.#isWaiting = false;
          this.#fail(error);
        },
      )
      // A fault of one answer never ends the process.
      .catch(() => response.destroy());
    return response;
  }

  #settle(how: "use" | "release", kept?: NodeRecording): Promise<unknown> | undefined {
    clearTimeout(this.#streamTimer);
    this.#recording = undefined;
    if (this.#settling) return this.#settling;
    // Half a request has bought nothing, whatever the handler makes of it.
    const isCut = !this.#hasBegun && isUploadCut(this.#response.req);
    this.#settling = isCut ? settleScope(this.#scope, "release") : settleScope(this.#scope, how, kept?.answer());
    return this.#settling;
  }

  #settleByStatus(): Promise<unknown> | undefined {
    return this.#settle(hasFailed(this.#scope, this.#response.statusCode) ? "release" : "use");
  }

  /**
   * Settles a response that is cut off. What has begun was served as far as it could be, and is used up; what the
   * application cuts before its first byte has failed. Where the client has left, the handler may go on: its end decides,
   * and the client comes back for its answer.
   */
  #settleWhenCut(): void {
    const response = this.#response;
    response.once("close", () => {
      if (this.#settling) return;
      const hasBegun = this.#hasBegun || response.headersSent;
      const mayComeBack = hasClientLeft(response) && !isUploadCut(response.req);
      if (mayComeBack && (this.#recording || !hasBegun)) this.#boundRecording();
      else void this.#settle(hasBegun ? "use" : "release")?.catch(() => undefined);
    });
  }

  #record(args: unknown[]): "open" | "last" | "void" {
    return this.#settling || hasFailed(this.#scope, this.#response.statusCode)
      ? "void"
      : (this.#recording?.take(args) ?? "void");
  }

  /** A response that takes longer is a stream, or never ends: its payment is used up, and the answer is not kept. */
  #boundRecording(): void {
    this.#streamTimer ??= setTimeout(
      () => void this.#settle("use")?.catch(() => this.#response.destroy()),
      STREAM_MS,
    ).unref();
  }

  /** HTTP/2 writes the last part by the response's own `write`; what a handler still writes stays swallowed. */
  #finish(...args: unknown[]): void {
    const response = this.#response;
    const swallowing = response.write;
    response.write = this.#write as typeof response.write;
    this.#end(...args);
    response.write = swallowing;
  }

  async #replaceWith(make: () => Promise<Answer>): Promise<void> {
    try {
      const answer = await make();
      await this.#settle(answer.status >= 500 ? "release" : "use");
      this.#rewrite(answer);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#response.headersSent) this.#response.destroy();
    else this.#rewrite(errorAnswer(error));
  }

  #rewrite(answer: Answer): void {
    const response = this.#response;
    for (const name of response.getHeaderNames()) {
      if (!name.startsWith("access-control-")) response.removeHeader(name);
    }
    response.statusCode = answer.status;
    setAbsent(response, answer.headers);
    this.#finish(answer.body);
  }
}

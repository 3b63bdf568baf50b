/**
 * Watches a Node response while a paid handler writes it. The status decides the outcome before the first body byte:
 * 500 or more releases the payment, any other uses it up. The last byte waits until that is recorded, together with the
 * answer where it is kept for a client that loses it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Answer, errorAnswer } from "../core/answer";
import { type PaymentReport, reportedWith } from "../core/payment";
import type { Gate } from "../decision/gate";
import {
  hasFailed,
  isRefusedCharge,
  type RequestScope,
  settleScope,
  usageReceiptHeader,
} from "../decision/request-scope";
import { hasClientLeft, type NodeRecording, recordNode, STREAM_MS } from "../replay/recorder";
import { type AnswerPolicy, isCut, type Waiting } from "./answer-parts";
import { AnswerWriter } from "./answer-writer";
import { setAbsent, type Write, writeHeadOf, writePrivateHead } from "./node-headers";
import { cutOff, isUploadCut, onGivenUp } from "./shown-answer";
import { withhold } from "./withheld-response";

export interface PaidResponse {
  readonly gate: Pick<Gate, "cors" | "settle" | "answerOfRefusedCharge">;
  readonly response: ServerResponse;
  readonly scope: RequestScope;
  /** its headers report the payment */
  readonly decision: PaymentReport;
}

/** Returns whether the request is over: the client has left, or the application has answered. */
export function isOver(request: IncomingMessage, response: ServerResponse): boolean {
  return response.headersSent || response.writableEnded || response.destroyed || request.socket.destroyed;
}

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
  new WatchedResponse(
    { response, scope, report: decision, onRefusedCharge: () => gate.answerOfRefusedCharge(scope) },
    writePrivately,
  ).watch();
}

export interface WatchOptions {
  readonly response: ServerResponse;
  readonly scope: RequestScope;
  /** of the payment, set already */
  readonly report?: PaidResponse["decision"];
  /** the answer instead of a failed one, when a charge was refused */
  readonly onRefusedCharge?: () => Promise<Answer>;
}

export function watchResponse(options: WatchOptions): void {
  new WatchedResponse(options, writeHeadOf(options.response)).watch();
}

/** Watches what passes, and holds the end until the payment is recorded. */
class WatchedResponse implements AnswerPolicy {
  readonly #response: ServerResponse;
  readonly #scope: RequestScope;
  readonly #onRefusedCharge: WatchOptions["onRefusedCharge"];
  readonly #report: WatchOptions["report"];
  readonly #writer: AnswerWriter;
  #settling: Promise<unknown> | undefined;
  #hasBegun = false;
  /** a refused charge, whose answer may still be replaced */
  #isRefused = false;
  /** what of the answer is kept; undefined where nothing is, or nothing any more */
  #recording: NodeRecording | undefined;
  /** whether what is kept is whole by its end */
  #isKept = false;
  #isReleasing = false;
  #streamTimer: NodeJS.Timeout | undefined;

  constructor({ response, scope, onRefusedCharge, report }: WatchOptions, writeHead: Write) {
    this.#response = response;
    this.#scope = scope;
    this.#onRefusedCharge = onRefusedCharge;
    this.#report = report;
    this.#writer = new AnswerWriter({ response, writeHead, policy: this });
    this.#recording = scope.keeper && recordNode(response, scope.keeper.maxBytes);
  }

  watch(): void {
    const scope = this.#scope;
    this.#writer.install();
    if (scope.claims.length > 0 || scope.onEnd) this.#settleWhenCut();
    else scope.onClaim = this.#settleWhenCut.bind(this);
  }

  onHead(args: readonly unknown[]): void {
    const status = args[0] as number;
    this.#setReport(status);
    this.#recording?.head(args);
    this.#setHeaders(status);
    if (this.#hasBegun || !this.#onRefusedCharge || !isRefusedCharge(this.#scope, status)) return;
    this.#isRefused = true;
    this.#writer.hold();
  }

  /** Those of the payment that depend on what became of it. */
  #setHeaders(status: number): void {
    const { refund } = this.#scope;
    if (refund && hasFailed(this.#scope, status)) setAbsent(this.#response, refund.headers);
    setAbsent(this.#response, usageReceiptHeader(this.#scope));
  }

  /** Before the headers are recorded or written. */
  #setReport(status: number): void {
    if (!this.#report) return;
    const { headers } = this.#report;
    const reported = reportedWith(this.#report, status, hasFailed(this.#scope, status));
    if (reported === headers) return;
    for (const name of Object.keys(headers)) this.#response.removeHeader(name);
    setAbsent(this.#response, reported);
  }

  holdsPart(args: readonly unknown[]): boolean {
    if (this.#failsFirst()) return false;
    if (!this.#response.headersSent) this.#setReport(this.#response.statusCode);
    this.#hasBegun = true;
    const recorded = this.#record(args);
    if (recorded === "last") return true;
    if (recorded === "open") this.#boundRecording();
    // The rejection is handled at the end, or ends the response here.
    else this.#settleByStatus()?.catch(() => cutOff(this.#response));
    return false;
  }

  holdsEnd(args: readonly unknown[]): boolean {
    if (this.#failsFirst()) return false;
    const { statusCode, headersSent } = this.#response;
    if (this.#onRefusedCharge && !headersSent && isRefusedCharge(this.#scope, statusCode)) return true;
    if (!headersSent) this.#setReport(statusCode);
    this.#isKept = this.#record(args) !== "void";
    if (this.#settling || this.#scope.claims.length > 0) return true;
    void this.#settleByStatus();
    return false;
  }

  /** The application has cut it before its first byte, and writes on before it closes: nothing of that leaves. */
  #failsFirst(): boolean {
    if (this.#hasBegun || this.#writer.isHeadOut || !isCut(this.#response)) return false;
    void this.#settle("release")?.catch(() => undefined);
    return true;
  }

  onWaiting(what: Waiting): void {
    if (what === "head") return;
    if (this.#isRefused && what === "end") void this.#replaceRefused();
    else if (this.#isRefused) this.#passRefused();
    else if (what === "part") this.#releaseAfter(this.#settle("use", this.#recording));
    // After the last part of a declared length it waits already.
    else if (what === "end" && !this.#isReleasing) {
      this.#releaseAfter(this.#isKept ? this.#settle("use", this.#recording) : this.#settleByStatus());
    }
  }

  /** A refused charge whose handler has an answer of its own, part by part. */
  #passRefused(): void {
    this.#isRefused = false;
    this.#hasBegun = true;
    this.#settleByStatus()?.catch(() => cutOff(this.#response));
    this.#writer.release();
  }

  #releaseAfter(settling: Promise<unknown> | undefined): void {
    if (this.#isReleasing) return;
    this.#isReleasing = true;
    Promise.resolve(settling)
      .then(
        () => {
          this.#isReleasing = false;
          this.#writer.release();
        },
        (error) => this.#fail(error),
      )
      // A fault of one answer never ends the process.
      .catch(() => cutOff(this.#response));
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
    return this.#settle(hasFailed(this.#scope, this.#writer.status) ? "release" : "use");
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
      const hasBegun = this.#hasBegun || this.#writer.isHeadOut;
      const mayComeBack = hasClientLeft(response) && !isUploadCut(response.req);
      const end = () => void (hasBegun ? this.#settleByStatus() : this.#settle("release"))?.catch(() => undefined);
      if (!mayComeBack || (hasBegun && !this.#recording)) {
        end();
        return;
      }
      this.#boundRecording();
      onGivenUp(response, end);
    });
  }

  #record(args: readonly unknown[]): "open" | "last" | "void" {
    return this.#settling || hasFailed(this.#scope, this.#writer.status)
      ? "void"
      : (this.#recording?.take(args) ?? "void");
  }

  /** A response that takes longer is a stream, or never ends: its payment is used up, and the answer is not kept. */
  #boundRecording(): void {
    this.#streamTimer ??= setTimeout(
      () => void this.#settleByStatus()?.catch(() => cutOff(this.#response)),
      STREAM_MS,
    ).unref();
  }

  async #replaceRefused(): Promise<void> {
    try {
      const answer = await (this.#onRefusedCharge as () => Promise<Answer>)();
      await this.#settle(answer.status >= 500 ? "release" : "use");
      this.#replaceWith(answer);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (!this.#writer.isHeadOut) {
      this.#replaceWith(errorAnswer(error));
      return;
    }
    this.#writer.discard();
    cutOff(this.#response);
  }

  #replaceWith(answer: Answer): void {
    const headers = Object.entries(this.#response.getHeaders());
    const kept = Object.fromEntries(headers.filter(([name]) => name.startsWith("access-control-")));
    this.#writer.replace(answer, kept, () => {
      this.#setReport(answer.status);
      this.#setHeaders(answer.status);
    });
  }
}

/**
 * Withholds a Node response until its payment has settled: what the handler writes is held back, and leaves once the
 * Facilitator has settled, or never. A status of 400 or more costs nothing, and neither does an answer that is cut. A
 * stream, or a body too long to hold, settles before its first byte leaves.
 */
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import { errorAnswer } from "../core/answer";
import { MAX_WITHHELD_BYTES, MAX_WITHHELD_MS } from "../core/payment";
import type { Gate } from "../decision/gate";
import { cancelDeferred, hasFailed, type RequestScope, type SettledScope } from "../decision/request-scope";
import type { KeptAnswer } from "../replay/fit";
import { isStream, safeHeaders } from "../replay/keeper";
import { hasClientLeft, headOf, STREAM_MS } from "../replay/recorder";
import { type AnswerPolicy, isCut, type Waiting } from "./answer-parts";
import { AnswerWriter } from "./answer-writer";
import type { Write } from "./node-headers";
import { cutOff, isUploadCut, onGivenUp, streamOf } from "./shown-answer";

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

class WithheldResponse implements AnswerPolicy {
  readonly #gate: Withheld["gate"];
  readonly #response: ServerResponse;
  readonly #scope: RequestScope;
  readonly #writer: AnswerWriter;
  /** what was set before the handler ran: a replacing answer has these, and nothing of the handler's */
  readonly #headersBefore: OutgoingHttpHeaders;
  /** whether the handler may still fail at no cost */
  #isOpen = true;
  #hasLeft = false;
  #timer: NodeJS.Timeout | undefined;

  constructor({ gate, response, scope, writeHead }: Withheld) {
    this.#gate = gate;
    this.#response = response;
    this.#scope = scope;
    this.#headersBefore = { ...response.getHeaders() };
    this.#writer = new AnswerWriter({ response, writeHead, policy: this });
  }

  hold(): void {
    const response = this.#response;
    this.#writer.install();
    this.#writer.hold(true);
    closeStream(response);
    // Links of an answer that may never leave.
    response.writeEarlyHints = (_hints, callback) => callback && process.nextTick(callback);
    response.once("close", this.#onClose.bind(this));
  }

  onHead(): void {
    // The head is judged once it is shown.
  }

  holdsPart(): boolean {
    return false;
  }

  holdsEnd(): boolean {
    return false;
  }

  onWaiting(what: Waiting): void {
    if (!this.#isOpen) return;
    // The application writes on before it closes.
    if (isCut(this.#response)) this.#giveUp();
    else if (what === "end") this.#finish();
    // It is shown, and cannot become another.
    else if (this.#isFailure()) this.#cancel();
    else if (what === "flush" || (what === "part" && this.#isLong())) this.#settleStream();
    else if (what === "part") this.#timer ??= setTimeout(() => this.#settleStream(), MAX_WITHHELD_MS).unref();
  }

  #isLong(): boolean {
    return this.#writer.bytes > MAX_WITHHELD_BYTES || isStream(headOf(this.#response).headers.get("content-type"));
  }

  #isFailure(): boolean {
    return hasFailed(this.#scope, this.#writer.status);
  }

  /** The client has left, or the application has cut the response. */
  #onClose(): void {
    this.#hasLeft = true;
    if (!this.#isOpen) return;
    clearTimeout(this.#timer);
    // Half a request has bought nothing, whatever the handler makes of it.
    if (!hasClientLeft(this.#response) || isUploadCut(this.#response.req)) {
      this.#giveUp();
      return;
    }
    this.#timer = setTimeout(() => this.#giveUp(), STREAM_MS).unref();
    onGivenUp(this.#response, () => this.#giveUp());
  }

  #giveUp(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    openStream(this.#response);
    this.#writer.discard();
    void cancelDeferred(this.#scope).catch(() => undefined);
  }

  #answer(): KeptAnswer | undefined {
    const headers = safeHeaders(headOf(this.#response).headers);
    return headers && { status: this.#writer.status, headers, body: this.#writer.body() };
  }

  /** The handler has answered: settles, or gives the payment back. */
  #finish(): void {
    if (this.#isFailure()) this.#cancel();
    else if (!this.#hasLeft) this.#settle(this.#answer());
    else {
      this.#isOpen = false;
      void this.#shelve(this.#answer()).catch(() => undefined);
      this.#writer.discard();
    }
  }

  /** The client comes back for it. */
  async #shelve(answer: KeptAnswer | undefined): Promise<void> {
    await this.#scope.deferred?.shelve(answer);
    await cancelDeferred(this.#scope);
  }

  #settleStream(): void {
    if (!this.#isOpen) return;
    if (this.#hasLeft) this.#giveUp();
    else this.#settle(undefined);
  }

  #cancel(): void {
    this.#resolve(cancelDeferred(this.#scope).then(() => ({ kind: "settled", report: { headers: {} } })));
  }

  #settle(answer: KeptAnswer | undefined): void {
    this.#resolve(this.#gate.settle(this.#scope, answer));
  }

  #resolve(settling: Promise<SettledScope>): void {
    clearTimeout(this.#timer);
    this.#isOpen = false;
    this.#writer.press(MAX_WITHHELD_BYTES);
    settling
      .catch((error): SettledScope => ({ kind: "withheld", answer: errorAnswer(error) }))
      .then((settled) => {
        openStream(this.#response);
        if (settled.kind === "settled") this.#writer.release(settled.report);
        else this.#writer.replace(settled.answer, this.#headersBefore);
      })
      // A fault of one answer never ends the process.
      .catch(() => cutOff(this.#response));
  }
}

/** How a handler reaches an HTTP/2 stream past its response. */
const STREAM_METHODS = ["respond", "respondWithFD", "respondWithFile", "pushStream", "write", "end"];

/** Makes a handler fail that answers past its response: nothing could be withheld there. */
function closeStream(response: ServerResponse): void {
  const stream = streamOf(response);
  if (!stream) return;
  for (const name of STREAM_METHODS) stream[name] = refuseStream;
  stream.end = endClosed;
}

/** Node ends a stream itself that is closed or destroyed. */
function endClosed(
  this: { readonly closed: boolean; end: (...args: unknown[]) => unknown },
  ...args: unknown[]
): unknown {
  if (!this.closed) refuseStream();
  Reflect.deleteProperty(this, "end");
  return this.end(...args);
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

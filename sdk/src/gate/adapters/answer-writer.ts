/**
 * Owns the head, the parts and the end of a Node answer. A policy decides what has to wait. What waits is queued in the
 * order in which the handler wrote it, nothing passes it, and the handler sees what node:http would show.
 */
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { Answer } from "../core/answer";
import { type PaymentReport, reportedWith } from "../core/payment";
import {
  type AnswerPolicy,
  AnswerQueue,
  type Callback,
  callbackIn,
  headersSent,
  later,
  type Method,
  requireChunk,
  requireEncoding,
  StrictLength,
  withoutTrailers,
  writeAfterEnd,
} from "./answer-parts";
import { applyHead, requireStatusLine, setAbsent, type Write } from "./node-headers";
import { isHttp2, nodeError, ShownAnswer } from "./shown-answer";

export interface WriterOptions {
  readonly response: ServerResponse;
  /** writes the head, as the kind of answer needs it */
  readonly writeHead: Write;
  readonly policy: AnswerPolicy;
}

export class AnswerWriter {
  readonly #response: ServerResponse;
  readonly #policy: AnswerPolicy;
  /** called on the response: bound once more they would cost each request */
  readonly #own: Readonly<Record<Method, Write>>;
  /** undefined while everything passes */
  #queue: AnswerQueue | undefined;
  #shown: ShownAnswer | undefined;
  /** of the head that has left, or is shown: what a handler sets later changes neither */
  #status: number | undefined;
  #isHeadWaiting = false;
  #isImplicit = false;
  readonly #length = new StrictLength();
  #isEnded = false;
  #isReplaced = false;
  /** what is written is accepted at once: the answer waits for its own end */
  #accepts = false;
  /** more than this waits for the outcome */
  #limit = Number.POSITIVE_INFINITY;
  #needsDrain = false;

  constructor({ response, writeHead, policy }: WriterOptions) {
    this.#response = response;
    this.#policy = policy;
    this.#own = {
      writeHead,
      write: response.write as unknown as Write,
      end: response.end as Write,
      flushHeaders: response.flushHeaders as unknown as Write,
    };
  }

  /** Takes the place of the response's own methods. They stay in place: middleware may put its own around them. */
  install(): void {
    const response = this.#response;
    // Bound: V8 puts a function literal that is assigned to a property into old space. A scavenge then keeps all that it
    // refers to, which is the whole request.
    response.writeHead = this.#onWriteHead.bind(this) as typeof response.writeHead;
    response.write = this.#onWrite.bind(this) as typeof response.write;
    response.end = this.#onEnd.bind(this) as typeof response.end;
    response.flushHeaders = this.#onFlush.bind(this);
  }

  get isHeld(): boolean {
    return this.#queue !== undefined;
  }

  /** whether a head has gone to node:http, and cannot be replaced any more */
  get isHeadOut(): boolean {
    return this.#response.headersSent && !this.#isHeadWaiting;
  }

  /** what the client gets */
  get status(): number {
    return this.#status ?? this.#response.statusCode;
  }

  /** that wait */
  get bytes(): number {
    return this.#queue?.bytes ?? 0;
  }

  body(): Uint8Array {
    return this.#queue?.body() ?? new Uint8Array();
  }

  /** @param accepts whether each part is accepted at once, because the answer waits for its own end */
  hold(accepts = false): void {
    this.#queue ??= new AnswerQueue(this.#response);
    this.#accepts = accepts;
  }

  /** From now on the handler waits, because its answer waits for an outcome. */
  press(limit: number): void {
    this.#accepts = false;
    this.#limit = limit;
  }

  #onWriteHead(...args: unknown[]): ServerResponse {
    const response = this.#response;
    if (this.#isReplaced) return response;
    if (response.headersSent) {
      if (this.#queue) throw headersSent(response);
      return this.#own.writeHead(...args);
    }
    const wasHeld = this.isHeld;
    this.#policy.onHead(args);
    if (!this.#queue) {
      const written = this.#own.writeHead(...args);
      this.#status = response.statusCode;
      return written;
    }
    const { status, reason } = this.#orPass(wasHeld, () => applyHead(response, args));
    this.#shown = new ShownAnswer(response);
    this.#shown.showHead();
    this.#status = status;
    this.#isHeadWaiting = true;
    // Written by the part or the end itself otherwise, which may add a length.
    if (!this.#isImplicit) this.#queue.push("writeHead", status, ...(reason === undefined ? [] : [reason]));
    this.#policy.onWaiting("head");
    return response;
  }

  #onWrite(...args: unknown[]): boolean {
    const response = this.#response;
    if (this.#isReplaced) return later(callbackIn(args));
    // Node would cut an HTTP/2 answer for it, whose end may still be on its way.
    if (this.#isEnded) return writeAfterEnd(response, args);
    requireChunk(args[0]);
    if (response.strictContentLength) this.#length.require(response, args, false);
    if (!this.#queue) {
      if (!response.headersSent) requireStatusLine(response, response.statusCode);
      if (!this.#policy.holdsPart(args)) return this.#own.write.apply(response, args) as unknown as boolean;
    }
    this.#showHead();
    requireEncoding(args[0], args[1]);
    this.#queue?.pushPart(args, this.#accepts);
    this.#policy.onWaiting("part");
    return !this.#presses();
  }

  #onEnd(...args: unknown[]): ServerResponse {
    const response = this.#response;
    const callback = callbackIn(args);
    if (this.#isReplaced) {
      later(callback);
      return response;
    }
    if (this.#isEnded) return this.#endAgain(args, callback);
    const [chunk, encoding] = args[0] === callback ? [] : args;
    if (chunk) requireChunk(chunk);
    if (response.strictContentLength) this.#length.require(response, [chunk, encoding], true);
    if (!this.#queue) {
      if (!response.headersSent) requireStatusLine(response, response.statusCode);
      if (!this.#policy.holdsEnd(args)) {
        this.#own.end.apply(response, args);
        this.#isEnded = true;
        return response;
      }
    }
    this.#showHead();
    requireEncoding(chunk, encoding);
    if (callback) response.once("finish", callback);
    this.#queue?.pushEnd(chunk, encoding);
    this.#isEnded = true;
    this.#shown?.showEnd(this.bytes);
    this.#policy.onWaiting("end");
    return response;
  }

  #onFlush(): void {
    if (this.#isReplaced) return;
    if (!this.#queue) {
      this.#own.flushHeaders.call(this.#response);
      return;
    }
    this.#showHead();
    if (this.#isEnded) return;
    this.#queue?.push("flushHeaders");
    this.#policy.onWaiting("flush");
  }

  /** Writes the head as node:http does when a part comes without one: through what middleware has put around it. */
  #showHead(): void {
    const wasHeld = this.isHeld;
    this.hold(this.#accepts);
    const response = this.#response;
    if (response.headersSent) {
      this.#shown ??= new ShownAnswer(response);
      return;
    }
    this.#isImplicit = true;
    try {
      this.#orPass(wasHeld, () => response.writeHead(response.statusCode));
    } finally {
      this.#isImplicit = false;
    }
  }

  /** A head that cannot be written holds nothing: the handler answers otherwise. */
  #orPass<T>(wasHeld: boolean, act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (!wasHeld) this.#openQueue();
      throw error;
    }
  }

  /** @returns whether the handler is to wait for "drain" */
  #presses(): boolean {
    if (!this.#queue || this.#accepts || this.#limit === Number.POSITIVE_INFINITY) return false;
    // Middleware may keep listeners of "drain" to itself until it has seen the head: they would never be called.
    if (Object.hasOwn(this.#response, "on") && this.bytes <= this.#limit) return false;
    this.#needsDrain = true;
    this.#shown?.showPressure();
    return true;
  }

  /** What waits leaves, in its order, with the headers of this report. */
  release(report: PaymentReport = { headers: {} }): void {
    const queue = this.#queue;
    if (!queue) return;
    const response = this.#response;
    const { statusCode } = response;
    const isHeadWaiting = this.#isHeadWaiting;
    const cut = this.#open();
    if (isHeadWaiting) response.statusCode = this.status;
    setAbsent(response, reportedWith(report, this.status));
    this.#asOwn(() => {
      for (const { method, args } of queue.operations) this.#own[method].apply(response, args as unknown[]);
    });
    if (response.statusCode !== statusCode) response.statusCode = statusCode;
    cut();
    if (this.#needsDrain && !this.#isEnded && !response.writableNeedDrain) response.emit("drain");
  }

  /**
   * Nothing of the handler's answer leaves, this one does; what the handler still writes is swallowed.
   * @param kept the only headers that stay of those that are set
   * @param prepare sets further headers
   */
  replace({ status, headers, body }: Answer, kept: OutgoingHttpHeaders, prepare?: () => void): void {
    const response = this.#response;
    const callbacks = this.#queue?.callbacks() ?? [];
    const cut = this.#open();
    this.#isReplaced = true;
    for (const name of response.getHeaderNames()) response.removeHeader(name);
    for (const [name, value] of Object.entries(kept)) if (value !== undefined) response.setHeader(name, value);
    response.statusCode = status;
    if (!isHttp2(response)) response.statusMessage = "";
    setAbsent(response, headers);
    prepare?.();
    withoutTrailers(response);
    this.#asOwn(() => this.#own.end.call(response, body));
    callbacks.forEach(later);
    cut();
    if (this.#needsDrain) response.emit("drain");
  }

  /** Nothing leaves: the client is gone, or the handler has cut the response. It sees what it has seen. */
  discard(): void {
    const callbacks = this.#queue?.callbacks() ?? [];
    this.#openQueue();
    this.#shown?.cut();
    const error = nodeError("ERR_STREAM_DESTROYED", "Cannot call write after a stream was destroyed");
    for (const callback of callbacks) process.nextTick(callback, error);
  }

  #openQueue(): void {
    this.#queue?.open();
    this.#queue = undefined;
  }

  #open(): () => void {
    this.#openQueue();
    this.#isHeadWaiting = false;
    return this.#shown?.hide() ?? (() => undefined);
  }

  /** Node's methods, and those of middleware before the gate, call each other by the response: not ours, nor those around. */
  #asOwn(act: () => void): void {
    const response = this.#response;
    const { writeHead, write } = response;
    response.writeHead = this.#own.writeHead as typeof writeHead;
    response.write = this.#own.write as unknown as typeof write;
    try {
      act();
    } finally {
      response.writeHead = writeHead;
      response.write = write;
    }
  }

  #endAgain(args: readonly unknown[], callback: Callback | undefined): ServerResponse {
    const response = this.#response;
    if (args[0] && args[0] !== callback) writeAfterEnd(response, args);
    else if (!this.#queue) this.#own.end.apply(response, args as unknown[]);
    else if (callback) response.once("finish", callback);
    return response;
  }
}

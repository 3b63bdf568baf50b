/**
 * Sends progress while a payment settles: clients give a call up after a minute, unless they hear of it. Knows nothing of
 * payments.
 */
import type { CallNotification, Notify } from "./sdk-call";

const PROGRESS_MS = 2_000;

const PROGRESS = "notifications/progress";

/** Progress has to rise, and what the handler reports is its own: by less than anybody's steps. */
const STEP = 2 ** -20;

/** Of one call. */
export class SettlementProgress {
  readonly #token: unknown;
  readonly #send: Notify;
  #latest = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param token the call's `progressToken`; without one, nothing is sent */
  constructor(token: unknown, send: Notify) {
    this.#token = token;
    this.#send = send;
  }

  /** The handler's way to notify: what it reports is counted on from. */
  readonly notify: Notify = (notification) => {
    this.#note(notification);
    return this.#send(notification);
  };

  /** Begins to send: the handler does not run, and a settlement may. */
  start(): void {
    if (this.#token === undefined) return;
    this.stop();
    this.#timer = setInterval(() => this.#beat(), PROGRESS_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #beat(): void {
    this.#latest += STEP;
    const params = { progressToken: this.#token, progress: this.#latest, message: "The payment is being settled." };
    // The client may have left.
    this.#send({ method: PROGRESS, params }).catch(() => undefined);
  }

  #note({ method, params }: CallNotification): void {
    if (method !== PROGRESS || params?.progressToken !== this.#token) return;
    const progress = Number(params?.progress);
    if (progress > this.#latest) this.#latest = progress;
  }
}

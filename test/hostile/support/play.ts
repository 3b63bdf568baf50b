/** One client in one hostile case: what it is asked to do, what became of it, and the sentences that judge it. */
import { inspect } from "node:util";
import type { Hex } from "turnpike/protocol";
import { credentialsIn, signaturesIn } from "./disclosed";
import type { HostileServer } from "./servers";
import { addressOf, CHAIN_ID, type Dialect, keyOf, PRICE, type Stage, TOKEN } from "./stage";

/** A client's options. It uses those that it has settings for, and ignores the others. */
export interface PayOptions {
  /** of the payer: a test key, worthless anywhere else */
  readonly privateKey: Hex;
  /** calls of one session share what the client remembers; another session has nothing but the key */
  readonly session: string;
  /** what its user allows; amounts are base units */
  readonly limits: {
    readonly perPayment: bigint;
    readonly perDay: bigint;
    readonly payees: readonly string[];
    readonly maxWindowSec: number;
  };
  /** the only Facilitators its user trusts, for clients that know of any */
  readonly facilitators: readonly string[];
  readonly network: string;
  readonly caip2: string;
  readonly chainId: number;
  readonly token: string;
  /** names the purchase: it must not be paid twice */
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal;
  /** a subscription that the user holds, and the one origin it is for */
  readonly subscription?: { readonly origin: string; readonly planId: Hex };
}

/** What `--client <module>` exports. */
export interface HostileClient {
  readonly name?: string;
  /** which 402s it can pay; default: all three */
  readonly dialects?: readonly Dialect[];
  readonly features?: readonly "subscription"[];
  /** Requests `url` with GET and pays for it where its user's limits allow. */
  pay(url: string, options: PayOptions): Promise<Response>;
}

export interface Finding {
  readonly safe: boolean;
  /** what the client did, in figures */
  readonly saw: string;
}

export interface HostileCase {
  /** the threat's id and a name */
  readonly id: string;
  readonly does: string;
  readonly safeResult: string;
  /** default: all */
  readonly dialects?: readonly Dialect[];
  readonly needs?: "subscription";
  run(play: Play): Promise<Finding>;
}

export type Outcome =
  | { readonly kind: "answered"; readonly status: number }
  | { readonly kind: "threw"; readonly message: string; readonly printed: string };

export type Ask = Partial<Omit<PayOptions, "limits">> & { readonly limits?: Partial<PayOptions["limits"]> };

/** No call may take longer: what is endless has to be given up. */
const CALL_MS = 60_000;

export class Play {
  readonly outcomes: Outcome[] = [];

  constructor(
    readonly stage: Stage,
    readonly client: HostileClient,
  ) {}

  /** Asks the client to pay once. */
  async attempt(url: string, { limits, ...ask }: Ask = {}): Promise<Outcome> {
    const options: PayOptions = {
      privateKey: keyOf("payer"),
      session: "first",
      facilitators: [this.stage.facilitator.url],
      network: "base-sepolia",
      caip2: `eip155:${CHAIN_ID}`,
      chainId: CHAIN_ID,
      token: TOKEN,
      ...ask,
      limits: {
        perPayment: 2n * PRICE,
        perDay: 20n * PRICE,
        payees: [addressOf("provider")],
        maxWindowSec: 600,
        ...limits,
      },
    };
    const outcome = await this.#within(this.client.pay(url, options));
    this.outcomes.push(outcome);
    return outcome;
  }

  /** Asks again until it is served, as callers do. */
  async insist(url: string, times = 3, ask: Ask = {}): Promise<void> {
    for (let i = 0; i < times; i++) {
      const outcome = await this.attempt(url, ask);
      if (outcome.kind === "answered" && outcome.status === 200) return;
    }
  }

  async #within(work: Promise<Response>): Promise<Outcome> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<Outcome>((resolve) => {
      timer = setTimeout(() => resolve({ kind: "threw", message: LATE, printed: LATE }), CALL_MS);
    });
    const ended = work.then(
      async (response): Promise<Outcome> => {
        await response.body?.cancel();
        return { kind: "answered", status: response.status };
      },
      (error: unknown): Outcome => {
        const message = error instanceof Error ? error.message : String(error);
        return { kind: "threw", message, printed: inspect(error, { depth: 12, showHidden: true }) };
      },
    );
    try {
      return await Promise.race([ended, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  get endedInTime(): boolean {
    return this.outcomes.every((outcome) => outcome.kind === "answered" || outcome.message !== LATE);
  }

  /** At most this many payments are in other hands, whatever came back. */
  signedAtMost(count: number): Finding {
    const { length } = this.stage.authorizations;
    return this.#finding(length <= count && this.endedInTime);
  }

  /** Nothing at all was signed that anybody else has. */
  signedNothing(): Finding {
    return this.#finding(signaturesIn(this.stage.requests).size === 0 && this.endedInTime);
  }

  /** Nothing reached these servers that is worth having. */
  gaveNothingTo(...others: HostileServer[]): Finding {
    const requests = others.flatMap(({ seen }) => seen);
    const lost = [...credentialsIn(requests), ...signaturesIn(requests)];
    const { saw, safe } = this.signedAtMost(Number.POSITIVE_INFINITY);
    return { safe: safe && lost.length === 0, saw: `${saw}; ${lost.length} credentials to others` };
  }

  signatures(): string[] {
    return [...signaturesIn(this.stage.requests)];
  }

  /** As the case itself judges it. */
  also(safe: boolean, saw: string): Finding {
    const finding = this.#finding(safe && this.endedInTime);
    return { ...finding, saw: `${finding.saw}; ${saw}` };
  }

  #finding(safe: boolean): Finding {
    const { authorizations, requests } = this.stage;
    const value = authorizations.reduce((sum, { value }) => sum + BigInt(value), 0n);
    const ends = this.outcomes.map((outcome) =>
      outcome.kind === "answered" ? `HTTP ${outcome.status}` : outcome.message.slice(0, 60),
    );
    const payments = `${authorizations.length} payment${authorizations.length === 1 ? "" : "s"} signed (${value} units)`;
    return { safe, saw: `${payments}, ${requests.length} requests, ${ends.join(" / ")}` };
  }
}

const LATE = "did not end";

/**
 * One purchase, attempted by gates of one store that die, lose replies or find store and Facilitator away at any step, in
 * generated orders: nothing is served twice, and nothing that was paid is lost.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import {
  type ClaimStore,
  createProvider,
  fileClaims,
  type GateOptions,
  memoryClaims,
  type Payment,
} from "turnpike/gate";
import { fetchGate } from "turnpike/gate/fetch";
import { type Hex, Unavailable } from "turnpike/protocol";
import {
  type Answer,
  CHAIN_ID,
  headerOf,
  NOW,
  OVER_PERMIT2,
  PAY_TO,
  proofOf,
  type SettleBody,
  signedSettlement,
  TOKEN,
} from "../../../support/gate";
import { challengesIn, credentialOf, headerOf as mppHeaderOf } from "./mpp";
import { permit2Headers } from "./permit2";
import { type Accepted, exactPayload, requiredIn } from "./standard";

const URL_OF_ROUTE = "http://localhost/paid";

const LEASE_MS = 60_001;

/** What goes wrong at one step of a process: it dies there, or the step fails; before or after it was done. */
interface Fault {
  readonly step: number;
  readonly kind: "dies" | "fails";
  readonly isDone: boolean;
}

interface Attempt {
  readonly fault: Fault | undefined;
  /** beside the next one, of another process */
  readonly isBeside: boolean;
  readonly hasKey: boolean;
}

/** A claim that died in its handler counts as a run; the fourth ends a payment that has settled before. */
const MAX_FAULTS = 3;

const orders = fc.array(
  fc.record<Attempt>({
    fault: fc.option(
      fc.record<Fault>({
        step: fc.nat({ max: 14 }),
        kind: fc.constantFrom("dies", "fails"),
        isDone: fc.boolean(),
      }),
      { nil: undefined },
    ),
    isBeside: fc.boolean(),
    hasKey: fc.boolean(),
  }),
  { minLength: 1, maxLength: MAX_FAULTS },
);

/** The Facilitator's own record, by payment: what it has accepted stays accepted. */
class Ledger {
  accepted: { readonly grantId: string; readonly amount: string } | undefined;
  reservedBy: string | undefined;
  readonly conflicts: string[] = [];

  answer(path: string, body: unknown): object {
    if (path === "/supported") return OVER_PERMIT2;
    if (path.endsWith("/release")) {
      if (this.reservedBy === (body as { grantId: string }).grantId) this.reservedBy = undefined;
      return { released: true };
    }
    if (path === "/proofs/verify") return { valid: true };
    if (path === "/verify") return this.#verify(body as SettleBody);
    if (path === "/settle") return this.#settle(body as SettleBody);
    return { id: path, status: this.accepted ? "settled" : "unknown" };
  }

  #verify({ grant }: SettleBody): object {
    const holder = this.accepted?.grantId ?? this.reservedBy ?? grant?.id;
    if (holder !== grant?.id || this.accepted) return { isValid: false, invalidReason: "payment_already_granted" };
    this.reservedBy = holder;
    return { isValid: true, reserved: true };
  }

  #settle(asked: SettleBody): object {
    const { grant, paymentRequirements } = asked;
    const amount = String(paymentRequirements.amount);
    this.accepted ??= { grantId: String(grant?.id), amount };
    if (this.accepted.grantId !== grant?.id) return { success: false, errorReason: "payment_already_granted" };
    if (this.accepted.amount !== amount) this.conflicts.push(`${this.accepted.amount} and then ${amount}`);
    return signedSettlement(asked, `0x${"ab".repeat(32)}`, "facilitator");
  }
}

/** One process: once it is dead nothing of it happens any more. */
class Process {
  readonly #fault: Fault | undefined;
  #steps = 0;
  #die: () => void = () => undefined;
  readonly death = new Promise<void>((resolve) => {
    this.#die = resolve;
  });
  #isDead = false;

  constructor(fault: Fault | undefined) {
    this.#fault = fault;
  }

  async step<T>(act: () => Promise<T>): Promise<T> {
    if (this.#isDead) return never();
    const fault = this.#steps++ === this.#fault?.step ? this.#fault : undefined;
    if (!fault) return act();
    if (fault.isDone) await act();
    if (fault.kind === "fails") throw new Unavailable("a fault of this test");
    this.#isDead = true;
    this.#die();
    return never();
  }
}

const never = <T>(): Promise<T> => new Promise(() => undefined);

export interface CrashWorld {
  /** a store's place: each call opens it as another process does */
  open(): ClaimStore;
}

/** Places of the stores of one machine, each its own. */
export function localPlaces() {
  let folder = "";
  let places = 0;
  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-crash-orders-"));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));
  return {
    inMemory(): CrashWorld {
      const store = memoryClaims({ warn: false });
      return { open: () => ({ ...store, close: async () => undefined }) };
    },
    inFile(): CrashWorld {
      const place = path.join(folder, String(places++));
      return { open: () => fileClaims({ folder: place }) };
    },
  };
}

/** A way to pay for the purchase. */
export interface PurchaseKind {
  readonly gate: object;
  /** of its provider */
  readonly mpp?: "Authorization";
  /** what pays the 402 */
  pay(quoted: Answer): Record<string, string> | Promise<Record<string, string>>;
  /** default: with the built-in dialects */
  readonly createProvider?: typeof createProvider;
  /** it has settled before it is presented */
  readonly isSettled?: boolean;
  /** it costs what its handler charges */
  readonly isCharged?: boolean;
  /** nobody who presents it once it was accepted is asked to pay again: no 402, for which clients sign another payment */
  readonly asksOnce?: boolean;
}

const PRICED = { address: TOKEN, name: "Test USD", version: "1", decimals: 6, currency: "USD" as const };

const ONE_TIME = [{ type: "one-time", amount: 500_000n }] as const;

const byMpp = {
  mpp: "Authorization",
  async pay(quoted: Answer) {
    const [challenge] = challengesIn(quoted);
    if (!challenge) throw new TypeError(`no challenge: ${quoted.text}`);
    return mppHeaderOf(await credentialOf(challenge));
  },
  asksOnce: true,
} as const;

const KINDS: Readonly<Record<string, PurchaseKind>> = {
  "a native proof": {
    gate: { pricing: ONE_TIME },
    pay: ({ json }) => headerOf(proofOf(json.accepts[0])),
    isSettled: true,
  },
  "exact, settled after": {
    gate: { pricing: ONE_TIME, settle: "after" },
    async pay(quoted) {
      const accepted = acceptedIn(quoted);
      const payload = await exactPayload({ to: accepted.payTo, value: BigInt(accepted.amount) });
      const body = { x402Version: 2, payload, accepted };
      return { "PAYMENT-SIGNATURE": Buffer.from(JSON.stringify(body)).toString("base64") };
    },
  },
  upto: {
    gate: { pricing: [{ type: "upto", max: 500_000n }] },
    pay: (quoted) => permit2Headers(acceptedIn(quoted)),
    isCharged: true,
  },
  "MPP, settled after": { ...byMpp, gate: { pricing: ONE_TIME, settle: "after" } },
  "MPP, settled before": { ...byMpp, gate: { pricing: ONE_TIME, settle: "before" } },
};

function acceptedIn(quoted: Answer): Accepted {
  const [accepted] = requiredIn(quoted).accepts;
  if (!accepted) throw new TypeError(`no entry: ${quoted.text}`);
  return accepted;
}

class Purchase {
  readonly ledger = new Ledger();
  readonly delivered: string[] = [];
  readonly charges: string[] = [];
  readonly askedAgain: string[] = [];
  isUsed = false;
  #passedMs = 0;
  readonly #stores: ClaimStore[] = [];

  constructor(
    readonly kind: PurchaseKind,
    readonly world: CrashWorld,
  ) {}

  /** Every call of the store and of the Facilitator, and the handler, is a step. */
  #gate(process: Process): (headers: Record<string, string>) => Promise<Answer> {
    const inner = this.world.open();
    this.#stores.push(inner);
    const later = <A extends object>(act: A): A =>
      "nowMs" in act ? { ...act, nowMs: (act as unknown as { nowMs: number }).nowMs + this.#passedMs } : act;
    const claims: ClaimStore = {
      ...inner,
      claim: (id, act, nowSec) => process.step(() => inner.claim(id, later(act), nowSec)),
      apply: (id, act, answer) =>
        process.step(async () => {
          const isHeld = await inner.apply(id, later(act), answer);
          this.isUsed ||= isHeld && act.act === "use";
          return isHeld;
        }),
      served: (...args) => process.step(() => inner.served(...args)),
      facts: (...args) => process.step(() => inner.facts(...args)),
      note: (...args) => process.step(() => inner.note(...args)),
      first: (...args) => process.step(() => inner.first(...args)),
      shelve: (...args) => process.step(() => inner.shelve(...args)),
      shelved: (...args) => process.step(() => inner.shelved(...args)),
    };
    const { mpp } = this.kind;
    const provider = (this.kind.createProvider ?? createProvider)({
      ...(mpp && { mpp }),
      network: `local-${CHAIN_ID}`,
      token: PRICED,
      payTo: PAY_TO,
      facilitator: { url: "http://localhost:1", signers: OVER_PERMIT2.proofSigners as Hex[] },
      secret: "a secret of this test, long enough to be one",
      claims,
      clock: { nowSec: () => NOW },
      fetch: (async (input: Request | string | URL, init?: RequestInit) => {
        const request = new Request(input, init);
        const text = await request.text();
        const ask = async () =>
          this.ledger.answer(new URL(request.url).pathname, text === "" ? undefined : JSON.parse(text));
        return Response.json(request.url.endsWith("/supported") ? await ask() : await process.step(ask));
      }) as typeof fetch,
    });
    const handler = fetchGate(provider.gate(this.kind.gate as GateOptions<never>))(async ({ payment }) => {
      const amount = await process.step(async () => this.#run(payment));
      return new Response(`the content at ${amount}`);
    });
    return async (headers) => {
      const request = new Request(URL_OF_ROUTE, { headers });
      const response = (await (handler as unknown as (request: Request) => Promise<Response>)(request)) as Response;
      const text = await response.text();
      const all = Object.fromEntries(response.headers);
      return { status: response.status, headers: all, text, json: text.startsWith("{") ? JSON.parse(text) : undefined };
    };
  }

  /** Each run names another charge, and writes another answer. */
  #run(payment: Payment): string {
    const amount = String(1_000 * (this.charges.length + 1));
    this.charges.push(amount);
    payment.charge(BigInt(amount));
    return amount;
  }

  /** @param key of the request that is quoted and then paid */
  async headers(key: Record<string, string>): Promise<Record<string, string>> {
    const quoted = await this.#gate(new Process(undefined))(key);
    return { ...key, ...(await this.kind.pay(quoted)) };
  }

  /** @returns undefined where the process died */
  async attempt(headers: Record<string, string>, fault?: Fault): Promise<Answer | undefined> {
    const process = new Process(fault);
    const wasAccepted = this.ledger.accepted !== undefined;
    // What its handler throws is its framework's to answer.
    const answering = this.#gate(process)(headers).catch(() => FAILED);
    const answer = await Promise.race([answering, process.death.then(() => undefined)]);
    if (answer?.status === 200) this.delivered.push(answer.text);
    if (answer?.status === 402 && wasAccepted) this.askedAgain.push(answer.text);
    return answer;
  }

  passLease(): void {
    this.#passedMs += LEASE_MS;
  }

  async close(): Promise<void> {
    for (const store of this.#stores) await store.close().catch(() => undefined);
  }
}

const FAILED: Answer = { status: 500, headers: {}, text: "", json: undefined };

const KEY = { "Idempotency-Key": "a-key-of-this-purchase" };

async function buy(kind: PurchaseKind, world: CrashWorld, order: readonly Attempt[]): Promise<void> {
  const purchase = new Purchase(kind, world);
  try {
    // A purchase is made with its key each time, or never.
    const sent = await purchase.headers(order[0]?.hasKey ? KEY : {});
    for (let i = 0; i < order.length; i++) {
      const [one, next] = [order[i], order[i + 1]];
      const beside = one?.isBeside && next ? [purchase.attempt(sent, next.fault)] : [];
      i += beside.length;
      await Promise.all([purchase.attempt(sent, one?.fault), ...beside]);
      purchase.passLease();
    }
    let last: Answer | undefined;
    for (let tries = 0; tries < 4 && last?.status !== 200; tries++) {
      last = await purchase.attempt(sent);
      purchase.passLease();
    }
    const { ledger, delivered } = purchase;
    const seen = `${last?.status} ${last?.text}; delivered ${delivered}; runs at ${purchase.charges}`;
    expect(new Set(delivered).size, `one answer: ${seen}`).to.be.at.most(1);
    expect(ledger.conflicts, `one amount: ${seen}`).to.deep.equal([]);
    const isPaid = kind.isSettled === true || ledger.accepted !== undefined;
    // Calldata shows a payload once it has settled: without its key nobody can show that a kept answer is theirs.
    const isOpenable = kind.isSettled === true || order[0]?.hasKey === true || !purchase.isUsed;
    if (isPaid && isOpenable) expect(delivered, `what was paid is served: ${seen}`).to.not.have.length(0);
    if (delivered.length > 0) expect(isPaid, `what is served is paid: ${seen}`).to.equal(true);
    if (kind.asksOnce) expect(purchase.askedAgain, `asked once: ${seen}`).to.deep.equal([]);
    if (kind.isCharged && ledger.accepted) expect(purchase.charges).to.include(ledger.accepted.amount);
  } finally {
    await purchase.close();
  }
}

/** @param runs orders of each kind; CRASH_RUNS and CRASH_SEED set others */
export function testCrashOrders(where: string, world: () => CrashWorld, runs: number, kinds = KINDS): void {
  const { CRASH_RUNS, CRASH_SEED } = process.env;
  const numRuns = CRASH_RUNS ? Number(CRASH_RUNS) : runs;
  const seed = CRASH_SEED ? { seed: Number(CRASH_SEED) } : {};
  for (const [name, kind] of Object.entries(kinds)) {
    it(`C14 HA23 ${name} is served once and never lost, in any order of deaths and outages, ${where}`, async () => {
      const property = fc.asyncProperty(orders, (order) => buy(kind, world(), order));
      await fc.assert(property, { numRuns, ...seed, endOnFailure: false });
    }).timeout(1_800_000);
  }
}

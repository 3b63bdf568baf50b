/**
 * Creates a provider for tests of an application that Turnpike gates: the real gate and the real wire, with a clock, a
 * chain and a Facilitator in memory. `pay` and `subscribe` replace the agent; nothing is settled and nothing costs
 * anything.
 */

import { fixedTime } from "../gate/core/chain-follower";
import type { GateContext } from "../gate/core/context";
import { type Settings, settingsOf, targetSettings } from "../gate/core/settings";
import { UsageReceiptIssuer } from "../gate/core/usage-receipts";
import type { MeterEvent } from "../gate/metering/store";
import { installProvider, type Provider, providerFrom } from "../gate/provider/provider";
import { memoryClaims } from "../gate/purchases/store";
import {
  type Address,
  addressOfKey,
  type Clock,
  ConfigError,
  checksum,
  encodePaymentProof,
  HEADER,
  type Hex,
  keccakText,
  type PaymentRequiredWire,
  PROOF_LIFE_SEC,
  requireNetwork,
  signProof,
  Unavailable,
} from "../protocol";
import { aNumber, aText, callback, fieldsOf, optionsOf } from "../protocol/arguments";
import { TestPayments } from "./payments";
import { TestBooks, type TestChange, type TestPlan, type TestSubscription } from "./subscriptions";
import { payUpto } from "./upto";

/** A clock that only a test moves. */
export interface ManualClock extends Clock {
  /** Advances it, seconds. */
  advance(seconds: number): void;
  /** Sets it, unix seconds. */
  set(sec: number): void;
}

/**
 * Creates a clock that only the test moves.
 * @param startSec unix seconds; default a fixed time, so that tests are the same every day
 */
export function manualClock(startSec = 1_800_000_000): ManualClock {
  aNumber(startSec, "startSec");
  let sec = startSec;
  return {
    nowSec: () => sec,
    advance(seconds) {
      aNumber(seconds, "seconds");
      sec += seconds;
    },
    set(next) {
      aNumber(next, "sec");
      sec = next;
    },
  };
}

/** Its clock and its address. */
export interface TestProviderOptions {
  readonly clock?: ManualClock;
  /** default: whatever loopback address the test server listens on */
  readonly publicUrl?: string;
  /** signs usage receipts of metered charges; no chain is asked whether it may */
  readonly receiptKey?: Hex;
  /** as of a provider: called with answers of upstreams that state no usage */
  readonly onMeterEvent?: (event: MeterEvent) => void;
}

/** The provider, and helpers that act as its clients. */
export interface TestProvider {
  /** give it to `paymentGate({ provider, ... })`, or `install()` it behind the free functions */
  readonly provider: Provider;
  readonly clock: ManualClock;
  /** Puts it behind the free functions, so that the application's own `paymentGate({ pricing })` uses it. */
  install(): Promise<void>;
  /** Headers that pay a 402 body's cheapest one-time option (or its plan, as a single request). */
  pay(required: PaymentRequiredWire, who?: { readonly payer?: string }): Record<string, string>;
  /**
   * Headers that pay the `upto` option of a 402 as stock clients do. What the handler charged is in the answer's
   * `PAYMENT-RESPONSE`.
   * @param header the 402's `PAYMENT-REQUIRED`
   */
  payUpto(header: string): Record<string, string>;
  /** Headers of a fresh subscription. */
  subscribe(subscription: TestSubscription): { readonly id: string; readonly headers: Record<string, string> };
  /** Adds a plan. */
  addPlan(plan: TestPlan): { readonly planId: Hex };
  /** Pauses, cancels, lapses or charges a subscription. */
  change(id: string, change: TestChange): void;
  /** What a subscription has been charged, base units. */
  spentOf(id: string): bigint;
  /** Takes chain and Facilitator down, or up again: the gate answers 503 meanwhile. */
  setDown(isDown: boolean): void;
}

const CHAIN_ID = 31_337;

const TURNPIKE = checksum(`0x${"71".repeat(20)}`);

// Keys for tests: anyone can derive them.
const keyOf = (name: string): Hex => keccakText(`turnpike testing ${name}`);

const checkOptions = optionsOf<TestProviderOptions>({
  clock: (clock, field) => callback((fieldsOf(clock, field) as ManualClock).advance, `${field}.advance`),
  publicUrl: aText,
  receiptKey: aText,
  onMeterEvent: callback,
});

/** A provider that grants without a chain. */
export function createTestProvider(options: TestProviderOptions = {}): TestProvider {
  checkOptions(options, "");
  const { clock = manualClock(), publicUrl, receiptKey: key, onMeterEvent: report = () => undefined } = options;
  const facilitator = addressOfKey(keyOf("facilitator"));
  const payTo = addressOfKey(keyOf("provider"));
  const payer = addressOfKey(keyOf("payer"));
  const token = {
    address: checksum(`0x${"70".repeat(20)}`),
    name: "Test USD",
    version: "1",
    decimals: 6,
    symbol: "USDC",
    currency: "USD" as const,
  };
  const books = new TestBooks({ clock, token, payTo, payer, receipts: key !== undefined, report });
  const settings = settingsOf(
    {
      network: `local-${CHAIN_ID}`,
      turnpike: TURNPIKE,
      token,
      payTo,
      facilitator: { url: "http://127.0.0.1:1", signers: [facilitator], refundsKey: "a key for tests" },
      secret: "a secret for tests: everyone knows this one",
      ...(publicUrl === undefined ? {} : { publicUrl }),
    },
    false,
  );
  const deployment = { chainId: CHAIN_ID, turnpike: TURNPIKE };
  const warn = (): void => undefined;
  const usageReceipts = key && new UsageReceiptIssuer({ key, deployment, origin: settings, rpc: undefined, warn });
  const provider = providerFrom(contextOf(books, settings, clock, usageReceipts));

  return {
    provider,
    clock,
    install: () => installProvider(provider),
    pay(required, who = {}) {
      const entry = Array.isArray(required?.accepts) ? required.accepts[0] : undefined;
      if (who !== undefined && who !== null) fieldsOf(who, "who");
      if (!entry?.memo || !entry.resource || !entry.token || !entry.amount) {
        throw new ConfigError("pay() needs the body of a 402 that offers something to pay");
      }
      const { chainId } = requireNetwork(entry.network, settings.extraNetworks);
      const settledAt = clock.nowSec();
      const proof = {
        version: "1" as const,
        network: entry.network,
        memo: entry.memo,
        resource: entry.resource,
        token: checksum(entry.token),
        payer: who.payer === undefined ? payer : checksum(who.payer),
        payTo: checksum(entry.payTo),
        amount: BigInt(entry.amount),
        transaction: keccakText(`transaction of ${entry.memo}`),
        blockNumber: 1,
        settledAt,
        expiresAt: settledAt + PROOF_LIFE_SEC,
        facilitator,
      };
      return { [HEADER.payment]: encodePaymentProof(signProof(proof, chainId, keyOf("facilitator"))) };
    },
    payUpto: (header) => payUpto(header, { chainId: CHAIN_ID, nowSec: clock.nowSec(), key: keyOf("payer") }),
    subscribe(subscription) {
      const id = books.subscribe(fieldsOf(subscription, "subscription"));
      return { id, headers: { [HEADER.subscription]: id } };
    },
    addPlan: (plan) => books.addPlan(fieldsOf(plan, "plan")),
    change: (id, change) => books.change(id, fieldsOf(change, "change")),
    spentOf: (id) => books.spentOf(id),
    setDown(isDown) {
      books.isDown = isDown;
    },
  };
}

/** What a Facilitator takes whose settings name no other, base units. */
const MIN_AMOUNT = "100";

/** The test's Facilitator settles every method. */
function supportFrom(uptoSigner: Address): GateContext["support"] {
  const support = {
    methods: undefined,
    uptoSigner,
    minAmount: MIN_AMOUNT,
    token: undefined,
    sponsorsGas: false,
    senders: [uptoSigner],
  };
  return {
    known: () => support,
    read: async () => support,
    readWithin: async () => undefined,
    isSender: async (key) => key === uptoSigner,
  };
}

function contextOf(
  books: TestBooks,
  settings: Settings,
  clock: ManualClock,
  usageReceipts: GateContext["usageReceipts"],
): GateContext {
  const mayAnswer = (): void => {
    if (books.isDown) throw new Unavailable("The test's Facilitator is down.", { retryAfterSec: 1 });
  };
  const { chainId, name: network } = settings.network;
  const payments = new TestPayments({ chainId, network, clock, key: keyOf("facilitator") });
  const context: GateContext = {
    settings,
    tracing: undefined,
    terms: books.terms,
    time: fixedTime(clock),
    rpc: undefined,
    states: books.states,
    facilitator: {
      async verifyProof() {
        mayAnswer();
        return { valid: true };
      },
      signsGrants: async () => true,
      async payment(id) {
        mayAnswer();
        return { kind: "found", value: { id, status: "unknown" } };
      },
      reserves: async () => true,
      knownToReserve: () => true,
      async x402Verify(request) {
        mayAnswer();
        return payments.verify(request);
      },
      async x402Settle(request) {
        mayAnswer();
        return payments.settle(request);
      },
      async releasePayment(paymentId, grantId) {
        mayAnswer();
        return payments.release(paymentId, grantId);
      },
    },
    refunds: { ask: async () => (books.isDown ? "pending" : "settled"), close: () => undefined },
    support: supportFrom(addressOfKey(keyOf("facilitator"))),
    facilitatorCheck: { check: async () => undefined, checkOnce: () => undefined, refusedSigner: () => undefined },
    async ownedBy(wallet) {
      mayAnswer();
      return books.ownedBy(wallet);
    },
    claims: memoryClaims({ warn: false }),
    meter: books.meter,
    usageReceipts,
    offerReceipts: undefined,
    reports: undefined,
    meterStarted: async () => undefined,
    isMeterOpen: () => true,
    forTarget(target, field) {
      const named = targetSettings(settings, target, field);
      const { token, network, payTo } = named;
      if (!token || (network === settings.network && token === settings.token && payTo === settings.payTo))
        return context;
      // The test's own Facilitator settles for every target, and a token without a domain has the test token's.
      const made = contextOf(books, { ...named, facilitator: settings.facilitator }, clock, usageReceipts);
      const terms = { address: token.address, name: token.name ?? "Test USD", version: token.version ?? "1" };
      const known = { ...books.terms, token: () => terms, load: async () => undefined };
      return { ...made, terms: known, claims: context.claims };
    },
    close: async () => undefined,
  };
  return context;
}

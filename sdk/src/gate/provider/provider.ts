/** A provider: one configuration, and every operation on it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  ConfigError,
  type Hex,
  isHash32,
  type PaymentProof,
  type PaymentRequiredWire,
  parsePaymentProof,
} from "../../protocol";
import { type NodeGate, nodeGate } from "../adapters/node-gate";
import { watchResponse } from "../adapters/node-response";
import { openRoom, type Room } from "../core/context";
import { createGate, type Gate } from "../core/gate";
import type { ProviderOptions } from "../core/options";
import type { Amount } from "../core/pricing";
import { gateRequestOfNode } from "../core/request";
import { openVisit, visits } from "../core/request-scope";
import type { GateOptions } from "../core/route";
import type { Deduction } from "../metering/meter";
import type { UnsettledReport } from "../metering/reports";
import { reportsOf } from "../reporting/funnel-metrics";
import { meterOf } from "./create-meter";
import { type AnyRequest, buildPlanQuote, verifyProof } from "./verify";

/** One configuration: its operations and its gates. */
export interface Provider {
  /** Express or node middleware that lets paid requests through. @throws ConfigError */
  paymentGate<Req = IncomingMessage>(options: GateOptions<Req>): NodeGate;
  /** The same decision for any framework's adapter. @throws ConfigError */
  gate<Req>(options: GateOptions<Req>): Gate;
  /** @throws InvalidPaymentProof for anything that is not a well-formed proof */
  parsePaymentProof(headerValue: string): PaymentProof;
  /**
   * Whether the proof pays for this request; true claims it, so that it buys one request.
   * @throws Unavailable when nobody can tell, ProofInFlight while another request uses it; never false for these
   */
  verifyPaymentProof(proof: PaymentProof, options?: { readonly request?: AnyRequest }): Promise<boolean>;
  /** A 402 body for a plan. @throws ConfigError when the plan was not loaded */
  buildPaymentRequired(options: { readonly plan: string; readonly request?: AnyRequest }): PaymentRequiredWire;
  /** Charges overage to the current request's subscription. @see Payment.deduct */
  deductAllowance(amount: Amount): Promise<Deduction>;
  /** Middleware that makes the request known to the operations above where no gate does. */
  context(): (request: IncomingMessage, response: ServerResponse, next: () => void) => void;
  /**
   * Rejects with what is wrong: a plan, the contract, the chain, or a key that could never collect what metered routes
   * charge (ConfigError); or with an outage (Unavailable).
   */
  ready(): Promise<void>;
  /** Debits what metered calls owe now instead of when it is due, and waits for it: before a shutdown, or in tests. */
  flush(): Promise<void>;
  /** What metered subscriptions owe and is not final on chain yet, and what was lost. @throws Unavailable */
  unsettled(): Promise<UnsettledReport>;
  /** Debits what is owed and lets go of everything. */
  close(): Promise<void>;
}

const NOTHING_OWED: UnsettledReport = { unsettled: 0n, charged: 0n, settled: 0n, lost: 0n, subscriptions: [] };

/** @throws ConfigError naming the setting */
export function createProvider(options: ProviderOptions): Provider {
  return providerIn(openRoom(options, { meterOf, reportsOf }), options.plans);
}

/** The operations in a room that is furnished already. */
export function providerIn(room: Room, planIds: readonly string[] = []): Provider {
  const gates: Gate[] = [];
  const plans = planIds.map((plan): Hex => {
    if (!isHash32(plan)) throw new ConfigError(`plans has "${plan}": a plan id is 0x and 64 hex digits`);
    return plan.toLowerCase() as Hex;
  });
  const offered = new Set(plans);

  function gate<Req>(gateOptions: GateOptions<Req>): Gate {
    const made = createGate(room, gateOptions);
    gates.push(made);
    for (const entry of gateOptions.pricing) {
      if (entry.type === "subscription") offered.add(entry.plan.toLowerCase() as Hex);
    }
    return made;
  }

  return {
    gate,
    paymentGate: (gateOptions) => nodeGate(gate(gateOptions)),
    parsePaymentProof,
    verifyPaymentProof: (proof, { request } = {}) => verifyProof(room, proof, request),
    buildPaymentRequired: ({ plan, request }) => buildPlanQuote(room, plan, request),
    deductAllowance,
    context: () => (request, response, next) => {
      const visit = openVisit(gateRequestOfNode(request));
      watchResponse({ response, visit });
      visits.run(visit, next);
    },
    async ready() {
      await room.terms.load(plans, false);
      await Promise.all(gates.map((made) => made.ready()));
      await room.meter?.proveAny([...offered]);
      await room.time.refresh();
      await room.meterStarted();
    },
    async flush() {
      await room.meterStarted();
      await room.reports?.flush();
      await room.meter?.flush();
    },
    async unsettled() {
      await room.meterStarted();
      return room.meter?.unsettled() ?? NOTHING_OWED;
    },
    close: () => room.close(),
  };
}

/** Needs no provider: the request that is being handled knows its own. */
export async function deductAllowance(amount: Amount): Promise<Deduction> {
  const payment = visits.getStore()?.payment;
  if (payment) return payment.deduct(amount);
  throw new ConfigError("deductAllowance was called outside a request that paymentGate let through");
}

/**
 * A minimal Facilitator over the real contracts on Hardhat's chain. It only relays what was signed: the contracts check
 * every signature that the agent makes.
 */
import { ethers, network } from "hardhat";
import {
  CHANGE_REQUESTS,
  type ChangeAct,
  type ChangeRequest,
  type PermitFields,
  permitRequestSchema,
  subscribeRequestSchema,
  voidRequestSchema,
} from "turnpike/facilitator";
import {
  type Address,
  checksum,
  type Hex,
  isErrorCode,
  lensAddressOf,
  NOMINAL_MONTH_SEC,
  planIdOf,
  STATUSES,
} from "turnpike/protocol";
import { type TestToken, type Turnpike, TurnpikeLens__factory } from "../../../../sdk/src/chain/generated";
import { signupArgs } from "../../../support/acts";
import { PERMIT_VRS } from "../../../support/contracts";
import { type Answer, closeAll, type Seen, type StandIn, serve } from "./servers";
import { addressOf, CHAIN_ID, NETWORK } from "./world";

export const PRICE = 10_000_000n;
export const INTERVAL_SEC = 30 * 86_400;

export interface Relay extends StandIn {
  readonly turnpike: Turnpike;
  readonly token: TestToken;
  readonly addresses: { readonly turnpike: Address; readonly token: Address };
  /** what happens to the next posts instead of relaying: lost before or after the chain accepted it, or still pending */
  readonly steps: (
    | "drop"
    | "relay_then_drop"
    | "pending"
    | { relayThenRefuse: string }
    | { refuse: string }
    | { limit: number }
  )[];
  /** reports every subscription as unknown */
  hidesSubscriptions?: boolean;
  /** changes the plans that it returns */
  lieAboutPlan?: (plan: Record<string, unknown>) => Record<string, unknown>;
  lieAboutAccount?: (account: Record<string, unknown>) => Record<string, unknown>;
  createPlan(overrides?: { amount?: bigint; payTo?: Address; months?: number; intervalSec?: number }): Promise<Hex>;
  deprecate(planId: Hex, successor: Hex): Promise<void>;
  fund(owner: Address, amount?: bigint): Promise<void>;
  approval(owner: Address): Promise<bigint>;
  nowSec(): Promise<number>;
  /** Holds the next posts until this many have arrived. */
  holdUntil(count: number): void;
}

interface Sent {
  readonly hash: string;
  wait(): Promise<unknown>;
}

const problem = (status: number, code: string): Answer => ({
  status,
  json: { type: `urn:turnpike:error:${code}`, title: code, status, code, message: code, retryable: false },
});

/** Returns the answer of a rate limit that ends in the given number of seconds. */
const limited = (retryAfterSec: number): Answer => ({
  ...problem(429, "RateLimited"),
  headers: { "retry-after": String(retryAfterSec) },
});

/** Call it in a `describe`. Each test gets its own relay, with one plan and a funded payer. */
export function relayBeforeEach(use: (fresh: { readonly relay: Relay; readonly planId: Hex }) => void): void {
  beforeEach(async () => {
    const relay = await startRelay();
    const planId = await relay.createPlan();
    await relay.fund(addressOf("payer"));
    use({ relay, planId });
  });
  afterEach(closeAll);
}

export async function startRelay(): Promise<Relay> {
  const [relayer, provider] = await ethers.getSigners();
  if (!relayer || !provider) throw new Error("Hardhat has accounts");
  const turnpike = (await ethers.deployContract("Turnpike")) as unknown as Turnpike;
  const token = (await ethers.deployContract("TestToken", ["Test USD", "tUSD", "1", 6])) as unknown as TestToken;
  const addresses = { turnpike: checksum(await turnpike.getAddress()), token: checksum(await token.getAddress()) };
  const lens = TurnpikeLens__factory.connect(lensAddressOf(addresses.turnpike), ethers.provider);
  const plans = new Map<string, { salt: Hex; metadata: string; provider: Address }>();
  const steps: Relay["steps"] = [];
  let salts = 0;

  const nowSec = async () => Number((await ethers.provider.getBlock("latest"))?.timestamp);

  async function sent(send: () => Promise<Sent>): Promise<Hex | Answer> {
    try {
      const transaction = await send();
      await transaction.wait();
      return transaction.hash as Hex;
    } catch (error) {
      const data = (error as { data?: unknown }).data;
      const name = typeof data === "string" ? turnpike.interface.parseError(data)?.name : undefined;
      const code = name ?? /custom error '(\w+)\(/.exec(String(error))?.[1];
      return problem(422, isErrorCode(code) ? code : "TransferFailed");
    }
  }

  async function subscription(idHash: Hex): Promise<Record<string, unknown> | undefined> {
    const [state] = await lens.getStates([idHash]);
    if (!state || state.subscription.subscriber === ethers.ZeroAddress) return undefined;
    const { subscription: s, allowance: a } = state;
    return {
      idHash,
      network: NETWORK,
      chainId: CHAIN_ID,
      subscriber: s.subscriber,
      planId: s.planId,
      status: STATUSES[Number(s.status)],
      paidThrough: Number(s.paidThrough),
      version: Number(s.version),
      ending: s.ending,
      intro: s.intro,
      ...(s.anchorDay > 0n && { anchorDay: Number(s.anchorDay) }),
      ...(s.until > 0n && { until: Number(s.until) }),
      ...(s.nextPlanId !== ethers.ZeroHash && { nextPlanId: s.nextPlanId }),
      allowance: {
        cap: a.cap.toString(),
        spent: a.spent.toString(),
        remaining: a.remaining.toString(),
        debits: Number(a.debits),
      },
      chainTimeSec: await nowSec(),
    };
  }

  const permitOf = (permit: PermitFields | undefined) => {
    if (!permit) return undefined;
    const { value, deadline, signature } = permit;
    return { value, deadline, signature: isKeySignature(signature) ? keySignature(signature).serialized : signature };
  };
  const isKeySignature = (signature: Hex) => signature.length === 132;
  const keySignature = (signature: Hex) => ethers.Signature.from(signature);
  const sendPermit = (owner: string, { value, deadline, signature }: PermitFields) => {
    if (!isKeySignature(signature)) {
      return token["permit(address,address,uint256,uint256,bytes)"](
        owner,
        addresses.turnpike,
        value,
        deadline,
        signature,
      );
    }
    const { v, r, s } = keySignature(signature);
    return token[PERMIT_VRS](owner, addresses.turnpike, value, deadline, v, r, s);
  };

  const NO_TERMS = {
    token: ethers.ZeroAddress,
    payTo: ethers.ZeroAddress,
    amount: 0n,
    interval: 0,
    months: false,
  };

  async function change(idHash: Hex, act: ChangeAct, body: unknown): Promise<Answer> {
    const { version, deadline, signature, permit } = CHANGE_REQUESTS[act].parse(body);
    const auth = { version, deadline, signature };
    const fields = <A extends ChangeAct>(name: A) => CHANGE_REQUESTS[name].parse(body) as ChangeRequest<A>;
    const calls: Record<ChangeAct, () => Promise<Sent>> = {
      pause: () => turnpike.pause(idHash, auth),
      resume: () => turnpike.resume(idHash, fields("resume").maxCharge, auth),
      cancel: () => turnpike.cancel(idHash, fields("cancel").atPeriodEnd, auth),
      "max-overage": () => turnpike.setMaxOverage(idHash, fields("max-overage").cap, auth),
      next: () => {
        const { until, nextPlanId, terms } = fields("next");
        const shown = terms ? { ...terms, months: terms.unit === "months" } : NO_TERMS;
        return turnpike.setNext(idHash, until, nextPlanId, shown, auth);
      },
      plan: () => {
        const { newPlanId, maxOverage, maxCharge } = fields("plan");
        return turnpike.changePlan(idHash, newPlanId, maxOverage, maxCharge, auth);
      },
      rekey: () => turnpike.rekey(idHash, fields("rekey").newSecretHash, auth),
    };
    if (permit) {
      await sendPermit((await subscription(idHash))?.subscriber as string, permit);
    }
    const transaction = await sent(calls[act]);
    return typeof transaction === "string" ? done(200, idHash, transaction) : transaction;
  }

  async function signUp(body: unknown): Promise<Answer> {
    const wanted = subscribeRequestSchema.parse(body);
    const { subscriber, planId, secretHash, maxOverage, until = 0, voucher, deadline, signature, permit } = wanted;
    const signup = { planId, secretHash, maxOverage, until };
    const idHash = (await turnpike.idHashOf(subscriber, secretHash)) as Hex;
    if (await subscription(idHash)) return done(200, idHash, ethers.ZeroHash);
    const by = { voucher, permit: permitOf(permit), deadline, signature };
    const transaction = await sent(() => turnpike.subscribe(...signupArgs(subscriber, signup, by)));
    return typeof transaction === "string" ? done(201, idHash, transaction) : transaction;
  }

  async function voided(body: unknown): Promise<Answer> {
    const { subscriber, secretHash, deadline, signature } = voidRequestSchema.parse(body);
    const idHash = (await turnpike.idHashOf(subscriber, secretHash)) as Hex;
    const transaction = await sent(() => turnpike.void(subscriber, secretHash, deadline, signature));
    return typeof transaction === "string" ? done(200, idHash, transaction) : transaction;
  }

  async function done(status: number, idHash: Hex, transaction: string): Promise<Answer> {
    const state = await subscription(idHash);
    const { paidThrough, version } = state ?? {};
    return { status, json: { idHash, status: state?.status, transaction, paidThrough, version } };
  }

  let held: { readonly count: number; readonly release: (() => void)[] } | undefined;
  async function gathered(): Promise<void> {
    if (!held) return;
    const { count, release } = held;
    const turn = new Promise<void>((resolve) => release.push(resolve));
    if (release.length === count) {
      held = undefined;
      for (const go of release) go();
    }
    await turn;
  }

  async function posted(request: Seen, path: string[]): Promise<Answer> {
    const body: unknown = JSON.parse(request.body);
    await gathered();
    const step = steps.shift();
    if (step === "drop") return { status: 0, drop: true };
    if (step === "pending") {
      return { status: 202, json: { status: "pending", id: ethers.ZeroHash }, headers: { "retry-after": "1" } };
    }
    if (typeof step === "object" && "refuse" in step) return problem(422, step.refuse);
    if (typeof step === "object" && "limit" in step) return limited(step.limit);
    const answer = await relayed(path, body);
    if (typeof step === "object") return problem(422, step.relayThenRefuse);
    return step === "relay_then_drop" ? { status: 0, drop: true } : answer;
  }

  async function relayed([resource, idHash, act]: string[], body: unknown): Promise<Answer> {
    if (resource === "authorize") return problem(404, "NotFound");
    if (idHash === "void") return voided(body);
    if (resource !== "permits") return act ? change(idHash as Hex, act as ChangeAct, body) : signUp(body);
    const { owner, ...permit } = permitRequestSchema.parse(body);
    const transaction = await sent(() => sendPermit(owner, permit));
    if (typeof transaction !== "string") return transaction;
    const approval = (await token.allowance(owner, addresses.turnpike)).toString();
    return { status: 200, json: { token: addresses.token, owner, approval, transaction } };
  }

  async function asked(path: string[]): Promise<Answer> {
    const [resource, id = ""] = path;
    if (resource === "accounts") {
      const account = {
        address: id,
        network: NETWORK,
        chainId: CHAIN_ID,
        token: addresses.token,
        tokenName: "Test USD",
        tokenVersion: "1",
        balance: (await token.balanceOf(id)).toString(),
        approval: (await token.allowance(id, addresses.turnpike)).toString(),
        permitNonce: (await token.nonces(id)).toString(),
        chainTimeSec: await nowSec(),
      };
      return { status: 200, json: relay.lieAboutAccount?.(account) ?? account };
    }
    if (resource === "subscriptions") {
      const state = relay.hidesSubscriptions ? undefined : await subscription(id as Hex);
      return state ? { status: 200, json: state } : problem(404, "UnknownSubscription");
    }
    if (resource === "supported") return problem(503, "Unavailable");
    const kept = plans.get(id);
    if (resource !== "plans" || !kept) return problem(404, "UnknownPlan");
    const { terms, deprecated, stopped, successor, firstPayTo, proposedPayTo, effectiveAt, provider } =
      await lens.getPlan(id);
    const plan = {
      planId: id,
      network: NETWORK,
      chainId: CHAIN_ID,
      turnpike: addresses.turnpike,
      ...kept,
      token: terms.token,
      amount: terms.amount.toString(),
      interval: Number(terms.interval) * (terms.months ? NOMINAL_MONTH_SEC : 1),
      period: { unit: terms.months ? "month" : "second", count: Number(terms.interval) },
      grace: Number(terms.grace),
      payTo: terms.payTo,
      provider,
      firstProvider: kept.provider,
      firstPayTo,
      ...(proposedPayTo !== ethers.ZeroAddress && {
        proposedPayTo: { payTo: proposedPayTo, effectiveAt: Number(effectiveAt) },
      }),
      deprecated,
      stopped,
      ...(successor === ethers.ZeroHash ? {} : { successor }),
    };
    return { status: 200, json: relay.lieAboutPlan?.(plan) ?? plan };
  }

  const server = await serve((request) => {
    const path = new URL(request.url, "http://x").pathname.split("/").slice(1);
    return request.method === "POST" ? posted(request, path) : asked(path);
  });

  const relay: Relay = Object.assign(server, {
    turnpike,
    token,
    addresses,
    steps,
    nowSec,
    holdUntil(count: number) {
      held = { count, release: [] };
    },
    async createPlan({ amount = PRICE, payTo = addressOf("treasury"), months = 0, intervalSec = INTERVAL_SEC } = {}) {
      const salt = ethers.id(`salt ${++salts}`) as Hex;
      const length = { interval: months || intervalSec, months: months > 0 };
      const grace = Math.min(3_600, intervalSec - 1);
      const terms = { token: addresses.token, amount, ...length, grace, payTo };
      await turnpike.connect(provider).createPlan(terms, salt, "{}");
      const owner = checksum(provider.address);
      const planId = planIdOf({
        ...terms,
        chainId: CHAIN_ID,
        turnpike: addresses.turnpike,
        provider: owner,
        intervalSec,
        months,
        graceSec: grace,
        salt,
        metadata: "{}",
      });
      plans.set(planId, { salt, metadata: "{}", provider: owner });
      return planId;
    },
    async deprecate(planId: Hex, successor: Hex) {
      await turnpike.connect(provider).deprecatePlan(planId, successor);
    },
    async fund(owner: Address, amount = 1_000n * PRICE) {
      await token.mint(owner, amount);
    },
    approval: (owner: Address) => token.allowance(owner, addresses.turnpike),
  });
  return relay;
}

export async function advance(seconds: number): Promise<void> {
  await network.provider.send("evm_increaseTime", [seconds]);
  await network.provider.send("evm_mine", []);
}

/** The whole service over real HTTP on a chain of its own, with plans and subscribers to act with. */

import { Contract } from "ethers";
import type { Logger } from "pino";
import { createPlan, deprecatePlan, type NewPlanTerms, turnpikeInterface } from "turnpike/chain";
import {
  API_SCOPES,
  type ApiScope,
  type ChangeAct,
  type ChangeRequestWire,
  createFacilitatorClient,
  type FacilitatorClient,
  type SubscribeRequestWire,
  type VoidRequestWire,
  type VoucherWire,
} from "turnpike/facilitator";
import {
  type ActFields,
  type Address,
  actTypedData,
  type Hex,
  idHashOf,
  lengthOf,
  NO_PLAN,
  type Period,
  permitTypedData,
  randomBytes,
  type SignedAct,
  type SignedTerms,
  secretHashOf,
  shownTerms,
  signDigest,
  subscribeTypedData,
  type TypedData,
  toHex,
  typedDataDigest,
  UINT256_MAX,
  voidTypedData,
  voucherTypedData,
} from "turnpike/protocol";
import { startFacilitator } from "../../../facilitator/src/app/start";
import type { FundedWallet } from "../../../scripts/sandbox/chain";
import { ownArgs } from "../../support/acts";
import { BLOCK_MS, type FacilitatorWorld, type Payer, startWorld, type WorldOptions } from "../../support/facilitator";

export const PRICE = 10_000_000n;
export const DAY_SEC = 86_400;
export const INTERVAL_SEC = 30 * DAY_SEC;

const USUAL_PERIOD: Period = { unit: "second", count: INTERVAL_SEC };
export const GRACE_SEC = 3 * DAY_SEC;

export interface Signup {
  readonly idHash: Hex;
  readonly request: SubscribeRequestWire;
}

export interface SignupFields {
  readonly planId?: Hex;
  readonly maxOverage?: bigint;
  readonly secretHash?: Hex;
  readonly deadline?: bigint;
  /** value of the permit; none when absent */
  readonly permit?: bigint;
  readonly until?: number;
  /** signed by the provider, for this subscriber and secret */
  readonly voucher?: { readonly firstAmount: bigint; readonly firstInterval: number };
  /** the terms that are signed; default: those that the plan was created with */
  readonly terms?: Partial<SignedTerms>;
}

export interface ServiceWorld extends FacilitatorWorld {
  readonly provider: FundedWallet;
  /** amount PRICE, every INTERVAL_SEC, with GRACE_SEC, paid to `payee` */
  readonly planId: Hex;
  plan(terms?: Partial<NewPlanTerms> & { period?: Period }): Promise<Hex>;
  deprecate(planId: Hex, successor?: Hex): Promise<void>;
  /** One of Turnpike's functions by the provider or another account, mined. */
  act(wallet: FundedWallet, method: string, args: readonly unknown[]): Promise<void>;
  voiding(subscriber: Payer, secretHash: Hex): VoidRequestWire;
  service(more?: Readonly<Record<string, string>>, logger?: Logger): Promise<Service>;
  signup(subscriber: Payer, fields?: SignupFields): Promise<Signup>;
  change<A extends ChangeAct>(act: A, subscriber: Payer, fields: ChangeFields<A>): Promise<ChangeRequestWire<A>>;
  /** @param spender default Turnpike */
  permit(
    owner: Payer,
    value: bigint,
    deadline?: bigint,
    spender?: Address,
  ): Promise<{ value: string; deadline: string; signature: Hex }>;
  balanceOf(account: Address): Promise<bigint>;
}

export interface Service {
  readonly url: string;
  /** without an API key, but for the events of `world.provider` */
  readonly client: FacilitatorClient;
  /** Another API key of the provider's, or of that wallet's. */
  apiKey(wanted?: { readonly wallet?: Payer; readonly scopes?: readonly ApiScope[] }): Promise<string>;
  stop(): Promise<void>;
}

type StartOptions = Omit<WorldOptions, "blockMs"> & { readonly blockMs?: number };

type ChangeFields<A extends ChangeAct> = Omit<ActFields[(typeof ACT_NAMES)[A]], "terms" | "token"> & {
  readonly idHash: Hex;
  readonly version?: number;
  readonly deadline?: bigint;
  readonly permit?: bigint;
};

const ACT_NAMES = {
  pause: "Pause",
  resume: "Resume",
  cancel: "Cancel",
  "max-overage": "SetMaxOverage",
  next: "SetNext",
  plan: "ChangePlan",
  rekey: "Rekey",
} as const satisfies Record<ChangeAct, SignedAct>;

const signed = (data: TypedData, { key }: Payer): Hex => signDigest(typedDataDigest(data), key);

export async function startServiceWorld(options: StartOptions = {}): Promise<ServiceWorld> {
  const base = await startWorld({ blockMs: BLOCK_MS, ...options });
  const { chain, contracts } = base;
  const deployment = { chainId: chain.chainId, turnpike: contracts.turnpike };
  const token = {
    chainId: chain.chainId,
    token: contracts.token,
    name: contracts.tokenName,
    version: contracts.tokenVersion,
  };
  const provider = await chain.wallet(`provider ${Math.random()}`);
  const providerPayer: Payer = { address: provider.address as Address, key: provider.privateKey as Hex };
  const services: Service[] = [];

  const termsOf = new Map<Hex, SignedTerms>();
  const plan: ServiceWorld["plan"] = async ({ period = USUAL_PERIOD, ...terms } = {}) => {
    const wanted = {
      token: contracts.token,
      amount: PRICE,
      graceSec: GRACE_SEC,
      payTo: base.payee,
      metadata: JSON.stringify({ name: "Reader" }),
      salt: toHex(randomBytes(32)),
      ...terms,
    };
    const length = period.unit === "month" ? { months: period.count } : { intervalSec: period.count };
    const created = await createPlan(provider, contracts.turnpike, { ...wanted, ...length });
    const { token: paidIn, amount, payTo } = wanted;
    termsOf.set(created.planId, { token: paidIn, amount, payTo, ...lengthOf(period) });
    return created.planId;
  };
  /** A plan that nobody created is signed as if it were the usual one. */
  const signedTerms = (id: Hex): SignedTerms => termsOf.get(id) ?? (termsOf.get(planId) as SignedTerms);

  const permit: ServiceWorld["permit"] = async (owner, value, deadline = UINT256_MAX, spender = contracts.turnpike) => {
    const nonce = BigInt(
      await chain.provider.call({ to: contracts.token, data: `0x7ecebe00${owner.address.slice(2).padStart(64, "0")}` }),
    );
    const message = { owner: owner.address, spender, value, nonce, deadline };
    return {
      value: String(value),
      deadline: String(deadline),
      signature: signed(permitTypedData(token, message), owner),
    };
  };

  function voucherOf(
    { planId: id, subscriber, secretHash }: { planId: Hex; subscriber: Address; secretHash: Hex },
    first: NonNullable<SignupFields["voucher"]>,
  ): VoucherWire {
    const { token: paidIn } = signedTerms(id);
    const message = { planId: id, subscriber, secretHash, token: paidIn, ...first, deadline: UINT256_MAX };
    const signature = signed(voucherTypedData(deployment, message), providerPayer);
    return {
      signer: providerPayer.address,
      signature,
      deadline: String(UINT256_MAX),
      firstAmount: String(first.firstAmount),
      firstInterval: first.firstInterval,
    };
  }

  const planId = await plan();
  return {
    ...base,
    provider,
    planId,
    plan,
    permit,
    async deprecate(id, successor) {
      await deprecatePlan(provider, contracts.turnpike, { planId: id, ...(successor && { successor }) });
    },
    async act(wallet, method, args) {
      const contract = new Contract(contracts.turnpike, turnpikeInterface, wallet);
      const sent = await contract.getFunction(method)(...ownArgs(wallet.address, method, args));
      await sent.wait();
    },
    voiding(subscriber, secretHash) {
      const message = { subscriber: subscriber.address, secretHash, deadline: UINT256_MAX };
      const signature = signed(voidTypedData(deployment, message), subscriber);
      return { ...message, deadline: String(message.deadline), signature };
    },
    async service(more = {}, logger) {
      const config = base.config({ PORT: "0", ...more });
      const running = await startFacilitator(config, logger ? { logger } : {});
      const open = createFacilitatorClient({ url: running.url });
      const apiKey: Service["apiKey"] = async ({ wallet = providerPayer, scopes = API_SCOPES } = {}) => {
        const { proofSigners, chainId } = await open.supported();
        const created = await open.createKey({
          provider: wallet.address,
          name: "test",
          scopes,
          chainId,
          facilitator: proofSigners[0] as Address,
          sign: async (data) => signed(data, wallet),
        });
        if (created.kind === "refused") throw created.error;
        return created.key.key;
      };
      let ownKey: Promise<string> | undefined;
      const service: Service = {
        url: running.url,
        client: {
          ...open,
          async events(page) {
            ownKey ??= apiKey();
            return createFacilitatorClient({ url: running.url, apiKey: await ownKey }).events(page);
          },
        },
        apiKey,
        stop: () => running.stop(),
      };
      services.push(service);
      return service;
    },
    async signup(subscriber, fields = {}) {
      const message = {
        subscriber: subscriber.address,
        planId: fields.planId ?? planId,
        secretHash: fields.secretHash ?? secretHashOf(toHex(randomBytes(32))),
        maxOverage: fields.maxOverage ?? 0n,
        ...(fields.until !== undefined && { until: fields.until }),
        deadline: fields.deadline ?? UINT256_MAX,
      };
      const terms = { ...signedTerms(message.planId), ...fields.terms };
      const { voucher: first } = fields;
      const voucher = first && voucherOf(message, first);
      return {
        idHash: idHashOf(subscriber.address, message.secretHash),
        request: {
          ...message,
          maxOverage: String(message.maxOverage),
          deadline: String(message.deadline),
          ...(voucher && { voucher }),
          signature: signed(subscribeTypedData(deployment, terms, { ...message, ...(first && { first }) }), subscriber),
          ...(fields.permit !== undefined && { permit: await permit(subscriber, fields.permit) }),
        },
      };
    },
    async change(act, subscriber, fields) {
      const { idHash, version = 0, deadline = UINT256_MAX, permit: permitValue, ...own } = fields;
      const { newPlanId, nextPlanId } = own as unknown as { newPlanId?: Hex; nextPlanId?: Hex };
      const id = newPlanId ?? (nextPlanId === NO_PLAN ? undefined : nextPlanId);
      const terms = id && signedTerms(id);
      const token = (act === "resume" || act === "max-overage") && { token: contracts.token };
      const signedFields = { ...own, ...token, ...(terms && { terms }) };
      const message = { subscriber: subscriber.address, idHash, version, deadline, ...signedFields };
      const shown = terms && act === "next" && shownTerms(terms);
      const wire = Object.fromEntries(
        Object.entries(own).map(([name, value]) => [name, typeof value === "bigint" ? String(value) : value]),
      );
      return {
        ...wire,
        ...(shown && { terms: { ...shown, amount: String(shown.amount), interval: Number(shown.interval) } }),
        version,
        deadline: String(deadline),
        signature: signed(actTypedData(deployment, ACT_NAMES[act], message as never), subscriber),
        ...(permitValue !== undefined && { permit: await permit(subscriber, permitValue) }),
      } as never;
    },
    balanceOf: (account) => contracts.balanceOf(account),
    async stop() {
      for (const service of services) await service.stop();
      await base.stop();
    },
  };
}

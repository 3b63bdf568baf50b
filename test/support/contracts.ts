// A deployed world for contract tests: the contracts, a token, named roles, and builders with meaningful defaults.
// It knows nothing of the SDK: the contracts are tested on their own terms.

import type { HardhatEthersSigner } from "@nomicfoundation/hardhat-ethers/signers";
import { time } from "@nomicfoundation/hardhat-network-helpers";
import { assert } from "chai";
import {
  type ContractTransactionResponse,
  getCreateAddress,
  id,
  keccak256,
  Signature,
  type Signer,
  toUtf8Bytes,
  ZeroHash,
} from "ethers";
import { ethers } from "hardhat";
import type { BatchSettler, TestToken, Turnpike, TurnpikeLens } from "../../sdk/src/chain/generated";
import type { NextTermsStruct, TermsStruct } from "../../sdk/src/chain/generated/contracts/Turnpike";
import { NO_AUTH, type Permit, signupArgs, type Voucher } from "./acts";

export { NO_AUTH, type Permit, signupArgs, type Voucher };

export const DAY = 86_400;
export const PRICE = 10_000_000n;
export const INTERVAL = 30 * DAY;
export const GRACE = 3 * DAY;
export const FOREVER = 2n ** 256n - 1n;
export const MAX_CAP = 2n ** 88n - 1n;

/** What an account may do on a plan, as bits. */
export const Right = { DEBIT: 1n, VOUCHER: 2n, RECEIPT: 4n, ALL: 7n } as const;

/** In the order of the contract's enum. */
export const Status = { NONE: 0n, ACTIVE: 1n, PAST_DUE: 2n, EXPIRED: 3n, PAUSED: 4n, CANCELLED: 5n } as const;

export interface World {
  turnpike: Turnpike;
  /** What `turnpike` stores, as structs. */
  lens: TurnpikeLens;
  settler: BatchSettler;
  token: TestToken;
  provider: HardhatEthersSigner;
  operator: HardhatEthersSigner;
  subscriber: HardhatEthersSigner;
  relayer: HardhatEthersSigner;
  stranger: HardhatEthersSigner;
  treasury: HardhatEthersSigner;
  /** Amount PRICE, every INTERVAL, with GRACE, paid to `treasury`; `operator` may debit. */
  planId: string;
}

/** A fixture: the plan exists, and the subscriber has funds and has approved without limit. */
export async function world(): Promise<World> {
  const [provider, operator, subscriber, relayer, stranger, treasury] = await ethers.getSigners();
  assert(provider && operator && subscriber && relayer && stranger && treasury, "too few signers");
  const turnpike = await ethers.deployContract("Turnpike");
  const lens = await lensOf(turnpike);
  const settler = await ethers.deployContract("BatchSettler");
  const token = await ethers.deployContract("TestToken", ["Test USD", "tUSD", "1", 6]);
  const bare = { turnpike, lens, settler, token, provider, operator, subscriber, relayer, stranger, treasury };
  const planId = await createPlan({ ...bare, planId: ZeroHash });
  await turnpike.connect(provider).setOperator(planId, operator, Right.DEBIT);
  await token.mint(subscriber, 1_000n * PRICE);
  await token.connect(subscriber).approve(turnpike, FOREVER);
  return { ...bare, planId };
}

/** The lens that Turnpike created as its first contract. */
export async function lensOf(turnpike: Turnpike): Promise<TurnpikeLens> {
  return ethers.getContractAt("TurnpikeLens", getCreateAddress({ from: await turnpike.getAddress(), nonce: 1 }));
}

/** The value, which the test would be meaningless without. */
export function present<T>(value: T | null | undefined): T {
  assert(value !== null && value !== undefined, "a value that the test needs is absent");
  return value;
}

/** The four bytes that a batch reports for an error of Turnpike's. */
export function reasonOf(w: World, error: string): string {
  return present(w.turnpike.interface.getError(error)).selector;
}

// ------------------------------------------------------------------ plans

export async function termsOf(w: World, overrides: Partial<TermsStruct> = {}): Promise<TermsStruct> {
  return {
    token: await w.token.getAddress(),
    amount: PRICE,
    interval: INTERVAL,
    months: false,
    grace: GRACE,
    payTo: w.treasury.address,
    ...overrides,
  };
}

let salts = 0;

/** A fresh salt: plans with equal terms stay apart. */
export function freshSalt(): string {
  salts += 1;
  return id(`salt ${salts}`);
}

export async function createPlan(
  w: World,
  overrides: Partial<TermsStruct> = {},
  provider: Signer = w.provider,
): Promise<string> {
  const terms = await termsOf(w, overrides);
  const salt = freshSalt();
  const planId = await w.turnpike.connect(provider).createPlan.staticCall(terms, salt, "{}");
  await w.turnpike.connect(provider).createPlan(terms, salt, "{}");
  return planId;
}

export async function mayDebit(w: World, planId: string, account: Signer): Promise<boolean> {
  return ((await w.lens.rightsOf(planId, await account.getAddress())) & Right.DEBIT) !== 0n;
}

// ------------------------------------------------------------------ subscriptions

export interface Subscription {
  idHash: string;
  secretHash: string;
  planId: string;
  /** The first paidThrough, unix seconds. */
  paidThrough: number;
}

let secrets = 0;

/** The hash of a fresh secret. Derived, for tests only. */
export function freshSecretHash(): string {
  secrets += 1;
  return keccak256(toUtf8Bytes(`test secret ${secrets}`));
}

export async function subscribe(
  w: World,
  options: { planId?: string; maxOverage?: bigint; subscriber?: Signer; secretHash?: string } = {},
): Promise<Subscription> {
  const { planId = w.planId, maxOverage = 0n, subscriber = w.subscriber, secretHash = freshSecretHash() } = options;
  await w.turnpike.connect(subscriber).subscribe(...signupArgs(subscriber, { planId, secretHash, maxOverage }));
  const idHash = await w.turnpike.idHashOf(await subscriber.getAddress(), secretHash);
  return { idHash, secretHash, planId, paidThrough: await paidThroughOf(w, idHash) };
}

export async function paidThroughOf(w: World, idHash: string): Promise<number> {
  return Number((await w.lens.getSubscription(idHash)).paidThrough);
}

/** What the record says, without the status that moves with time. */
export async function recordOf(w: World, idHash: string) {
  const { subscription: s, allowance: a } = present((await w.lens.getStates([idHash]))[0]);
  return {
    subscriber: s.subscriber,
    planId: s.planId,
    paidThrough: s.paidThrough,
    version: s.version,
    paused: s.paused,
    ending: s.ending,
    cancelled: s.cancelled,
    cap: a.cap,
    spent: a.spent,
    cycle: a.cycle,
    debits: a.debits,
  };
}

// ------------------------------------------------------------------ time

/** Sends a transaction in a block of exactly that time. */
export async function at(timestampSec: number, send: () => Promise<ContractTransactionResponse>) {
  await time.setNextBlockTimestamp(timestampSec);
  return send();
}

/** The status as a call in a block of exactly that time sees it. */
export async function statusAt(w: World, idHash: string, timestampSec: number): Promise<bigint> {
  await time.increaseTo(timestampSec);
  return w.turnpike.statusOf(idHash);
}

// ------------------------------------------------------------------ signatures

const SUBSCRIBER_FIRST = "address subscriber,bytes32 idHash";
const MESSAGES = {
  Subscribe:
    "address subscriber,bytes32 planId,address token,address payTo,uint256 amount,uint256 interval,string unit," +
    "uint256 firstAmount,uint256 firstInterval,uint256 maxOverage,uint256 until,bytes32 secretHash,uint256 deadline",
  Voucher:
    "bytes32 planId,address subscriber,bytes32 secretHash,address token,uint256 firstAmount,uint256 firstInterval," +
    "uint256 deadline",
  Void: "address subscriber,bytes32 secretHash,uint256 deadline",
  Pause: `${SUBSCRIBER_FIRST},uint16 version,uint256 deadline`,
  Resume: `${SUBSCRIBER_FIRST},address token,uint256 maxCharge,uint16 version,uint256 deadline`,
  Cancel: `${SUBSCRIBER_FIRST},bool atPeriodEnd,uint16 version,uint256 deadline`,
  SetMaxOverage: `${SUBSCRIBER_FIRST},address token,uint256 cap,uint16 version,uint256 deadline`,
  SetNext:
    `${SUBSCRIBER_FIRST},uint40 until,bytes32 nextPlanId,address token,address payTo,uint256 amount,` +
    "uint256 interval,string unit,uint16 version,uint256 deadline",
  ChangePlan:
    `${SUBSCRIBER_FIRST},bytes32 newPlanId,address token,address payTo,uint256 amount,uint256 interval,string unit,` +
    "uint256 maxOverage,uint256 maxCharge,uint16 version,uint256 deadline",
  Rekey: `${SUBSCRIBER_FIRST},bytes32 newSecretHash,uint16 version,uint256 deadline`,
} as const;

export type MessageName = keyof typeof MESSAGES;

function typesOf(name: MessageName) {
  const fields = MESSAGES[name].split(",").map((field) => {
    const [type = "", fieldName = ""] = field.split(" ");
    return { type, name: fieldName };
  });
  return { [name]: fields };
}

export async function domainOf(w: World) {
  const { chainId } = await ethers.provider.getNetwork();
  return { name: "Turnpike", version: "1", chainId, verifyingContract: await w.turnpike.getAddress() };
}

export async function sign(
  w: World,
  signer: Signer,
  name: MessageName,
  message: Record<string, unknown>,
  domain: Record<string, unknown> = {},
): Promise<string> {
  return signer.signTypedData({ ...(await domainOf(w)), ...domain }, typesOf(name), await withTerms(w, name, message));
}

/** The digest that a wallet with code is asked about. */
export async function digestOf(w: World, name: MessageName, message: Record<string, unknown>): Promise<string> {
  return ethers.TypedDataEncoder.hash(await domainOf(w), typesOf(name), await withTerms(w, name, message));
}

/** What each message shows of a plan, and which one. */
const SHOWN: Partial<Record<MessageName, (w: World, message: Record<string, unknown>) => unknown>> = {
  Subscribe: (_w, { planId }) => planId,
  Voucher: (_w, { planId }) => planId,
  ChangePlan: (_w, { newPlanId }) => newPlanId,
  SetNext: (_w, { nextPlanId }) => nextPlanId,
  Resume: async (w, { idHash }) => (await w.lens.getSubscription(String(idHash))).planId,
  SetMaxOverage: async (w, { idHash }) => (await w.lens.getSubscription(String(idHash))).planId,
};

/** The plan's terms as a `setNext` shows them; all zero for none. */
export async function shownOf(w: World, planId: string): Promise<NextTermsStruct> {
  const { token, payTo, amount, interval, months } = (await w.lens.getPlan(planId)).terms;
  return { token, payTo, amount, interval, months };
}

/** The message with the plan's present terms and no voucher, as far as it does not have them itself. */
async function withTerms(w: World, name: MessageName, message: Record<string, unknown>) {
  const planId = await SHOWN[name]?.(w, message);
  if (planId === undefined) return message;
  const { token, payTo, amount, interval, months } = await shownOf(w, String(planId));
  if (name !== "Subscribe" && name !== "ChangePlan" && name !== "SetNext") return { token, ...message };
  const unit = planId === ZeroHash ? "" : months ? "months" : "seconds";
  const shown = { token, payTo, amount, interval, unit };
  if (name !== "Subscribe") return { ...shown, ...message };
  return { ...shown, firstAmount: amount, firstInterval: 0n, until: 0n, ...message };
}

/** An `Auth` over one change, at the record's current version by default. */
export async function authFor(
  w: World,
  name: Exclude<MessageName, "Subscribe" | "Voucher" | "Void">,
  idHash: string,
  fields: Record<string, unknown> = {},
  options: { signer?: Signer; version?: bigint; deadline?: bigint } = {},
) {
  const record = await w.lens.getSubscription(idHash);
  const { signer = w.subscriber, version = record.version, deadline = FOREVER } = options;
  const message = { subscriber: record.subscriber, idHash, ...fields, version, deadline };
  return { version, deadline, signature: await sign(w, signer, name, message) };
}

/** The form of `TestToken.permit` for keys; the other one has the signature as bytes. */
export const PERMIT_VRS = "permit(address,address,uint256,uint256,uint8,bytes32,bytes32)";

export async function signPermit(
  w: World,
  owner: Signer,
  value: bigint,
  options: { deadline?: bigint; nonce?: bigint; spender?: string; token?: TestToken } = {},
): Promise<{ value: bigint; deadline: bigint; signature: string; v: number; r: string; s: string }> {
  const token = options.token ?? w.token;
  const ownerAddress = await owner.getAddress();
  const { chainId } = await ethers.provider.getNetwork();
  const message = {
    owner: ownerAddress,
    spender: options.spender ?? (await w.turnpike.getAddress()),
    value,
    nonce: options.nonce ?? (await token.nonces(ownerAddress)),
    deadline: options.deadline ?? FOREVER,
  };
  const signature = await owner.signTypedData(
    { name: await token.name(), version: await token.version(), chainId, verifyingContract: await token.getAddress() },
    {
      Permit: [
        { name: "owner", type: "address" },
        { name: "spender", type: "address" },
        { name: "value", type: "uint256" },
        { name: "nonce", type: "uint256" },
        { name: "deadline", type: "uint256" },
      ],
    },
    message,
  );
  const { v, r, s, serialized } = Signature.from(signature);
  return { value, deadline: message.deadline, signature: serialized, v, r, s };
}

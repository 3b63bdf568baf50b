/** Plans to create and vouchers to sign, checked before anything is sent: ethers' own errors name no field. */
import {
  type Address,
  ConfigError,
  configuredAddress,
  type FirstPeriod,
  type Hex,
  isHash32,
  LONGEST_FIRST_INTERVAL_SEC,
  type Period,
  toAmount,
} from "../protocol";
import { fieldsOf, kindOf, requireKnownFields } from "../protocol/arguments";

/** A plan to create; amounts in base units, times in seconds. Its periods count seconds, or calendar months (UTC). */
export type NewPlan = NewPlanTerms & ({ readonly intervalSec: number } | { readonly months: number });

/** What every new plan has, whatever its periods count. */
export interface NewPlanTerms {
  readonly token: Address;
  /** base units per period */
  readonly amount: bigint;
  /** service after a period while its renewal is awaited; shorter than any period */
  readonly graceSec: number;
  /** default: the provider itself */
  readonly payTo?: Address;
  /** distinguishes plans with equal terms; default zero */
  readonly salt?: Hex;
  /** a short JSON, e.g. {"name":"Pro"}; emitted, not stored */
  readonly metadata?: string;
}

/** What to sign a voucher over: it is good for this subscriber and this secret alone. */
export interface VoucherOffer extends FirstPeriod {
  readonly planId: Hex;
  readonly subscriber: Address;
  readonly secretHash: Hex;
  /** the plan's */
  readonly token: Address;
  /** unix seconds, inclusive: until when the signup can be made */
  readonly deadlineSec: number;
}

const PLAN_FIELDS = ["token", "amount", "intervalSec", "months", "graceSec", "payTo", "salt", "metadata"];

/** Texts and numbers as they are, which are no secrets here; all else by its kind. */
const shown = (value: unknown): string =>
  /^(?:string|number|bigint)$/.test(typeof value) ? String(value) : kindOf(value);

export const requireAddress = (value: unknown, field: string): Address =>
  configuredAddress(value, field, `${field} is ${shown(value)}: an address is 0x and 40 hex digits`);

function requireSeconds(value: unknown, field: string, least: number, most = Number.MAX_SAFE_INTEGER): number {
  if (Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most) return Number(value);
  const range = most < Number.MAX_SAFE_INTEGER ? `${least} to ${most}` : `at least ${least}`;
  throw new ConfigError(`${field} is ${shown(value)}: give a whole number of seconds, ${range}`);
}

function requireHash(value: unknown, field: string): Hex {
  if (isHash32(value)) return value;
  throw new ConfigError(`${field} is ${shown(value)}: it must be 0x and 64 hex digits`);
}

function periodOf({ months, intervalSec }: { readonly months?: unknown; readonly intervalSec?: unknown }): Period {
  if ((months === undefined) === (intervalSec === undefined))
    throw new ConfigError("a plan needs either months or intervalSec, and not both: months: 1 is one calendar month");
  if (months === undefined) return { unit: "second", count: requireSeconds(intervalSec, "intervalSec", 1) };
  if (Number.isSafeInteger(months) && Number(months) >= 1) return { unit: "month", count: Number(months) };
  throw new ConfigError(`months is ${shown(months)}: give a whole number of calendar months, at least 1`);
}

/** @throws ConfigError that names the field */
export function checkedPlan(plan: NewPlan, provider: Address) {
  fieldsOf(plan, "plan");
  requireKnownFields(plan, PLAN_FIELDS, "plan.");
  const { token, amount, graceSec, payTo = provider, salt = `0x${"00".repeat(32)}`, metadata = "{}" } = plan;
  if (typeof metadata !== "string")
    throw new ConfigError('metadata must be a text: JSON.stringify it, as in \'{"name":"Pro"}\'');
  return {
    period: periodOf(plan),
    token: requireAddress(token, "token"),
    amount: toAmount(amount, "amount"),
    graceSec: requireSeconds(graceSec, "graceSec", 0),
    payTo: requireAddress(payTo, "payTo"),
    salt: requireHash(salt, "salt"),
    metadata,
  };
}

/** @throws ConfigError that names the field */
export function checkedVoucher(offer: VoucherOffer) {
  fieldsOf(offer, "offer");
  return {
    planId: requireHash(offer.planId, "planId"),
    subscriber: requireAddress(offer.subscriber, "subscriber"),
    secretHash: requireHash(offer.secretHash, "secretHash"),
    token: requireAddress(offer.token, "token"),
    firstAmount: toAmount(offer.firstAmount, "firstAmount"),
    firstInterval: requireSeconds(offer.firstInterval, "firstInterval", 0, LONGEST_FIRST_INTERVAL_SEC),
    deadline: BigInt(requireSeconds(offer.deadlineSec, "deadlineSec", 1)),
  };
}

const PARAMETERS: Readonly<Record<string, (value: unknown, field: string) => unknown>> = {
  planId: requireHash,
  successor: requireHash,
  account: requireAddress,
  payTo: requireAddress,
  nextProvider: requireAddress,
  rights: requireRights,
};

function requireRights(value: unknown): unknown {
  if (Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= 7) return value;
  throw new ConfigError(`rights is ${shown(value)}: add up RIGHTS.debit, RIGHTS.voucher and RIGHTS.receipt; 0 is none`);
}

/** Returns a parameter of a plan's acts. @throws ConfigError that names it */
export const checkedParameter = (name: string, value: unknown): unknown =>
  PARAMETERS[name] ? PARAMETERS[name](value, name) : value;

/**
 * Turns a chosen option into one signed authorization in the ledger: first the budget, then the signature, then the
 * ledger; only after that does anything leave this process.
 */
import {
  type Address,
  concatBytes,
  type Hex,
  hmacSha256,
  InsufficientFunds,
  keccak256,
  networkOfChain,
  PolicyRefused,
  paymentNonce,
  randomBytes,
  toHex,
  Unavailable,
  utf8ToBytes,
} from "../../protocol";
import { DAY_SEC, windowTimeSec } from "../../protocol/periods";
import type { AgentContext } from "../core/context";
import { emitPayment } from "../core/effects";
import { plausibleTimeSec } from "../core/facilitators";
import type { JudgedOffer } from "../ledger/evidence";
import { movedBy, type PaymentEntry } from "../ledger/ledger-store";
import type { PayJob } from "./channel";
import { withinBudget } from "./charge";
import type { ChosenOption } from "./choose";
import { methodOf, type SignTransfer } from "./methods";
import type { PaymentOption, StandardOption } from "./quote";

/** Less than this is not worth starting: the Facilitator keeps a margin of its own. */
const MIN_WINDOW_SEC = 15;

/** A quote that lives longer is not timed: its clock is another one. */
const MAX_QUOTE_LIFE_SEC = DAY_SEC;

export interface Quoted {
  /** when the quote arrived, by the policy's clock */
  readonly quotedAtSec: number;
  readonly signedOffer: JudgedOffer | undefined;
}

interface FactsBefore {
  readonly nowSec: number;
  /** undefined where there is no source for it */
  readonly balance: bigint | undefined;
  readonly sign: SignTransfer;
}

/**
 * @returns the signed entry, locked: the caller unlocks it
 * @throws PolicyRefused, InsufficientFunds or Unavailable; nothing was signed
 */
export async function signPayment(
  context: AgentContext,
  job: PayJob<unknown>,
  chosen: ChosenOption,
  { quotedAtSec, signedOffer }: Quoted,
): Promise<PaymentEntry> {
  const { ledger, target } = job;
  const { option } = chosen;
  const payer = await context.signer.address();
  const facts = await factsWhilePayable(context, payer, chosen, target.signal);
  const { balance, nowSec, sign } = facts;
  if (balance !== undefined && balance < option.amount) throw insufficientFunds(payer, option, balance);
  const validBeforeSec = windowEnd(context, option, { nowSec, quotedAtSec });
  const nonce = nonceOf(job, option);
  const paymentKey = { chainId: option.chainId, token: option.token, payer, nonce };
  const id = methodOf(option).paymentIdOf(paymentKey);
  const earlier = ledger.payment(id);
  if ((earlier && earlier.state !== "released") || !ledger.lock(id)) {
    throw new PolicyRefused("The provider quoted a reference that was used before.", { reason: "memo_reused" });
  }
  const reserved = reservedEntry(context, job, chosen, { id, payer, nonce, validBeforeSec, signedOffer });
  return reserveAndSign(context, job, reserved, () => sign(reserved, nonce));
}

/** Reads the facts only while the quote can still be paid, as far as the policy's clock says, and the caller wants it. */
async function factsWhilePayable(
  context: AgentContext,
  payer: Address,
  chosen: ChosenOption,
  signal: AbortSignal | undefined,
): Promise<FactsBefore> {
  const { option } = chosen;
  const untilSec = option.dialect === "turnpike" ? option.memoExpiresAtSec - MIN_WINDOW_SEC : 0;
  const leftSec = untilSec - context.effects.clock.nowSec();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let onAbort = () => {};
  const ended = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    const isTimed = leftSec > 0 && leftSec <= MAX_QUOTE_LIFE_SEC;
    if (isTimed) timer = setTimeout(() => reject(quoteEnded()), leftSec * 1_000);
  });
  try {
    return await Promise.race([factsBefore(context, payer, chosen, signal), ended]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

const quoteEnded = () =>
  new Unavailable(
    "The quote ended before the chain could be read. Nothing was signed or paid. Repeat the call: it asks for a new quote.",
    { reason: "quote_ended" },
  );

/** No longer than needed: the quote's own end, and never beyond the policy's window. */
function windowEnd(
  context: AgentContext,
  option: PaymentOption,
  { nowSec, quotedAtSec }: { readonly nowSec: number; readonly quotedAtSec: number },
): number {
  const { maxWindowSec } = context.policy;
  const wanted = option.dialect === "turnpike" ? option.memoExpiresAtSec : endOf(option, nowSec);
  const end = Math.min(wanted, nowSec + maxWindowSec);
  if (end - nowSec < MIN_WINDOW_SEC) {
    // It could have been paid when it arrived: time is the cause, and not what the provider quoted.
    const waitedSec = context.effects.clock.nowSec() - quotedAtSec;
    if (end - (nowSec - waitedSec) >= MIN_WINDOW_SEC) throw quoteEnded();
    throw new PolicyRefused("The quote has ended, or ends too soon to settle.", { reason: "window" });
  }
  return end;
}

function insufficientFunds(payer: Address, { token, amount }: PaymentOption, balance: bigint): InsufficientFunds {
  return new InsufficientFunds(
    `The wallet ${payer} has ${balance} base units of ${token}, and the price is ${amount}.`,
    { details: { wallet: payer, token, required: amount.toString(), available: balance.toString() } },
  );
}

/** Reads chain time, balance and the token's signing domain, preferably from the agent's own RPC. */
async function factsBefore(
  context: AgentContext,
  payer: Address,
  chosen: ChosenOption,
  signal: AbortSignal | undefined,
): Promise<FactsBefore> {
  const { chainClock, networks, effects } = context;
  const { chainId, token, tokenDomain: reported } = chosen.option;
  const { name: network } = networkOfChain(chainId, networks);
  const chain = context.chainOf(chainId);
  const account =
    chain || chosen.kind === "standard"
      ? undefined
      : await chosen.facilitator.account({ address: payer, token, chainId }, signal);
  const reportedSec = account && plausibleTimeSec(account.chainTimeSec, chainId, networks);
  const [timeSec, balance] = chain
    ? await Promise.all([chain.timeSec(), chain.balance(token, payer)])
    : [reportedSec, account?.balance];
  const tokenDomain = account ? { name: account.tokenName, version: account.tokenVersion } : reported;
  const sign = await methodOf(chosen.option).prepare(context, { ...chosen.option, tokenDomain }, payer);
  const ownSec = timeSec === undefined ? effects.clock.nowSec() : windowTimeSec(timeSec, network);
  return { nowSec: chainClock?.nowSec() ?? ownSec, balance, sign };
}

const endOf = ({ expiresAtSec, maxTimeoutSec }: StandardOption, nowSec: number): number =>
  expiresAtSec ?? nowSec + maxTimeoutSec;

function nonceOf(job: PayJob<unknown>, option: PaymentOption): Hex {
  if (option.dialect === "turnpike") return paymentNonce(option.ref, option.resource);
  return option.nonce ?? standardNonce(job, option);
}

/** Standard payments have no memo; with a key the nonce is still the purchase's own, so that the token refuses a second. */
function standardNonce({ key, target }: PayJob<unknown>, option: PaymentOption): Hex {
  if (key === undefined) return toHex(randomBytes(32));
  const purchase = JSON.stringify(["x402", target.method, target.resource, option.payTo.toLowerCase()]);
  return keccak256(concatBytes(hmacSha256(utf8ToBytes(key), utf8ToBytes(purchase))));
}

/** Creates the entry that counts against the budget before anything is signed. */
function reservedEntry(
  { effects }: AgentContext,
  { target, key }: PayJob<unknown>,
  chosen: ChosenOption,
  facts: Pick<PaymentEntry, "id" | "payer" | "validBeforeSec"> & Pick<Quoted, "signedOffer"> & { readonly nonce: Hex },
): PaymentEntry {
  const { option } = chosen;
  const { bodyHash } = target;
  const { id, payer, nonce, validBeforeSec, signedOffer } = facts;
  return {
    type: "payment",
    id,
    dialect: option.dialect,
    state: "reserved",
    atSec: effects.clock.nowSec(),
    network: option.network,
    chainId: option.chainId,
    token: option.token,
    payer,
    payTo: option.payTo,
    amount: option.amount.toString(),
    method: target.method,
    resource: target.resource,
    validBeforeSec,
    ...(bodyHash === undefined ? {} : { bodyHash }),
    ...(key === undefined ? {} : { key }),
    ...(chosen.kind === "native" ? { facilitator: chosen.facilitator.url } : {}),
    ...(signedOffer === undefined ? {} : { signedOffer }),
    ...movedBy(option.method, nonce),
  };
}

/** Reserves, signs and records. Whatever fails, the entry that the caller has locked is released and unlocked. */
async function reserveAndSign(
  context: AgentContext,
  { ledger, target: { signal } }: PayJob<unknown>,
  reserved: PaymentEntry,
  sign: () => ReturnType<SignTransfer>,
): Promise<PaymentEntry> {
  const { id } = reserved;
  try {
    signal?.throwIfAborted();
    await withinBudget(context, ledger, () => ledger.reserve(reserved, context.policy.limits));
    emitPayment(context.effects, "payment.signing", { entry: reserved, resumed: false });
    const signed: PaymentEntry = { ...reserved, state: "signed", ...(await sign()) };
    // Aborted while the wallet was asked: the signature is dropped here, unsent.
    signal?.throwIfAborted();
    await ledger.put(signed);
    emitPayment(context.effects, "payment.signed", { entry: signed, resumed: false });
    return signed;
  } catch (error) {
    try {
      // Nothing has left this process: what was signed is dropped with this frame.
      if (ledger.payment(id)?.state === "reserved") await ledger.put({ ...reserved, state: "released" });
    } finally {
      ledger.unlock(id);
    }
    throw error;
  }
}

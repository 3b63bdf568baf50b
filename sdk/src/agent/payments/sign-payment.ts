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
  PolicyRefused,
  paymentIdOf,
  paymentNonce,
  permit2PaymentIdOf,
  randomBytes,
  sameAddress,
  type TokenDomain,
  toHex,
  transferTypedData,
  Unavailable,
  utf8ToBytes,
} from "../../protocol";
import { DAY_SEC } from "../../protocol/time";
import type { AgentContext } from "../core/context";
import { emitPayment } from "../core/effects";
import { plausibleTimeSec } from "../core/facilitators";
import { bodyHashOf } from "../core/request";
import type { PaymentEntry } from "../ledger/ledger-store";
import type { JudgedOffer } from "../ledger/signed-statements";
import { withinBudget } from "./charge";
import type { ChosenOption, PayJob } from "./choose";
import { type NeededPermit, neededPermit, signPermit2 } from "./permit2";
import type { PaymentOption, StandardOption } from "./quote";
import { payloadHeader } from "./standard";
import { tokenDomain } from "./token-domain";

/** Less than this is not worth starting: the Facilitator keeps a margin of its own. */
const MIN_WINDOW_SEC = 15;

/** A quote that lives longer is not timed: its clock is another one. */
const MAX_QUOTE_LIFE_SEC = DAY_SEC;

export interface Quoted {
  /** when the quote arrived, by the policy's clock */
  readonly quotedAtSec: number;
  /** of the chosen option */
  readonly signedOffer: JudgedOffer | undefined;
}

/**
 * @returns the signed entry, locked: the caller unlocks it
 * @throws PolicyRefused, InsufficientFunds or Unavailable; nothing was signed
 */
export async function signPayment(
  context: AgentContext,
  job: PayJob,
  chosen: ChosenOption,
  { quotedAtSec, signedOffer }: Quoted,
): Promise<PaymentEntry> {
  const { ledger, template, key } = job;
  const { option } = chosen;
  const payer = await context.signer.address();
  const reading = factsBefore(context, payer, chosen, template.signal);
  const facts = await whilePayable(context, { option, signal: template.signal }, reading);
  if (facts.balance !== undefined && facts.balance < option.amount) {
    const lacks = `The wallet ${payer} has ${facts.balance} base units of ${option.token}, and the price is ${option.amount}.`;
    throw new InsufficientFunds(lacks, {
      details: {
        wallet: payer,
        token: option.token,
        required: option.amount.toString(),
        available: facts.balance.toString(),
      },
    });
  }
  const validBeforeSec = windowEnd(context, option, { nowSec: facts.nowSec, quotedAtSec });
  const nonce = option.dialect === "turnpike" ? paymentNonce(option.ref, option.resource) : standardNonce(job, option);
  const { method } = option;
  const paymentKey = { chainId: option.chainId, token: option.token, payer, nonce };
  const id = method === "eip3009" ? paymentIdOf(paymentKey) : permit2PaymentIdOf(paymentKey);
  const earlier = ledger.payment(id);
  if ((earlier && earlier.state !== "released") || !ledger.lock(id)) {
    throw new PolicyRefused("The provider quoted a reference that was used before.", { reason: "memo_reused" });
  }
  const bodyHash = bodyHashOf(template);
  const reserved: PaymentEntry = {
    type: "payment",
    id,
    dialect: option.dialect,
    state: "reserved",
    atSec: context.effects.clock.nowSec(),
    network: option.network,
    chainId: option.chainId,
    token: option.token,
    payer,
    payTo: option.payTo,
    amount: option.amount.toString(),
    method: template.method,
    resource: template.url,
    validBeforeSec,
    ...(bodyHash === undefined ? {} : { bodyHash }),
    ...(key === undefined ? {} : { key }),
    ...(chosen.kind === "native" ? { facilitator: chosen.facilitator.url } : {}),
    ...(signedOffer === undefined ? {} : { signedOffer }),
    ...(method === "eip3009" ? {} : { permit2: { method, nonce } }),
  };
  try {
    template.signal?.throwIfAborted();
    await withinBudget(context, ledger, () => ledger.reserve(reserved, context.policy.limits));
    emitPayment(context.effects, "payment.signing", { entry: reserved, resumed: false });
    const signed = await sign(context, chosen, reserved, { nonce, ...facts });
    // Aborted while the wallet was asked: the signature is dropped here, unsent.
    template.signal?.throwIfAborted();
    await ledger.put(signed);
    emitPayment(context.effects, "payment.signed", { entry: signed, resumed: false });
    return signed;
  } catch (error) {
    // Nothing has left this process: what was signed is dropped with this frame.
    if (ledger.payment(id)?.state === "reserved") await ledger.put({ ...reserved, state: "released" });
    ledger.unlock(id);
    throw error;
  }
}

async function sign(
  context: AgentContext,
  { option }: ChosenOption,
  reserved: PaymentEntry,
  { nonce, domain, permit }: Pick<FactsBefore, "domain" | "permit"> & { readonly nonce: Hex },
): Promise<PaymentEntry> {
  if (domain === undefined) {
    const { payer, validBeforeSec: deadlineSec } = reserved;
    const header = await signPermit2(context, option as StandardOption, { payer, nonce, deadlineSec, permit });
    return { ...reserved, state: "signed", header };
  }
  const validBefore = BigInt(reserved.validBeforeSec);
  const transfer = { from: reserved.payer, to: option.payTo, value: option.amount, validAfter: 0n, validBefore, nonce };
  const signature = await context.signer.sign(transferTypedData(domain, transfer));
  const authorization = {
    from: reserved.payer,
    to: option.payTo,
    value: reserved.amount,
    validAfter: "0",
    validBefore: String(reserved.validBeforeSec),
    nonce,
  };
  if (option.dialect !== "turnpike") {
    return { ...reserved, state: "signed", header: payloadHeader(option, { signature, authorization }) };
  }
  const { network, memo, resource, token } = option;
  return {
    ...reserved,
    state: "signed",
    signedPayment: { scheme: "exact", network, token, authorization, signature, memo, resource },
  };
}

/** No longer than needed: the quote's own end, and never beyond the policy's window. */
function windowEnd(
  context: AgentContext,
  option: PaymentOption,
  { nowSec, quotedAtSec }: { readonly nowSec: number; readonly quotedAtSec: number },
): number {
  const { maxWindowSec } = context.policy;
  const wanted = option.dialect === "turnpike" ? option.memoExpiresAtSec : nowSec + option.maxTimeoutSec;
  const end = Math.min(wanted, nowSec + maxWindowSec);
  if (end - nowSec < MIN_WINDOW_SEC) {
    // It could have been paid when it arrived: time is the cause, and not what the provider quoted.
    const waitedSec = context.effects.clock.nowSec() - quotedAtSec;
    if (end - (nowSec - waitedSec) >= MIN_WINDOW_SEC) throw quoteEnded();
    throw new PolicyRefused("The quote has ended, or ends too soon to settle.", { reason: "window" });
  }
  return end;
}

const quoteEnded = () =>
  new Unavailable(
    "The quote ended before the chain could be read. Nothing was signed or paid. Repeat the call: it asks for a new quote.",
    { reason: "quote_ended" },
  );

/** Waits for `work` only while the quote can still be paid, as far as the policy's clock says, and the caller wants it. */
async function whilePayable<T>(
  { effects }: AgentContext,
  { option, signal }: { readonly option: PaymentOption; readonly signal: AbortSignal | undefined },
  work: Promise<T>,
): Promise<T> {
  const untilSec = option.dialect === "turnpike" ? option.memoExpiresAtSec - MIN_WINDOW_SEC : 0;
  const leftSec = untilSec - effects.clock.nowSec();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let onAbort = () => {};
  const ended = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    const isTimed = leftSec > 0 && leftSec <= MAX_QUOTE_LIFE_SEC;
    if (isTimed) timer = setTimeout(() => reject(quoteEnded()), leftSec * 1_000);
  });
  try {
    return await Promise.race([work, ended]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

/** Standard payments have no memo; with a key the nonce is still the purchase's own, so that the token refuses a second. */
function standardNonce({ key, template }: PayJob, option: PaymentOption): Hex {
  if (key === undefined) return toHex(randomBytes(32));
  const purchase = JSON.stringify(["x402", template.method, template.url, option.payTo.toLowerCase()]);
  return keccak256(concatBytes(hmacSha256(utf8ToBytes(key), utf8ToBytes(purchase))));
}

interface FactsBefore {
  readonly nowSec: number;
  /** undefined where there is no source for it */
  readonly balance: bigint | undefined;
  /** of the token; undefined over Permit2, which has a domain of its own */
  readonly domain: TokenDomain | undefined;
  /** over Permit2: the permit that has to come with the payment */
  readonly permit?: NeededPermit | undefined;
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
  const chain = context.chainOf(chainId);
  if (chosen.kind === "standard" && chosen.option.method !== "eip3009") {
    const [timeSec, balance] = (await (chain && Promise.all([chain.timeSec(), chain.balance(token, payer)]))) ?? [];
    const permit = await neededPermit(context, chosen.option, payer);
    return { nowSec: chainClock?.nowSec() ?? timeSec ?? effects.clock.nowSec(), balance, domain: undefined, permit };
  }
  if (chain) {
    const [timeSec, balance] = await Promise.all([chain.timeSec(), chain.balance(token, payer)]);
    const domain = await tokenDomain(context, { chainId, token, reported });
    return { nowSec: chainClock?.nowSec() ?? timeSec, balance, domain };
  }
  if (chosen.kind === "standard") {
    const nowSec = chainClock?.nowSec() ?? effects.clock.nowSec();
    return { nowSec, balance: undefined, domain: await tokenDomain(context, { chainId, token, reported }) };
  }
  const account = await chosen.facilitator.account(payer, token, signal);
  if (account.chainId !== chainId || !sameAddress(account.token, token)) {
    throw new PolicyRefused("The Facilitator settles this token on another chain.", { reason: "network" });
  }
  const ofToken = { name: account.tokenName, version: account.tokenVersion };
  const domain = await tokenDomain(context, { chainId, token, reported: ofToken });
  const nowSec = chainClock?.nowSec() ?? plausibleTimeSec(account.chainTimeSec, chainId, networks);
  return { nowSec, balance: account.balance, domain };
}

/** A dialect beside the built-in ones: `Toy-Payment` answers `Toy-Quote`, and `Toy-Receipt` reports what was paid. */
import {
  authorizationSchema,
  caip2Of,
  fromBase64Url,
  isMemoGenuine,
  parseMemo,
  parseStrictJson,
  paymentIdOf,
  recoverSigner,
  signature65Schema,
  TurnpikeError,
  toBase64Url,
  transferTypedData,
  typedDataDigest,
  utf8ToBytes,
} from "turnpike/protocol";
import * as z from "zod";
import type { X402RequestWire } from "../../../../../sdk/src/facilitator/x402";
import { soldBy, usableKeyOf } from "../../../../../sdk/src/gate/core/offers";
import {
  chargesNothing,
  countsOnly,
  deductsNothing,
  type OneTimePayment,
  type Refusal,
} from "../../../../../sdk/src/gate/core/payment";
import {
  type Candidate,
  invalid,
  type PaymentAnswers,
  type PaymentCase,
  type PaymentVerdict,
  verdictOfLate,
} from "../../../../../sdk/src/gate/core/payment-case";
import type { TokenTerms } from "../../../../../sdk/src/gate/core/terms";
import { type Dialect, type PaymentCredential, singleHeader } from "../../../../../sdk/src/gate/dialects/dialect";
import { eip3009 } from "../../../../../sdk/src/gate/methods";
import { deferSettlement } from "../../../../../sdk/src/gate/schemes/deferral";
import { hasMovedNothing } from "../../../../../sdk/src/protocol/refusals";
import { toyScheme } from "./scheme";

const HEADER = "Toy-Payment";

const presentedSchema = z.object({
  authorization: authorizationSchema,
  signature: signature65Schema,
  memo: z.string(),
});

type Presented = z.output<typeof presentedSchema>;

const encoded = (value: object): string => toBase64Url(utf8ToBytes(JSON.stringify(value)));

export const toy: Dialect & PaymentAnswers = {
  read(request) {
    const text = singleHeader(request, HEADER.toLowerCase());
    return text === undefined ? undefined : credentialOf(text);
  },

  quote(asked): Record<string, string> {
    const sold = soldBy(asked);
    const entries = sold.sellsSingly
      ? sold.entries.filter(
          ({ offer }) => offer.kind === "one-time" && offer.scheme === "exact" && !offer.method.bound("exact"),
        )
      : [];
    if (entries.length === 0) return {};
    const shown = entries.map(({ offer: { amount, payTo, token, context }, memo }) => ({
      network: context.settings.network.name,
      token: token.address,
      payTo,
      amount: String(amount),
      memo,
    }));
    return { "Toy-Quote": encoded(shown) };
  },

  report: (_at, { paymentId, transaction, amount }) => ({
    headers: { "Toy-Receipt": encoded({ paymentId, transaction, amount: String(amount) }) },
    headersOfFailure: {},
  }),

  errorFor(refusal) {
    if (isUnpaid(refusal)) return undefined;
    const { reason, message } = refusal;
    return new TurnpikeError("PayloadConflict", message, reason === undefined ? {} : { reason });
  },
};

/** Any reason that is not known may follow a transfer. */
const isUnpaid = ({ code, reason }: Refusal): boolean =>
  code === "InvalidPaymentProof" && reason !== undefined && hasMovedNothing(reason);

function credentialOf(text: string): PaymentCredential {
  const bytes = fromBase64Url(text);
  const json = bytes && parseStrictJson(new TextDecoder().decode(bytes));
  const { data: presented } = presentedSchema.safeParse(json);
  return {
    dialect: toy,
    header: HEADER,
    entry(at) {
      const cases = at.route.contexts.map((context) => at.in(context));
      return cases.find((each) => presented && isQuoted(each, presented)) ?? at;
    },
    check: (at) => (presented ? checked(at, presented) : invalid("malformed", `${HEADER} cannot be read.`)),
  };
}

/** A memo proves what was quoted: what is signed must be exactly that. */
function isQuoted({ context, quotedMethod, resource, bodyHash }: PaymentCase, presented: Presented): boolean {
  const { network, token, memoKeys } = context.settings;
  const { to: payTo, value: amount } = presented.authorization;
  const memo = parseMemo(presented.memo);
  const bound = bodyHash === undefined ? {} : { bodyHash };
  const facts = { method: quotedMethod, resource, amount, payTo, network: network.name, ...bound };
  return !!memo && !!token && isMemoGenuine(memo, { ...facts, token: token.address }, memoKeys);
}

/** An authorization that ends sooner cannot settle in time. */
const MARGIN_SEC = 6;

const DAY_SEC = 86_400;

/** Why nothing may be signed for now, undefined where it may. */
function lateness({ authorization, memo }: Presented, nowSec: number): "memo_expired" | "window" | undefined {
  const quotedUntilSec = parseMemo(memo)?.expiresAtSec ?? 0;
  if (nowSec >= quotedUntilSec) return "memo_expired";
  const { validAfter, validBefore } = authorization;
  const isOpen = validAfter <= nowSec && validBefore > nowSec + MARGIN_SEC && validBefore <= quotedUntilSec;
  return isOpen ? undefined : "window";
}

async function checked(at: PaymentCase, presented: Presented): Promise<Candidate | PaymentVerdict> {
  const { settings, terms, time } = at.context;
  const token = settings.token && terms.token(settings.token.address);
  if (!token || !isQuoted(at, presented)) return invalid("memo", "The memo was not issued for what is signed here.");
  const { authorization, signature } = presented;
  const { from: payer, to: payTo, value: amount, nonce, validBefore } = authorization;
  const { chainId, name: network } = settings.network;
  const domain = { chainId, token: token.address, name: token.name, version: token.version };
  const digest = typedDataDigest(transferTypedData(domain, authorization));
  if (recoverSigner(digest, signature) !== payer) return invalid("signature", "The signature is not the payer's.");
  const payment: OneTimePayment = {
    kind: "one-time",
    dialect: "x402",
    ...{ payer, payTo, amount, token: token.address, network },
    paymentId: paymentIdOf({ chainId, token: token.address, payer, nonce }),
    deduct: deductsNothing,
    charge: chargesNothing,
    meter: countsOnly(settings.token),
  };
  const key = usableKeyOf(at.request);
  const secret = key === undefined ? undefined : (["key", key] as const);
  const nowSec = time.nowSec();
  const keepUntilSec = Number(validBefore) + DAY_SEC;
  const purchase = { dialect: toy, payment, signature, secret, keepUntilSec, nowSec };
  const settlement = settlementOf(presented, token, chainId);
  const settled = { ...purchase, settlement, method: eip3009, nonce };
  const late = lateness(presented, time.latestSec());
  if (late) {
    const used = await verdictOfLate(at, purchase);
    if (used) return used;
    const outage = time.outage();
    if (outage) throw outage;
    // Only what its Facilitator accepted in time may settle now; and no claim shows what it bought after its day.
    const isOpen = nowSec < keepUntilSec && (await toyScheme.isUnderWay(at, settled));
    if (!isOpen) return invalid(late, "The quote or the authorization has expired, or is not valid yet.");
  }
  const isLate = late !== undefined;
  return {
    ...purchase,
    confirm: (claim) => deferSettlement({ at, scheme: toyScheme, purchase: settled, claim, isLate }),
  };
}

/** The Facilitator settles it as it settles a standard payload. */
function settlementOf({ authorization, signature }: Presented, token: TokenTerms, chainId: number): X402RequestWire {
  const { value, validAfter, validBefore } = authorization;
  const times = { validAfter: String(validAfter), validBefore: String(validBefore) };
  const paymentRequirements = {
    scheme: "exact" as const,
    network: caip2Of(chainId),
    amount: String(value),
    asset: token.address,
    payTo: authorization.to,
    maxTimeoutSeconds: 300,
    extra: { name: token.name, version: token.version },
  };
  const payload = { signature, authorization: { ...authorization, value: String(value), ...times } };
  return { paymentPayload: { x402Version: 2, payload, accepted: paymentRequirements }, paymentRequirements };
}

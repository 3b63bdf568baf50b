/**
 * What a server serves for payments that bought something already, or nothing: HA1, HA2, HA3, HA8. Real payments, signed
 * as stock clients sign them, and every copy that a reader of the chain's calldata could make.
 */
import {
  type Address,
  addressOfKey,
  caip2Of,
  decodeJsonHeader,
  encodeJsonHeader,
  findNetwork,
  type Hex,
  keccakText,
  randomBytes,
  signDigest,
  toHex,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import { bare } from "../../support/signature-forms";
import { type HostileServer, type Seen, Servers } from "./servers";

export interface ReplayResult {
  readonly id: string;
  readonly kind: "safe" | "unsafe";
  readonly saw: string;
}

interface Terms {
  readonly v1?: Readonly<Record<string, unknown>>;
  readonly v2?: Readonly<Record<string, unknown>>;
  readonly chainId: number;
  readonly token: Address;
  readonly payTo: Address;
  readonly amount: bigint;
  readonly name: string;
  readonly version: string;
}

interface Payload {
  readonly signature: Hex;
  readonly authorization: Readonly<Record<string, string>>;
}

type Headers = Readonly<Record<string, string>>;

const WINDOW_SEC = 55;
const AT_ONCE = 4;

/** What a URL asks for today, in each version that it speaks. @throws TypeError when it asks for nothing that is payable */
async function termsOf(url: string, method = "GET"): Promise<Terms> {
  const answer = await fetch(url, { method, redirect: "manual" });
  const body = (await answer.json().catch(() => ({}))) as { accepts?: Record<string, unknown>[] };
  const header = answer.headers.get("payment-required");
  const required =
    header === null ? undefined : (decodeJsonHeader(header, 65_536) as { accepts?: Record<string, unknown>[] });
  const v1 = body.accepts?.find(({ scheme }) => scheme === "exact");
  const v2 = required?.accepts?.find(({ scheme }) => scheme === "exact");
  const entry = v2 ?? v1;
  const chainId = entry && findNetwork(String(entry.network))?.chainId;
  if (!entry || chainId === undefined) throw new TypeError(`${url} offers nothing that a stock client could pay`);
  const extra = entry.extra as { name: string; version: string };
  return {
    ...(v1 && { v1 }),
    ...(v2 && { v2 }),
    chainId,
    token: entry.asset as Address,
    payTo: entry.payTo as Address,
    amount: BigInt(String(entry.amount ?? entry.maxAmountRequired)),
    ...extra,
  };
}

/** @param window its ends, seconds from now */
async function sign(
  terms: Terms,
  key: Hex,
  amount = terms.amount,
  window?: readonly [number, number],
): Promise<Payload> {
  const nowSec = Math.floor(Date.now() / 1_000);
  const authorization = {
    from: addressOfKey(key),
    to: terms.payTo,
    value: amount,
    validAfter: window ? BigInt(nowSec + window[0]) : 0n,
    validBefore: BigInt(nowSec + (window?.[1] ?? WINDOW_SEC)),
    nonce: toHex(randomBytes(32)),
  };
  const digest = typedDataDigest(transferTypedData(terms, authorization));
  const wire = Object.fromEntries(Object.entries(authorization).map(([name, value]) => [name, String(value)]));
  return { signature: signDigest(digest, key), authorization: wire };
}

/** Every way to write one authorization for a URL, with that URL's own fresh quote. */
async function formsOf(payload: Payload, url: string, terms?: Terms): Promise<{ form: string; headers: Headers }[]> {
  const { v1, v2 } = terms ?? (await termsOf(url));
  const forms: { form: string; headers: Headers }[] = [];
  if (v1) {
    const body = { x402Version: 1, scheme: "exact", network: v1.network, payload };
    forms.push({ form: "version 1", headers: { "X-PAYMENT": encodeJsonHeader(body) } });
  }
  const named = [
    ["version 2", { resource: { url } }],
    ["version 2 without a resource", {}],
    ["version 2 with a made-up resource", { resource: { url: "https://made.up/resource" } }],
  ] as const;
  for (const [form, more] of v2 ? named : []) {
    const body = { x402Version: 2, payload, accepted: v2, ...more };
    forms.push({ form, headers: { "PAYMENT-SIGNATURE": encodeJsonHeader(body) } });
  }
  return forms;
}

/** Signs a payment of what a URL asks for, as a stock client sends it. */
export async function paymentFor(url: string, key: Hex, method?: string): Promise<Headers> {
  const terms = await termsOf(url, method);
  const [first] = await formsOf(await sign(terms, key), url, terms);
  return first?.headers ?? {};
}

/** Payments of honest payers, whose wallets and clocks differ. */
export async function* paymentsOfWallets(
  url: string,
  key: Hex,
): AsyncGenerator<readonly [what: string, sent: Headers]> {
  const terms = await termsOf(url);
  const signed = async (window?: readonly [number, number]) => sign(terms, key, terms.amount, window);
  const one = async (payload: Payload) => (await formsOf(payload, url, terms))[0]?.headers ?? {};
  const payload = await signed();
  yield ["a signature with a v of 0 or 1", await one({ ...payload, signature: bare(payload.signature) })];
  yield ["a clock that is 60 s ahead", await one(await signed([-540, 360]))];
  yield ["a clock that is 60 s behind", await one(await signed([-660, 240]))];
  const forms = (await formsOf(await signed(), url, terms)).filter(({ form }) =>
    /^version (1|2 without a resource)$/.test(form),
  );
  yield ["every version's form of one authorization", Object.assign({}, ...forms.map(({ headers }) => headers))];
  const [value = ""] = Object.values(await one(await signed()));
  yield ["one payload in both headers", { "X-PAYMENT": value, "PAYMENT-SIGNATURE": value }];
}

async function present(url: string, headers: Headers): Promise<number> {
  const answer = await fetch(url, { headers: { ...headers }, redirect: "manual" });
  await answer.body?.cancel();
  return answer.status;
}

const isServed = (status: number): boolean => status >= 200 && status < 300;

/**
 * Buys twice with the key's money, and tries everything else with what it bought.
 * @param urls the first one is paid; all are shown its payments
 */
export async function* tryReplays(
  urls: readonly [string, ...string[]],
  key: Hex,
  only = "",
): AsyncGenerator<ReplayResult> {
  const [paid] = urls;
  const wants = (id: string) => id.startsWith(only) || only.startsWith(id);

  if (wants("HA8")) {
    const terms = await termsOf(paid);
    for (const [what, amount] of [
      ["more than the price", terms.amount + 1n],
      ["less than the price", terms.amount - 1n],
    ] as const) {
      const payload = await sign(terms, key, amount);
      for (const { form, headers } of (await formsOf(payload, paid)).filter(
        ({ form: name }) => !/made-up/.test(name),
      )) {
        yield result(`HA8 ${what}, ${form}`, await present(paid, headers));
      }
      // What a careless server compares with itself: the option is changed along with the payment.
      if (!terms.v2) continue;
      const accepted = { ...terms.v2, amount: String(amount) };
      const body = { x402Version: 2, payload, accepted, resource: { url: paid } };
      yield result(
        `HA8 ${what}, option changed along`,
        await present(paid, { "PAYMENT-SIGNATURE": encodeJsonHeader(body) }),
      );
    }
    if (terms.v2) {
      const accepted = { ...terms.v2, extra: { ...(terms.v2.extra as object), assetTransferMethod: "permit2" } };
      const body = { x402Version: 2, payload: await sign(terms, key), accepted, resource: { url: paid } };
      yield result(
        "HA8 permit2 with an EIP-3009 payload",
        await present(paid, { "PAYMENT-SIGNATURE": encodeJsonHeader(body) }),
      );
    }
  }

  if (wants("HA1")) {
    const payload = await sign(await termsOf(paid), key);
    const [first] = await formsOf(payload, paid);
    const status = await present(paid, first?.headers ?? {});
    if (!isServed(status))
      throw new TypeError(`${paid} answered ${status} to an honest payment: nothing is proven by the rest`);
    for (const url of urls) {
      for (const { form, headers } of [
        { form: "the same again", headers: first?.headers ?? {} },
        ...(await formsOf(payload, url)),
      ]) {
        yield result(
          `HA1 a payment that was served, at ${url === paid ? "the same URL" : url}, ${form}`,
          await present(url, headers),
        );
      }
    }
  }

  if (wants("HA3")) {
    const payload = await sign(await termsOf(paid), key);
    const copies: { url: string; headers: Headers }[] = [];
    for (const url of urls) {
      for (const { form, headers } of await formsOf(payload, url)) {
        if (!/made-up/.test(form)) for (let i = 0; i < AT_ONCE; i++) copies.push({ url, headers });
      }
    }
    const statuses = await Promise.all(copies.map(({ url, headers }) => present(url, headers)));
    const served = statuses.filter(isServed).length;
    yield {
      id: "HA3 one payment everywhere at once",
      kind: served <= 1 ? "safe" : "unsafe",
      saw: `${served} of ${copies.length} served`,
    };
  }
}

function result(id: string, status: number): ReplayResult {
  return { id, kind: isServed(status) ? "unsafe" : "safe", saw: `HTTP ${status}` };
}

/** A Facilitator that says yes to everything and moves nothing. */
export async function startLiar(port = 0): Promise<HostileServer & { stop(): Promise<void> }> {
  const servers = new Servers();
  let settlements = 0;
  const server = await servers.start((request) => {
    const grant = request.url.startsWith("/settle") && settlements++ % 2 === 0 ? forgedGrant() : {};
    return { status: 200, json: lieOf(request, grant) };
  }, port);
  return { ...server, stop: () => servers.close() };
}

function lieOf({ url, body }: Seen, grant: object): unknown {
  const asked = JSON.parse(body || "{}") as {
    paymentPayload?: { payload?: Payload };
    paymentRequirements?: { network?: string };
  };
  const payer = asked.paymentPayload?.payload?.authorization.from;
  const network = asked.paymentRequirements?.network ?? "";
  if (url.startsWith("/verify")) return { isValid: true, payer };
  if (url.startsWith("/settle")) return { success: true, payer, transaction: keccakText(body), network, ...grant };
  if (url.startsWith("/proofs/verify")) return { valid: true };
  const kinds = [84_532, 8_453, 31_337].flatMap((chainId) => {
    const names = [caip2Of(chainId), findNetwork(caip2Of(chainId))?.x402v1 ?? `local-${chainId}`];
    return names.map((name, index) => ({ x402Version: index === 0 ? 2 : 1, scheme: "exact", network: name }));
  });
  const nobody = addressOfKey(keccakText("nobody"));
  const facts = { network: "local-31337", chainId: 31_337, turnpike: nobody, batchSettler: nobody };
  return {
    kinds,
    extensions: [],
    signers: {},
    ...facts,
    proofSigners: [nobody],
    relayers: [],
    tokens: [],
    paymentGrants: true,
  };
}

const forgedGrant = () => ({
  grant: { facilitator: addressOfKey(keccakText("nobody")), signature: `0x${"11".repeat(64)}1b` },
});

/** Payments of a key without money, at a server whose Facilitator says that they settled. */
export async function* tryLies(url: string): AsyncGenerator<ReplayResult> {
  const key = toHex(randomBytes(32));
  const payload = await sign(await termsOf(url), key);
  for (const { form, headers } of await formsOf(payload, url)) {
    if (/made-up/.test(form)) continue;
    // The liar forges a grant for one of two, and leaves it out of the other.
    for (const time of ["first", "second"])
      yield result(`HA2 a Facilitator's lie, ${form}, presented the ${time} time`, await present(url, headers));
  }
}

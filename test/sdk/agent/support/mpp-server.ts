/** A resource server that sells by MPP: challenges, and the credentials that answer them, as `mppx` has them. */
import { createHash } from "node:crypto";
import { caip2Of, encodeJsonHeader, type Hex, keccakText } from "turnpike/protocol";
import { type Answer, type Seen, type StandIn, serve } from "./servers";
import { type StandardPayload, settleStandard } from "./standard-server";
import { addressOf, CHAIN_ID, type Chain, TOKEN, TOKEN_DOMAIN } from "./world";

export type MppStep = "settle_then_drop" | "502" | "503" | "402" | "used" | "in_flight";

/** What a challenge has in place of its own; undefined leaves a parameter out. */
export interface ChallengeChange {
  readonly id?: string;
  readonly method?: string;
  readonly intent?: string;
  readonly header?: string;
  readonly digest?: string;
  readonly expires?: string | undefined;
  readonly currency?: string;
  readonly recipient?: string;
  readonly amount?: string;
  readonly methodDetails?: object;
}

export interface MppOptions {
  /** one challenge each; default: one as it should be */
  readonly challenges?: readonly ChallengeChange[];
  readonly steps?: MppStep[];
  /** what comes before the challenges in the header */
  readonly before?: string;
  /** whether its answers repeat the credential */
  readonly echoes?: boolean;
  /** an x402 offer of version 2 beside them */
  readonly beside?: { readonly payTo?: string };
}

export interface MppServer extends StandIn {
  /** every credential that was presented, decoded */
  readonly credentials: Credential[];
  /** as they were sent, without the scheme */
  readonly sent: string[];
  /** how often each header bore a payment */
  readonly paid: Record<"authorization" | "payment-authorization" | "payment-signature", number>;
}

export interface Credential {
  readonly challenge: Readonly<Record<string, string>>;
  readonly payload: Readonly<Record<string, string>> & { readonly signature: Hex };
  readonly source: string;
}

const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

export const digestOf = (body: string): string => createHash("sha256").update(body).digest("base64");

export async function startMppServer(chain: Chain, options: MppOptions = {}): Promise<MppServer> {
  const { challenges = [{}], steps = [], before = "", beside, echoes = false } = options;
  const credentials: Credential[] = [];
  const sent: string[] = [];
  const paid = { authorization: 0, "payment-authorization": 0, "payment-signature": 0 };
  let base = "";
  let count = 0;

  function challengeText(change: ChallengeChange): string {
    const { currency = TOKEN, recipient = addressOf("provider"), amount = "10000", methodDetails, ...rest } = change;
    const details = { chainId: CHAIN_ID, credentialTypes: ["authorization"], decimals: 6, ...methodDetails };
    const parameters = {
      id: `challenge-${count++}`,
      realm: new URL(base).host,
      method: "evm",
      intent: "charge",
      request: encoded({ amount, currency, methodDetails: details, recipient }),
      expires: new Date((chain.nowSec + 300) * 1_000).toISOString(),
      opaque: encoded({ note: "its own" }),
      description: 'a "quoted" price, for one',
      ...rest,
    };
    const named = Object.entries(parameters).filter(([, value]) => value !== undefined);
    return `Payment ${named.map(([name, value]) => `${name}="${String(value).replaceAll('"', '\\"')}"`).join(", ")}`;
  }

  function quote(request: Seen): Answer {
    const headers: Record<string, string> = { "WWW-Authenticate": before + challenges.map(challengeText).join(", ") };
    if (beside) {
      const entry = {
        ...{ scheme: "exact", network: caip2Of(CHAIN_ID), amount: "10000", asset: TOKEN, maxTimeoutSeconds: 60 },
        ...{ payTo: beside.payTo ?? addressOf("provider"), extra: TOKEN_DOMAIN },
      };
      const resource = { url: `${base}${request.url}` };
      headers["PAYMENT-REQUIRED"] = encodeJsonHeader({ x402Version: 2, error: "pay", resource, accepts: [entry] });
    }
    return { status: 402, json: { type: "https://paymentauth.org/problems/payment-required" }, headers };
  }

  const server = await serve((request) => {
    for (const name of ["authorization", "payment-authorization", "payment-signature"] as const) {
      const value = String(request.headers[name] ?? "");
      if (name === "payment-signature" ? value !== "" : value.startsWith("Payment ")) paid[name]++;
    }
    if (request.headers["payment-signature"]) return settled(standardIn(String(request.headers["payment-signature"])));
    const [, text] =
      [request.headers["payment-authorization"], request.headers.authorization]
        .map((value) => /^Payment (.*)$/.exec(String(value ?? "")))
        .find((match) => match !== null) ?? [];
    if (text === undefined) return quote(request);
    const credential = JSON.parse(Buffer.from(text, "base64url").toString("utf8")) as Credential;
    credentials.push(credential);
    sent.push(text);
    const step = steps.shift();
    if (step === "502" || step === "503") return { status: Number(step), json: {} };
    if (step === "402") return quote(request);
    if (step === "used") return { status: 409, json: { error: "PayloadConflict", reason: "already_used" } };
    if (step === "in_flight") return { status: 409, json: { error: "ProofInFlight" } };
    const { challenge, payload } = credential;
    if (payload.nonce !== keccakText(`${challenge.id}${challenge.realm}`)) return quote(request);
    const { type: _type, signature, ...authorization } = payload;
    const answer = settled({ signature, authorization: authorization as never });
    return step === "settle_then_drop" ? { status: 0, drop: true } : answer;
  });

  function settled(payload: StandardPayload["payload"]): Answer {
    const transaction = settleStandard(chain, payload, { amount: payload.authorization.value, redeems: true });
    if (!transaction) return { status: 402, json: {} };
    const receipt = { method: "evm", reference: transaction, status: "success", timestamp: new Date(0).toISOString() };
    const json = { weather: "fine", ...(echoes && { whole: `Payment ${sent.at(-1)}`, part: sent.at(-1) }) };
    return { status: 200, json, headers: { "Payment-Receipt": encoded(receipt) } };
  }

  const standardIn = (header: string) =>
    (JSON.parse(Buffer.from(header, "base64").toString("utf8")) as StandardPayload).payload;

  base = server.url;
  return Object.assign(server, { credentials, sent, paid });
}

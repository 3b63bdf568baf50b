/** Challenges and credentials of MPP, as `mppx` reads and writes them, for gates of the small test provider. */
import { Wallet } from "ethers";
import { type Hex, keccakText, transferTypedData } from "turnpike/protocol";
import { type Answer, CHAIN_ID, keyOf, type Sent, send, TOKEN } from "../../../support/gate";

export interface Challenge {
  readonly id: string;
  readonly realm: string;
  readonly method: string;
  readonly intent: string;
  readonly request: string;
  readonly expires: string;
  readonly opaque: string;
  readonly header?: string;
  readonly digest?: string;
}

/** Every challenge of a 402, in its order. */
export function challengesIn(answer: Answer): Challenge[] {
  const value = String(answer.headers["www-authenticate"] ?? "");
  return value
    .split(/(?:^|, )Payment /)
    .slice(1)
    .map(
      (text) =>
        Object.fromEntries([...text.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, each]) => [name, each])) as never,
    );
}

export async function challengeOf(url: string, sent: Sent = {}): Promise<Challenge> {
  const answer = await send(url, sent);
  const [challenge] = challengesIn(answer);
  if (!challenge) throw new TypeError(`expected a challenge, got ${answer.status}: ${answer.text}`);
  return challenge;
}

export interface Charge {
  readonly amount: string;
  readonly currency: string;
  readonly recipient: string;
  readonly methodDetails: {
    readonly chainId: number;
    readonly credentialTypes: readonly string[];
    readonly decimals?: number;
  };
}

export const chargeIn = ({ request }: Challenge): Charge => decoded(request) as Charge;

export const decoded = (text: string): unknown => JSON.parse(Buffer.from(text, "base64url").toString("utf8"));

export const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** What differs from the credential that a client would sign. */
export interface Signed {
  readonly payer?: string;
  readonly authorization?: Partial<Record<"to" | "value" | "validAfter" | "validBefore" | "nonce", string>>;
  readonly chainId?: number;
  /** default: the small test provider's */
  readonly token?: { readonly address: Hex; readonly name: string; readonly version: string };
  readonly source?: string;
}

export interface Credential {
  readonly challenge: Challenge;
  readonly payload: Readonly<Record<string, string>>;
  readonly source: string;
}

const OWN_TOKEN = { address: TOKEN, name: "Test USD", version: "1" };

export const nonceOf = ({ id, realm }: Challenge): Hex => keccakText(`${id}${realm}`);

export async function credentialOf(challenge: Challenge, signed: Signed = {}): Promise<Credential> {
  const { payer = "payer", chainId = CHAIN_ID, token = OWN_TOKEN } = signed;
  const wallet = new Wallet(keyOf(payer));
  const charge = chargeIn(challenge);
  const authorization = {
    from: wallet.address,
    to: charge.recipient,
    value: charge.amount,
    validAfter: "0",
    validBefore: String(Date.parse(challenge.expires) / 1_000),
    nonce: nonceOf(challenge) as string,
    ...signed.authorization,
  };
  const typed = transferTypedData(
    { chainId, token: token.address, name: token.name, version: token.version },
    {
      from: authorization.from as Hex,
      to: authorization.to as Hex,
      value: BigInt(authorization.value),
      validAfter: BigInt(authorization.validAfter),
      validBefore: BigInt(authorization.validBefore),
      nonce: authorization.nonce as Hex,
    },
  );
  const signature = await wallet.signTypedData(typed.domain as never, typed.types as never, typed.message);
  return {
    challenge,
    payload: { type: "authorization", ...authorization, signature },
    source: signed.source ?? `did:pkh:eip155:${chainId}:${wallet.address}`,
  };
}

export const headerOf = (credential: unknown, name = "Authorization"): Record<string, string> => ({
  [name]: `Payment ${encoded(credential)}`,
});

/** Asks, signs, and returns what the paid request bears. */
export async function paying(url: string, sent: Sent = {}, signed: Signed = {}): Promise<Record<string, string>> {
  const credential = await credentialOf(await challengeOf(url, sent), signed);
  return { ...(sent.headers as Record<string, string> | undefined), ...headerOf(credential) };
}

export interface Receipt {
  readonly method: string;
  readonly challengeId: string;
  readonly reference: string;
  readonly status: string;
  readonly timestamp: string;
  readonly chainId: number;
}

export const receiptIn = ({ headers }: Answer): Receipt | undefined => {
  const value = headers["payment-receipt"];
  return value === undefined ? undefined : (decoded(String(value)) as Receipt);
};

/**
 * Challenges that a wallet signs: made without keeping a record, good for ten minutes and once. Only a redeemed one is
 * written down, so that asking for many costs this service nothing.
 */
import { randomBytes } from "node:crypto";
import {
  type Address,
  equalConstantTime,
  fromBase64Url,
  hmacSha256,
  TurnpikeError,
  toBase64Url,
  utf8ToBytes,
} from "turnpike/protocol";
import type { Db, Tx } from "../store/open";

const LIFE_SEC = 600;
const SECRET_NAME = "api-key-challenges";
const MAC_BYTES = 16;

export interface Challenge {
  readonly text: string;
  /** unix seconds */
  readonly validUntil: number;
}

/** One secret for all processes of the service, made by the first that needs it. */
async function secretOf(db: Db): Promise<Uint8Array> {
  const fresh = { name: SECRET_NAME, value: randomBytes(32).toString("hex") };
  await db
    .insertInto("service_secrets")
    .values(fresh)
    .onConflict((conflict) => conflict.column("name").doNothing())
    .execute();
  const row = await db
    .selectFrom("service_secrets")
    .select("value")
    .where("name", "=", SECRET_NAME)
    .executeTakeFirstOrThrow();
  return Buffer.from(row.value, "hex");
}

const macOf = (secret: Uint8Array, provider: Address, nonce: string, validUntil: string): Uint8Array =>
  hmacSha256(secret, utf8ToBytes(`${provider}.${nonce}.${validUntil}`)).slice(0, MAC_BYTES);

export async function issueChallenge(db: Db, provider: Address, nowSec: number): Promise<Challenge> {
  const secret = await secretOf(db);
  const nonce = toBase64Url(randomBytes(16));
  const validUntil = nowSec + LIFE_SEC;
  const mac = toBase64Url(macOf(secret, provider, nonce, String(validUntil)));
  return { text: `${nonce}.${validUntil}.${mac}`, validUntil };
}

/** @throws InvalidSignature with reason `challenge` when it is not ours, not for this wallet, or past its time */
export async function checkChallenge(db: Db, provider: Address, text: string, nowSec: number): Promise<void> {
  const [nonce = "", validUntil = "", mac = ""] = text.split(".");
  const given = fromBase64Url(mac);
  const isOurs = given && equalConstantTime(given, macOf(await secretOf(db), provider, nonce, validUntil));
  if (!isOurs || Number(validUntil) < nowSec) throw refused("the challenge is not this service's, or its time is up");
}

/** Within the transaction that makes the key. @throws InvalidSignature when it was redeemed before */
export async function spendChallenge(tx: Tx, text: string, nowSec: number): Promise<void> {
  const [nonce = "", validUntil = ""] = text.split(".");
  await tx
    .deleteFrom("spent_challenges")
    .where("expires_at_ms", "<", nowSec * 1_000)
    .execute();
  const spent = await tx
    .insertInto("spent_challenges")
    .values({ nonce, expires_at_ms: Number(validUntil) * 1_000 })
    .onConflict((conflict) => conflict.column("nonce").doNothing())
    .executeTakeFirst();
  if (spent.numInsertedOrUpdatedRows !== 1n) throw refused("the challenge was used before");
}

const refused = (message: string) =>
  new TurnpikeError("InvalidSignature", `${message}: ask for a fresh one at POST /keys/challenge`, {
    reason: "challenge",
  });

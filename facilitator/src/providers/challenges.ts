/**
 * Issues challenges for a wallet to sign. They are stateless, valid for ten minutes, and usable once. Only a redeemed
 * challenge is stored, so requests for many challenges cost no storage.
 */
import { randomBytes } from "node:crypto";
import {
  type Address,
  equalConstantTime,
  hmacSha256,
  InvalidRequest,
  TurnpikeError,
  utf8ToBytes,
} from "turnpike/protocol";
import type { Db, Tx } from "../db/open";
import { DAY_SEC } from "../lib/durations";

const LIFE_SEC = 600;

const SECRET_NAME = "api-key-challenges";

const MAC_BYTES = 16;

/** Letters and digits only, as EIP-4361 requires of a nonce: salt, expiry in unix seconds, code. */
const FORM = /^([0-9a-f]{32})([0-9]{12})([0-9a-f]{32})$/;

export interface Challenge {
  readonly text: string;
  /** unix seconds */
  readonly issuedAt: number;
  readonly validUntil: number;
}

const MAX_LIFE_SEC = 5 * 366 * DAY_SEC;

/** @throws InvalidRequest for a time at which nothing that a wallet allows may end */
export function requireLife(expiresAt: number, nowSec: number): void {
  if (expiresAt > nowSec && expiresAt <= nowSec + MAX_LIFE_SEC) return;
  throw new InvalidRequest("expiresAt: must be in the future, at most five years", { details: { field: "expiresAt" } });
}

/** Returns the secret that all processes of the service share. The first process that needs it creates it. */
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

const macOf = (secret: Uint8Array, provider: Address, salt: string, end: string): Uint8Array =>
  hmacSha256(secret, utf8ToBytes(`${provider}.${salt}.${end}`)).slice(0, MAC_BYTES);

export async function issueChallenge(db: Db, provider: Address, nowSec: number): Promise<Challenge> {
  const secret = await secretOf(db);
  const salt = randomBytes(16).toString("hex");
  const validUntil = nowSec + LIFE_SEC;
  const end = String(validUntil).padStart(12, "0");
  const mac = Buffer.from(macOf(secret, provider, salt, end)).toString("hex");
  return { text: `${salt}${end}${mac}`, issuedAt: nowSec, validUntil };
}

/**
 * @throws InvalidSignature with reason `challenge` when this service did not issue it for this wallet, or it has
 * expired
 */
export async function checkChallenge(db: Db, provider: Address, text: string, nowSec: number): Promise<Challenge> {
  const [, salt, end, mac] = FORM.exec(text) ?? [];
  const isOurs =
    salt !== undefined &&
    end !== undefined &&
    mac !== undefined &&
    equalConstantTime(Buffer.from(mac, "hex"), macOf(await secretOf(db), provider, salt, end));
  const validUntil = Number(end);
  if (!isOurs || validUntil < nowSec) throw refused("the challenge is not this service's, or its time is up");
  return { text, issuedAt: validUntil - LIFE_SEC, validUntil };
}

/** Redeems a challenge in the transaction that creates the key. @throws InvalidSignature when it was redeemed before */
export async function spendChallenge(tx: Tx, { text, validUntil }: Challenge, nowSec: number): Promise<void> {
  await tx
    .deleteFrom("spent_challenges")
    .where("expires_at_ms", "<", nowSec * 1_000)
    .execute();
  const spent = await tx
    .insertInto("spent_challenges")
    .values({ nonce: text, expires_at_ms: validUntil * 1_000 })
    .onConflict((conflict) => conflict.column("nonce").doNothing())
    .executeTakeFirst();
  if (spent.numInsertedOrUpdatedRows !== 1n) throw refused("the challenge was used before");
}

const refused = (message: string) =>
  new TurnpikeError("InvalidSignature", `${message}: ask for a fresh one at POST /keys/challenge`, {
    reason: "challenge",
  });

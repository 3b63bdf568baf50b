/**
 * What a client has let out of its hands, read from the requests alone: signed authorizations, signatures of any kind,
 * proofs and subscription ids. Works for every dialect, since it looks for shapes, not for headers of one protocol.
 */
import type { Seen } from "./servers";

export interface Authorization {
  readonly from: string;
  readonly to: string;
  readonly value: string;
  readonly validAfter: string;
  readonly validBefore: string;
  readonly nonce: string;
}

const CREDENTIALS = ["x-payment", "payment-signature", "x-service-sub"];

/** Headers as text, and as what they hold where they are base64 JSON. */
function textsOf({ headers, body, url }: Seen): string[] {
  const values = Object.values(headers).flatMap((value) => value ?? []);
  return [url, body, ...values, ...values.map((value) => Buffer.from(value, "base64").toString("utf8"))];
}

export function authorizationsIn(requests: readonly Seen[]): Authorization[] {
  const found = new Map<string, Authorization>();
  for (const request of requests) {
    for (const text of textsOf(request)) {
      for (const authorization of walk(jsonOf(text))) {
        found.set(`${authorization.from}:${authorization.nonce}`.toLowerCase(), authorization);
      }
    }
  }
  return [...found.values()];
}

/** Every 65-byte hex string: whatever it signs, somebody has it now. */
export function signaturesIn(requests: readonly Seen[]): Set<string> {
  return new Set(requests.flatMap((request) => textsOf(request).flatMap((text) => text.match(SIGNATURE) ?? [])));
}
const SIGNATURE = /0x[0-9a-fA-F]{130}(?![0-9a-fA-F])/g;

/** The credential headers that reached a server. */
export function credentialsIn(requests: readonly Seen[]): string[] {
  return requests.flatMap(({ headers }) => CREDENTIALS.filter((name) => headers[name] !== undefined));
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Most headers are no JSON; they hold no authorization either.
    return undefined;
  }
}

function* walk(value: unknown): Generator<Authorization> {
  if (typeof value !== "object" || value === null) return;
  const { from, to, nonce, validBefore } = value as Record<string, unknown>;
  if ([from, to, nonce, validBefore].every((field) => typeof field === "string")) yield value as Authorization;
  for (const part of Object.values(value)) yield* walk(part);
}

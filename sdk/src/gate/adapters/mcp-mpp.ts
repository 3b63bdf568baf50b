/** Speaks MPP in tool calls of the Model Context Protocol, where the `request` of a challenge is JSON as it is. */
import { encodedJson, MCP_META, type Meta } from "../../mcp/wire";
import { decodeJsonHeader, HEADER, type JsonObject } from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { challengesIn } from "../../protocol/payment-auth";
import type { Answer } from "../core/answer";

/** Returns the credential of a call as it is sent over HTTP; undefined where there is none. @throws InvalidRequest */
export function credentialTextIn(meta: Meta | undefined): string | undefined {
  const given = meta?.[MCP_META.credential];
  if (given === undefined) return undefined;
  const { challenge } = (isObject(given) ? given : {}) as { challenge?: JsonObject };
  const request = challenge && isObject(challenge.request) ? encodedJson(challenge.request) : challenge?.request;
  return `Payment ${encodedJson(isObject(given) ? { ...given, challenge: { ...challenge, request } } : { given })}`;
}

/** Returns `_meta` of a result that asks for payment; undefined where nothing is sold so. @param said its body */
export function challengesMeta({ headers }: Answer, said: JsonObject): Meta | undefined {
  const challenges = challengesIn(headers[HEADER.authenticate] ?? "").map(
    (challenge) => challenge && { ...challenge, request: decodeJsonHeader(challenge.request) },
  );
  if (challenges.length === 0) return undefined;
  const { type, title, status, detail } = said;
  const problem = type === undefined ? {} : { problem: { type, title, status, detail } };
  return { [MCP_META.challenges]: { challenges, ...problem } };
}

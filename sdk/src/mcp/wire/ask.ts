/** Writes and reads the result of a tool call that asks for payment, in every form that stock clients know. */
import { type JsonObject, memberOf } from "../../protocol";
import { MCP_META, type Meta, objectOf } from "./meta";

/** What both sides need of a tool's result. */
export interface CallResult {
  readonly isError?: boolean | undefined;
  readonly content?: unknown;
  readonly structuredContent?: unknown;
  readonly _meta?: Meta | undefined;
}

/** Returns whether a tool's result asks its client for input: the call that brings it is answered. */
export const isInputRequired = (result: unknown): result is CallResult & Readonly<Record<string, unknown>> =>
  (result as { readonly resultType?: unknown } | null | undefined)?.resultType === "input_required";

/** A result that this package writes. */
export interface ErrorResult extends Record<string, unknown> {
  readonly isError: true;
  readonly content: [{ type: "text"; text: string }];
  readonly structuredContent?: Record<string, unknown>;
  readonly _meta: Record<string, unknown>;
}

/** What an unpaid call is asked for. */
export interface Ask {
  /** x402 PaymentRequired of version 2, or of version 1 where a server knows no other */
  readonly required: JsonObject;
  /** the same from another place of the result, where it differs */
  readonly other?: JsonObject | undefined;
  /** of MPP, as they came: of a server that asks for nothing else */
  readonly challenges?: readonly unknown[] | undefined;
  /** the body of a 402 as this project's gates send it; undefined from other servers */
  readonly quote: JsonObject | undefined;
}

/**
 * Returns the result that asks for payment: as structured content and as text, which the specification asks for, and in
 * `_meta`, where some clients look for it alone.
 * @param isStructured false for a tool with an output schema: a client that has listed it throws for other contents
 */
export function askResult({ required, quote }: Ask, isStructured: boolean): ErrorResult {
  return {
    isError: true,
    content: [{ type: "text", text: JSON.stringify(required) }],
    ...(isStructured && { structuredContent: required }),
    _meta: { [MCP_META.error]: required, ...(quote && { [MCP_META.quote]: quote }) },
  };
}

/** Returns the result of a call that is refused, and that no payment would help. @param body the answer over HTTP */
export function refusalResult(body: JsonObject): ErrorResult {
  return {
    isError: true,
    content: [{ type: "text", text: JSON.stringify(body) }],
    _meta: { [MCP_META.refusal]: body },
  };
}

/** Text of an ask is no longer than this; a longer one is a tool's own error. */
const MAX_TEXT_CHARS = 256 * 1_024;

/**
 * Reads what a result asks to be paid, in every form that servers send: structured content, `_meta`, or text.
 * @returns undefined for a result that asks for nothing
 */
export function askIn({ isError, structuredContent, content, _meta }: CallResult): Ask | undefined {
  if (isError !== true) return undefined;
  const quote = objectOf(_meta?.[MCP_META.quote]);
  const [required, other] = [structuredContent, _meta?.[MCP_META.error]].map(requiredOf).filter((each) => each);
  if (required) return { required, quote, ...(!isSame(required, other) && { other }) };
  for (const text of textsIn(content)) {
    const said = requiredOf(text);
    if (said) return { required: said, quote };
  }
  const challenges = memberOf(_meta?.[MCP_META.challenges], "challenges");
  return Array.isArray(challenges) && challenges.length > 0 ? { required: {}, quote, challenges } : undefined;
}

const isSame = (one: JsonObject, other: JsonObject | undefined): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

function requiredOf(given: unknown): JsonObject | undefined {
  const value = typeof given === "string" ? parsed(given) : given;
  const object = typeof value === "object" ? objectOf(value) : undefined;
  const isRequired = (object?.x402Version === 2 || object?.x402Version === 1) && Array.isArray(object.accepts);
  return isRequired ? object : undefined;
}

function textsIn(content: unknown): readonly string[] {
  const items: readonly unknown[] = Array.isArray(content) ? content : [];
  return items.map((item) => objectOf(item)?.text).filter((text) => typeof text === "string");
}

function parsed(text: string): unknown {
  if (text.length > MAX_TEXT_CHARS || !/^\s*\{/.test(text)) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // A tool's own error message.
    return undefined;
  }
}

/**
 * Reads how many tokens an answer has used from what language models return: whole answers and stream chunks in the
 * forms of OpenAI (chat completions, responses) and Anthropic (messages). Reads counts alone; prices are the provider's.
 */
import { memberOf } from "../../protocol/headers";
import type { UnstatedBasis } from "../metering/store";

/** Tokens that an answer has used so far. */
export interface TokenUsage {
  /** input that was not read from a cache, nor written to one where that is counted apart */
  readonly input: number;
  /** input that was read from a cache */
  readonly cachedInput: number;
  /** input that was written to a cache; Anthropic alone counts it apart */
  readonly cacheWrite: number;
  readonly output: number;
  /**
   * "stated" (default) by the upstream; "chunks": it has not, and each content chunk counts as one token of output;
   * "unreadable": what came is in no form that the reader knows, or its counts are no whole numbers
   */
  readonly basis?: "stated" | UnstatedBasis;
}

/** Reads the next chunk of an answer, parsed from JSON. @returns what the answer has used so far */
export type UsageReader = (chunk: unknown) => TokenUsage;

const NOTHING: TokenUsage = { input: 0, cachedInput: 0, cacheWrite: 0, output: 0 };

/**
 * Creates a reader of one answer in OpenAI's forms. A chat stream needs `stream_options: { include_usage: true }`. Until
 * its usage comes, each content chunk counts as one output token, which is the least that it can be.
 */
export function openAiUsage(): UsageReader {
  return reader((chunk) => {
    const usage = objectIn(chunk, "usage") ?? objectIn(objectIn(chunk, "response"), "usage");
    const basis = usage ? basisOf(openAiStated(usage)) : isOpenAi(chunk) ? "chunks" : "unreadable";
    return { deltas: openAiDeltas(chunk), usage: usage && openAiCounts(usage), basis };
  });
}

/**
 * Creates a reader of one answer in Anthropic's form. Until its output is counted, each content chunk counts as one
 * output token, which is the least that it can be.
 */
export function anthropicUsage(): UsageReader {
  return reader((chunk) => {
    const begun = objectIn(objectIn(chunk, "message"), "usage");
    const usage = objectIn(chunk, "usage") ?? begun;
    const stated = usage ? basisOf(ANTHROPIC_COUNTS.map((name) => memberOf(usage, name))) : undefined;
    // The beginning states the input; its output is not final.
    const basis = stated === "stated" && usage === begun ? "chunks" : stated;
    const known = isAnthropic(chunk) ? "chunks" : "unreadable";
    return { deltas: anthropicDeltas(chunk), usage: usage && anthropicCounts(usage), basis: basis ?? known };
  });
}

interface Read {
  /** parts of the content in this chunk */
  readonly deltas: number;
  /** counts since the answer began */
  readonly usage: TokenUsage | undefined;
  /** what this chunk says */
  readonly basis: "stated" | UnstatedBasis;
}

function reader(read: (chunk: unknown) => Read): UsageReader {
  let usage = NOTHING;
  let deltas = 0;
  let basis: TokenUsage["basis"];
  return (chunk) => {
    const found = read(chunk);
    deltas += found.deltas;
    // A later statement decides, also one that cannot be read.
    if (basis === undefined || (found.usage && found.basis !== "chunks")) basis = found.basis;
    const stated = found.usage ?? NOTHING;
    // A later chunk may leave out what an earlier one has said, or say more of what is cached.
    const { input, cachedInput, cacheWrite } = inputOf(stated) >= inputOf(usage) ? stated : usage;
    usage = { input, cachedInput, cacheWrite, output: Math.max(usage.output, stated.output, deltas), basis };
    return usage;
  };
}

const inputOf = ({ input, cachedInput, cacheWrite }: TokenUsage): number => input + cachedInput + cacheWrite;

/** Returns whether these members, those that are there, are counts. */
function basisOf(counts: readonly unknown[]): "stated" | "unreadable" {
  const there = counts.filter((count) => count !== undefined && count !== null);
  return there.length > 0 && there.every(isCount) ? "stated" : "unreadable";
}

const OPENAI_COUNTS = ["prompt_tokens", "completion_tokens", "input_tokens", "output_tokens"] as const;

const ANTHROPIC_COUNTS = [
  "input_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
  "output_tokens",
] as const;

const openAiStated = (usage: object): unknown[] => {
  const details = objectIn(usage, "prompt_tokens_details") ?? objectIn(usage, "input_tokens_details");
  return [...OPENAI_COUNTS.map((name) => memberOf(usage, name)), memberOf(details, "cached_tokens")];
};

function isOpenAi(chunk: unknown): boolean {
  const type = memberOf(chunk, "type");
  return Array.isArray(memberOf(chunk, "choices")) || (typeof type === "string" && type.startsWith("response."));
}

const ANTHROPIC_EVENT = /^(ping|message|message_(start|delta|stop)|content_block_(start|delta|stop))$/;

function isAnthropic(chunk: unknown): boolean {
  const type = memberOf(chunk, "type");
  return typeof type === "string" && ANTHROPIC_EVENT.test(type);
}

function openAiCounts(usage: object): TokenUsage {
  const details = objectIn(usage, "prompt_tokens_details") ?? objectIn(usage, "input_tokens_details");
  const input = countOf(usage, "prompt_tokens") || countOf(usage, "input_tokens");
  // Cached tokens are part of the input here.
  const cachedInput = Math.min(countOf(details, "cached_tokens"), input);
  const output = countOf(usage, "completion_tokens") || countOf(usage, "output_tokens");
  return { input: input - cachedInput, cachedInput, cacheWrite: 0, output };
}

function anthropicCounts(usage: object): TokenUsage {
  return {
    input: countOf(usage, "input_tokens"),
    cachedInput: countOf(usage, "cache_read_input_tokens"),
    cacheWrite: countOf(usage, "cache_creation_input_tokens"),
    output: countOf(usage, "output_tokens"),
  };
}

/** Counts text, thinking and input of tools; signatures and citations are no tokens of the output. */
function anthropicDeltas(chunk: unknown): number {
  if (memberOf(chunk, "type") !== "content_block_delta") return 0;
  const delta = memberOf(chunk, "delta");
  return ["text", "thinking", "partial_json"].some((name) => isText(memberOf(delta, name))) ? 1 : 0;
}

/** Counts the parts of content in a chunk: of a chat stream, or an event `response.<what>.delta`. */
function openAiDeltas(chunk: unknown): number {
  const type = memberOf(chunk, "type");
  if (typeof type === "string") return isResponseDelta(type) && isText(memberOf(chunk, "delta")) ? 1 : 0;
  const choices = memberOf(chunk, "choices");
  if (!Array.isArray(choices)) return 0;
  return choices.filter((choice) => isText(memberOf(choice, "text")) || hasContent(objectIn(choice, "delta"))).length;
}

const isResponseDelta = (type: string): boolean => type.startsWith("response.") && type.endsWith(".delta");

function hasContent(delta: object | undefined): boolean {
  if (["content", "refusal", "reasoning", "reasoning_content"].some((name) => isText(memberOf(delta, name))))
    return true;
  // A call of a tool is output as text is.
  const calls = memberOf(delta, "tool_calls");
  return Array.isArray(calls) ? calls.length > 0 : objectIn(delta, "function_call") !== undefined;
}

const isText = (value: unknown): boolean => typeof value === "string" && value !== "";

function objectIn(value: unknown, name: string): object | undefined {
  const found = memberOf(value, name);
  return typeof found === "object" && found !== null ? found : undefined;
}

function countOf(value: unknown, name: string): number {
  const count = memberOf(value, name);
  return isCount(count) ? count : 0;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

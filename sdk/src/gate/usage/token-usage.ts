/**
 * Reads how many tokens an answer has used from what language models return: whole answers and stream chunks in the
 * forms of OpenAI (chat completions, responses) and Anthropic (messages). Reads counts alone; prices are the provider's.
 */
import { memberOf } from "../../protocol/strict-json";

/** Tokens that an answer has used so far. */
export interface TokenUsage {
  /** input that was not read from a cache, nor written to one where that is counted apart */
  readonly input: number;
  /** input that was read from a cache */
  readonly cachedInput: number;
  /** input that was written to a cache; Anthropic alone counts it apart */
  readonly cacheWrite: number;
  readonly output: number;
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
    return { deltas: openAiDeltas(chunk), usage: usage && openAiCounts(usage) };
  });
}

/**
 * Creates a reader of one answer in Anthropic's form. Until its output is counted, each content chunk counts as one
 * output token, which is the least that it can be.
 */
export function anthropicUsage(): UsageReader {
  return reader((chunk) => {
    const usage = objectIn(chunk, "usage") ?? objectIn(objectIn(chunk, "message"), "usage");
    return { deltas: anthropicDeltas(chunk), usage: usage && anthropicCounts(usage) };
  });
}

interface Read {
  /** parts of the content in this chunk */
  readonly deltas: number;
  /** counts since the answer began */
  readonly usage: TokenUsage | undefined;
}

function reader(read: (chunk: unknown) => Read): UsageReader {
  let usage = NOTHING;
  let deltas = 0;
  return (chunk) => {
    const found = read(chunk);
    deltas += found.deltas;
    const stated = found.usage ?? NOTHING;
    // A later chunk may leave out what an earlier one has said, or say more of what is cached.
    const { input, cachedInput, cacheWrite } = inputOf(stated) >= inputOf(usage) ? stated : usage;
    usage = { input, cachedInput, cacheWrite, output: Math.max(usage.output, stated.output, deltas) };
    return usage;
  };
}

const inputOf = ({ input, cachedInput, cacheWrite }: TokenUsage): number => input + cachedInput + cacheWrite;

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
  return choices.filter((choice) => hasContent(objectIn(choice, "delta"))).length;
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
  return typeof count === "number" && Number.isSafeInteger(count) && count > 0 ? count : 0;
}

/** Checks what a tool answers to a call without a payment: the forms of its ask, each one's terms, and that they agree. */
import { isDeepStrictEqual } from "node:util";
import { MCP_META, toolResource } from "../../mcp/wire";
import { type JsonObject, parseStrictBody } from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { memberOf } from "../../protocol/headers";
import { type Dialect, type Problem, Problems } from "./problem";
import { checkTermsV1, checkTermsV2 } from "./terms";

/** What became of one call. */
export type ToolAnswer =
  | { readonly kind: "result"; readonly result: JsonObject; readonly schemaRefuses: boolean }
  /** a JSON-RPC error, or no answer */
  | { readonly kind: "error"; readonly code: number | undefined; readonly data: unknown }
  | { readonly kind: "not_called" };

/** Whether a tool asks for a payment. */
export type ToolState = "paid" | "free" | "failed" | "not_called";

/** What `validate` finds of one tool. */
export interface ToolReport {
  readonly name: string;
  readonly state: ToolState;
  readonly versions: readonly Dialect[];
  readonly problems: readonly Problem[];
}

/** Where a result may hold its ask, in the order that clients read them. */
interface Form {
  readonly place: "structuredContent" | "content[0].text" | '_meta["x402/error"]';
  readonly required: JsonObject | undefined;
}

/** @param hasOutputSchema whether the tool is listed with one: then structured content may be left out */
export function checkTool(name: string, answer: ToolAnswer, hasOutputSchema: boolean): ToolReport {
  const problems = new Problems(name);
  const report = (state: ToolState, versions: ToolReport["versions"] = []): ToolReport => ({
    name,
    state,
    versions,
    problems: problems.found,
  });
  if (answer.kind === "not_called") {
    problems.add("mcp", "not_called");
    return report("not_called");
  }
  if (answer.kind === "error") {
    const isAsk = answer.code === 402 || requiredIn(answer.data) !== undefined;
    problems.add("mcp", isAsk ? "rpc_error" : "tool_failed");
    return report(isAsk ? "paid" : "failed");
  }
  const { result, schemaRefuses } = answer;
  const forms = formsOf(problems, result);
  const asks = forms.filter(({ required }) => required !== undefined);
  if (asks.length === 0) {
    if (result.isError !== true) return report("free");
    problems.add("mcp", "tool_failed");
    return report("failed");
  }
  if (result.isError !== true) problems.add("mcp", "not_an_error");
  const isThere = (place: Form["place"]) => asks.some((form) => form.place === place);
  if (!isThere("content[0].text")) problems.add("mcp", "no_text");
  if (!isThere("structuredContent") && !hasOutputSchema) problems.add("mcp", "no_structured_content");
  if (!isThere('_meta["x402/error"]')) problems.add("mcp", "no_meta");
  if (schemaRefuses && isThere("structuredContent")) problems.add("mcp", "output_schema");
  return report("paid", checkForms(name, problems, asks));
}

/** Checks the terms of each form that differs from those before it. @returns the versions that are there */
function checkForms(name: string, problems: Problems, asks: readonly Form[]): readonly ("v1" | "v2")[] {
  const seen: JsonObject[] = [];
  const versions = new Set<"v1" | "v2">();
  for (const { place, required = {} } of asks) {
    if (seen.some((other) => isDeepStrictEqual(other, required))) continue;
    seen.push(required);
    const version = required.x402Version === 1 ? "v1" : "v2";
    versions.add(version);
    const own = new Problems(name, place);
    const check = version === "v1" ? checkTermsV1 : checkTermsV2;
    check(own, required, (part, value, where) => {
      if (typeof value !== "string" || !URL.canParse(value)) own.add(part, "resource", where);
      else if (value !== resourceOfTool(name)) own.add(part, "tool_resource", where);
    });
    problems.found.push(...own.found);
  }
  if (seen.length > versions.size) problems.add("mcp", "forms_disagree");
  return [...versions].sort();
}

/** Returns the forms of a result. Text that parsers read differently is a problem. */
function formsOf(problems: Problems, { structuredContent, content, _meta }: JsonObject): readonly Form[] {
  const text: unknown = Array.isArray(content) ? memberOf(content[0], "text") : undefined;
  const parsed = typeof text === "string" ? parseStrictBody(text) : undefined;
  if (typeof text === "string" && parsed === undefined && requiredIn(looselyParsed(text))) {
    problems.add("v2", "ambiguous_json", "content[0].text");
  }
  return [
    { place: "structuredContent", required: requiredIn(structuredContent) },
    { place: "content[0].text", required: requiredIn(parsed) },
    { place: '_meta["x402/error"]', required: requiredIn(memberOf(_meta, MCP_META.error)) },
  ];
}

/** Returns the PaymentRequired in a value: itself, or the data of the wrapper that the transport describes for text. */
function requiredIn(value: unknown): JsonObject | undefined {
  const inner = memberOf(memberOf(value, MCP_META.error), "data") ?? value;
  const isRequired = isObject(inner) && inner.x402Version !== undefined && inner.accepts !== undefined;
  return isRequired ? inner : undefined;
}

function looselyParsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Returns the resource of a tool; undefined for a name that no URL can hold. */
function resourceOfTool(name: string): string | undefined {
  try {
    return toolResource(name);
  } catch {
    return undefined;
  }
}

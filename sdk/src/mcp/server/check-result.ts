/** Checks a tool's result as the SDK does after the handler: what it would refuse to send must not be charged. */
import * as z from "zod";
import { isInputRequired, type ToolResult } from "../../gate/adapters/mcp";

const media = z.looseObject({ data: z.string(), mimeType: z.string() });

const content = z.union([
  z.looseObject({ type: z.literal("text"), text: z.string() }),
  media.extend({ type: z.enum(["image", "audio"]) }),
  z.looseObject({ type: z.literal("resource_link"), uri: z.string(), name: z.string() }),
  z.looseObject({ type: z.literal("resource"), resource: z.looseObject({ uri: z.string() }) }),
]);

const resultSchema = z.looseObject({
  isError: z.boolean().optional(),
  content: z.array(content).optional(),
  structuredContent: z.record(z.string(), z.unknown()).optional(),
  _meta: z.record(z.string(), z.unknown()).optional(),
});

/** By release of the SDK. */
const RESULT_SCHEMAS = {
  1: resultSchema,
  2: resultSchema.extend({ structuredContent: z.unknown().optional() }),
} as const;

/** What schemas of zod 3 and 4 have in common. */
interface Parser {
  safeParseAsync(value: unknown): Promise<{ readonly success: boolean; readonly error?: Error }>;
}

/** What schemas of every library have in common that keeps to Standard Schema. */
interface StandardParser {
  readonly "~standard": {
    validate(value: unknown): Validated | Promise<Validated>;
  };
}

interface Validated {
  readonly issues?: readonly { readonly message: string }[] | undefined;
}

type AnyParser = Parser | StandardParser;

/** A schema, or the schemas of an object's members. */
export type ResultSchema = AnyParser | Readonly<Record<string, AnyParser>>;

/**
 * Creates the check of one tool's results.
 * @returns a function that returns the result as it is, or throws TypeError
 */
export function resultChecker(
  tool: string,
  outputSchema: ResultSchema | undefined,
  release: keyof typeof RESULT_SCHEMAS,
): (result: unknown) => Promise<ToolResult> {
  return async (given) => {
    if (release === 2 && isInputRequired(given)) return given;
    const result = RESULT_SCHEMAS[release].safeParse(given);
    if (!result.success) throw new TypeError(`The tool ${tool} returned no result of a tool: ${result.error.message}`);
    const { isError, structuredContent } = result.data;
    const fault = outputSchema && !isError ? await faultOf(outputSchema, structuredContent) : undefined;
    if (fault === undefined) return given as ToolResult;
    throw new TypeError(`The tool ${tool} returned structured content that its outputSchema refuses: ${fault}`);
  };
}

async function faultOf(schema: ResultSchema, value: unknown): Promise<string | undefined> {
  if (value === undefined) return "there is none";
  if (isParser(schema)) return faultIn(schema, value);
  for (const [name, member] of Object.entries(schema)) {
    const fault = await faultIn(member, (value as Record<string, unknown>)[name]);
    if (fault !== undefined) return `${name}: ${fault}`;
  }
  return undefined;
}

async function faultIn(parser: AnyParser, value: unknown): Promise<string | undefined> {
  if ("safeParseAsync" in parser) {
    const { success, error } = await parser.safeParseAsync(value);
    return success ? undefined : (error?.message ?? "it is invalid");
  }
  const { issues } = await parser["~standard"].validate(value);
  return issues?.map(({ message }) => message).join("; ");
}

const isParser = (schema: ResultSchema): schema is AnyParser =>
  typeof (schema as Partial<Parser>).safeParseAsync === "function" || "~standard" in schema;

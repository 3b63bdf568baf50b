/** Checks a tool's result as the SDK does after the handler: what it would refuse to send must not be charged. */
import * as z from "zod";
import type { ToolResult } from "../../gate/adapters/mcp";
import { isInputRequired } from "../wire";

/** As the SDK decides it, which takes white space and no padding too. */
function isBase64(text: string): boolean {
  try {
    atob(text);
    return true;
  } catch {
    return false;
  }
}

const base64 = z.string().refine(isBase64, "is no base64");
const text = z.string();
const meta = z.record(text, z.unknown()).optional();

const annotations = z
  .looseObject({
    audience: z.array(z.enum(["user", "assistant"])).optional(),
    priority: z.number().min(0).max(1).optional(),
    lastModified: z.iso.datetime({ offset: true }).optional(),
  })
  .optional();

const icon = z.looseObject({
  src: text,
  mimeType: text.optional(),
  sizes: z.array(text).optional(),
  theme: z.enum(["light", "dark"]).optional(),
});

const block = z.looseObject({ annotations, _meta: meta });
const resource = z.looseObject({ uri: text, mimeType: text.optional(), _meta: meta });

const content = z.union([
  block.extend({ type: z.literal("text"), text }),
  block.extend({ type: z.enum(["image", "audio"]), data: base64, mimeType: text }),
  block.extend({
    type: z.literal("resource_link"),
    uri: text,
    name: text,
    title: text.optional(),
    description: text.optional(),
    mimeType: text.optional(),
    size: z.number().optional(),
    icons: z.array(icon).optional(),
  }),
  block.extend({
    type: z.literal("resource"),
    resource: z.union([resource.extend({ text }), resource.extend({ blob: base64 })]),
  }),
]);

const resultSchema = z.looseObject({
  isError: z.boolean().optional(),
  content: z.array(content).optional(),
  structuredContent: z.record(text, z.unknown()).optional(),
  _meta: z
    .looseObject({
      progressToken: z.union([text, z.int()]).optional(),
      "io.modelcontextprotocol/related-task": z.looseObject({ taskId: text }).optional(),
    })
    .optional(),
});

/** By release of the SDK. */
const RESULT_SCHEMAS = {
  1: resultSchema,
  2: resultSchema.extend({
    structuredContent: z.unknown().optional(),
    // A client throws for a type that it does not know.
    resultType: z.literal("complete").optional(),
  }),
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

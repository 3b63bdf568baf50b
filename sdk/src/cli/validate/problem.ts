/** Names every problem that `turnpike validate` finds in a 402, with what to correct. */
import { TRANSFER_METHODS } from "../../protocol/transfer-methods";

const METHODS = Object.keys(TRANSFER_METHODS).join(" nor ");

/** A version of x402, or MPP. */
export type Dialect = "v1" | "v2" | "mpp";

/** A dialect; `http`, `mcp` or `openapi` for the response, the tool's result or the document as a whole. */
export type Part = "http" | "mcp" | "openapi" | Dialect;

/** Each problem by its code: whether clients cannot pay (`error`) or some may not (`warning`), and what is required. */
export const TERMS_PROBLEMS = {
  status: { level: "error", about: "The status is not 402." },
  redirect: { level: "error", about: "The server redirects; clients do not pay after a redirect to another origin." },
  no_terms: {
    level: "error",
    about: "The 402 has no terms: no `accepts` in its body, no PAYMENT-REQUIRED header, no challenge of MPP.",
  },
  version_required: { level: "error", about: "The 402 has no terms of a version or dialect that --require names." },
  cacheable: {
    level: "warning",
    about: "Cache-Control allows a shared cache to keep the 402: send `no-store` or `private`.",
  },
  too_large: {
    level: "error",
    about: "The terms are larger than 64 KiB in the body or 8 KiB in the header, which clients or proxies refuse.",
  },
  not_json: { level: "error", about: "The terms are no JSON object." },
  not_base64: { level: "error", about: "PAYMENT-REQUIRED is no standard base64 of a JSON object." },
  ambiguous_json: {
    level: "error",
    about: "The JSON repeats a key, or nests too deeply: parsers read it differently.",
  },
  x402_version: {
    level: "error",
    about: "`x402Version` is not the number of this version: 1 in the body, 2 in the header.",
  },
  accepts: { level: "error", about: "`accepts` is no list of 1 to 64 entries." },
  entry: { level: "error", about: "An entry of `accepts` is no object." },
  scheme: { level: "error", about: "`scheme` is no text." },
  unknown_scheme: {
    level: "warning",
    about: "The scheme is unknown to this version's stock clients, which cannot pay the entry.",
  },
  network: { level: "error", about: "`network` is no text, or in version 2 no CAIP-2 id such as eip155:8453." },
  unknown_network: { level: "warning", about: "Stock version 1 clients know no network of that name." },
  amount: {
    level: "error",
    about: "The amount is no decimal integer string of base units (v1 `maxAmountRequired`, v2 and MPP `amount`).",
  },
  zero_amount: { level: "warning", about: "The amount is 0: an entry without a price." },
  asset: { level: "error", about: "`asset`, in MPP `currency`, is no address of a token contract." },
  pay_to: { level: "error", about: "`payTo`, in MPP `recipient`, is no address." },
  checksum: {
    level: "warning",
    about: "An address in mixed case has a wrong EIP-55 checksum: a digit may be mistyped.",
  },
  resource: {
    level: "error",
    about: "The resource is missing or no absolute URL (v1 `resource` of the entry, v2 `resource.url`).",
  },
  resource_mismatch: { level: "error", about: "The resource is another URL than the one that was requested." },
  timeout: { level: "error", about: "`maxTimeoutSeconds` is no whole number above 0." },
  description: { level: "error", about: "`description` is no text; version 1 requires it, and it may be empty." },
  mime_type: { level: "error", about: "`mimeType` is no text; version 1 requires it, and it may be empty." },
  token_domain: {
    level: "error",
    about: "`extra.name` or `extra.version` is missing: clients cannot sign for the token.",
  },
  transfer_method: { level: "error", about: `\`extra.assetTransferMethod\` is neither ${METHODS}.` },
  facilitator_address: { level: "error", about: "An `upto` entry has no `extra.facilitatorAddress`." },
  extensions: { level: "error", about: "`extensions` is no object." },
  versions_disagree: {
    level: "error",
    about: "Two dialects ask for different amounts for the same token, payee and network.",
  },
} as const satisfies ProblemTable;

/** The problems that only challenges of MPP have. */
export const MPP_PROBLEMS = {
  challenge: {
    level: "error",
    about: "A challenge of the scheme Payment lacks a parameter, has one twice, or one that is too long.",
  },
  unknown_method: {
    level: "warning",
    about: "The challenge is no `charge` by the method `evm`, and nothing else of it is checked.",
  },
  request: { level: "error", about: "`request` is no base64url of a JSON object with `methodDetails`." },
  chain_id: { level: "error", about: "`methodDetails.chainId` is no whole number above 0." },
  expires: { level: "error", about: "`expires` is no time of RFC 3339." },
  expired: { level: "error", about: "The challenge is expired." },
  credential_header: { level: "error", about: "`header` names another header than Payment-Authorization." },
  credential_types: {
    level: "warning",
    about: "`credentialTypes` has no `authorization`: clients that sign EIP-3009 cannot pay.",
  },
  splits: { level: "warning", about: "The charge has `splits`, which one EIP-3009 authorization cannot pay." },
  unknown_token: {
    level: "warning",
    about: "The token is unknown on that chain: clients cannot sign for it without its EIP-712 domain.",
  },
  decimals: { level: "error", about: "`methodDetails.decimals` are not those of the token." },
} as const satisfies ProblemTable;

/** The problems that only tools of the Model Context Protocol have. */
export const MCP_PROBLEMS = {
  not_mcp: { level: "error", about: "The server does not answer as an MCP server of this transport." },
  no_paid_tool: { level: "error", about: "No tool that was called asks for a payment." },
  not_called: {
    level: "warning",
    about: "The tool is listed as destructive, so it was not called: call it by --tool and --arguments.",
  },
  tool_failed: {
    level: "warning",
    about: "The tool failed or did not answer, and asked for no payment: give its arguments by --tool and --arguments.",
  },
  rpc_error: {
    level: "error",
    about: "The tool asks for payment by a JSON-RPC error or an HTTP 402: clients look for it in a tool's result.",
  },
  not_an_error: { level: "error", about: "The ask has no `isError: true`: clients take it for the tool's answer." },
  no_text: {
    level: "error",
    about: "`content[0].text` holds no JSON of PaymentRequired, which the transport requires.",
  },
  no_structured_content: {
    level: "warning",
    about: "`structuredContent` holds no PaymentRequired: clients that read no text cannot pay.",
  },
  no_meta: {
    level: "warning",
    about: '`_meta["x402/error"]` holds no PaymentRequired: some stock clients look for it there alone.',
  },
  output_schema: {
    level: "error",
    about: "The tool's outputSchema refuses the ask in `structuredContent`: clients that listed the tool throw.",
  },
  forms_disagree: { level: "error", about: "The forms of the ask hold different terms." },
  tool_resource: {
    level: "warning",
    about: "The resource is not `mcp://tool/NAME`, which the transport gives the tool's payments.",
  },
} as const satisfies ProblemTable;

/** The problems that only a site's OpenAPI document has. */
export const OPENAPI_PROBLEMS = {
  no_document: {
    level: "error",
    about: "The site has no OpenAPI document of version 3 at /openapi.json, of at most 4 MiB and without a redirect.",
  },
  no_price: { level: "error", about: "No operation of the document has `x-payment-info`." },
  payment_info: {
    level: "error",
    about: "`x-payment-info` is malformed there, or has `offers` beside the fields of one offer.",
  },
  no_402: { level: "error", about: "The priced operation has no `402` response, which readers require." },
  price_disagrees: {
    level: "error",
    about: "The 402 of the operation asks for another amount than the document states.",
  },
  other_origin: { level: "warning", about: "The operation's server is another origin: it was not called." },
  method_not_called: {
    level: "warning",
    about: "Only GET, HEAD and POST are called: the operation might change something if it is not sold.",
  },
  too_many: { level: "warning", about: "The document has more than 50 priced operations: the rest were not called." },
} as const satisfies ProblemTable;

/** Every problem by its code. */
export const PROBLEMS = { ...TERMS_PROBLEMS, ...MPP_PROBLEMS, ...MCP_PROBLEMS, ...OPENAPI_PROBLEMS };

type ProblemTable = Record<string, { readonly level: "error" | "warning"; readonly about: string }>;

/** The code of a problem. */
export type ProblemCode = keyof typeof PROBLEMS;

/** One problem, and where it is. */
export interface Problem {
  readonly level: "error" | "warning";
  readonly part: Part;
  readonly code: ProblemCode;
  /** such as `accepts[0].payTo`; empty for the whole */
  readonly where: string;
  readonly about: string;
}

/** Collects the problems of one answer. */
export class Problems {
  readonly found: Problem[] = [];
  readonly #place: readonly string[];

  /** @param place the member of the answer that is checked, such as `structuredContent`; default: the whole */
  constructor(...place: readonly string[]) {
    this.#place = place;
  }

  /** Adds a problem. @param where such as `accepts[0].payTo`; empty for the whole */
  add(part: Part, code: ProblemCode, where = ""): void {
    const { level, about } = PROBLEMS[code];
    const path = [...this.#place, where].filter((step) => step !== "").join(".");
    this.found.push({ level, part, code, where: path, about });
  }
}

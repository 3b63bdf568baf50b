/** Names every problem that `turnpike validate` finds in a 402, with what to correct. */
import { TRANSFER_METHODS } from "../../protocol/transfer-methods";

const METHODS = Object.keys(TRANSFER_METHODS).join(" nor ");

/** A version of x402, or MPP. */
export type Dialect = "v1" | "v2" | "mpp";

/** A dialect; `http`, `mcp` or `openapi` for the response, the tool's result or the document as a whole. */
export type Part = "http" | "mcp" | "openapi" | Dialect;

interface Meaning {
  readonly level: "error" | "warning";
  readonly about: string;
}

const error = (about: string): Meaning => ({ level: "error", about });

const warning = (about: string): Meaning => ({ level: "warning", about });

/** Each problem by its code: whether clients cannot pay (`error`) or some may not (`warning`), and what is required. */
export const TERMS_PROBLEMS = {
  status: error("The status is not 402."),
  redirect: error("The server redirects; clients do not pay after a redirect to another origin."),
  no_terms: error("The 402 has no terms: no `accepts` in its body, no PAYMENT-REQUIRED header, no challenge of MPP."),
  version_required: error("The 402 has no terms of a version or dialect that --require names."),
  cacheable: warning("Cache-Control allows a shared cache to keep the 402: send `no-store` or `private`."),
  too_large: error(
    "The terms are larger than 64 KiB in the body or 8 KiB in the header, which clients or proxies refuse.",
  ),
  not_json: error("The terms are no JSON object."),
  not_base64: error("PAYMENT-REQUIRED is no standard base64 of a JSON object."),
  ambiguous_json: error("The JSON repeats a key, or nests too deeply: parsers read it differently."),
  x402_version: error("`x402Version` is not the number of this version: 1 in the body, 2 in the header."),
  accepts: error("`accepts` is no list of 1 to 64 entries."),
  entry: error("An entry of `accepts` is no object."),
  scheme: error("`scheme` is no text."),
  unknown_scheme: warning("The scheme is unknown to this version's stock clients, which cannot pay the entry."),
  network: error("`network` is no text, or in version 2 no CAIP-2 id such as eip155:8453."),
  unknown_network: warning("Stock version 1 clients know no network of that name."),
  amount: error("The amount is no decimal integer string of base units (v1 `maxAmountRequired`, v2 and MPP `amount`)."),
  zero_amount: warning("The amount is 0: an entry without a price."),
  asset: error("`asset`, in MPP `currency`, is no address of a token contract."),
  pay_to: error("`payTo`, in MPP `recipient`, is no address."),
  checksum: warning("An address in mixed case has a wrong EIP-55 checksum: a digit may be mistyped."),
  resource: error("The resource is missing or no absolute URL (v1 `resource` of the entry, v2 `resource.url`)."),
  resource_mismatch: error("The resource is another URL than the one that was requested."),
  timeout: error("`maxTimeoutSeconds` is no whole number above 0."),
  description: error("`description` is no text; version 1 requires it, and it may be empty."),
  mime_type: error("`mimeType` is no text; version 1 requires it, and it may be empty."),
  token_domain: error("`extra.name` or `extra.version` is missing: clients cannot sign for the token."),
  transfer_method: error(`\`extra.assetTransferMethod\` is neither ${METHODS}.`),
  facilitator_address: error("An `upto` entry has no `extra.facilitatorAddress`."),
  extensions: error("`extensions` is no object."),
  versions_disagree: error("Two dialects ask for different amounts for the same token, payee and network."),
};

/** The problems that only challenges of MPP have. */
export const MPP_PROBLEMS = {
  challenge: error("A challenge of the scheme Payment lacks a parameter, has one twice, or one that is too long."),
  unknown_method: warning("The challenge is no `charge` by the method `evm`, and nothing else of it is checked."),
  request: error("`request` is no base64url of a JSON object with `methodDetails`."),
  chain_id: error("`methodDetails.chainId` is no whole number above 0."),
  expires: error("`expires` is no time of RFC 3339."),
  expired: error("The challenge is expired."),
  credential_header: error("`header` names another header than Payment-Authorization."),
  credential_types: warning("`credentialTypes` has no `authorization`: clients that sign EIP-3009 cannot pay."),
  splits: warning("The charge has `splits`, which one EIP-3009 authorization cannot pay."),
  unknown_token: warning("The token is unknown on that chain: clients cannot sign for it without its EIP-712 domain."),
  decimals: error("`methodDetails.decimals` are not those of the token."),
};

/** The problems that only tools of the Model Context Protocol have. */
export const MCP_PROBLEMS = {
  not_mcp: error("The server does not answer as an MCP server of this transport."),
  no_paid_tool: error("No tool that was called asks for a payment."),
  not_called: warning("The tool is listed as destructive, so it was not called: call it by --tool and --arguments."),
  tool_failed: warning(
    "The tool failed or did not answer, and asked for no payment: give its arguments by --tool and --arguments.",
  ),
  rpc_error: error(
    "The tool asks for payment by a JSON-RPC error or an HTTP 402: clients look for it in a tool's result.",
  ),
  not_an_error: error("The ask has no `isError: true`: clients take it for the tool's answer."),
  no_text: error("`content[0].text` holds no JSON of PaymentRequired, which the transport requires."),
  no_structured_content: warning("`structuredContent` holds no PaymentRequired: clients that read no text cannot pay."),
  no_meta: warning('`_meta["x402/error"]` holds no PaymentRequired: some stock clients look for it there alone.'),
  output_schema: error(
    "The tool's outputSchema refuses the ask in `structuredContent`: clients that listed the tool throw.",
  ),
  forms_disagree: error("The forms of the ask hold different terms."),
  tool_resource: warning("The resource is not `mcp://tool/NAME`, which the transport gives the tool's payments."),
};

/** The problems that only a site's OpenAPI document has. */
export const OPENAPI_PROBLEMS = {
  no_document: error(
    "The site has no OpenAPI document of version 3 at /openapi.json, of at most 4 MiB and without a redirect.",
  ),
  no_price: error("No operation of the document has `x-payment-info`."),
  payment_info: error("`x-payment-info` is malformed there, or has `offers` beside the fields of one offer."),
  no_402: error("The priced operation has no `402` response, which readers require."),
  price_disagrees: error("The 402 of the operation asks for another amount than the document states."),
  other_origin: warning("The operation's server is another origin: it was not called."),
  method_not_called: warning(
    "Only GET, HEAD and POST are called: the operation might change something if it is not sold.",
  ),
  too_many: warning("The document has more than 50 priced operations: the rest were not called."),
};

/** Every problem by its code. */
export const PROBLEMS = { ...TERMS_PROBLEMS, ...MPP_PROBLEMS, ...MCP_PROBLEMS, ...OPENAPI_PROBLEMS };

/** The code of a problem. */
export type ProblemCode = keyof typeof PROBLEMS;

/** One problem, and where it is. */
export interface Problem extends Meaning {
  readonly part: Part;
  readonly code: ProblemCode;
  /** such as `accepts[0].payTo`; empty for the whole */
  readonly where: string;
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

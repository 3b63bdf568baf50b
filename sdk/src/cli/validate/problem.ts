/** Names every problem that `turnpike validate` finds in a 402, with what to correct. */

/** A version of the wire, or `http` for the response as a whole. */
export type Part = "http" | "v1" | "v2";

/** Each problem by its code: whether clients cannot pay (`error`) or some may not (`warning`), and what is required. */
export const PROBLEMS = {
  status: { level: "error", about: "The status is not 402." },
  redirect: { level: "error", about: "The server redirects; clients do not pay after a redirect to another origin." },
  no_terms: {
    level: "error",
    about: "The 402 has terms of neither version: no `accepts` in its body, no PAYMENT-REQUIRED header.",
  },
  version_required: { level: "error", about: "The 402 has no terms of a version that --require names." },
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
    about: "The amount is no decimal integer string of base units (v1 `maxAmountRequired`, v2 `amount`).",
  },
  zero_amount: { level: "warning", about: "The amount is 0: an entry without a price." },
  asset: { level: "error", about: "`asset` is no address of a token contract." },
  pay_to: { level: "error", about: "`payTo` is no address." },
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
  transfer_method: { level: "error", about: "`extra.assetTransferMethod` is neither eip3009 nor permit2." },
  facilitator_address: { level: "error", about: "An `upto` entry has no `extra.facilitatorAddress`." },
  extensions: { level: "error", about: "`extensions` is no object." },
  versions_disagree: {
    level: "error",
    about: "The two versions ask for different amounts for the same token, payee and network.",
  },
} as const satisfies Record<string, { readonly level: "error" | "warning"; readonly about: string }>;

/** The code of a problem. */
export type ProblemCode = keyof typeof PROBLEMS;

/** One problem, and where it is. */
export interface Problem {
  readonly level: "error" | "warning";
  readonly part: Part;
  readonly code: ProblemCode;
  /** such as `accepts[0].payTo`; empty for the whole */
  readonly where: string;
  /** what is required */
  readonly about: string;
}

/** Collects the problems of one part. */
export class Problems {
  readonly found: Problem[] = [];

  /** Adds a problem. @param where such as `accepts[0].payTo`; empty for the whole */
  add(part: Part, code: ProblemCode, where = ""): void {
    const { level, about } = PROBLEMS[code];
    this.found.push({ level, part, code, where, about });
  }
}

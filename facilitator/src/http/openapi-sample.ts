/** Makes examples for openapi.json: a value that fits a schema, by the name of its field. */

export type Json = { readonly [key: string]: unknown };

const ADDRESS = "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc";
const HASH = `0x${"5e".repeat(32)}`;
const SIGNATURE = `0x${"1b".repeat(65)}`;
const TIME_SEC = 1_767_225_600;
const DAY_SEC = 86_400;

/** Fields whose value does not follow from their schema. */
const BY_NAME: Readonly<Record<string, unknown>> = {
  network: "base-sepolia",
  explorer: "https://sepolia.basescan.org",
  month: "2026-11",
  zone: "Europe/Berlin",
  chainId: 84_532,
  token: "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
  decimals: 6,
  asset: "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
  tokenName: "USDC",
  tokenVersion: "2",
  x402Version: 2,
  memo: "v1.5e5e5e5e",
  resource: "https://api.example.com/quotes/ACME",
  mimeType: "application/json",
  url: "https://api.example.com/webhooks",
  host: "api.example.com",
  name: "production",
  description: "Quotes",
  validAfter: "0",
  validBefore: String(TIME_SEC + 600),
  payTo: ADDRESS,
  actor: ADDRESS,
  address: ADDRESS,
  amount: "1000000",
  deadline: String(TIME_SEC + 600),
  cursor: "0",
  next: "128",
  key: "tk_5e5e5e5e5e5e5e5e",
  secret: "whsec_c2VjcmV0",
  version: "1",
  type: "payment.settled",
  code: "InvalidRequest",
  interval: 30 * DAY_SEC,
  grace: 3 * DAY_SEC,
  challenge: "5e5e5e5e5e5e5e5e",
  cause: "InsufficientFunds",
  id: HASH,
  overlapSec: DAY_SEC,
  message: "api.example.com",
};
/** Tried where a text has to fit a pattern. */
const BY_PATTERN = [
  ...["1000000", SIGNATURE, HASH, ADDRESS],
  ...["5e".repeat(8), "5e".repeat(16), `we_${"5e".repeat(12)}`, `ls_${"5e".repeat(12)}`],
  ...["/quotes", "50", "payment.settled", `${TIME_SEC}.${HASH}`],
];
/** The usual case of an enumeration, where it is not the first one. */
const USUAL = new Set<unknown>(["ACTIVE", "settled", "delivered", "running", "well"]);
const IS_TIME = /(?:At|Until|Ends|Sec|Through|since|hour|from|to|until|Start)$/;

export function sampleOf(schema: Json, name = ""): unknown {
  if ("not" in schema) return undefined;
  if ("const" in schema) return schema.const;
  if ("default" in schema) return schema.default;
  if (Array.isArray(schema.enum)) return schema.enum.find((value) => USUAL.has(value)) ?? schema.enum[0];
  for (const key of ["anyOf", "oneOf"]) {
    const branches = schema[key];
    if (Array.isArray(branches)) return sampleOf(branches[0] as Json, name);
  }
  if (Array.isArray(schema.allOf))
    return Object.assign({}, ...schema.allOf.map((part) => sampleOf(part as Json, name)));
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case "object":
      return sampleOfFields(schema);
    case "array":
      return [sampleOf((schema.items ?? {}) as Json, name.replace(/s$/, ""))];
    case "boolean":
      return true;
    case "integer":
    case "number":
      return sampleNumber(schema, name);
    case "null":
      return null;
    default:
      return sampleText(schema, name);
  }
}

function sampleOfFields({ properties = {} }: Json): object {
  return Object.fromEntries(
    Object.entries(properties as Record<string, Json>).map(([name, schema]) => [name, sampleOf(schema, name)]),
  );
}

function sampleNumber({ minimum, exclusiveMinimum, maximum }: Json, name: string): number {
  const known = BY_NAME[name];
  if (typeof known === "number") return known;
  if (name.endsWith("Sec")) return 60;
  const wanted = IS_TIME.test(name) ? TIME_SEC : 1;
  const least = Math.max(Number(minimum ?? 0), Number(exclusiveMinimum ?? -1) + 1);
  return Math.min(Math.max(wanted, least), Number(maximum ?? wanted));
}

function sampleText(schema: Json, name: string): string {
  const pattern = typeof schema.pattern === "string" ? new RegExp(schema.pattern) : undefined;
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY } = schema;
  const fits = (text: string): boolean =>
    (pattern?.test(text) ?? true) && text.length >= Number(minLength) && text.length <= Number(maxLength);
  const known = BY_NAME[name];
  const wanted = [
    ...(typeof known === "string" ? [known] : []),
    ...(/Wei$/.test(name) ? ["1000000"] : []),
    ...(pattern && IS_TIME.test(name) ? [String(TIME_SEC)] : []),
    ...(pattern ? BY_PATTERN : []),
    name,
    "text",
  ];
  return wanted.find(fits) ?? "text";
}

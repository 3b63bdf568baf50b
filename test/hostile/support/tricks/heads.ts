/**
 * Ways to hand a payment over that a server might read twice, or not at all. Each line: what is done, the header lines
 * for a payment `p`, and what a safe gate makes of it.
 */
import type { Outcome } from "./outcome";

export type HeadTrick = readonly [what: string, lines: (payment: string) => readonly string[], safe: Outcome];

const NO_SUB = `0x${"11".repeat(52)}`;
const NOT_BASE64 = "!!!!";
const json = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64");

export const HEADS: readonly HeadTrick[] = [
  // One payment, said in a way that means the same to everybody.
  ["as it is", (p) => [`X-PAYMENT: ${p}`], "served"],
  ["lower-case name", (p) => [`x-payment: ${p}`], "served"],
  ["mixed-case name", (p) => [`X-PaYmEnT: ${p}`], "served"],
  ["spaces around it", (p) => [`X-PAYMENT:    ${p}   `], "served"],
  ["tabs around it", (p) => [`X-PAYMENT:\t${p}\t`], "served"],
  ["no space before it", (p) => [`X-PAYMENT:${p}`], "served"],
  ["a method override beside it", (p) => [`X-PAYMENT: ${p}`, "X-HTTP-Method-Override: DELETE"], "served"],
  ["an original URL beside it", (p) => [`X-PAYMENT: ${p}`, "X-Original-URL: /admin"], "served"],
  ["a rewritten URL beside it", (p) => [`X-PAYMENT: ${p}`, "X-Rewrite-URL: /admin"], "served"],
  ["a forwarded host beside it", (p) => [`X-PAYMENT: ${p}`, "X-Forwarded-Host: evil.example"], "served"],
  ["a forwarded prefix beside it", (p) => [`X-PAYMENT: ${p}`, "X-Forwarded-Prefix: /evil"], "served"],
  ["Forwarded beside it", (p) => [`X-PAYMENT: ${p}`, "Forwarded: host=evil.example;proto=http"], "served"],
  ["the same bytes in both headers", (p) => [`X-PAYMENT: ${p}`, `PAYMENT-SIGNATURE: ${p}`], "served"],
  ["named as hop-by-hop", (p) => [`X-PAYMENT: ${p}`, "Connection: X-PAYMENT"], "served"],
  ["an unknown subscription beside it", (p) => [`X-PAYMENT: ${p}`, `X-Service-Sub: ${NO_SUB}`], "served"],
  ["a malformed subscription beside it", (p) => [`X-PAYMENT: ${p}`, "X-Service-Sub: 0x"], "served"],
  ["an empty subscription beside it", (p) => [`X-PAYMENT: ${p}`, "X-Service-Sub:"], "served"],
  ["a malformed sign-in beside it", (p) => [`X-PAYMENT: ${p}`, `SIGN-IN-WITH-X: ${NOT_BASE64}`], "served"],
  ["the other header empty", (p) => [`X-PAYMENT: ${p}`, "PAYMENT-SIGNATURE:"], "served"],
  ["the other header malformed", (p) => [`X-PAYMENT: ${p}`, `PAYMENT-SIGNATURE: ${NOT_BASE64}`], "served"],
  ["a condition on any entity", (p) => [`X-PAYMENT: ${p}`, "If-None-Match: *"], "served"],
  ["a condition on time", (p) => [`X-PAYMENT: ${p}`, "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"], "served"],
  ["a range after the end", (p) => [`X-PAYMENT: ${p}`, "Range: bytes=999999-"], "served"],
  ["no coding at all", (p) => [`X-PAYMENT: ${p}`, "Accept-Encoding: identity;q=0, *;q=0"], "served"],

  // Two readings.
  ["twice", (p) => [`X-PAYMENT: ${p}`, `X-PAYMENT: ${p}`], "ambiguous"],
  ["twice, in two cases", (p) => [`X-PAYMENT: ${p}`, `x-payment: ${p}`], "ambiguous"],
  ["then an empty one", (p) => [`X-PAYMENT: ${p}`, "X-PAYMENT:"], "ambiguous"],
  ["an empty one first", (p) => ["X-PAYMENT:", `X-PAYMENT: ${p}`], "ambiguous"],
  ["then garbage", (p) => [`X-PAYMENT: ${p}`, "X-PAYMENT: garbage"], "ambiguous"],
  ["garbage first", (p) => ["X-PAYMENT: garbage", `X-PAYMENT: ${p}`], "ambiguous"],
  ["joined by a comma", (p) => [`X-PAYMENT: ${p},${p}`], "ambiguous"],
  ["joined by comma and space", (p) => [`X-PAYMENT: ${p}, ${p}`], "ambiguous"],
  ["a comma at the end", (p) => [`X-PAYMENT: ${p},`], "ambiguous"],
  ["a comma at the start", (p) => [`X-PAYMENT: ,${p}`], "ambiguous"],
  ["nothing but a comma", () => ["X-PAYMENT: ,"], "ambiguous"],
  [
    "two payments, one in each header",
    (p) => [`X-PAYMENT: ${p}`, `PAYMENT-SIGNATURE: ${json({ version: "1", memo: "another" })}`],
    "ambiguous",
  ],
  [
    "one authorization with other extensions in each header",
    () => {
      const payload = { signature: "0x11", authorization: { from: "0x11" } };
      const [first, second] = [{ a: 1 }, { a: 2 }].map((extensions) => json({ x402Version: 2, payload, extensions }));
      return [`X-PAYMENT: ${first}`, `PAYMENT-SIGNATURE: ${second}`];
    },
    "ambiguous",
  ],
  [
    "the other header of version 2",
    (p) => [`PAYMENT-SIGNATURE: ${json({ x402Version: 2 })}`, `X-PAYMENT: ${p}`],
    "ambiguous",
  ],
  [
    "two subscriptions beside it",
    (p) => [`X-PAYMENT: ${p}`, `X-Service-Sub: ${NO_SUB}`, "X-Service-Sub: 0x"],
    "ambiguous",
  ],
  ["two sign-ins beside it", (p) => [`X-PAYMENT: ${p}`, "SIGN-IN-WITH-X: a", "SIGN-IN-WITH-X: b"], "ambiguous"],
  ["both versions in one", () => [`X-PAYMENT: ${json({ version: "1", x402Version: 1 })}`], "ambiguous"],
  ["more than 8 KiB", (p) => [`X-PAYMENT: ${p.padEnd(8_200, "A")}`], "ambiguous"],
  [
    "a subscription of 9 KB beside it",
    (p) => [`X-PAYMENT: ${p}`, `X-Service-Sub: 0x${"1".repeat(9_000)}`],
    "ambiguous",
  ],

  // A payment that nobody can read.
  ["empty", () => ["X-PAYMENT:"], "malformed"],
  ["in the header of version 2", (p) => [`PAYMENT-SIGNATURE: ${p}`], "malformed"],
  ["version 2 in the header of version 1", () => [`X-PAYMENT: ${json({ x402Version: 2 })}`], "malformed"],
  ["version 1 in the header of version 2", () => [`PAYMENT-SIGNATURE: ${json({ x402Version: 1 })}`], "malformed"],
  ["a version nobody knows", () => [`X-PAYMENT: ${json({ x402Version: 3 })}`], "malformed"],
  [
    "version 2 as text in its header",
    () => [`PAYMENT-SIGNATURE: ${json({ x402Version: "2", payload: {} })}`],
    "malformed",
  ],
  ["a version as text", () => [`X-PAYMENT: ${json({ x402Version: "1" })}`], "malformed"],
  ["with a scheme", (p) => [`X-PAYMENT: Bearer ${p}`], "malformed"],
  ["in quotation marks", (p) => [`X-PAYMENT: "${p}"`], "malformed"],
  ["joined by a semicolon", (p) => [`X-PAYMENT: ${p};${p}`], "malformed"],
  ["joined by a space", (p) => [`X-PAYMENT: ${p} ${p}`], "malformed"],
  ["with a parameter", (p) => [`X-PAYMENT: ${p}; q=1`], "malformed"],
  ["percent-encoded", (p) => [`X-PAYMENT: %65${p.slice(1)}`], "malformed"],
  ["a byte above ASCII before it", (p) => [`X-PAYMENT: \xa0${p}`], "malformed"],
  ["a byte order mark before it", (p) => [`X-PAYMENT: \xef\xbb\xbf${p}`], "malformed"],
  [
    "JSON without base64",
    (p) => [`X-PAYMENT: ${Buffer.from(p, "base64").toString("latin1").replaceAll(",", "\xb8")}`],
    "malformed",
  ],
  ["JSON without base64, with its commas", () => ['X-PAYMENT: {"x402Version":2,"payload":{}}'], "malformed"],
  ["JSON without base64 in the header of version 2", () => ['PAYMENT-SIGNATURE: {"a":1,"b":2}'], "malformed"],
  ["no version at all", () => [`PAYMENT-SIGNATURE: ${json({ payload: {} })}`], "malformed"],
  ["both headers empty", () => ["X-PAYMENT:", "PAYMENT-SIGNATURE:"], "malformed"],
  ["a payload in Authorization", () => [`Authorization: Bearer ${json({ x402Version: 2, payload: {} })}`], "malformed"],
  ["a payload alone in Authorization", () => [`Authorization: ${json({ x402Version: 1, payload: {} })}`], "malformed"],
  [
    "a payload in X-PAYMENT-SIGNATURE",
    () => [`X-PAYMENT-SIGNATURE: ${json({ x402Version: 2, payload: {} })}`],
    "malformed",
  ],

  // Not where payments are looked for.
  ["in Authorization", (p) => [`Authorization: X-PAYMENT ${p}`], "asked"],
  ["another JSON object in Authorization", () => [`Authorization: Bearer ${json({ sub: "a", iat: 1 })}`], "asked"],
  ["in a cookie", (p) => [`Cookie: X-PAYMENT=${p}`], "asked"],
  ["under a name with an underscore", (p) => [`X_PAYMENT: ${p}`], "asked"],
  ["under a name that begins alike", (p) => [`X-PAYMENT-: ${p}`], "asked"],
  ["under an old name", (p) => [`X-402-PAYMENT: ${p}`], "asked"],
  ["as a forwarded header", (p) => [`X-Forwarded-X-PAYMENT: ${p}`], "asked"],

  // Not HTTP.
  ["a space before the colon", (p) => [`X-PAYMENT : ${p}`], "no HTTP"],
  ["a folded line", (p) => [`X-PAYMENT: ${p.slice(0, 40)}`, ` ${p.slice(40)}`], "no HTTP"],
  ["a line folded by a tab", (p) => ["X-PAYMENT:", `\t${p}`], "no HTTP"],
  ["a bare line feed inside", (p) => [`X-A: b\nX-PAYMENT: ${p}`], "no HTTP"],
  ["a bare carriage return inside", (p) => [`X-A: b\rX-PAYMENT: ${p}`], "no HTTP"],
  ["a NUL behind it", (p) => [`X-PAYMENT: ${p}\0`], "no HTTP"],
  ["a control character behind it", (p) => [`X-PAYMENT: ${p}\x01`], "no HTTP"],
  ["a name with a byte above ASCII", (p) => [`X-PAYMENT\xa0: ${p}`], "no HTTP"],
  ["a line without a colon", (p) => [`X-PAYMENT ${p}`], "no HTTP"],
  ["more than any server reads", (p) => [`X-PAYMENT: ${p.padEnd(80_000, "A")}`], "no HTTP"],
];

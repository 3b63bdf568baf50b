/** Ways to write a payment's base64 and JSON that two parsers may read differently. One trick per line. */

export const base64 = (text: string | Uint8Array): string => Buffer.from(text as string).toString("base64");
const urlSafe = (text: string): string => base64(text).replaceAll("+", "-").replaceAll("/", "_");
const without = (json: string, key: string): string => {
  const { [key]: _, ...rest } = JSON.parse(json);
  return JSON.stringify(rest);
};
const upperHex = (json: string, key: string): string =>
  json.replace(
    new RegExp(`("${key}":"0x)([0-9a-fA-F]+)`),
    (_, before, digits: string) => before + digits.toUpperCase(),
  );
const lowerHex = (json: string, key: string): string =>
  json.replace(
    new RegExp(`("${key}":"0x)([0-9a-fA-F]+)`),
    (_, before, digits: string) => before + digits.toLowerCase(),
  );
const escapedAll = (json: string): string =>
  json.replace(/"memo":"([^"]+)"/, (_, memo: string) => `"memo":"${[...memo].map(unicode).join("")}"`);
const unicode = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
const put = (json: string, first: string): string => json.replace("{", `{${first},`);
const set = (json: string, key: string, value: string): string =>
  json.replace(new RegExp(`"${key}":("[^"]*"|[0-9]+)`), () => `"${key}":${value}`);
/** Latin-1 text as the bytes it names: what is no UTF-8. */
const bytes = (text: string): string => Buffer.from(text, "latin1").toString("base64");

/** The same proof, spelt otherwise: it is one payment all the same. */
export const SPELLINGS: readonly (readonly [what: string, header: (json: string) => string])[] = [
  ["as it is", (json) => base64(json)],
  ["URL-safe base64", (json) => urlSafe(json)],
  ["without padding", (json) => base64(`${json}  `).replace(/=+$/, "")],
  ["white space around the object", (json) => base64(` \n${json}\r\n\t`)],
  ["white space in the object", (json) => base64(JSON.stringify(JSON.parse(json), null, 2))],
  [
    "keys in another order",
    (json) => base64(JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(json)).reverse()))),
  ],
  ["a string in unicode escapes", (json) => base64(escapedAll(json))],
  ["a key in unicode escapes", (json) => base64(json.replace('"memo"', '"\\u006demo"'))],
  ["slashes escaped", (json) => base64(json.replaceAll("/", "\\/"))],
  ["a number with an exponent", (json) => base64(set(json, "blockNumber", "7e0"))],
  ["a number with a fraction of nothing", (json) => base64(set(json, "blockNumber", "7.0"))],
  ["an unknown key", (json) => base64(put(json, '"more":1'))],
  ["an unknown object", (json) => base64(put(json, '"more":{"amount":"1","payer":null}'))],
  ["the payer in upper case", (json) => base64(upperHex(json, "payer"))],
  ["the payer in lower case", (json) => base64(lowerHex(json, "payer"))],
  ["the token in lower case", (json) => base64(lowerHex(json, "token"))],
  ["the payee in upper case", (json) => base64(upperHex(json, "payTo"))],
  ["the Facilitator in lower case", (json) => base64(lowerHex(json, "facilitator"))],
  ["the transaction in upper case", (json) => base64(upperHex(json, "transaction"))],
  ["the signature in upper case", (json) => base64(upperHex(json, "signature"))],
];

/** An invalid proof: the field that the error names, or none where it cannot be parsed at all. */
export const MALFORMED: readonly (readonly [what: string, header: (json: string) => string, field?: string])[] = [
  // base64
  ["padding too much", (json) => `${base64(`${json}  `).replace(/=+$/, "")}===`],
  ["padding at the start", (json) => `=${base64(json)}`],
  ["padding in the middle", (json) => `${base64(json).slice(0, 8)}=${base64(json).slice(8)}`],
  ["garbage behind it", (json) => `${base64(json)}!`],
  ["white space inside", (json) => `${base64(json).slice(0, 8)} ${base64(json).slice(8)}`],
  ["bits that are cut off", () => `${base64('{"version":"1"}x').slice(0, -3)}R==`],
  [
    "one character too many",
    (json) =>
      `${base64(json)
        .replace(/=+$/, "")
        .padEnd(Math.ceil(json.length / 3) * 4 + 1, "A")}`,
  ],
  ["base64 of base64", (json) => base64(base64(json))],
  ["hex", (json) => Buffer.from(json).toString("hex")],
  // text
  ["a byte order mark", (json) => base64(`\ufeff${json}`)],
  ["UTF-16", (json) => Buffer.from(json, "utf16le").toString("base64")],
  ["bytes that are no UTF-8", (json) => bytes(put(json, '"x":"\xff\xfe"'))],
  ["an overlong slash", (json) => bytes(put(json, '"x":"\xc0\xaf"'))],
  ["a surrogate in UTF-8", (json) => bytes(put(json, '"x":"\xed\xa0\x80"'))],
  ["a NUL in a string", (json) => base64(put(json, '"x":"\\u0000"'))],
  ["a NUL in a key", (json) => base64(put(json, '"x\\u0000":1'))],
  ["a NUL behind it", (json) => base64(`${json}\0`)],
  // JSON
  ["a key twice", (json) => base64(put(json, '"amount":"1"'))],
  ["a key twice, the same", (json) => base64(put(json, '"version":"1"'))],
  ["a key twice, once escaped", (json) => base64(put(json, '"\\u0061mount":"1"'))],
  ["a key twice, deeper", (json) => base64(put(json, '"x":{"a":1,"a":2}'))],
  ["__proto__", (json) => base64(put(json, '"__proto__":{"amount":"1"}'))],
  ["__proto__, escaped", (json) => base64(put(json, '"\\u005f_proto__":{}'))],
  ["__proto__, deeper", (json) => base64(put(json, '"x":{"__proto__":{}}'))],
  ["constructor", (json) => base64(put(json, '"constructor":{"prototype":{}}'))],
  ["a list", (json) => base64(`[${json}]`)],
  ["a string", (json) => base64(JSON.stringify(json))],
  ["null", () => base64("null")],
  ["a number", () => base64("1e400")],
  ["an empty object", () => base64("{}")],
  ["two documents", (json) => base64(json + json)],
  ["something behind it", (json) => base64(`${json}x`)],
  ["a comment", (json) => base64(put(json, "/* */"))],
  ["single quotation marks", (json) => base64(json.replaceAll('"', "'"))],
  ["a comma at the end", (json) => base64(json.replace(/}$/, ",}"))],
  ["nested too deeply", (json) => base64(put(json, `"x":${"[".repeat(500)}${"]".repeat(500)}`))],
  ["brackets without an end", () => base64("[".repeat(4_000))],
  ["a string without an end", (json) => base64(`${json.slice(0, -1)},"x":"`)],
  ["an escape that JSON has not", (json) => base64(put(json, '"x":"\\x41"'))],
  // fields
  ...[
    "network",
    "token",
    "payer",
    "payTo",
    "amount",
    "memo",
    "resource",
    "transaction",
    "blockNumber",
    "settledAt",
  ].map((field) => [`without ${field}`, (json: string) => base64(without(json, field)), field] as const),
  ...["expiresAt", "facilitator", "signature"].map(
    (field) => [`without ${field}`, (json: string) => base64(without(json, field)), field] as const,
  ),
  ...["payer", "amount", "resource", "blockNumber", "signature"].flatMap((field) => [
    [`${field} null`, (json: string) => base64(set(json, field, "null")), field] as const,
    [`${field} a list`, (json: string) => base64(set(json, field, "[]")), field] as const,
    [`${field} an object`, (json: string) => base64(set(json, field, "{}")), field] as const,
    [`${field} a truth`, (json: string) => base64(set(json, field, "true")), field] as const,
  ]),
  ["another version", (json) => base64(set(json, "version", '"2"')), "version"],
  ["a version as a number", (json) => base64(set(json, "version", "1")), "version"],
  ["an amount with a leading zero", (json) => base64(set(json, "amount", '"0500000"')), "amount"],
  ["an amount with a sign", (json) => base64(set(json, "amount", '"+500000"')), "amount"],
  ["a negative amount", (json) => base64(set(json, "amount", '"-500000"')), "amount"],
  ["an amount with an exponent", (json) => base64(set(json, "amount", '"5e5"')), "amount"],
  ["an amount with a fraction", (json) => base64(set(json, "amount", '"500000.0"')), "amount"],
  ["an amount in hex", (json) => base64(set(json, "amount", '"0x7a120"')), "amount"],
  ["an amount with a space", (json) => base64(set(json, "amount", '" 500000"')), "amount"],
  ["an amount with a line break", (json) => base64(set(json, "amount", '"500000\\n"')), "amount"],
  ["an amount in other digits", (json) => base64(set(json, "amount", '"\\u0665\\u0660\\u0660"')), "amount"],
  ["an amount as a number", (json) => base64(set(json, "amount", "500000")), "amount"],
  ["an amount of 2^256", (json) => base64(set(json, "amount", `"${2n ** 256n}"`)), "amount"],
  ["an amount of 2,000 digits", (json) => base64(set(json, "amount", `"${"9".repeat(2_000)}"`)), "amount"],
  ["a block number as text", (json) => base64(set(json, "blockNumber", '"7"')), "blockNumber"],
  ["a block number with a fraction", (json) => base64(set(json, "blockNumber", "7.5")), "blockNumber"],
  ["a negative block number", (json) => base64(set(json, "blockNumber", "-7")), "blockNumber"],
  [
    "a block number beyond safe integers",
    (json) => base64(set(json, "blockNumber", "9007199254740993")),
    "blockNumber",
  ],
  ["a block number beyond numbers", (json) => base64(set(json, "blockNumber", "1e400")), "blockNumber"],
  ["a time beyond numbers", (json) => base64(set(json, "expiresAt", "1e999")), "expiresAt"],
  ["a time before time", (json) => base64(set(json, "settledAt", "-1")), "settledAt"],
  ["an address without 0x", (json) => base64(json.replace('"payer":"0x', '"payer":"')), "payer"],
  ["an address with 0X", (json) => base64(json.replace('"payer":"0x', '"payer":"0X')), "payer"],
  [
    "an address of 19 bytes",
    (json) => base64(json.replace('"payer":"0x00', '"payer":"0x').replace(/("payer":"0x..)../, "$1")),
    "payer",
  ],
  ["an address of 32 bytes", (json) => base64(json.replace('"payer":"0x', `"payer":"0x${"00".repeat(12)}`)), "payer"],
  ["an address with a line break", (json) => base64(json.replace(/("payer":"0x[0-9a-fA-F]{40})/, "$1\\n")), "payer"],
  ["a transaction of 31 bytes", (json) => base64(json.replace(/("transaction":"0x)../, "$1")), "transaction"],
  ["a signature of 64 bytes", (json) => base64(json.replace(/("signature":"0x)../, "$1")), "signature"],
  ["a signature of 66 bytes", (json) => base64(json.replace(/("signature":"0x)/, "$100")), "signature"],
  ["an empty memo", (json) => base64(set(json, "memo", '""')), "memo"],
  ["an empty network", (json) => base64(set(json, "network", '""')), "network"],
  ["a network of 100 characters", (json) => base64(set(json, "network", `"${"n".repeat(100)}"`)), "network"],
];

/** A proof with one thing changed: the Facilitator did not sign that. */
export const FORGED: readonly (readonly [what: string, header: (json: string) => string])[] = [
  ["another payer", (json) => base64(set(json, "payer", `"0x${"11".repeat(20)}"`))],
  ["another transaction", (json) => base64(set(json, "transaction", `"0x${"11".repeat(32)}"`))],
  ["a smaller amount", (json) => base64(set(json, "amount", '"1"'))],
  ["another payee", (json) => base64(set(json, "payTo", `"0x${"11".repeat(20)}"`))],
  ["another network's name", (json) => base64(set(json, "network", '"base-mainnet"'))],
  ["a network's other name", (json) => base64(set(json, "network", '"eip155:31337"'))],
  [
    "a memo in other letters",
    (json) => base64(json.replace(/"memo":"(.)/, (_, first) => `"memo":"${first === "A" ? "B" : "A"}`)),
  ],
  ["a memo without its MAC", (json) => base64(json.replace(/("memo":"[^".]+\.[^".]+\.[^".]+)\.[^"]+/, "$1."))],
  ["a memo with a later expiry", (json) => base64(json.replace(/("memo":"[^".]+\.[^".]+\.)1/, "$12"))],
  ["a memo with an expiry of a leading zero", (json) => base64(json.replace(/("memo":"[^".]+\.[^".]+\.)1/, "$101"))],
  ["a memo with a space", (json) => base64(json.replace('"memo":"', '"memo":" '))],
  ["a memo with padding", (json) => base64(json.replace(/("memo":"[^"]+)/, "$1=="))],
  ["a resource with an upper-case scheme", (json) => base64(json.replace('"resource":"https', '"resource":"HTTPS'))],
  ["a resource with its port written", (json) => base64(json.replace("api.example/", "api.example:443/"))],
  ["a resource with a fragment", (json) => base64(json.replace(/("resource":"[^"]+)/, "$1#"))],
  ["a resource with an escape", (json) => base64(json.replace(/("resource":"[^"]+)paid/, "$1%70aid"))],
  ["a later end", (json) => base64(set(json, "expiresAt", "1900000000"))],
  ["an earlier settlement", (json) => base64(set(json, "settledAt", "1799999999"))],
  ["another block", (json) => base64(set(json, "blockNumber", "8"))],
  ["a block number of minus zero", (json) => base64(set(json, "blockNumber", "-0"))],
  ["another Facilitator", (json) => base64(set(json, "facilitator", `"0x${"11".repeat(20)}"`))],
  ["no Facilitator", (json) => base64(set(json, "facilitator", `"0x${"00".repeat(20)}"`))],
  ["a signature of zeros", (json) => base64(set(json, "signature", `"0x${"00".repeat(65)}"`))],
  ["a signature of ones", (json) => base64(set(json, "signature", `"0x${"ff".repeat(65)}"`))],
  [
    "a signature with v of 0 or 1",
    (json) => base64(json.replace(/("signature":"0x[0-9a-f]{128})1([bc])/, (_, rs, v) => `${rs}0${v === "b" ? 0 : 1}`)),
  ],
  ["a signature with its mirrored s", (json) => base64(mirrored(json))],
];

/** The same curve point's other s: what contracts call malleable. */
function mirrored(json: string): string {
  const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
  return json.replace(/("signature":"0x[0-9a-f]{64})([0-9a-f]{64})(1[bc])/, (_, r, s, v) => {
    const other = (order - BigInt(`0x${s}`)).toString(16).padStart(64, "0");
    return `${r}${other}${v === "1b" ? "1c" : "1b"}`;
  });
}

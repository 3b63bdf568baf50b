/** Removes credentials that a server echoes, in the encodings that text commonly has them in. */

const HIDDEN = "[secret]";

/** The shortest end of a secret that is removed where the content was cut in it. */
const MIN_PARTIAL = 16;

/** The shortest part of a subscription's secret that is removed wherever it is, hex digits. */
const MIN_HEX = 32;

/** A subscription's id: the wallet's address, which is public, and 32 bytes that are not. */
const SUBSCRIPTION_ID = /^0x[0-9a-f]{40}([0-9a-f]{64})$/i;

/**
 * Removes credentials from text, also one that the end of the text cuts: as they were sent, in either case, URL-encoded,
 * and in base64 and base64url; of hex, the bytes in base64 too; of a subscription's id, any 32 digits of its secret.
 */
export function redact(text: string, secrets: Iterable<string>): string {
  let shown = text;
  for (const secret of secrets) {
    for (const form of formsOf(secret)) {
      shown = shown.replaceAll(form, HIDDEN);
      for (let length = form.length - 1; length >= MIN_PARTIAL; length--) {
        if (!shown.endsWith(form.slice(0, length))) continue;
        shown = `${shown.slice(0, -length)}${HIDDEN}`;
        break;
      }
    }
    const [, hex] = SUBSCRIPTION_ID.exec(secret) ?? [];
    if (hex) shown = withoutHex(shown, hex.toLowerCase());
  }
  return shown;
}

/** Returns every form that is looked for, the longest first: a shorter one may be a part of it. */
function formsOf(secret: string): readonly string[] {
  const forms = [secret, secret.toLowerCase(), secret.toUpperCase(), encodeURIComponent(secret)];
  const digits = /^0x((?:[0-9a-f]{2})+)$/i.exec(secret)?.[1];
  if (digits) forms.push(digits, digits.toLowerCase(), digits.toUpperCase());
  const texts = [secret, secret.toLowerCase(), secret.toUpperCase()].map((form) => Buffer.from(form));
  for (const bytes of [...texts, ...(digits ? [Buffer.from(digits, "hex")] : [])]) forms.push(...base64FormsOf(bytes));
  return [...new Set(forms)].filter(({ length }) => length > 0).sort((a, b) => b.length - a.length);
}

/** Base64 of bytes, and the digits that they alone decide where they follow one or two other bytes. */
function base64FormsOf(bytes: Buffer): readonly string[] {
  return [0, 1, 2].flatMap((before) => {
    const all = Buffer.concat([Buffer.alloc(before), bytes]);
    const digits = all.toString("base64").replace(/=+$/, "");
    const inner = digits.slice(Math.ceil((before * 4) / 3), Math.floor((all.length * 4) / 3));
    return inner.length < MIN_PARTIAL ? [] : [inner, inner.replaceAll("+", "-").replaceAll("/", "_")];
  });
}

/** Removes every run of at least MIN_HEX digits of a secret, in any case. @param secret lower-case hex digits */
function withoutHex(text: string, secret: string): string {
  const parts = new Set<string>();
  for (let at = 0; at + MIN_HEX <= secret.length; at++) parts.add(secret.slice(at, at + MIN_HEX));
  return text.replace(new RegExp(`[0-9a-fA-F]{${MIN_HEX},}`, "g"), (run) => {
    const digits = run.toLowerCase();
    let shown = "";
    let shownTo = 0;
    for (let at = 0; at + MIN_HEX <= digits.length; at++) {
      if (!parts.has(digits.slice(at, at + MIN_HEX))) continue;
      if (at > shownTo || shownTo === 0) shown += `${run.slice(shownTo, at)}${HIDDEN}`;
      shownTo = at + MIN_HEX;
    }
    return shown + run.slice(shownTo);
  });
}

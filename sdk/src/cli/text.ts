/**
 * Makes text of servers and files harmless for a terminal: control characters, escape sequences and characters that
 * reorder text become visible escapes.
 */

/** C0 but tab and line feed, DEL, C1, line and paragraph separators, and marks that change the direction of text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this expression finds
const UNSAFE = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

const UNSAFE_IN_LINE = new RegExp(`${UNSAFE.source}|[\\t\\n]`, "g");

const escaped = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Returns text of several lines with every unsafe character as `\uXXXX`. */
export function safeText(text: string): string {
  return text.replace(UNSAFE, escaped);
}

/** Returns the same for text that must stay on one line. @param max characters, of which the rest is cut */
export function safeLine(text: string, max = 300): string {
  const line = text.length > max ? `${text.slice(0, max)}...` : text;
  return line.replace(UNSAFE_IN_LINE, escaped);
}

/** Returns a value as one JSON document whose unsafe characters are escaped; amounts become decimal strings. */
export function safeJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(
    value,
    (_key, member) => (typeof member === "bigint" ? member.toString() : member),
    indent,
  );
  return safeText(text);
}

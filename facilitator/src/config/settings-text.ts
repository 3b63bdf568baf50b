/** Renders every setting as a commented environment file: description, default and danger. */
import { SETTINGS } from ".";
import type { Setting } from "./setting";

const WIDTH = 118;

export function settingsText(): string {
  const entries = (Object.values(SETTINGS) as Setting[]).map(({ env, about, fallback, optional, danger }) =>
    [
      ...wrapped(about),
      ...(danger ? wrapped(`Caution: ${danger}`) : []),
      // A setting with a default, or an optional one, is commented out: the file shows only what it changes.
      fallback === undefined && !optional ? `${env}=` : `#${env}=${fallback ?? ""}`,
    ].join("\n"),
  );
  const head = wrapped(
    "Every setting of the Facilitator. Copy to facilitator/settings.env, which is never committed, and fill in what has no default.",
  );
  return `${head.join("\n")}\n\n${entries.join("\n\n")}\n`;
}

function wrapped(text: string): string[] {
  const lines: string[] = [];
  let line = "#";
  for (const word of text.split(" ")) {
    if (line.length + word.length + 1 > WIDTH && line !== "#") {
      lines.push(line);
      line = "#";
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}

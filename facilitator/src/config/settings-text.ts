/** Every setting as a commented file of the environment: what it is, what it is unless set, what goes wrong when careless. */
import { SETTINGS } from ".";
import type { Setting } from "./setting";

const WIDTH = 118;

export function settingsText(): string {
  const entries = (Object.values(SETTINGS) as Setting[]).map(({ env, about, fallback, optional, danger }) =>
    [
      ...wrapped(about),
      ...(danger ? wrapped(`Careless: ${danger}`) : []),
      // What has a default, or may be left out, stands as a comment: the file says what it changes.
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

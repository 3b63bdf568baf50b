/** The page that lists each kind of answer with the stock schema that accepted it. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";

export interface Answer {
  readonly sender: "gate" | "agent" | "Facilitator";
  readonly answer: string;
  /** the stock schema, or the stock code that holds it */
  readonly reader: string;
  readonly result: string;
}

const PAGE = path.resolve(__dirname, "../../../out/interop/conformance.md");

/** The page is a function of the results alone, so that an unchanged run changes nothing. */
export function writeConformance(answers: readonly Answer[]): void {
  const rows = answers.map(({ sender, answer, reader, result }) => {
    return `| ${sender} | ${answer} | ${reader} | ${result === "accepted" ? result : `**${result}**`} |`;
  });
  mkdirSync(path.dirname(PAGE), { recursive: true });
  writeFileSync(PAGE, `${HEAD}${rows.join("\n")}\n`);
}

const HEAD = `# Which stock schema validates each answer

Written by \`npm run test:interop\`. Every answer was recorded from real HTTP and read by the schema of the
installed package. Amounts and optional fields are tested beside them, in \`test/interop/conformance.ts\`:

- An amount has one notation, the decimal integer without leading zeros. The reference reads others, such as \`01000\`;
  they are refused here.
- A field that the reference's schemas allow to be absent or null may be absent or null.
- Each reason of a refusal of version 2 is a word of the reference's packages or of the specification.
- The body of plans alone is not for the schema of version 1's own package, which refuses every scheme but \`exact\`.

| sender | answer | schema | result |
|---|---|---|---|
`;

/** Fills the page of the command line with what the program says: its help, and the problems that `validate` names. */
require("./typescript.cjs");
const { helpOf } = require("../sdk/src/cli/program.ts");
const { PROBLEMS } = require("../sdk/src/cli/validate/problem.ts");

const block = (text) => `\`\`\`text\n${text}\`\`\``;

function problems() {
  const rows = Object.entries(PROBLEMS).map(([code, { level, about }]) => `| \`${code}\` | ${level} | ${about} |`);
  return ["| problem | level | what is wrong |", "|---|---|---|", ...rows].join("\n");
}

/** Returns the page with each `<!-- help COMMAND -->` and `<!-- problems -->` replaced. */
const withHelp = (page) =>
  page
    .replaceAll(/<!-- help(?: (\w+))? -->/g, (_, name) => block(helpOf(name)))
    .replaceAll("<!-- problems -->", problems);

module.exports = { withHelp };

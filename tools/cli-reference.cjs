/** Fills the page of the command line with what the program says: its help, and the problems that `validate` names. */
require("./typescript.cjs");
const { COMMANDS } = require("../sdk/src/cli/commands.ts");
const { commandHelp, programHelp } = require("../sdk/src/cli/help.ts");
const { PROBLEMS } = require("../sdk/src/cli/validate/problem.ts");

const block = (text) => `\`\`\`text\n${text}\`\`\``;

function problems() {
  const rows = Object.entries(PROBLEMS).map(([code, { level, about }]) => `| \`${code}\` | ${level} | ${about} |`);
  return ["| problem | level | what is wrong |", "|---|---|---|", ...rows].join("\n");
}

/** @throws Error for a command that the program does not have */
function helpOf(name) {
  if (name === undefined) return programHelp(COMMANDS);
  const command = COMMANDS.find((each) => each.name === name);
  if (!command) throw new Error(`docs/reference/cli.md asks for the help of ${name}, which is no command`);
  return commandHelp(command);
}

/** Returns the page with each `<!-- help COMMAND -->` and `<!-- problems -->` replaced. */
const withHelp = (page) =>
  page
    .replaceAll(/<!-- help(?: (\w+))? -->/g, (_, name) => block(helpOf(name)))
    .replaceAll("<!-- problems -->", problems);

module.exports = { withHelp };

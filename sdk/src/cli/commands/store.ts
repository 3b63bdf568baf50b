import { resolve } from "node:path";
import { importStore } from "../../gate/earlier";
import type { Command } from "../command";
import { UsageError } from "../command-errors";
import { EXIT_CODES } from "../exit-codes";
import { safeLine } from "../text";

/** The command `store`. */
export const storeCommand: Command = {
  name: "store",
  summary: "import the claims and charges that gates of an earlier version kept in a folder",
  words: [
    { name: "ACT", about: "import" },
    { name: "FOLDER", about: "of claims or meterFolder; stop its gates first" },
  ],
  flags: {},
  examples: ["npx turnpike store import .turnpike"],
  async run({ args, io, output }) {
    if (args.word("ACT") !== "import") {
      throw new UsageError("`turnpike store` has one act.", "Write it as npx turnpike store import FOLDER.");
    }
    const folder = resolve(io.cwd, args.word("FOLDER"));
    const imported = await importStore(folder);
    const meters = Object.entries(imported.meters);
    output.result({ folder, ...imported }, [
      `${safeLine(folder)}: ${imported.claims} claims`,
      ...meters.map(([name, { subscriptions }]) => `${name}: ${subscriptions} subscriptions`),
      "The earlier files are named *.imported now: delete them once the gates run.",
    ]);
    return EXIT_CODES.done.code;
  },
};

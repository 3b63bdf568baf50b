import { main } from "../../mcp/wallet";
import type { Command } from "../command";

/** The command `mcp`. */
export const mcpCommand: Command = {
  name: "mcp",
  summary: "serve a wallet to an assistant over MCP (stdio); its limits come from a file that the model cannot change",
  words: [],
  flags: { config: { value: "FILE", about: "the file of its limits; default: $TURNPIKE_WALLET_CONFIG" } },
  examples: ["npx turnpike mcp --config wallet.json"],
  async run({ args, io }) {
    return main(args.value("config"), io.env);
  },
};

/** The table of commands: the parser, the help and docs/reference/cli.md follow it. A new command is one line here. */
import type { Command } from "./command";
import { auditCommand } from "./commands/audit";
import { initCommand } from "./commands/init";
import { listCommand } from "./commands/list";
import { listenCommand } from "./commands/listen";
import { mcpCommand } from "./commands/mcp";
import { payCommand } from "./commands/pay";
import { portalCommand } from "./commands/portal";
import { quoteCommand } from "./commands/quote";
import { sandboxCommand } from "./commands/sandbox";
import { storeCommand } from "./commands/store";
import { subscribeCommand } from "./commands/subscribe";
import { validateCommand } from "./commands/validate";

/** Every command of `npx turnpike`, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  sandboxCommand,
  initCommand,
  quoteCommand,
  payCommand,
  subscribeCommand,
  listCommand,
  portalCommand,
  validateCommand,
  auditCommand,
  listenCommand,
  storeCommand,
  mcpCommand,
];

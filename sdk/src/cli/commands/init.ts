import { relative, resolve } from "node:path";
import { addressOfKey, configuredAddress, type Hex, isTurnpikeError, ZERO_ADDRESS } from "../../protocol";
import type { Command, CommandContext } from "../command";
import { UsageError } from "../command-errors";
import { variable } from "../environment";
import { EXIT_CODES } from "../exit-codes";
import { agentFiles, newWallet } from "../init/agent";
import { factsOf } from "../init/facilitator-facts";
import { writeProject } from "../init/project";
import { providerFiles } from "../init/provider";

/** Where `npm start` of this repository runs one. */
const SANDBOX_FACILITATOR = "http://127.0.0.1:8402";

/** The command `init`. */
export const initCommand: Command = {
  name: "init",
  summary: "write a new provider or agent, ready to run, into a new folder",
  words: [
    { name: "KIND", about: "provider or agent" },
    { name: "FOLDER", about: "the folder, which must not exist" },
  ],
  flags: {
    facilitator: { value: "URL", about: `the Facilitator that settles; default ${SANDBOX_FACILITATOR}, the sandbox's` },
    "pay-to": { value: "ADDRESS", about: "who receives the payments; required for a provider" },
  },
  examples: [
    "npx turnpike init provider my-api --pay-to 0x1111111111111111111111111111111111111111",
    "npx turnpike init agent my-agent --facilitator https://facilitator.example",
  ],
  async run(context) {
    const { args, io, output } = context;
    const kind = args.word("KIND");
    const folder = resolve(io.cwd, args.word("FOLDER"));
    if (kind !== "provider" && kind !== "agent") {
      throw new UsageError(
        "KIND is neither provider nor agent.",
        "Run `npx turnpike init provider FOLDER` or `init agent FOLDER`.",
      );
    }
    const made = kind === "provider" ? await provider(context, folder) : await agent(context, folder);
    await writeProject(folder, made.files);
    const names = made.files.map(({ name }) => name);
    output.result({ kind, folder, files: names, ...made.facts }, [
      `Wrote ${names.join(", ")} to ${folder}.`,
      ...made.next,
      `Next: cd ${relative(io.cwd, folder)} && npm install && npm start`,
    ]);
    return EXIT_CODES.done.code;
  },
};

async function provider({ args, io }: CommandContext, folder: string) {
  const payTo = payToOf(args.value("pay-to"));
  const facts = await factsOf(io, args.value("facilitator") ?? SANDBOX_FACILITATOR);
  const { network, url } = facts;
  return {
    files: providerFiles(folder, facts, payTo),
    facts: { network, facilitator: url, payTo },
    next: [`It sells GET /quote on ${network}, to the benefit of ${payTo}.`],
  };
}

async function agent({ args, io, output }: CommandContext, folder: string) {
  if (args.has("pay-to"))
    throw new UsageError("--pay-to is for a provider.", "Leave it out: an agent receives nothing.");
  const facts = await factsOf(io, args.value("facilitator") ?? SANDBOX_FACILITATOR);
  const wallet = variable(io, "TURNPIKE_WALLET_KEY") === undefined ? newWallet() : ({ kind: "environment" } as const);
  const { network, url, token } = facts;
  const common = { files: agentFiles(folder, facts, wallet), facts: { network, facilitator: url } };
  if (wallet.kind === "environment") {
    return { ...common, next: ["It uses the wallet of TURNPIKE_WALLET_KEY in your environment; no key was written."] };
  }
  output.hide(wallet.key);
  const address = addressOfKey(wallet.key as Hex);
  return {
    ...common,
    facts: { ...common.facts, address },
    next: [`Its wallet is ${address}, a new one: send it some of the token ${token.address} on ${network}.`],
  };
}

function payToOf(text: string | undefined) {
  const remedy = "Write --pay-to 0x and 40 hex digits: the address that receives the payments.";
  if (text === undefined) throw new UsageError("--pay-to is missing.", remedy);
  try {
    const payTo = configuredAddress(text, "--pay-to", "--pay-to is no address.");
    if (payTo !== ZERO_ADDRESS) return payTo;
  } catch (error) {
    throw isTurnpikeError(error) ? new UsageError(error.message, remedy) : error;
  }
  throw new UsageError("--pay-to is the zero address: what is paid to it is lost.", remedy);
}

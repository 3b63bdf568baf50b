/** Reads the sandbox's options from the command line and the environment. A flag takes precedence over its variable. */
import path from "node:path";
import { parseArgs } from "node:util";

export type Server = "facilitator" | "provider" | "specialist" | "inbox" | "chain" | "documentation";

/** A port to listen on. `isRequired` when the user named it: no other port is used instead. */
export interface PortChoice {
  readonly number: number;
  readonly isRequired: boolean;
}

export interface SandboxOptions {
  readonly wantsHelp: boolean;
  readonly exit: boolean;
  readonly prepare: boolean;
  /** shows every step of the walk whole */
  readonly verbose: boolean;
  readonly chainId: number;
  /** absent: there is one chain */
  readonly secondChainId?: number;
  readonly folder: string;
  readonly ports: Readonly<Record<Server, PortChoice>>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The user's input is invalid. The message says how to write it. */
export class WrongOption extends Error {
  override readonly name = "WrongOption";
}

/** In the order in which `--port N` numbers them. The chain uses any free port unless one is named. */
const DEFAULT_PORTS: Readonly<Record<Server, number>> = {
  facilitator: 8402,
  provider: 4021,
  specialist: 4022,
  inbox: 4023,
  chain: 0,
  documentation: 4024,
};

const SERVERS = Object.keys(DEFAULT_PORTS) as Server[];

const MAX_PORT = 65_535;

const DEFAULT_CHAIN_ID = 31_337;

const ROOT = path.resolve(__dirname, "../..");

const FOLDER = ".sandbox";

export const DEFAULT_FOLDER = path.join(ROOT, FOLDER);

export const HELP = `Usage: npm start -- [options]

Starts a chain, the contracts, the Facilitator with its dashboard, a provider and agents on this machine,
walks through every flow once, and stays up until Ctrl-C.

  --exit                 stop after the walk; exit with 0, or with 1 when a step went wrong
  --port N               use the ports N (Facilitator), N+1 (provider), N+2 (specialist), N+3 (inbox), N+4 (chain),
                         N+5 (documentation); 0 takes any free ports
  --facilitator-port N   use this port for the Facilitator and its dashboard (8402)
  --provider-port N      use this port for the provider (4021)
  --specialist-port N    use this port for the specialist (4022)
  --inbox-port N         use this port for the webhook inbox (4023)
  --chain-port N         use this port for the chain (any free one)
  --documentation-port N use this port for the documentation (4024)
  --chain-id N           give the chain this id (31337)
  --chains N             1, or 2: the Facilitator serves a second chain too, whose id is the next number
  --folder PATH          keep the state in this folder (.sandbox); each folder has one sandbox at a time
  --verbose              print every request, transaction and balance of the walk
  --prepare              compile the contracts and build the dashboard first; npm start does so
  --help                 show this text

Each option with a value has an environment variable: TURNPIKE_SANDBOX_PORT, TURNPIKE_SANDBOX_FACILITATOR_PORT,
TURNPIKE_SANDBOX_CHAIN_ID, TURNPIKE_SANDBOX_FOLDER and so on. TURNPIKE_SANDBOX_LOG=info shows the Facilitator's log.
`;

/** The options with a value, and their variables. */
const VARIABLES = {
  port: "TURNPIKE_SANDBOX_PORT",
  "facilitator-port": "TURNPIKE_SANDBOX_FACILITATOR_PORT",
  "provider-port": "TURNPIKE_SANDBOX_PROVIDER_PORT",
  "specialist-port": "TURNPIKE_SANDBOX_SPECIALIST_PORT",
  "inbox-port": "TURNPIKE_SANDBOX_INBOX_PORT",
  "chain-port": "TURNPIKE_SANDBOX_CHAIN_PORT",
  "documentation-port": "TURNPIKE_SANDBOX_DOCUMENTATION_PORT",
  "chain-id": "TURNPIKE_SANDBOX_CHAIN_ID",
  chains: "TURNPIKE_SANDBOX_CHAINS",
  folder: "TURNPIKE_SANDBOX_FOLDER",
} as const;

type Valued = keyof typeof VARIABLES;

/**
 * @param home where the default folder is
 * @throws WrongOption with a sentence for the user
 */
export function readOptions(args: readonly string[], env: Environment, home = ROOT): SandboxOptions {
  const given = parsed(args);
  const value = (name: Valued): string | undefined => {
    const text = given[name] ?? (env[VARIABLES[name]] || undefined);
    return typeof text === "string" ? text : undefined;
  };
  const whole = (name: Valued, max: number): number | undefined => {
    const text = value(name);
    if (text === undefined) return undefined;
    if (!/^\d{1,16}$/.test(text) || Number(text) > max)
      throw new WrongOption(`--${name} takes a whole number up to ${max}, not "${text}".`);
    return Number(text);
  };
  const chainId = whole("chain-id", Number.MAX_SAFE_INTEGER) ?? DEFAULT_CHAIN_ID;
  if (chainId === 0) throw new WrongOption("--chain-id takes a whole number above zero.");
  const chains = value("chains") ?? "1";
  if (!["1", "2"].includes(chains)) throw new WrongOption(`--chains takes 1 or 2, not "${chains}".`);
  const first = whole("port", MAX_PORT - SERVERS.length + 1);
  const portOf = (server: Server, index: number): PortChoice => {
    const own = whole(`${server}-port`, MAX_PORT);
    if (own !== undefined) return { number: own, isRequired: own !== 0 };
    if (first !== undefined) return { number: first === 0 ? 0 : first + index, isRequired: first !== 0 };
    return { number: DEFAULT_PORTS[server], isRequired: false };
  };
  const ports = Object.fromEntries(SERVERS.map((server, index) => [server, portOf(server, index)]));
  return {
    wantsHelp: given.help === true,
    exit: given.exit === true,
    prepare: given.prepare === true,
    verbose: given.verbose === true,
    chainId,
    ...(chains === "2" && { secondChainId: chainId + 1 }),
    folder: path.resolve(value("folder") ?? path.join(home, FOLDER)),
    ports: distinct(ports as SandboxOptions["ports"]),
  };
}

function distinct(ports: SandboxOptions["ports"]): SandboxOptions["ports"] {
  for (const [index, server] of SERVERS.entries()) {
    const { number } = ports[server];
    const other = SERVERS.slice(0, index).find((one) => number !== 0 && ports[one].number === number);
    if (other) throw new WrongOption(`The ${other} and the ${server} cannot both use port ${number}.`);
  }
  return ports;
}

function parsed(args: readonly string[]): Readonly<Record<string, string | boolean | undefined>> {
  const text = Object.fromEntries(Object.keys(VARIABLES).map((name) => [name, { type: "string" } as const]));
  const flag = { type: "boolean" } as const;
  try {
    return parseArgs({
      args: [...args],
      options: { ...text, exit: flag, prepare: flag, verbose: flag, help: { ...flag, short: "h" } },
    }).values as Record<string, string | boolean>;
  } catch (error) {
    throw new WrongOption(`${firstSentence(error as Error)}. Run npm start -- --help to see the options.`);
  }
}

/** Returns the first sentence of an error of `parseArgs`, without its full stop. */
export function firstSentence({ message }: Error): string {
  const [sentence = ""] = message.split(/(?<=\.) To specify|\n/);
  return sentence.replace(/\.$/, "");
}

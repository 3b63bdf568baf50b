/** The process that holds the chains of a test worker (chain-process.cjs), started with the first one. */
import { type ChildProcess, spawn } from "node:child_process";
import path from "node:path";
import type { ChainOptions } from "../../scripts/sandbox/chain";

const ROOT = path.resolve(__dirname, "../..");
const END_WITH_PARENT = path.join(ROOT, "scripts/sandbox/end-with-parent.cjs");
const PROGRAM = path.join(__dirname, "chain-process.cjs");

export interface HostedChain {
  readonly port: number;
  stop(): Promise<void>;
}

interface ChainHost {
  start(options: Pick<ChainOptions, "chainId" | "blockMs" | "hardfork">): Promise<HostedChain>;
}

interface Answer {
  readonly id: number;
  readonly port?: number;
  readonly error?: string;
}

interface Asked {
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

let running: ChainHost | undefined;

export function chainHost(): ChainHost {
  running ??= startHost();
  return running;
}

function startHost(): ChainHost {
  const asked = new Map<number, Asked>();
  let questions = 0;
  const child = spawn(process.execPath, ["--expose-gc", "-r", END_WITH_PARENT, PROGRAM], {
    cwd: ROOT,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  child.on("message", (answer: Answer) => {
    const { resolve, reject } = taken(asked, answer.id);
    if (answer.error === undefined) resolve(answer);
    else reject(new Error(answer.error));
    keepAlive(child, asked.size > 0);
  });
  child.once("exit", (code, signal) => {
    running = undefined;
    for (const { reject } of asked.values()) reject(new Error(`the process of the chains ended (${signal ?? code})`));
  });
  const ask = (question: object): Promise<Answer> =>
    new Promise((resolve, reject) => {
      questions += 1;
      asked.set(questions, { resolve, reject });
      keepAlive(child, true);
      child.send({ id: questions, ...question });
    });
  return {
    async start(options) {
      const { port } = await ask({ start: options });
      if (port === undefined) throw new TypeError("the process of the chains named no port");
      // A chain that is stopped twice is stopped.
      return { port, stop: async () => void (await ask({ stop: port })) };
    },
  };
}

function taken(asked: Map<number, Asked>, id: number): Asked {
  const question = asked.get(id);
  if (!question) throw new TypeError(`the process of the chains answers what nobody asked: ${id}`);
  asked.delete(id);
  return question;
}

/** The worker ends while its chains still run, but not while it waits for an answer. */
function keepAlive(child: ChildProcess, isNeeded: boolean): void {
  if (isNeeded) {
    child.ref();
    child.channel?.ref();
  } else {
    child.unref();
    child.channel?.unref();
  }
}

/** Follows a page as its reader does: one shell runs its commands in their order, and saves the files that it names. */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";

type Step = { readonly command: string } | { readonly file: string; readonly text: string };

/** The page's commands and files. Each block of JavaScript must say where it is saved. */
export function stepsOf(page: string): Step[] {
  const text = readFileSync(page, "utf8");
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```/gm)].map(({ index, 1: kind, 2: code = "" }) => {
    if (kind === "sh") return { command: code };
    const [, file] = /Save this as `([\w.]+)`[^\n]*\n\n$/.exec(text.slice(0, index)) ?? [];
    if (kind !== "js" || file === undefined) throw new TypeError(`${page} does not say what to do with: ${code}`);
    return { file, text: code };
  });
}

export interface FollowOptions {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  /** what is different here; each must be in the page */
  readonly instead: readonly (readonly [text: string | RegExp, here: string])[];
  /** called after each command with all that was printed so far */
  readonly after?: (command: string, printed: string) => Promise<void>;
}

const DONE = "that command ended with";

/** @returns what was printed. @throws with it where a command fails */
export async function follow(page: string, { cwd, env, instead, after }: FollowOptions): Promise<string> {
  const steps = stepsOf(page);
  const all = steps.map((step) => ("command" in step ? step.command : step.text)).join("");
  for (const [text] of instead) {
    if (typeof text === "string" ? !all.includes(text) : all.search(text) < 0)
      throw new TypeError(`${page} has nothing like ${text}`);
  }
  // A group of its own, which ends with all that the page starts.
  const shell = spawn("bash", [], { cwd, env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
  const end = () => void endGroup(shell);
  process.once("exit", end);
  let printed = "";
  for (const stream of [shell.stdout, shell.stderr]) stream.on("data", (chunk) => (printed += chunk));
  try {
    for (const [place, step] of steps.entries()) {
      const own = "command" in step ? step.command : saving(step);
      const here = instead.reduce((text, [from, to]) => text.replaceAll(from, () => to), own);
      const marker = `${DONE} ${place}:`;
      // The exit status of a block is its last command's; each line before it must succeed as well.
      shell.stdin.write(`set -e\n${here}\nset +e\necho "${marker} $?"\n`);
      await new Promise<void>((resolve, reject) => {
        const look = () => void (printed.includes(marker) && settle(resolve));
        const failed = () => settle(() => reject(new Error(`${page} failed at\n${here}\n${printed}`)));
        const settle = (how: () => void) => {
          shell.stdout.off("data", look);
          shell.off("close", failed);
          how();
        };
        shell.stdout.on("data", look);
        shell.once("close", failed);
      });
      if ("command" in step) await after?.(step.command, printed);
    }
    return printed;
  } finally {
    process.off("exit", end);
    end();
  }
}

const saving = ({ file, text }: { readonly file: string; readonly text: string }): string =>
  `cat > ${file} <<'END_OF_FILE'\n${text}END_OF_FILE`;

function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // All of it has ended.
  }
}

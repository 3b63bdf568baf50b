/** Stops this process before its n-th call of the file system, as a machine does that is paused there. */
import fs from "node:fs";

type Call = (...args: unknown[]) => unknown;

/** Calls of the modules under test; `import` binds no copies of them. */
const CALLS = [
  ..."openSync closeSync readSync writeSync writeFileSync readFileSync fsyncSync".split(" "),
  ..."renameSync linkSync rmSync readdirSync statSync".split(" "),
  ..."mkdir utimes futimes rmdir".split(" "),
];

export interface Stopping {
  /** how many calls there were */
  readonly calls: number;
}

/** @param at the call before which it stops, from 1; 0 for never. Prints "stopped" there. */
export function stopBefore(at: number, calls: readonly string[] = CALLS, module: object = fs): Stopping {
  const counted = { calls: 0 };
  const api = module as Record<string, Call>;
  const write = fs.writeSync;
  for (const name of calls) {
    const call = api[name];
    if (!call) continue;
    api[name] = (...args) => {
      counted.calls += 1;
      if (counted.calls === at) {
        write(1, `stopped ${name}\n`);
        process.kill(process.pid, "SIGSTOP");
      }
      return call.apply(module, args);
    };
  }
  return counted;
}

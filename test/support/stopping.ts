/** Stops this process before its n-th call of the file system, as a machine does that is paused there. */
import fs, { type PathLike } from "node:fs";

type Calls = Record<string, (...args: unknown[]) => unknown>;

/** `import` binds no copies of a module's functions: those of the modules under test are replaced too. */
const CALLS = new Set([
  ..."openSync closeSync readSync writeSync writeFileSync readFileSync renameSync linkSync rmSync readdirSync".split(
    " ",
  ),
  ..."statSync fstatSync futimesSync mkdir open rmdir rmdirSync".split(" "),
]);

const OF_PROMISES = new Set("open readFile readdir rename rm mkdir".split(" "));

const OF_HANDLES = new Set("write writeFile appendFile sync datasync truncate stat".split(" "));

export interface Stopping {
  /** how many calls there were */
  readonly calls: number;
}

/** @param at the call before which it stops, from 1; 0 for never. Prints "stopped" there. */
export async function stopBefore(at: number, path: PathLike): Promise<Stopping> {
  const counted = { calls: 0 };
  const write = fs.writeSync;
  const probe = await fs.promises.open(path, "r");
  const handles = Object.getPrototypeOf(probe) as Calls;
  await probe.close();
  const replace = (api: Calls, names: ReadonlySet<string>): void => {
    for (const name of names) {
      const call = api[name];
      if (!call) throw new TypeError(`there is no ${name}`);
      api[name] = function (this: unknown, ...args) {
        counted.calls += 1;
        if (counted.calls === at) {
          write(1, `stopped ${name}\n`);
          process.kill(process.pid, "SIGSTOP");
        }
        return call.apply(this, args);
      };
    }
  };
  replace(fs as unknown as Calls, CALLS);
  replace(fs.promises as unknown as Calls, OF_PROMISES);
  replace(handles, OF_HANDLES);
  return counted;
}

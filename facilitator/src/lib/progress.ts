/** Shows the progress of long work on a terminal. Without a terminal, use the metrics. */
import { Presets, SingleBar } from "cli-progress";

export interface Progress {
  begin(what: string, total: number): ProgressBar;
}

export interface ProgressBar {
  advance(units: number): void;
  setTotal(total: number): void;
  end(): void;
}

const SILENT: ProgressBar = { advance: () => undefined, setTotal: () => undefined, end: () => undefined };

export const noProgress: Progress = { begin: () => SILENT };

/** Draws bars on stderr, which the log does not use; does nothing when that is no terminal. */
export function terminalProgress(stream: NodeJS.WriteStream = process.stderr): Progress {
  if (!stream.isTTY) return noProgress;
  return {
    begin(what, total) {
      const bar = new SingleBar(
        {
          stream,
          format: `${what} [{bar}] {percentage}% | {value} of {total} | {duration_formatted}, {eta_formatted} left`,
          hideCursor: true,
        },
        Presets.shades_classic,
      );
      bar.start(total, 0);
      return {
        advance: (units) => bar.increment(units),
        setTotal: (units) => bar.setTotal(units),
        end: () => bar.stop(),
      };
    },
  };
}

/** Shows the progress of indexing; the target moves while it runs. */
export function readingBar(progress: Progress, startBlock: number) {
  let bar: ProgressBar | undefined = progress.begin("blocks", 0);
  let read = 0;
  return {
    update({ applied, target }: { readonly applied: number; readonly target: number }) {
      bar?.setTotal(target - startBlock + 1);
      bar?.advance(applied - startBlock + 1 - read);
      read = applied - startBlock + 1;
    },
    end() {
      bar?.end();
      bar = undefined;
    },
  };
}

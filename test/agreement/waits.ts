import { expect } from "chai";
import Mocha from "mocha";
import { until } from "../support/facilitator";

/** Runs one test that waits for what never comes. @returns the error that is reported */
async function errorOf(wait: () => Promise<unknown>, timeoutMs: number): Promise<string> {
  const mocha = new Mocha({ timeout: timeoutMs, reporter: class {} as never });
  mocha.suite.addTest(new Mocha.Test("waits", wait as never));
  return new Promise((resolve) => {
    mocha.run().on("fail", (_test, error: Error) => resolve(String(error.stack)));
  });
}

describe("a test that waits in vain", () => {
  it("says what it waited for and what it saw last, also when its own limit ends it first", async () => {
    let end = (): void => undefined;
    const waiting = (): Promise<unknown> =>
      until(
        async (saw) => {
          saw({ kind: "pending" });
          return new Promise<false>((resolve) => {
            end = () => resolve(false);
          });
        },
        "it is settled",
        1,
      );
    expect(await errorOf(waiting, 50)).to.match(
      /Timeout of 50ms exceeded.*\nIt was waiting until it is settled \(for 0 s, attempts: 1; the last one has not ended for 0 s; last seen: \{ kind: 'pending' \}\)/,
    );
    end();
    expect(await errorOf(() => until(async () => false, "the next one", 1), 10_000)).to.match(
      /timed out waiting until the next one \(for 0 s, attempts: \d+\)/,
    );
  });
});

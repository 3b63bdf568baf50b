/** A meter on a file in its own process, which charges without end and prints the number and sum of each receipt. */

import { createMeter } from "../../../../sdk/src/gate/metering/meter";
import { createFileMeterStore } from "../../../../sdk/src/gate/provider/create-meter";
import { MeteredChain } from "../../../support/metered-chain";

async function main(file: string): Promise<void> {
  const chain = new MeteredChain();
  const idHash = chain.subscribe(1, { cap: 10n ** 15n });
  const meter = createMeter({
    store: createFileMeterStore({ path: file, leaseMs: 2_000, compactAtBytes: 4_000 }),
    sender: chain.sender,
    states: chain.states,
    clock: { nowSec: () => 1_000 },
    receipts: true,
    limits: { maxUnsettled: 10n ** 15n, settleAmount: 10n ** 15n, settleAgeMs: 3_600_000 },
  });
  await meter.start();
  const charge = async (): Promise<void> => {
    for (;;) {
      const { receipt } = await meter.reserve(idHash, 3n, chain.facts(idHash));
      process.stdout.write(`${receipt?.sequence} ${receipt?.total}\n`);
    }
  };
  await Promise.all([charge(), charge(), charge()]);
}

void main(process.argv[2] ?? "");

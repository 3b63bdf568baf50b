/** Meters of a test on stores that it names, stopped after each test. */
import { createMeter, type Meter } from "../../../sdk/src/gate/metering/meter";
import type { MeterStore } from "../../../sdk/src/gate/metering/store";
import type { MeteredChain } from "../../support/metered-chain";

export function metersAfterEach(): (store: MeterStore, chain: MeteredChain) => Promise<Meter> {
  const meters: Meter[] = [];
  afterEach(async () => {
    for (const meter of meters.splice(0)) await meter.stop();
  });
  return async (store, chain) => {
    const meter = createMeter({
      store,
      sender: chain.sender,
      states: chain.states,
      clock: { nowSec: () => 1_000 },
      limits: { settleAmount: 10n ** 9n, settleAgeMs: 60_000, pollMs: 20 },
      receipts: true,
    });
    meters.push(meter);
    await meter.start();
    return meter;
  };
}

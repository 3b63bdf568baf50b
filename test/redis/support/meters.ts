/** Meters of a test on stores that it names, stopped after each test; where the test has killed a store, in vain. */
import { createMeter, type Meter } from "../../../sdk/src/gate/metering/meter";
import type { MeterLimits } from "../../../sdk/src/gate/metering/schedule";
import type { MeterStore } from "../../../sdk/src/gate/metering/store";
import type { MeteredChain } from "../../support/metered-chain";

type Start = (store: MeterStore, chain: MeteredChain, limits?: Partial<MeterLimits>) => Promise<Meter>;

export function metersAfterEach({ mayBeGone = false } = {}): Start {
  const meters: Meter[] = [];
  afterEach(async () => {
    for (const meter of meters.splice(0)) {
      await meter.stop().catch((error: unknown) => {
        if (!mayBeGone) throw error;
      });
    }
  });
  return async (store, chain, limits = {}) => {
    const meter = createMeter({
      store,
      sender: chain.sender,
      states: chain.states,
      clock: { nowSec: () => 1_000 },
      limits: { settleAmount: 10n ** 9n, settleAgeMs: 60_000, pollMs: 20, ...limits },
      receipts: true,
    });
    meters.push(meter);
    await meter.start();
    return meter;
  };
}

/** A meter over a chain of its own, a fresh one for each test. */

import { createMeter, type Meter, type MeterOptions } from "../../../../sdk/src/gate/metering/meter";
import { createMemoryMeterStore } from "../../../../sdk/src/gate/metering/shared-store";
import type { MeterEvent } from "../../../../sdk/src/gate/metering/store";
import { MeteredChain } from "../../../support/metered-chain";

const PATIENT = { settleAgeMs: 3_600_000, settleAmount: 10n ** 30n, maxUnsettled: 10n ** 30n, pollMs: 1 };

/** What a test works with; it may put another chain in, and move the clocks. */
export class MeterWorld {
  chain = new MeteredChain();
  events: MeterEvent[] = [];
  nowMs = 1_000;
  nowSec = 1_000;
  meter!: Meter;

  async start(options: Partial<MeterOptions> = {}): Promise<Meter> {
    this.meter = createMeter({
      store: createMemoryMeterStore(),
      sender: this.chain.sender,
      states: this.chain.states,
      clock: { nowSec: () => this.nowSec },
      report: (event) => this.events.push(event),
      monotonicMs: () => this.nowMs,
      ...options,
      limits: { ...PATIENT, ...options.limits },
    });
    await this.meter.start();
    return this.meter;
  }
}

/** Call it in a `describe`: each test gets a world, and its meter is stopped. */
export function meterBeforeEach(): () => MeterWorld {
  let world: MeterWorld;
  beforeEach(() => {
    world = new MeterWorld();
  });
  afterEach(() => world.meter.stop());
  return () => world;
}

export async function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "fulfilled",
    (error: { code: string }) => error.code,
  );
}

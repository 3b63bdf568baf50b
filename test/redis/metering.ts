import { cellsOn } from "../../sdk/src/gate/cells/cells";
import { redisCells } from "../../sdk/src/gate/cells/redis";
import { METER_STORE } from "../../sdk/src/gate/metering/shared-store";
import { startRedis, type TestRedis } from "../sdk/gate/support/redis";
import { testSharedMeter } from "../sdk/gate/support/shared-meter";

describe("meters that share Redis", function () {
  this.timeout(120_000);
  let redis: TestRedis;

  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.stop());

  testSharedMeter((space) =>
    cellsOn(redisCells(redis.client, { prefix: `{${space}}`, lists: true }), { what: METER_STORE }),
  );
});

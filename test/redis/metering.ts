import { redisCells } from "../../sdk/src/gate/shared/redis-cells";
import { startRedis, type TestRedis } from "../gate/support/redis";
import { testSharedMeter } from "../gate/support/shared-meter";

describe("meters that share Redis", function () {
  this.timeout(120_000);
  let redis: TestRedis;

  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.stop());

  testSharedMeter((space) => redisCells(redis.client, { prefix: `{${space}}`, lists: true }));
});

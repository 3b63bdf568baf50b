import { testKillMatrix } from "../kills/support/kill-matrix";
import { lapseInRedis } from "../sdk/gate/support/lapse";
import { startRedis, type TestRedis } from "../sdk/gate/support/redis";

describe("the kill matrix, with claims in Redis", function () {
  this.timeout(600_000);
  let redis: TestRedis;

  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.stop());

  testKillMatrix({
    place: () => ({ kind: "redis", socket: redis.socket }),
    lapse: () => lapseInRedis(redis.client),
    faults: ["the gate is killed"],
  });
});

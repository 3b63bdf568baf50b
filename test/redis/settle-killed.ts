import { lapseInRedis } from "../sdk/gate/support/lapse";
import { startRedis, type TestRedis } from "../sdk/gate/support/redis";
import { testKilledWhileSettling } from "../sdk/gate/support/settle-killed";

const TEN_MINUTES_MS = 600_000;

describe("a gate that is killed while it settles, with claims in Redis and clocks twenty minutes apart", function () {
  this.timeout(120_000);
  let redis: TestRedis;

  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.stop());

  testKilledWhileSettling({
    place: () => ({ kind: "redis", socket: redis.socket }),
    shiftsMs: [TEN_MINUTES_MS, -TEN_MINUTES_MS],
    lapse: () => lapseInRedis(redis.client),
  });
});

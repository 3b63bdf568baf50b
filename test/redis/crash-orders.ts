import { redisCells } from "../../sdk/src/gate/cells/redis";
import { timedByActs } from "../sdk/gate/support/claim-store";
import { testCrashOrders } from "../sdk/gate/support/crash-orders";
import { startRedis, type TestRedis } from "../sdk/gate/support/redis";

describe("a purchase whose gates die", () => {
  let redis: TestRedis;
  let places = 0;

  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.stop());

  const inRedis = () => {
    const options = { prefix: `crash ${places++}:`, lists: false };
    return { open: () => timedByActs(redisCells(redis.client, options)) };
  };
  testCrashOrders("in Redis", inRedis, 15);
});

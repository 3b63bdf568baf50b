import { cellsOn } from "../../sdk/src/gate/cells/cells";
import { redisCells } from "../../sdk/src/gate/cells/redis";
import { testCells } from "../sdk/gate/support/cells";
import { startRedis, type TestRedis } from "../sdk/gate/support/redis";

describe("cells in Redis", function () {
  this.timeout(120_000);
  let redis: TestRedis;
  let prefixes = 0;

  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.stop());

  testCells((again) => {
    if (!again) prefixes++;
    return cellsOn(redisCells(redis.client, { prefix: `{cells${prefixes}}:`, lists: true }), { what: "The store" });
  });
});

/** C14 HA23: answers written in any order, while the claims of their payments are in Redis. */
import { redisClaims } from "turnpike/gate/redis";
import type { Stores } from "../sdk/gate/support/answer-gates";
import { testGeneratedAnswers } from "../sdk/gate/support/generated-answers";
import { testGeneratedResponses } from "../sdk/gate/support/generated-responses";
import { startRedis, type TestRedis } from "../sdk/gate/support/redis";

let redis: TestRedis;
let spaces = 0;

before(async () => {
  redis = await startRedis();
});
after(() => redis.stop());

const STORES: Stores = { redis: () => redisClaims(redis.client, { prefix: `answers ${spaces++}:` }) };
testGeneratedAnswers("Redis", STORES);
testGeneratedResponses("Redis", STORES);

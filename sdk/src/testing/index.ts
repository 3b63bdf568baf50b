/** For the tests of applications that use Turnpike: a gate that grants without a chain, a clock, builders. */
export {
  createTestProvider,
  type ManualClock,
  manualClock,
  type TestProvider,
  type TestProviderOptions,
} from "./provider";
export type { TestChange, TestPlan, TestSubscription } from "./subscriptions";

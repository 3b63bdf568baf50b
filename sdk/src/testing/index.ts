/** For the tests of applications that use Turnpike: a gate that grants without a chain, a clock, builders. */
export type { ManualClock } from "./clock";
export { manualClock } from "./clock";
export type { TestProvider, TestProviderOptions } from "./provider";
export { createTestProvider } from "./provider";
export type { TestChange, TestPlan, TestSubscription } from "./subscriptions";

/** The pages that are loaded after the first view, together. */
export { Account } from "./account";
export { Acts } from "./acts";
export { Allowances } from "./allowances";
export { ChargePage } from "./charge";
export { DeliveryPage } from "./delivery";
export { Funnel } from "./funnel";
export { PayerPage } from "./payer";
export { Payers } from "./payers";
export { PaymentPage } from "./payment";
export { Payments } from "./payments";
export { PlanPage } from "./plan";
export { Plans } from "./plans";
export { SignIn } from "./sign-in";
export { SubscriptionPage } from "./subscription";
export { Subscriptions } from "./subscriptions";
export { System } from "./system";
export { Webhooks } from "./webhooks";

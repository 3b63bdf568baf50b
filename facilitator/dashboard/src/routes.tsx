/** Names the pages: those of the navigation, and those about one item of a list. */
import type { ComponentChildren } from "preact";
import { Account } from "./pages/account";
import { Acts } from "./pages/acts";
import { Allowances } from "./pages/allowances";
import { ChargePage } from "./pages/charge";
import { DeliveryPage } from "./pages/delivery";
import { Funnel } from "./pages/funnel";
import { Overview } from "./pages/overview";
import { PayerPage } from "./pages/payer";
import { Payers } from "./pages/payers";
import { PaymentPage } from "./pages/payment";
import { Payments } from "./pages/payments";
import { PlanPage } from "./pages/plan";
import { Plans } from "./pages/plans";
import { SubscriptionPage } from "./pages/subscription";
import { Subscriptions } from "./pages/subscriptions";
import { System } from "./pages/system";
import { Webhooks } from "./pages/webhooks";

export const PAGES = [
  { path: "/", title: "Overview", page: Overview },
  { path: "/account", title: "Account", page: Account },
  { path: "/payments", title: "Payments", page: Payments },
  { path: "/subscriptions", title: "Subscriptions", page: Subscriptions },
  { path: "/allowances", title: "Allowances", page: Allowances },
  { path: "/plans", title: "Plans", page: Plans },
  { path: "/payers", title: "Payers", page: Payers },
  { path: "/funnel", title: "Funnel", page: Funnel },
  { path: "/webhooks", title: "Webhooks", page: Webhooks },
  { path: "/acts", title: "Acts", page: Acts },
  { path: "/system", title: "System", page: System },
] as const;

interface Item {
  readonly form: RegExp;
  /** the page that lists it */
  readonly list: string;
  readonly title: string;
  page(first: string, second: string): ComponentChildren;
}

const ITEMS: readonly Item[] = [
  {
    form: /^\/payments\/(0x[0-9a-f]{64})$/,
    list: "/payments",
    title: "Payment",
    page: (id) => <PaymentPage key={id} id={id} />,
  },
  {
    form: /^\/charges\/(0x[0-9a-f]{64})$/,
    list: "/account",
    title: "Charge",
    page: (id) => <ChargePage key={id} id={id} />,
  },
  {
    form: /^\/subscriptions\/(0x[0-9a-f]{64})$/,
    list: "/subscriptions",
    title: "Subscription",
    page: (id) => <SubscriptionPage key={id} idHash={id} />,
  },
  {
    form: /^\/plans\/(0x[0-9a-f]{64})$/,
    list: "/plans",
    title: "Plan",
    page: (id) => <PlanPage key={id} planId={id} />,
  },
  {
    form: /^\/payers\/(0x[0-9a-fA-F]{40})$/,
    list: "/payers",
    title: "Payer",
    page: (payer) => <PayerPage key={payer} payer={payer} />,
  },
  {
    form: /^\/deliveries\/(we_[0-9a-f]{24})\/(0x[0-9a-f]{64})$/,
    list: "/webhooks",
    title: "Delivery",
    page: (endpoint, event) => <DeliveryPage key={`${endpoint} ${event}`} endpoint={endpoint} event={event} />,
  },
];

export interface Found {
  readonly title: string;
  /** of the page in the navigation */
  readonly list: string;
  /** absent for a page of the navigation */
  readonly item?: ComponentChildren;
}

export function pageAt(path: string): Found {
  for (const { form, list, title, page } of ITEMS) {
    const [, first, second = ""] = form.exec(path) ?? [];
    if (first !== undefined) return { title, list, item: page(first, second) };
  }
  return { title: PAGES.find((entry) => entry.path === path)?.title ?? "Not found", list: path };
}

const RECORDS =
  "The settlement comes from the chain; the rest of the story and its deliveries are the service's records.";

/** The source of a page's figures when it is not the chain alone; of an item's page with a slash at the end. */
export const SOURCES: Readonly<Record<string, string>> = {
  "/": "Figures are sums over events of the chain. Your gates report losses; the service records failed attempts and the time to settle.",
  "/account":
    "Movements come from the chain, each at the time of its block; memos and routes are the service's records.",
  "/account/": RECORDS,
  "/payments/": RECORDS,
  "/subscriptions/": "Status and charges come from the chain; warnings and failed attempts are the service's records.",
  "/payers/":
    "The total and the charges of subscriptions are sums over events of the chain; pending and failed payments are the service's records.",
  "/payments": "Settled payments come from the chain; pending and failed payments are the service's records.",
  "/funnel":
    "Your gates report what was asked, paid and served; the service records signed payments and why a renewal failed. Settlements and uncharged periods can be derived again from the chain.",
  "/webhooks": "Deliveries and their responses are the service's records.",
  "/webhooks/": "Deliveries and their responses are the service's records.",
  "/system": "The service reports its own state; costs and volume can be derived again from the chain.",
};

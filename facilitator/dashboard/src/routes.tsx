/** Names the pages: those of the navigation, and those about one item of a list. */
import type { ComponentChildren, FunctionComponent } from "preact";
import { later } from "./later";
import { Overview } from "./pages/overview";

const others = () => import("./pages");

/** The other pages come once the first one is there. */
setTimeout(() => void others().catch(() => undefined), 2_000);

const other = <P extends object>(of: (all: Awaited<ReturnType<typeof others>>) => FunctionComponent<P>) =>
  later(async () => of(await others()));

export const SignIn = other((all) => all.SignIn);
const Acts = other((all) => all.Acts);
const ChargePage = other((all) => all.ChargePage);
const DeliveryPage = other((all) => all.DeliveryPage);
const PayerPage = other((all) => all.PayerPage);
const PaymentPage = other((all) => all.PaymentPage);
const PlanPage = other((all) => all.PlanPage);
const SubscriptionPage = other((all) => all.SubscriptionPage);

export const PAGES = [
  { path: "/", title: "Overview", page: Overview },
  { path: "/account", title: "Ledger", page: other((all) => all.Account) },
  { path: "/payments", title: "Payments", page: other((all) => all.Payments) },
  { path: "/subscriptions", title: "Subscriptions", page: other((all) => all.Subscriptions) },
  { path: "/allowances", title: "Allowances", page: other((all) => all.Allowances) },
  { path: "/plans", title: "Plans", page: other((all) => all.Plans) },
  { path: "/payers", title: "Payers", page: other((all) => all.Payers) },
  { path: "/funnel", title: "Conversion", page: other((all) => all.Funnel) },
  { path: "/webhooks", title: "Webhooks", page: other((all) => all.Webhooks) },
  { path: "/acts", title: "Actions", page: Acts },
  { path: "/system", title: "System", page: other((all) => all.System) },
] as const;

interface Item {
  readonly form: RegExp;
  /** the page that lists it */
  readonly list: string;
  /** what that page lists */
  readonly all: string;
  readonly title: string;
  page(first: string, second: string): ComponentChildren;
}

const HASH = "(0x[0-9a-f]{64})";

const item = (form: string, list: string, all: string, title: string, page: Item["page"]): Item => ({
  form: new RegExp(`^${form}$`),
  list,
  all,
  title,
  page,
});

const ITEMS: readonly Item[] = [
  item(`/payments/${HASH}`, "/payments", "payments", "Payment", (id) => <PaymentPage key={id} id={id} />),
  item(`/charges/${HASH}`, "/account", "movements", "Charge", (id) => <ChargePage key={id} id={id} />),
  item(`/subscriptions/${HASH}`, "/subscriptions", "subscriptions", "Subscription", (id) => (
    <SubscriptionPage key={id} idHash={id} />
  )),
  item(`/plans/${HASH}`, "/plans", "plans", "Plan", (id) => <PlanPage key={id} planId={id} />),
  item("/payers/(0x[0-9a-fA-F]{40})", "/payers", "payers", "Payer", (payer) => <PayerPage key={payer} payer={payer} />),
  item(`/deliveries/(we_[0-9a-f]{24})/${HASH}`, "/webhooks", "deliveries", "Delivery", (endpoint, event) => (
    <DeliveryPage key={`${endpoint} ${event}`} endpoint={endpoint} event={event} />
  )),
  item("/acts/([a-z-]+)", "/acts", "actions", "Action", (act) => <Acts key={act} act={act} />),
];

export interface Found {
  readonly title: string;
  /** of the page in the navigation */
  readonly list: string;
  /** what an item's page leads back to */
  readonly all?: string;
  /** absent where there is no such page */
  readonly content?: ComponentChildren;
}

export function pageAt(path: string): Found {
  for (const { form, page, ...rest } of ITEMS) {
    const [, first, second = ""] = form.exec(path) ?? [];
    if (first !== undefined) return { ...rest, content: page(first, second) };
  }
  const known = PAGES.find((entry) => entry.path === path);
  return known ? { title: known.title, list: path, content: <known.page /> } : { title: "Not found", list: path };
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
  "/system": "The service reports its own state; costs and volume can be derived again from the chain.",
};

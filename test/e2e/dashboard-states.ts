import { expect } from "chai";
import type { Page, Route } from "playwright-core";
import { providerKey } from "../../scripts/sandbox/inbox";
import { failuresOf } from "./support/axe";
import { figure, PAGES, tooWide, useDashboard, visit } from "./support/dashboard";

/** What each page shows a provider without any payment. */
const EMPTY: Readonly<Record<keyof typeof PAGES, RegExp>> = {
  "/": /Nothing was paid in this range/,
  "/account": /No money moved in this time.*No movement in this time/s,
  "/payments": /No payment yet\..*A payment for one of your gated routes/s,
  "/subscriptions": /Nobody subscribes yet\..*subscribe\(\)/s,
  "/allowances": /Nobody allows overage yet\..*maxOverage/s,
  "/plans": /No plan yet\..*createPlan/s,
  "/payers": /Nobody paid yet/,
  "/funnel":
    /Your gates reported nothing in this range.*TURNPIKE_REPORTS_KEY.*Asked for–.*Lost–.*No data: no gate reports.*No renewal fell due/s,
  "/webhooks": /No endpoint yet\..*webhook-endpoints/s,
  "/acts": /Create a plan.*Make an API key/s,
  "/system": /Health.*ready/s,
};

/** The list of acts is the same for all. */
const isWithoutData = (address: string): boolean => address === "/acts";

/** What a page requests after sign-in. */
const isData = ({ pathname }: URL): boolean =>
  /^\/(analytics|operator|subscriptions|webhook-endpoints)\b/.test(pathname);

describe("dashboard, without data", function () {
  this.timeout(300_000);
  let key = "";
  const at = useDashboard(async (world) => {
    key = await providerKey(world.facilitator.url, await world.chain.wallet("a provider without anything"));
  });
  const answer = async (page: Page, how: (route: Route) => Promise<void>, act: () => Promise<void>): Promise<void> => {
    await page.route(isData, how);
    await act();
    await page.unroute(isData);
  };
  const main = (page: Page) => page.getByRole("main");

  it("states on every page what is missing and how to add it, accessibly", async () => {
    const { page } = at;
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.fill("input[name=key]", key);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    for (const [address, said] of Object.entries(EMPTY)) {
      await visit(page, address);
      expect(await main(page).textContent(), address).to.match(said);
      expect(await page.getByRole("alert").count(), address).to.equal(0);
      expect(await failuresOf(page), address).to.deep.equal([]);
    }
  });

  it("lists the first steps of an empty account, ticks what is done, and keeps them hidden once they are", async () => {
    const { page, world } = at;
    const list = page.locator("section.panel").filter({ has: page.getByRole("heading", { name: "First steps" }) });
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    await page.evaluate((own) => sessionStorage.setItem("turnpike-key", own), key);
    await page.reload();
    for (const width of [390, 1440]) {
      await page.setViewportSize({ width, height: 844 });
      await visit(page, "/");
      await list.getByText("0 of 4 done").waitFor();
      expect(await tooWide(page)).to.deep.equal([]);
    }
    await list.getByText(`facilitator: { url: "${world.facilitator.url}" }`).waitFor();
    await list.getByRole("button", { name: "Copy the gate's code" }).click();
    await list.getByRole("link", { name: "Create a plan by your wallet" }).click();
    await page.getByRole("heading", { level: 1, name: "Create a plan" }).waitFor();
    await visit(page, "/");
    await list.getByRole("link", { name: "Add an endpoint" }).click();
    await page.getByRole("form", { name: "New endpoint" }).waitFor();
    const body = JSON.stringify({ url: "http://127.0.0.1:9/hook" });
    const made = await fetch(`${world.facilitator.url}/webhook-endpoints`, { method: "POST", headers, body });
    const { id } = (await made.json()) as { id: string };
    await visit(page, "/");
    await list.getByText("1 of 4 done").waitFor();
    await list.getByRole("listitem").filter({ hasText: "Add a webhook done" }).waitFor();
    await fetch(`${world.facilitator.url}/webhook-endpoints/${id}`, { method: "DELETE", headers });
    await list.getByRole("button", { name: "Hide" }).click();
    await page.reload();
    await figure(page, "Gross").waitFor();
    expect(await list.count()).to.equal(0);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  const failures = [
    [403, "This key may not see this"],
    [404, "Not found"],
    [429, "Too many requests"],
    [503, "The Facilitator cannot answer now"],
  ] as const;
  for (const [status, title] of failures) {
    it(`names a ${status} and its request, and tries again when asked to`, async () => {
      const { page } = at;
      const requestId = "5f0c8a52-6a0e-4a3c-9d39-0123456789ab";
      const refuse = (route: Route) =>
        route.fulfill({
          status,
          headers: { "x-request-id": requestId },
          json: { code: "Refused", message: "Not now." },
        });
      const alert = main(page).getByRole("alert").filter({ hasText: title });
      await page.setViewportSize({ width: 390, height: 844 });
      await answer(page, refuse, async () => {
        await visit(page, "/payers");
        await alert.filter({ hasText: "Not now. Refused" }).waitFor();
        await alert.locator(`[title="${requestId}"]`).waitFor();
        await alert.getByRole("button", { name: "Sign out" }).waitFor();
        expect(await failuresOf(page)).to.deep.equal([]);
        expect(await tooWide(page)).to.deep.equal([]);
      });
      await alert.getByRole("button", { name: "Try again" }).click();
      await alert.waitFor({ state: "detached" });
      await visit(page, "/payments");
      await page.setViewportSize({ width: 1280, height: 800 });
    });
  }

  it("says that the browser is offline, and goes on once it is not", async () => {
    const { page } = at;
    await page.context().setOffline(true);
    await visit(page, "/plans");
    const alert = main(page).getByRole("alert").filter({ hasText: "You are offline" });
    await alert.waitFor();
    await page.context().setOffline(false);
    await alert.getByRole("button", { name: "Try again" }).click();
    await alert.waitFor({ state: "detached" });
    await page.getByText("No plan yet.").waitFor();
  });

  it("says which part of the page did not load, and loads the page again", async () => {
    const { page } = at;
    await page.route("**/pages-*.js", (route) => route.abort());
    await page.reload();
    await visit(page, "/acts");
    const alert = main(page).getByRole("alert").filter({ hasText: "A part of this page did not load" });
    await alert.waitFor();
    expect(await failuresOf(page)).to.deep.equal([]);
    await page.unroute("**/pages-*.js");
    await alert.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("link", { name: "Create a plan" }).waitFor();
  });

  it("shows on every page that it is loading, on screen and to screen readers, until the response arrives", async () => {
    const { page } = at;
    for (const [address, title] of Object.entries(PAGES)) {
      if (isWithoutData(address)) continue;
      let release: () => void = () => undefined;
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      const hold = async (route: Route): Promise<void> => {
        await held;
        // The page may have sent another request meanwhile.
        await route.continue().catch(() => undefined);
      };
      await page.evaluate(() => {
        location.hash = "/nowhere";
      });
      await page.getByText("There is no such page.").waitFor();
      await answer(page, hold, async () => {
        await page.evaluate((to) => {
          location.hash = to;
        }, address);
        await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
        await main(page).getByRole("status").filter({ hasText: "Loading…" }).first().waitFor();
        release();
        await page.waitForFunction(() => document.querySelector("main .loading") === null);
      });
      expect(await page.getByRole("alert").count(), address).to.equal(0);
    }
  });

  it("shows on every page what failed and its code, and keeps the navigation", async () => {
    const { page } = at;
    const refuse = (route: Route) =>
      route.fulfill({ status: 503, json: { code: "Unavailable", message: "The database is away." } });
    await answer(page, refuse, async () => {
      for (const address of Object.keys(PAGES)) {
        if (isWithoutData(address)) continue;
        await visit(page, address);
        const alert = main(page).getByRole("alert").filter({ hasText: "The database is away." }).first();
        await alert.filter({ hasText: "Unavailable" }).waitFor();
        expect(await page.getByRole("navigation", { name: "Pages" }).getByRole("link").count()).to.equal(
          Object.keys(PAGES).length,
        );
      }
      expect(await failuresOf(page)).to.deep.equal([]);
    });
  });

  it("shows an error when there is no response", async () => {
    const { page } = at;
    await answer(
      page,
      (route) => route.abort(),
      async () => {
        for (const address of ["/payments", "/webhooks"]) {
          await visit(page, address);
          await main(page).getByRole("alert").filter({ hasText: "does not answer" }).first().waitFor();
        }
      },
    );
  });

  it("HF7 shows once on every page how far the figures are behind the chain, and does not show itself as live", async () => {
    const { page } = at;
    const late = { name: "indexer", ok: false, detail: "applied 10, 20 blocks behind the head, 200 s late" };
    await page.route("**/analytics/system", (route) => route.fulfill({ json: { ready: false, checks: [late] } }));
    for (const address of Object.keys(PAGES)) {
      await visit(page, address);
      await main(page).getByRole("alert").filter({ hasText: "200 s behind" }).waitFor();
      expect(await page.getByRole("alert").count(), address).to.equal(1);
      await page.getByText("not up to date", { exact: true }).waitFor();
    }
    await page.unroute("**/analytics/system");
    await page.getByText("live", { exact: true }).waitFor();
    expect(await page.getByRole("alert").count()).to.equal(0);
  });

  it("HF8 adds up every purpose of the costs, in the table and in the chart, at every width", async () => {
    const { page, world } = at;
    const names = ["settle", "renew", "subscribe", "debit", "resume", "change-plan", "cancel", "approve-by-signature"];
    const cost = (purpose: string) => ({ purpose, transactions: 3, items: 2, gas: "1", wei: "1" });
    const now = Math.floor(Date.now() / 86_400_000) * 86_400;
    const json = {
      from: now - 6 * 86_400,
      to: now + 86_400,
      purposes: names.map((name) => ({ ...cost(name), failed: 1, gasPerItem: 98_765, weiPerItem: "123456789012" })),
      points: names.map((name) => ({ at: now, ...cost(name) })),
    };
    await page.route("**/operator/costs?*", (route) => route.fulfill({ json }));
    await page.evaluate((sandboxKey) => sessionStorage.setItem("turnpike-key", sandboxKey), world.providerKey ?? "");
    await page.reload();
    await visit(page, "/system?days=7");
    await page.getByRole("table", { name: "Costs by purpose" }).locator("tfoot").filter({ hasText: "24" }).waitFor();
    await page.getByText("Values as a table").click();
    const values = page.getByRole("table", { name: /^Transactions/ });
    await values.getByRole("columnheader", { name: "others" }).waitFor();
    const cells = await values.getByRole("cell").allTextContents();
    expect(cells.reduce((sum, text) => sum + Number(text), 0)).to.equal(24);
    for (const width of [375, 390]) {
      await page.setViewportSize({ width, height: 844 });
      const wide = await page
        .locator(".scroll")
        .evaluateAll((all) =>
          all.flatMap((one) => (one.scrollWidth > one.clientWidth ? [one.getAttribute("aria-label")] : [])),
        );
      expect(wide, String(width)).to.deep.equal([]);
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.unrouteAll();
    await page.evaluate((own) => sessionStorage.setItem("turnpike-key", own), key);
    await page.reload();
    await visit(page, "/payments");
  });

  it("HF9 keeps a page within the screen's width for a long plan name", async () => {
    const { page } = at;
    const plan = {
      planId: `0x${"1".repeat(64)}`,
      metadata: JSON.stringify({ name: "W".repeat(80) }),
      price: "7",
      interval: 86_400,
      deprecated: false,
      active: 1,
      recurring: "0",
      count: 0,
      amount: "0",
      refunds: { count: 0, amount: "0" },
      net: "0",
      byScheme: {},
    };
    await page.route("**/analytics/plans?*", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), plans: [plan] } });
    });
    await page.reload();
    for (const width of [375, 390, 768, 1280]) {
      await page.setViewportSize({ width, height: 844 });
      for (const address of ["/subscriptions", "/allowances"]) {
        await visit(page, address);
        await page.getByLabel("Plan").locator("option", { hasText: "WWW" }).waitFor({ state: "attached" });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        expect(wide, `${address} at ${width}`).to.be.at.most(width);
      }
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.unrouteAll();
    await page.reload();
    await visit(page, "/payments");
  });

  it("shows that a subscription does not exist", async () => {
    const { page } = at;
    await visit(page, `/subscriptions/0x${"0".repeat(64)}`);
    await main(page).getByRole("alert").first().waitFor();
    await page.getByText("No event of this subscription yet.").waitFor();
  });

  it("requests the amounts of the selected token where the service settles several", async () => {
    const { page } = at;
    const other = `0x${"b".repeat(40)}`;
    await page.route("**/supported", async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as { tokens: object[] };
      await route.fulfill({
        response,
        json: { ...body, tokens: [...body.tokens, { ...body.tokens[0], address: other, name: "Euro" }] },
      });
    });
    await page.reload();
    await visit(page, "/funnel");
    const asked = page.waitForRequest(
      (request) => request.url().includes("/analytics/funnel?") && request.url().includes(other),
    );
    await page.getByLabel("Token").selectOption({ label: "Euro" });
    await asked;
    await page.unroute("**/supported");
    await page.reload();
    await visit(page, "/payments");
  });

  it("names plans paid in any token", async () => {
    const { page } = at;
    const other = `0x${"b".repeat(40)}`;
    const plan = {
      planId: `0x${"1".repeat(64)}`,
      metadata: JSON.stringify({ name: "In euros" }),
      price: "7",
      interval: 86_400,
      period: { unit: "second", count: 86_400 },
      payTo: `0x${"d".repeat(40)}`,
      deprecated: false,
      active: 1,
      recurring: "0",
      count: 0,
      amount: "0",
      refunds: { count: 0, amount: "0" },
      net: "0",
      byScheme: {},
    };
    await page.route("**/supported", async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as { tokens: object[] };
      const euro = { ...body.tokens[0], address: other, name: "Euro", decimals: 0 };
      await route.fulfill({ response, json: { ...body, tokens: [...body.tokens, euro] } });
    });
    const isEuros = ({ pathname, searchParams }: URL) =>
      pathname === "/analytics/plans" && searchParams.get("token") === other;
    await page.route(isEuros, (route) =>
      route.fulfill({ json: { token: other, decimals: 0, from: 0, to: 86_400, plans: [plan] } }),
    );
    await page.reload();
    await visit(page, "/subscriptions");
    await page.getByLabel("Plan").selectOption({ label: "In euros" });
    await visit(page, `/plans?token=${other}`);
    // A token without decimals, and not a dollar.
    await page
      .getByRole("row", { name: /In euros/ })
      .getByText("7 Euro / 1 day")
      .waitFor();
    await page.unrouteAll();
    await page.reload();
    await visit(page, "/payments");
  });

  it("shows what renewals failed to collect, and shows a hundred attempts as one entry of the history", async () => {
    const { page } = at;
    const idHash = `0x${"5".repeat(64)}`;
    const token = `0x${"c".repeat(40)}`;
    const [none, one] = [
      { count: 0, amount: "0" },
      { count: 1, amount: "9000000" },
    ];
    await page.route("**/analytics/failed-renewals?*", (route) =>
      route.fulfill({
        json: {
          token,
          decimals: 6,
          from: 0,
          to: 86_400,
          lost: one,
          open: none,
          recovered: none,
          causes: [{ cause: "InsufficientFunds", lost: one, open: none, recovered: none }],
        },
      }),
    );
    await visit(page, "/funnel");
    const row = page.getByRole("row").filter({ hasText: "InsufficientFunds" });
    await row.filter({ hasText: "account is empty" }).filter({ hasText: "9.00 (1)" }).waitFor();
    await visit(page, "/");
    await page.getByText(/Not charged when due: .*9\.00 lost\./).waitFor();

    const happened = (type: string, sequence: number, data: object = {}) => ({
      id: `${type} ${sequence}`,
      type: `subscription.${type}`,
      occurredAt: 86_400 * sequence,
      subject: idHash,
      sequence,
      reverted: false,
      data,
    });
    const story = [
      happened("created", 1, { charged: "9000000" }),
      ...Array.from({ length: 250 }, (_, index) =>
        happened("renewal_failed", index + 2, { reason: "InsufficientFunds", nextAttemptAt: 86_400 * 300 }),
      ),
      happened("expired", 252),
    ];
    // The newest are in the second page.
    await page.route("**/events?*", (route) => {
      const from = Number(new URL(route.request().url()).searchParams.get("cursor") ?? 0);
      return route.fulfill({ json: { events: story.slice(from, from + 200), next: String(from + 200) } });
    });
    await visit(page, `/subscriptions/${idHash}`);
    const moments = page.locator(".timeline > li");
    await moments.filter({ hasText: "expired" }).waitFor();
    expect(await moments.count()).to.equal(3);
    await moments.filter({ hasText: "250 attempts" }).getByText("Each attempt").click();
    await page.getByText("2 Jan 1970 00:00").first().waitFor();
    await page.unrouteAll();
    await visit(page, "/payments");
  });

  it("asks to sign in again when the key has expired", async () => {
    const { page, errors } = at;
    await visit(page, "/payments");
    const end = (route: Route) =>
      route.fulfill({ status: 401, json: { code: "InvalidApiKey", message: "This key has ended." } });
    await answer(page, end, async () => {
      await page.evaluate(() => {
        location.hash = "/payers";
      });
      await page.getByText("Sign in as a provider").waitFor();
      await page.getByRole("alert").filter({ hasText: "You were signed out: the key is" }).waitFor();
    });
    expect(await page.evaluate(() => sessionStorage.length)).to.equal(0);
    expect(errors).to.deep.equal([]);
  });
});

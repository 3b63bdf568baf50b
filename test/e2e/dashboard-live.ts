import { expect } from "chai";
import { buyQuote, readReport } from "../../examples/agent";
import { inboxPage, PAGE_HEADERS } from "../../scripts/sandbox/inbox-page";
import { openPage } from "../support/browser";
import { INTERVAL_SEC, recordOf, until } from "../support/sandbox";
import { failuresOf } from "./support/axe";
import { figure, useDashboard, visit } from "./support/dashboard";

describe("dashboard, live", function () {
  this.timeout(300_000);
  let idHash: string;
  const at = useDashboard(async (world) => {
    const { agent } = await world.agent("a reader who stays");
    await readReport(agent, world.provider.url, world.plans.reader);
    idHash = (await agent.list())[0]?.idHash ?? "";
  });

  it("shows new activity without a reload", async () => {
    const { page, world } = at;
    await visit(page, "/payments");
    await page.getByText("No payment yet.").waitFor();
    const { agent } = await world.agent("dashboard's second reader");
    await buyQuote(agent, world.provider.url, "XYZ");
    await page.getByRole("row").filter({ hasText: "$0.50" }).filter({ hasText: "settled" }).waitFor();
  });

  it("shows a gate's report without activity on the chain", async () => {
    const { page, world } = at;
    await world.provider.flush();
    await visit(page, "/funnel");
    const before = Number.parseInt((await figure(page, "Asked for").locator(".note").textContent()) ?? "0", 10);
    for (let asked = 0; asked < 2; asked++) await fetch(`${world.provider.url}/quote`);
    await world.provider.flush();
    await figure(page, "Asked for")
      .getByText(`${before + 2} prices quoted`)
      .waitFor();
  });

  it("shows the inbox in a browser: each webhook with its signature check, and none of its content executes", async () => {
    const { world, browser } = at;
    const inbox = world.inbox?.url ?? "";
    const { page, errors } = await openPage(browser);
    await until("the subscription's webhook", async () => {
      await page.goto(inbox);
      return (await page.getByText("subscription.created").count()) > 0;
    });
    await page
      .getByRole("listitem")
      .filter({ hasText: "subscription.created" })
      .getByText("verified")
      .first()
      .waitFor();
    expect(await failuresOf(page)).to.deep.equal([]);
    const evil = `<img src=x onerror="document.title='owned'">`;
    const html = inboxPage([{ id: evil, type: evil, occurredAt: 0, isVerified: false, body: evil }]);
    expect(html).not.to.include("<img");
    expect(PAGE_HEADERS["content-security-policy"]).to.match(/^default-src 'none'; style-src 'sha256-/);
    expect(errors).to.deep.equal([]);
  });

  it("moves the sandbox's clock to the next renewal, and reports the result", async () => {
    const { page, world } = at;
    await visit(page, "/subscriptions");
    const before = await recordOf(world, idHash);
    const clock = page.getByRole("region", { name: "Sandbox clock" });
    await clock.getByText(/next renewal in/).waitFor();
    // The page System shows the same time.
    await clock.getByText(/next renewal in .+, \d+ \w+ \d{4} \d\d:\d\d/).waitFor();
    await clock.getByRole("button", { name: "To the next renewal" }).click();
    await clock.getByText(/1 renewal/).waitFor();
    await clock.getByRole("button", { name: "+1 day", disabled: false }).waitFor();
    const after = await recordOf(world, idHash);
    expect(after.paidThroughSec).to.equal(before.paidThroughSec + INTERVAL_SEC);
    await visit(page, "/?days=90");
    await figure(page, "Renewals collected").locator("strong", { hasText: "100 %" }).waitFor();
    await figure(page, "Gross").locator("strong", { hasText: "$20.50" }).waitFor();
    await clock.getByRole("button", { name: "+1 day" }).click();
    await clock.getByText("Nothing was due.").waitFor();
  });

  it("keeps and marks the old figures while the Facilitator is unreachable, and recovers without a reload", async () => {
    const { page, world } = at;
    await visit(page, "/?days=90");
    await world.facilitator.stop();
    await page.getByText("reconnecting").waitFor();
    expect(await figure(page, "Gross").locator("strong").textContent()).to.equal("$20.50");
    // Requests another range, which gets no response.
    await page.getByLabel("Range").selectOption("7");
    await page.getByRole("alert").filter({ hasText: "does not answer" }).first().waitFor();
    await world.facilitator.start();
    await page.getByText("live", { exact: true }).waitFor();
    await figure(page, "Gross").waitFor();
    await page.getByRole("alert").first().waitFor({ state: "detached" });
  });
});

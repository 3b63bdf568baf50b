/** What a provider does with the dashboard day by day: finds a payment, reads it, sends a webhook again, exports a month. */
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import type { Page } from "playwright-core";
import { createPlan } from "turnpike/chain";
import { createFacilitatorClient, type PaymentStoryWire, submitRefund } from "turnpike/facilitator";
import { type Address, type Hex, mutableTypes, type TypedData } from "turnpike/protocol";
import { buyQuote, readReport } from "../../examples/agent";
import { type TestAgent, UNIT, until, type World } from "../support/sandbox";
import { check, PAGES, titled, tooWide, useDashboard, visit, wide } from "./support/dashboard";

const WIDTHS = [390, 1440] as const;
const HOSTILE = `=1+1"><img src=x onerror="document.title='owned'">\u202e`;
const MORE_WIDTHS = [320, 360, 390, 600, 768, 1024, 1440, 1920];

describe("dashboard: find and read", function () {
  this.timeout(600_000);
  let ada: TestAgent;
  let story: PaymentStoryWire;
  let receiver: Server;
  let status = 204;
  let hook = "";

  const at = useDashboard(async (world) => {
    ada = await world.agent("who is looked for");
    const { receipt } = await buyQuote(ada.agent, world.provider.url, "ABC");
    const paymentId = receipt?.paymentId as Hex;
    await refund(world, paymentId, ada.address as Address);
    await readReport(ada.agent, world.provider.url, world.plans.reader);
    await createPlan(world.providerAccount, world.contracts.turnpike, {
      token: world.contracts.token,
      amount: UNIT,
      intervalSec: 86_400,
      graceSec: 3_600,
      metadata: JSON.stringify({ name: HOSTILE }),
    });
    story = (await ask(world, `/analytics/payments/${paymentId}`)) as PaymentStoryWire;
    receiver = createServer((request, response) => request.on("end", () => response.writeHead(status).end()).resume());
    await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
    hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
    await ask(world, "/webhook-endpoints", { url: hook, description: `books ${HOSTILE}`, types: ["payment.settled"] });
  });
  after(() => {
    receiver?.close();
    receiver?.closeAllConnections();
  });

  async function ask(world: World, path: string, body?: unknown): Promise<unknown> {
    const headers = { authorization: `Bearer ${world.providerKey}`, "content-type": "application/json" };
    const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
    const answer = await fetch(world.facilitator.url + path, init);
    expect(answer.ok, path).to.equal(true);
    return answer.json();
  }

  async function refund({ facilitator, contracts, providerAccount }: World, paymentId: Hex, payer: Address) {
    const outcome = await submitRefund(createFacilitatorClient({ url: facilitator.url }), {
      target: { type: "payment", paymentId },
      amount: UNIT / 5n,
      token: contracts.token,
      payer,
      account: providerAccount.address as Address,
      deployment: contracts,
      sign: async ({ domain, types, message }: TypedData) =>
        (await providerAccount.signTypedData({ ...domain }, mutableTypes(types), { ...message })) as Hex,
    });
    expect(outcome.kind).to.equal("settled");
  }

  const rows = (page: Page, name: string | RegExp) => page.getByRole("table", { name }).getByRole("row");
  const option = (page: Page) => page.getByRole("dialog").getByRole("option");
  const field = (page: Page) => page.getByRole("dialog").getByRole("combobox");
  const title = (page: Page, name: string) =>
    page.getByRole("heading", { level: 1, name: new RegExp(`^${name}( |$)`) }).waitFor();
  const fact = (page: Page, name: string) =>
    page.locator(".rows > div").filter({ has: page.locator("dt", { hasText: new RegExp(`^${name}$`) }) });

  for (const width of WIDTHS) {
    it(`job 5: finds a payment by hash, memo, payer and id by keyboard alone, ${width} wide`, async () => {
      const { page } = at;
      await wide(page, width);
      const { id, transaction = "", memo = "", payer } = story;
      expect(memo, "the gate's quote names one").not.to.equal("");
      for (const [text, heading] of [
        [transaction, "Payment"],
        [memo, "Payment"],
        [id, "Payment"],
        [payer, `Payer ${payer.slice(0, 8)}…${payer.slice(-4)}`],
      ] as const) {
        await visit(page, "/");
        await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
        await page.keyboard.press("/");
        await field(page).waitFor();
        await page.keyboard.insertText(text);
        await option(page).first().waitFor();
        await page.keyboard.press("ArrowDown");
        await page.keyboard.press("ArrowUp");
        await option(page).and(page.locator("[aria-selected=true]")).waitFor();
        await page.keyboard.press("Enter");
        await title(page, heading);
        await page.getByRole("dialog").waitFor({ state: "hidden" });
        if (heading === "Payment") await fact(page, "Payment").filter({ hasText: id }).waitFor();
      }
      expect(page.url()).to.include(`#/payers/${payer}`);
    });

    it(`searches as it should: escapes, says that nothing was found, and shows strangers' text as text, ${width} wide`, async () => {
      const { page } = at;
      await wide(page, width);
      await visit(page, "/payments");
      // A key in a field is a letter.
      await page.getByLabel("Route").focus();
      await page.keyboard.press("/");
      expect(await page.getByRole("dialog").count()).to.equal(0);
      await page.getByLabel("Route").fill("");
      await page.getByRole("button", { name: /^Search/ }).click();
      await field(page).fill("nothing like this");
      await page.getByText("Nothing of yours has this name.").waitFor();
      await check(page, "a search without a hit");
      await field(page).fill("=1+1");
      await option(page).filter({ hasText: "plan" }).filter({ hasText: "<img src=x" }).waitFor();
      await field(page).fill("books");
      await option(page).filter({ hasText: "endpoint" }).filter({ hasText: "\\u202e" }).waitFor();
      await check(page, "a search with a hit");
      expect(await page.locator("dialog img").count()).to.equal(0);
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "hidden" });
      await titled(page, "Payments · Turnpike");
    });

    it(`shows a payment's story to the second, with its partial refund, and copies what it names, ${width} wide`, async () => {
      const { page, world } = at;
      await wide(page, width);
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: world.facilitator.url });
      await visit(page, `/payments/${story.id}`);
      await fact(page, "Amount")
        .filter({ hasText: /\$0\.50, partly refunded \$0\.20 refunded, \$0\.30 kept/ })
        .waitFor();
      for (const name of ["Resource", "Memo", "Nonce", "Valid until", "Transaction", "Block", "Proof"])
        await fact(page, name).waitFor();
      await rows(page, "Refunds").filter({ hasText: "$0.20" }).filter({ hasText: "settled" }).waitFor();
      const moments = page.locator(".timeline li");
      expect(await moments.first().textContent()).to.match(/\d\d:\d\d:\d\daccepted/);
      await moments.filter({ hasText: "refunded" }).waitFor();
      await rows(page, "Webhooks").filter({ hasText: "payment.settled" }).first().waitFor();
      await page.getByRole("button", { name: "Copy the transaction" }).click();
      await page.getByRole("button", { name: "Copied the transaction" }).waitFor();
      expect(await page.evaluate(() => navigator.clipboard.readText())).to.equal(story.transaction);
      expect(await page.getByRole("link", { name: /block explorer/ }).count(), "of a local chain").to.equal(0);
      await check(page, "Payment");
    });

    it(`job 11: shows a delivery's payload and answers, and sends it again, ${width} wide`, async () => {
      const { page, world } = at;
      await wide(page, width);
      status = 500;
      const { receipt } = await buyQuote(ada.agent, world.provider.url, `S${width}`);
      await visit(page, `/payments/${receipt?.paymentId}`);
      const sent = rows(page, "Webhooks").filter({ hasText: "payment.settled" });
      await until("a delivery that failed once", async () => {
        for (const row of await sent.all())
          if (await row.filter({ hasText: "pending" }).count()) {
            await row.getByRole("link").click();
            return true;
          }
        return false;
      });
      await title(page, "Delivery");
      await rows(page, "Attempts").filter({ hasText: "HTTP 500" }).first().waitFor();
      await page.locator("pre", { hasText: `"paymentId": "${receipt?.paymentId}"` }).waitFor();
      status = 204;
      await page.getByRole("button", { name: "Send again" }).click();
      await rows(page, "Attempts").filter({ hasText: "HTTP 204" }).waitFor();
      await fact(page, "State").filter({ hasText: "delivered" }).waitFor();
      await check(page, "Delivery");
    });

    it(`job 12: exports a month for the accountant: the file has the rows and the sums of the statement, ${width} wide`, async () => {
      const { page } = at;
      await wide(page, width);
      const [year, month] = new Date((story.settledAt ?? 0) * 1_000)
        .toLocaleDateString("en-CA", { timeZone: "Europe/Berlin" })
        .split("-");
      await visit(page, `/account?zone=Europe%2FBerlin&month=${year}-${month}`);
      const statement = page.getByRole("table", { name: /^Totals/ });
      await statement.waitFor();
      const net = (await statement.locator("tfoot td").last().textContent()) ?? "";
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Save CSV" }).click(),
      ]);
      expect(download.suggestedFilename()).to.match(/^turnpike-ledger-20\d\d-\d\d\.csv$/);
      const [header = "", ...lines] = readFileSync(await download.path(), "utf8")
        .trim()
        .split("\r\n");
      expect(header).to.equal("date,id,kind,gross,refunded,net,token,decimals,payer,plan,route,memo,transaction");
      const cells = lines.map((line) => line.split(","));
      expect(cells[0]?.[0]).to.match(/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+0[12]:00$/);
      const cents = cells.reduce((sum, cell) => sum + Math.round(Number(cell[5]) * 100), 0);
      expect(`$${(cents / 100).toFixed(2)}`).to.equal(net);
      expect(cells.map((cell) => cell[2])).to.include.members(["one-time", "signup", "refund"]);
      await page.getByLabel("Kind").selectOption("refund");
      await rows(page, "Movements").filter({ hasText: "−$0.20" }).waitFor();
      expect(page.url()).to.include("kind=refund");
      await page.getByLabel("Kind").selectOption("");
      await page.getByRole("button", { name: "Net" }).click();
      await page
        .getByRole("columnheader", { name: "Net", exact: false })
        .and(page.locator("[aria-sort=descending]"))
        .waitFor();
      await rows(page, "Movements").nth(1).filter({ hasText: "$10.00" }).waitFor();
      await check(page, "Ledger");
      await page.emulateMedia({ media: "print" });
      const printed = async (what: string): Promise<boolean> => page.locator(what).first().isVisible();
      const onPaper = await Promise.all(["nav", ".controls", "h1", "tfoot td", "thead .sorter"].map(printed));
      await page.emulateMedia({ media: "screen" });
      expect(onPaper).to.deep.equal([false, false, true, true, true]);
    });
  }

  it("says why a payment is stuck, and what helps, while it waits, when it settles and when its time is over", async () => {
    const { page, world } = at;
    const why = page.getByRole("region", { name: "Why it is not settled" });
    for (const [width, isSettling] of [
      [1440, true],
      [390, false],
    ] as const) {
      await wide(page, width);
      await world.chain.mineEvery(0);
      const bought = buyQuote(ada.agent, world.provider.url, `T${width}`).catch(() => undefined);
      await until("the payment is pending", async () => {
        await visit(page, "/");
        await visit(page, "/payments?status=pending");
        return (await rows(page, "One-time payments").count()) > 1;
      });
      await rows(page, "One-time payments").nth(1).getByRole("link").first().click();
      await title(page, "Payment");
      await why.filter({ hasText: "no block has it yet" }).filter({ hasText: "Wait for a block" }).waitFor();
      await check(page, "a payment that is stuck");
      if (isSettling) {
        await world.chain.mineEvery(200);
        await why.waitFor({ state: "detached" });
        await fact(page, "Status").filter({ hasText: "settled" }).waitFor();
      } else {
        await world.chain.advance(7_200);
        await world.chain.mineEvery(200);
        await why.filter({ hasText: "Its window ended" }).filter({ hasText: "Ask the payer" }).waitFor();
        await check(page, "a payment that failed");
      }
      await bought;
    }
  });

  it("links transaction and block to the explorer that the service names, and gives it nothing else", async () => {
    const { page } = at;
    await page.route("**/supported*", async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ json: { ...(await answer.json()), explorer: "https://explorer.example" } });
    });
    await page.reload();
    await visit(page, `/payments/${story.id}`);
    const link = fact(page, "Transaction").getByRole("link");
    expect(await link.getAttribute("href")).to.equal(`https://explorer.example/tx/${story.transaction}`);
    expect(await link.getAttribute("rel")).to.equal("noreferrer noopener");
    const block = fact(page, "Block").getByRole("link");
    expect(await block.getAttribute("href")).to.match(/^https:\/\/explorer\.example\/block\/\d+$/);
    await check(page, "a payment with links");
    await page.unrouteAll();
    await page.reload();
    await title(page, "Payment");
  });

  it("leads to a charge and to a plan, whose text is shown as text", async () => {
    const { page } = at;
    for (const width of WIDTHS) {
      await wide(page, width);
      await visit(page, "/account?kind=signup&month=all");
      await rows(page, "Movements").nth(1).getByRole("link").first().click();
      await title(page, "Signup of");
      await fact(page, "Amount").filter({ hasText: "$10.00" }).waitFor();
      await page.getByRole("table", { name: "Webhooks" }).waitFor();
      await check(page, "Charge");
      await visit(page, "/plans");
      await page.getByRole("link", { name: /^=1\+1/ }).click();
      await title(page, "=1\\+1.*");
      await page.locator("pre", { hasText: "<img src=x" }).filter({ hasText: "\\u202e" }).waitFor();
      expect(await page.locator("main img").count()).to.equal(0);
      await check(page, "Plan");
    }
  });

  it("keeps filters and orders in the address, and shows payer and transaction of a payment on a phone", async () => {
    const { page } = at;
    await wide(page, 390);
    await visit(page, "/payments?sort=oldest");
    const first = rows(page, "One-time payments").nth(1);
    expect(await first.locator(`.narrow a[href="#/payers/${story.payer}"]`).isVisible()).to.equal(true);
    await first
      .getByText(story.transaction ?? "")
      .first()
      .waitFor();
    expect(
      await first
        .getByText(story.transaction ?? "")
        .first()
        .isVisible(),
    ).to.equal(true);
    await page.getByRole("button", { name: "Accepted" }).click();
    await page.waitForFunction(() => !location.hash.includes("oldest"));
    await page.getByLabel("Payer").fill("nobody");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector<HTMLInputElement>(":invalid")?.validationMessage);
    expect(page.url(), "no payer").not.to.include("payer");
    await page.getByLabel("Payer").fill(ada.address.slice(0, 8));
    await page.keyboard.press("Enter");
    await page.waitForFunction((whole) => location.hash.includes(`payer=${whole}`), ada.address);
    await page.getByLabel("From").fill("2001-01-01");
    await page.getByLabel("To", { exact: true }).fill("2001-01-02");
    await page.getByText("No one-time payment by this payer.").waitFor();
    await page.reload();
    await page.getByText("No one-time payment by this payer.").waitFor();
    expect(await page.getByLabel("From").inputValue()).to.equal("2001-01-01");
  });

  it("has no page and no table that is wider than the window, from 320 to 1920 pixels", async () => {
    const { page } = at;
    const items = [`/payments/${story.id}`, `/payers/${story.payer}`];
    const cut: string[] = [];
    for (const width of MORE_WIDTHS) {
      await wide(page, width);
      for (const address of [...Object.keys(PAGES), ...items]) {
        await visit(page, address);
        cut.push(...(await tooWide(page)).map((what) => `${what} of ${address} at ${width}`));
      }
    }
    expect(cut).to.deep.equal([]);
    expect(at.errors).to.deep.equal([]);
  });
});

/** What a provider calls its payers and plans, and that no text of a stranger's acts on a page, in a real browser. */
import { expect } from "chai";
import type { Page } from "playwright-core";
import { createPlan } from "turnpike/chain";
import { buyQuote, readReport } from "../../examples/agent";
import { recordOf, type TestAgent, UNIT } from "../support/sandbox";
import { failuresOf } from "./support/axe";
import { PAGES, tooWide, useDashboard, visit } from "./support/dashboard";

const WIDTHS = [390, 1440] as const;
const HOSTILE = `"><img src=x onerror="window.owned=1">\u202e=1+1`;

describe("dashboard: labels and strangers' text", function () {
  this.timeout(300_000);
  let ada: TestAgent;
  let planId = "";
  let paymentId = "";
  let idHash = "";
  const at = useDashboard(async (world) => {
    ada = await world.agent("who gets a label");
    const { receipt } = await buyQuote(ada.agent, world.provider.url, `ABC`);
    paymentId = receipt?.paymentId ?? "";
    await readReport(ada.agent, world.provider.url, world.plans.reader);
    const terms = { token: world.contracts.token, amount: UNIT, intervalSec: 86_400, graceSec: 3_600 };
    const metadata = JSON.stringify({ name: HOSTILE });
    const made = await createPlan(world.providerAccount, world.contracts.turnpike, { ...terms, metadata });
    planId = made.planId;
    const { idHash: subscribed } = await ada.agent.subscribe({ planId: made.planId, origins: [world.provider.url] });
    idHash = subscribed;
    expect((await recordOf(world, subscribed)).status).to.equal("ACTIVE");
  });

  const post = (path: string, body: object) =>
    fetch(at.world.facilitator.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${at.world.providerKey}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const wide = (page: Page, width: number) => page.setViewportSize({ width, height: 844 });
  /** Pages with the payer, and whether the plan is named there, too. */
  const places = () =>
    ({
      "/payments": false,
      [`/payments/${paymentId}`]: false,
      "/subscriptions": true,
      [`/subscriptions/${idHash}`]: true,
      "/payers": false,
      [`/payers/${ada.address}`]: false,
      "/account?month=all": true,
    }) as const;

  for (const width of WIDTHS) {
    it(`labels a payer and a plan on their pages, shows both wherever they are named, and removes them, ${width} wide`, async () => {
      const { page } = at;
      await wide(page, width);
      const texts = { payer: `Ada of accounting ${width}`, plan: `Old prices ${width}` };
      const write = async (path: string, text: string) => {
        await visit(page, path);
        await page.getByLabel("Label, which only you see").fill(text);
        await page.keyboard.press("Enter");
        await page.getByRole("button", { name: "Save label" }).and(page.locator(":disabled")).waitFor();
      };
      await write(`/payers/${ada.address}`, texts.payer);
      await write(`/plans/${planId}`, texts.plan);
      for (const [path, hasPlan] of Object.entries(places())) {
        await visit(page, path);
        for (const text of hasPlan ? Object.values(texts) : [texts.payer])
          await page.locator("main").getByText(text, { exact: true }).and(page.locator(":visible")).first().waitFor();
        expect(await tooWide(page), path).to.deep.equal([]);
      }
      await visit(page, "/plans");
      await page.getByRole("link", { name: texts.plan }).waitFor();
      await page.keyboard.press("/");
      await page.getByRole("dialog").getByRole("combobox").fill("accounting");
      await page.getByRole("dialog").getByRole("option").filter({ hasText: texts.payer }).click();
      await page.getByRole("heading", { level: 1, name: "Payer" }).waitFor();
      await visit(page, "/payments");
      await page.getByLabel("Payer").fill(texts.payer);
      await page.keyboard.press("Enter");
      await page.waitForFunction((whole) => location.hash.includes(`payer=${whole}`), ada.address);
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await failuresOf(page), colorScheme).to.deep.equal([]);
      }
      await write(`/payers/${ada.address}`, "");
      await write(`/plans/${planId}`, "");
      await visit(page, "/account?month=all");
      expect(await page.locator("main").getByText(texts.payer).count()).to.equal(0);
    });

    it(`B22 shows what strangers wrote as text on every page, ${width} wide`, async () => {
      const { page, errors } = at;
      await wide(page, width);
      const hook = { url: `https://example.com/${encodeURIComponent(HOSTILE)}`, description: HOSTILE };
      const made = (await (await post("/webhook-endpoints", hook)).json()) as { id: string };
      for (const object of [ada.address, planId])
        expect((await post("/labels", { object, text: HOSTILE })).status).to.equal(200);
      await page.reload();
      const [first] = Object.keys(PAGES);
      await visit(page, first ?? "/");
      for (const path of [...Object.keys(PAGES), ...Object.keys(places()), `/plans/${planId}`]) {
        await visit(page, path);
        const seen = await page.locator("body").textContent();
        expect(seen, path).not.to.match(/[\u202a-\u202e\u2066-\u2069]/u);
        expect(await page.locator("main img").count(), path).to.equal(0);
        expect(await tooWide(page), path).to.deep.equal([]);
      }
      await visit(page, `/payers/${ada.address}`);
      await page.locator("main").getByText(`"><img src=x`).first().waitFor();
      expect(await page.evaluate(() => Reflect.get(window, "owned"))).to.equal(undefined);
      expect(errors).to.deep.equal([]);
      for (const object of [ada.address, planId]) await post("/labels", { object, text: "" });
      await fetch(`${at.world.facilitator.url}/webhook-endpoints/${made.id}`, {
        method: "DELETE",
        headers: { authorization: `Bearer ${at.world.providerKey}` },
      });
      await page.reload();
    });
  }
});

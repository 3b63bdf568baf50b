import { expect } from "chai";
import type { Page } from "playwright-core";
import { buyQuote, readReport } from "../../examples/agent";
import { chainTime } from "../../scripts/sandbox/clock";
import { openPage } from "../support/browser";
import { DAY_SEC, until, type World } from "../support/sandbox";
import { failuresOf } from "./support/axe";
import { PAGES, tooWide, useDashboard, visit } from "./support/dashboard";
import { addPageWallet } from "./support/page-wallet";

const SECOND = 31_338;
const NETWORKS = ["local-31337", `local-${SECOND}`];

describe("dashboard of two chains", function () {
  this.timeout(600_000);
  const at = useDashboard(
    async (world) => {
      // Once on the first, twice and a subscription on the second.
      await pay(world, "buyer here");
      const second = secondOf(world);
      for (const name of ["buyer there", "another there"]) await pay(second, name);
      const { agent } = await second.agent("subscriber there");
      await readReport(agent, second.provider.url, second.plans.reader);
    },
    { secondChainId: SECOND, ownChains: true },
  );

  const secondOf = ({ second }: World): World => {
    if (!second) throw new Error("the world has one chain");
    return second;
  };
  async function pay(world: World, name: string): Promise<void> {
    const { agent } = await world.agent(name);
    expect((await buyQuote(agent, world.provider.url, "ABC")).status).to.equal(200);
  }
  const selector = (page: Page) => page.getByLabel("Chain", { exact: true });
  async function choose(page: Page, network: string | undefined): Promise<void> {
    await selector(page).selectOption(network ?? "");
    await page.waitForFunction(
      (wanted) => document.querySelector<HTMLSelectElement>("select[aria-label=Chain]")?.value === wanted,
      network,
    );
    await page.waitForFunction(() => document.querySelector("main .loading") === null);
  }
  const rows = (page: Page) => page.locator("main tbody tr");

  it("HD35 offers both chains, shows the first, and shows another's payments, subscriptions and plans when it is chosen", async () => {
    const { page } = at;
    await visit(page, "/payments");
    expect(await selector(page).locator("option").allTextContents()).to.deep.equal(NETWORKS);
    expect(await selector(page).inputValue()).to.equal(NETWORKS[0]);
    await until("the first chain's payment", async () => (await rows(page).count()) === 1);
    await choose(page, NETWORKS[1]);
    await until("the second chain's payments", async () => (await rows(page).count()) === 2);
    await visit(page, "/subscriptions");
    await until("the second chain's subscription", async () => (await rows(page).count()) === 1);
    await choose(page, NETWORKS[0]);
    await page.getByText("Nobody subscribes", { exact: false }).first().waitFor();
  });

  it("HD35 keeps the choice on every page and when the page is loaded again", async () => {
    const { page } = at;
    await choose(page, NETWORKS[1]);
    for (const address of Object.keys(PAGES)) {
      await visit(page, address);
      expect(await selector(page).inputValue(), address).to.equal(NETWORKS[1]);
    }
    await page.reload();
    await selector(page).waitFor();
    expect(await selector(page).inputValue()).to.equal(NETWORKS[1]);
    await visit(page, "/payments");
    await until("the second chain's payments", async () => (await rows(page).count()) === 2);
  });

  it("HD35 shows a payment that is made while the page is open, on its own chain alone", async () => {
    const { page, world } = at;
    await visit(page, "/payments");
    await choose(page, NETWORKS[0]);
    const before = await rows(page).count();
    await pay(world, "late here");
    await until("the payment", async () => (await rows(page).count()) === before + 1);
    await choose(page, NETWORKS[1]);
    await until("the second chain's", async () => (await rows(page).count()) === 2);
  });

  it("HD35 reports a chain that is away on its own pages; the other one's are live", async () => {
    const { page, world } = at;
    const away = secondOf(world).chain;
    away.suspend();
    try {
      await visit(page, "/system");
      await choose(page, NETWORKS[1]);
      await page.getByText("not up to date", { exact: true }).waitFor();
      await choose(page, NETWORKS[0]);
      await page.getByText("live", { exact: true }).waitFor();
      expect(await page.getByRole("alert").count()).to.equal(0);
      await pay(world, "during the outage");
    } finally {
      away.resume();
    }
    await choose(page, NETWORKS[1]);
    await page.getByText("live", { exact: true }).waitFor();
  });

  it("HD35 moves the clock of the chain that is shown", async () => {
    const { page, world } = at;
    const times = () => Promise.all([world, secondOf(world)].map(({ chain }) => chainTime({ rpcUrl: chain.rpcUrl })));
    await choose(page, NETWORKS[1]);
    const before = await times();
    await page.getByRole("button", { name: "+1 day" }).click();
    await page.getByText(/Nothing was due|Since then/).waitFor();
    const after = await times();
    const moved = after.map((time, place) => time - (before[place] ?? 0));
    expect(moved[0]).to.be.lessThan(DAY_SEC / 2);
    expect(moved[1]).to.be.at.least(DAY_SEC);
  });

  it("HD35 is accessible, by keyboard too, and cuts nothing off", async () => {
    const { page } = at;
    for (const width of [375, 768, 1280]) {
      await page.setViewportSize({ width, height: 844 });
      const box = await selector(page).boundingBox();
      expect(box && box.x >= 0 && box.x + box.width <= width, `${width} wide`).to.equal(true);
    }
    expect(await failuresOf(page)).to.deep.equal([]);
    await choose(page, NETWORKS[1]);
    await selector(page).focus();
    await page.keyboard.press("ArrowUp");
    await until("the first chain", async () => (await selector(page).inputValue()) === NETWORKS[0]);
  });

  for (const width of [390, 1440]) {
    it(`HD35 shows a payer both chains' subscriptions, approvals and charges, and acts on each alone, ${width} wide`, async () => {
      const { world } = at;
      const both = [world, secondOf(world)] as const;
      const payer = await world.agent(`a payer on both chains, ${width}`);
      for (const [place, own] of both.entries()) {
        const plan = [own.plans.reader, own.plans.small][place] ?? own.plans.reader;
        const here = await own.agent(`a payer on both chains, ${width}`);
        expect(here.address).to.equal(payer.address);
        await here.agent.subscribe({ planId: plan, origins: [own.provider.url] });
      }
      const { page, errors } = await openPage(at.browser);
      page.setDefaultTimeout(20_000);
      await page.setViewportSize({ width, height: 844 });
      const { chain, contracts, facilitator } = world;
      const keys = { address: payer.address, key: payer.wallet.privateKey };
      await addPageWallet(page, { ...keys, chainId: contracts.chainId, rpcUrl: chain.rpcUrl, names: ["A wallet"] });
      await page.goto(`${facilitator.url}/me`);
      await page
        .getByRole("button", { name: /^Sign in with your wallet/ })
        .first()
        .click();
      for (const [place, network] of NETWORKS.entries()) {
        const part = page.getByRole("region", { name: network, exact: true });
        await part.getByRole("heading", { name: `On ${network}` }).waitFor();
        await part.locator(".card", { hasText: place === 0 ? "Reader" : "Small" }).waitFor();
        expect(await part.locator(".card").count(), network).to.equal(1);
        const approvals = part.getByRole("table", { name: "Token approvals" });
        await approvals.getByRole("row").filter({ hasText: "Turnpike" }).first().waitFor();
        await part.getByRole("table", { name: "Charges of subscriptions" }).getByText("signup").waitFor();
      }
      expect(await failuresOf(page)).to.deep.equal([]);
      expect(await tooWide(page)).to.deep.equal([]);
      await page.getByRole("button", { name: `Stop everything on ${NETWORKS[0]}` }).click();
      await page.getByRole("button", { name: "Begin" }).click();
      await page.getByText(`Everything is stopped: nothing can be charged here on ${NETWORKS[0]} any more.`).waitFor();
      await page.getByRole("button", { name: "Close" }).click();
      const status = (place: number, text: string) =>
        page
          .getByRole("region", { name: NETWORKS[place] ?? "", exact: true })
          .locator(".card")
          .getByText(text, { exact: true })
          .waitFor();
      await status(0, "cancelled");
      await status(1, "active");
      expect(errors).to.deep.equal([]);
    });
  }

  it("throws nothing meanwhile", () => expect(at.errors).to.deep.equal([]));
});

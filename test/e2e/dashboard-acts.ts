/** What a provider does in the dashboard by its wallet, in a real browser. */
import path from "node:path";
import { expect } from "chai";
import { Contract, Wallet } from "ethers";
import type { Page } from "playwright-core";
import { createPlan, turnpikeInterface } from "turnpike/chain";
import { createFacilitatorClient } from "turnpike/facilitator";
import { type Address, type Hex, randomBytes, signDigest, toHex, typedDataDigest } from "turnpike/protocol";
import { buyQuote } from "../../examples/agent";
import { openPage } from "../support/browser";
import { recordOf, until } from "../support/sandbox";
import { atWidths } from "../support/variants";
import { failuresOf } from "./support/axe";
import { SHOTS, titled, tooWide, useDashboard } from "./support/dashboard";
import { tabTo } from "./support/keyboard";
import { addPageWallet, type PageWallet } from "./support/page-wallet";

const HOSTILE = `<img src=x onerror="window.owned=1">\u202Eneppo`;

describe("dashboard: acts of a provider", function () {
  this.timeout(300_000);
  const at = useDashboard();

  async function open({
    width = 1440,
    names = ["A wallet"],
  } = {}): Promise<{ page: Page; wallet: PageWallet; errors: Error[] }> {
    const { page, errors } = await openPage(at.browser);
    page.setDefaultTimeout(20_000);
    await page.setViewportSize({ width, height: 844 });
    const { chain, contracts, facilitator, providerAccount } = at.world;
    const keys = { address: providerAccount.address, key: providerAccount.privateKey };
    const wallet = await addPageWallet(page, { ...keys, chainId: contracts.chainId, rpcUrl: chain.rpcUrl, names });
    await page.goto(`${facilitator.url}/#/acts`);
    await page.getByRole("link", { name: "Make an API key" }).waitFor();
    return { page, wallet, errors };
  }

  /** The form of an act, which the list of all leads to. */
  async function panel(page: Page, title: string) {
    if (title.startsWith("Refund this"))
      return page.locator("section").filter({ has: page.getByRole("heading", { name: title }) });
    const heading = page.getByRole("heading", { level: 1, name: title, exact: true });
    if ((await heading.count()) === 0) {
      const menu = page.getByRole("button", { name: "Menu" });
      if (await menu.isVisible()) await menu.click();
      await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Actions" }).click();
      await page.getByRole("link", { name: title, exact: true }).click();
      await heading.waitFor();
    }
    return page.getByRole("main");
  }

  const fill = async (page: Page, title: string, label: string | RegExp, value: string) =>
    (await panel(page, title)).getByLabel(label).fill(value);

  /** Chooses an option by its text, once it is there. */
  async function choose(page: Page, title: string, label: string, text: string | RegExp): Promise<void> {
    const select = (await panel(page, title))
      .locator("label")
      .filter({ hasText: new RegExp(`^${label}`) })
      .locator("select");
    const option = select.locator("option").filter({ hasText: text }).first();
    await option.waitFor({ state: "attached" });
    await select.selectOption((await option.getAttribute("value")) ?? "");
  }

  async function review(page: Page, title: string): Promise<void> {
    await (await panel(page, title)).getByRole("button", { name: "Review" }).click();
    await page.getByRole("dialog").waitFor();
  }

  const press = (page: Page, name: string) =>
    page.getByRole("dialog").getByRole("button", { name, exact: true }).click();

  async function confirm(page: Page, typed: string): Promise<void> {
    await page.getByRole("dialog").getByLabel(/^Type/).fill(typed);
    await press(page, "Send by my wallet");
  }

  /** Returns the header of a key that reads keys and the audit log. */
  async function auditor(): Promise<{ readonly authorization: string }> {
    const { facilitator, providerAccount } = at.world;
    const client = createFacilitatorClient({ url: facilitator.url });
    const { chainId, proofSigners } = await client.supported();
    const made = await client.createKey({
      provider: providerAccount.address as Address,
      name: "reader of the audit log",
      scopes: ["keys"],
      chainId,
      facilitator: proofSigners[0] as Address,
      sign: async (data) => signDigest(typedDataDigest(data), providerAccount.privateKey as Hex),
    });
    if (made.kind === "refused") throw made.error;
    return { authorization: `Bearer ${made.key.key}` };
  }

  /** Waits for an act in the audit log. */
  async function noted(act: string, object?: string): Promise<void> {
    const headers = await auditor();
    await until(`${act} in the audit log`, async () => {
      const answer = await fetch(`${at.world.facilitator.url}/audit`, { headers });
      const { entries } = (await answer.json()) as { entries: { act: string; object: string }[] };
      return entries.some((entry) => entry.act === act && (object === undefined || entry.object === object));
    });
  }

  /** A plan of the provider in the sandbox. */
  async function planOf(name: string): Promise<`0x${string}`> {
    const { contracts, providerAccount } = at.world;
    const terms = { token: contracts.token, amount: 3_000_000n, months: 1, graceSec: 86_400 };
    const metadata = JSON.stringify({ name });
    return (await createPlan(providerAccount, contracts.turnpike, { ...terms, metadata, salt: toHex(randomBytes(32)) }))
      .planId;
  }

  const plan = (planId: string) => at.world.lens.getFunction("getPlan")(planId);

  atWidths([390, 1440], "job 3: creates a plan by the keyboard alone, once it has said its cost", async (width) => {
    const name = `Keyboard plan ${width}`;
    const { page, wallet, errors } = await open({ width });
    const { keyboard } = page;
    const enter = async (label: RegExp, text: string): Promise<void> => {
      await tabTo(page, label);
      await keyboard.press("Control+A");
      await keyboard.type(text);
    };
    await tabTo(page, /^Create a plan/);
    await keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Create a plan" }).waitFor();
    await enter(/^Name, which buyers see/, name);
    await enter(/^Price of a period/, "9.50");
    await enter(/^Length of a period/, "3");
    await enter(/^Trial that you offer/, "7 days");
    await enter(/^What metered use costs/, "$0.01 a page");
    await keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    await dialog.getByText("$9.50 every 3 months, paid to").waitFor();
    await dialog.getByText(/^Its gas costs you about 0\.\d+/).waitFor();
    expect(wallet.calls).not.to.include("eth_sendTransaction");
    await tabTo(page, /^Send by my wallet/);
    await keyboard.press("Enter");
    await dialog.getByText(`The plan ${name} is created.`).waitFor();
    await noted("plan.created");
    await tabTo(page, /^Close/);
    await keyboard.press("Enter");
    const focused = () => page.evaluate(() => (document.activeElement as HTMLInputElement).labels?.[0]?.textContent);
    expect(await focused(), "the focus returns to the form").to.equal("What metered use costs, in words");
    await page.evaluate(() => {
      location.hash = "/plans";
    });
    await page.getByRole("link", { name }).waitFor();
    const { plans } = (await (
      await fetch(`${at.world.facilitator.url}/plans?provider=${at.world.providerAccount.address}&limit=100`)
    ).json()) as { plans: { metadata: string; period: object; amount: string; grace: number }[] };
    const made = plans.find(({ metadata }) => metadata.includes(name));
    expect(JSON.parse(made?.metadata ?? "")).to.deep.equal({
      name,
      trial: "7 days",
      overage: "$0.01 a page",
    });
    expect([made?.period, made?.amount, made?.grace]).to.deep.equal([{ unit: "month", count: 3 }, "9500000", 86_400]);
    expect(errors).to.deep.equal([]);
  });

  it("says a wrong value beside its field, and takes an amount as people write it", async () => {
    const { page } = await open();
    const title = "Create a plan";
    await fill(page, title, /^Name/, "Written plan");
    await fill(page, title, /^Price/, "12,50");
    const form = await panel(page, title);
    await form.getByRole("button", { name: "Review" }).click();
    const price = form.getByLabel(/^Price/);
    await page.waitForFunction(() => document.activeElement?.getAttribute("aria-invalid") === "true");
    expect(await price.evaluate((field) => field === document.activeElement)).to.equal(true);
    const said = page.locator(`[id="${await price.getAttribute("aria-describedby")}"]`);
    expect(await said.textContent()).to.contain("such as 9.50");
    const [above, below] = [await price.boundingBox(), await said.boundingBox()];
    expect((below?.y ?? 0) - (above?.y ?? 0) - (above?.height ?? 0), "pixels between them").to.be.within(0, 24);
    expect(await failuresOf(page)).to.deep.equal([]);
    await price.fill("$12.50");
    expect(await said.count(), "it goes when the value changes").to.equal(0);
    await review(page, title);
    await page.getByRole("dialog").getByText("$12.50 every month, paid to").waitFor();
    await page.close();
  });

  it("says that the wallet is on another account before anything is reviewed", async () => {
    const { page, wallet } = await open();
    await panel(page, "Create a plan");
    await fill(page, "Create a plan", /^Name/, "Another's plan");
    await fill(page, "Create a plan", /^Price/, "1");
    await review(page, "Create a plan");
    await press(page, "Back");
    const { privateKey: key, address } = Wallet.createRandom();
    const own = wallet.account;
    await wallet.switchAccount({ address, key });
    const notice = page.getByText("Choose that account in your wallet.");
    await notice.waitFor();
    await wallet.switchAccount(own);
    await notice.waitFor({ state: "detached" });
    await page.close();
  });

  atWidths([1440, 390], "job 4: deprecates and stops a plan once its name is typed", async (width) => {
    const name = `Plan to close ${width}`;
    const planId = await planOf(name);
    const { page } = await open({ width });
    await choose(page, "Stop a plan", "Plan", name);
    await (await panel(page, "Stop a plan")).getByRole("button", { name: "Copy the call" }).click();
    const copied = JSON.parse(await page.getByLabel("For a multisignature wallet").inputValue());
    expect(copied).to.deep.equal({
      to: at.world.contracts.turnpike,
      data: turnpikeInterface.encodeFunctionData("stopPlan", [planId]),
      value: "0",
    });
    await choose(page, "Deprecate a plan", "Plan", name);
    await choose(page, "Deprecate a plan", "Successor", "Reader");
    await review(page, "Deprecate a plan");
    const send = page.getByRole("button", { name: "Send by my wallet" });
    expect(await send.isDisabled()).to.equal(true);
    await page.getByRole("dialog").getByLabel(/^Type/).fill(name.slice(0, -1));
    expect(await send.isDisabled()).to.equal(true);
    await confirm(page, name);
    await page.getByText(`${name} is deprecated.`).waitFor();
    await press(page, "Close");
    expect((await plan(planId)).deprecated).to.equal(true);
    await choose(page, "Stop a plan", "Plan", name);
    await review(page, "Stop a plan");
    await page.getByText("active subscriptions end with the period that they have paid").waitFor();
    await confirm(page, name);
    await page.getByText(`${name} is stopped.`).waitFor();
    await noted("plan.deprecated", planId);
    await noted("plan.stopped", planId);
    expect((await plan(planId)).stopped).to.equal(true);
    await press(page, "Close");
    await (await panel(page, "Stop a plan")).getByRole("button", { name: "Review" }).click();
    await (await panel(page, "Stop a plan")).getByRole("alert").filter({ hasText: "(PlanStopped)" }).waitFor();
  });

  it("leads from a plan's page to an act, with the plan filled in, and says where there is no such act", async () => {
    const name = "Plan that is left";
    const planId = await planOf(name);
    const { page, errors } = await open({ width: 390 });
    await page.goto(`${at.world.facilitator.url}/#/plans/${planId}`);
    await page.getByRole("heading", { level: 1, name: `${name}, $3.00 every month` }).waitFor();
    await page.getByRole("link", { name: "Deprecate this plan" }).click();
    await page.getByRole("heading", { level: 1, name: "Deprecate a plan" }).waitFor();
    await titled(page, "Deprecate a plan · Turnpike");
    const plans = page.locator("label").filter({ hasText: /^Plan/ });
    await plans.locator("option:checked", { hasText: name }).waitFor({ state: "attached" });
    await page.getByRole("button", { name: "Review" }).click();
    await page.getByText(`Nobody can subscribe to ${name} any more, for good.`).waitFor();
    expect(await failuresOf(page)).to.deep.equal([]);
    await press(page, "Back");
    await page.goto(`${at.world.facilitator.url}/#/acts/print-money`);
    await page.getByRole("alert").filter({ hasText: "There is no such action." }).waitFor();
    expect(errors).to.deep.equal([]);
  });

  atWidths([390, 1440], "job 9: changes a payee and a right, and refuses a mistyped address", async (width) => {
    const name = `Plan whose payee moves ${width}`;
    const planId = await planOf(name);
    const { page } = await open({ width });
    const next = new Wallet(toHex(randomBytes(32))).address;
    await choose(page, "Change a plan's payee", "Plan", name);
    const wrong = `${next.slice(0, -1)}${next.endsWith("1") ? "2" : "1"}`;
    await fill(page, "Change a plan's payee", /^New payee/, wrong);
    await (await panel(page, "Change a plan's payee")).getByRole("button", { name: "Review" }).click();
    await page.getByRole("alert").filter({ hasText: "a digit of it is mistyped" }).waitFor();
    await fill(page, "Change a plan's payee", /^New payee/, next);
    await review(page, "Change a plan's payee");
    await page.getByText(`Seven days from now anyone can make ${next} the payee`).waitFor();
    await confirm(page, name);
    await page.getByText("is proposed. Transaction").waitFor();
    expect((await plan(planId)).proposedPayTo).to.equal(next);
    await noted("plan.payee", planId);
    await press(page, "Close");
    await choose(page, "Grant or revoke a right", "Plan", name);
    await choose(page, "Grant or revoke a right", "It may", "charge use");
    await review(page, "Grant or revoke a right");
    await press(page, "Send by my wallet");
    await page.getByText("The right is granted.").waitFor();
    await noted("plan.rights", planId);
    const [relayer] = ((await (await fetch(`${at.world.facilitator.url}/supported`)).json()) as { relayers: string[] })
      .relayers;
    expect(await at.world.lens.getFunction("rightsOf")(planId, relayer)).to.equal(1n);
  });

  for (const width of [390, 1440]) {
    it(`job 6: refunds a payment, a charge and a debit in part from their pages, ${width} wide`, async () => {
      const { world } = at;
      const origins = [world.provider.url];
      const customer = await world.agent(`a customer who is refunded, ${width}`);
      await customer.agent.subscribe({ planId: world.plans.small, maxOverage: 2_000_000, origins });
      const { receipt } = await buyQuote(customer.agent, world.provider.url, "ABC");
      const body = JSON.stringify({ words: 1_000 });
      const headers = { "content-type": "application/json" };
      await (await customer.agent.fetch(`${world.provider.url}/complete`, { method: "POST", headers, body })).text();
      const authorization = { authorization: `Bearer ${world.providerKey}` };
      const ledger = `${world.facilitator.url}/analytics/ledger?payer=${customer.address}`;
      let movements: readonly { readonly kind: string; readonly id: string }[] = [];
      await until("the debit", async () => {
        const answer = await fetch(ledger, { headers: authorization });
        movements = ((await answer.json()) as { movements: { kind: string; id: string }[] }).movements;
        return movements.length === 3;
      });
      const idOf = (wanted: string) => movements.find(({ kind }) => kind === wanted)?.id ?? "";
      const { page, wallet, errors } = await open({ width });
      for (const [path, what, paid] of [
        [`/payments/${receipt?.paymentId}`, "payment", "$0.50"],
        [`/charges/${idOf("signup")}`, "charge", "$5.00"],
        [`/charges/${idOf("overage")}`, "debit", "$0.50"],
      ] as const) {
        const before = await world.contracts.balanceOf(customer.address);
        await page.evaluate((to) => {
          location.hash = to;
        }, path);
        const title = `Refund this ${what}`;
        await fill(page, title, /^Amount to return/, "5000");
        await (await panel(page, title)).getByRole("button", { name: "Review" }).click();
        await (await panel(page, title))
          .getByRole("alert")
          .filter({ hasText: `at most ${paid}` })
          .waitFor();
        expect(await failuresOf(page), what).to.deep.equal([]);
        expect(await tooWide(page), what).to.deep.equal([]);
        await fill(page, title, /^Amount to return/, "0.20");
        await review(page, title);
        await page.getByText(`Returns $0.20 of ${paid} to ${customer.address}`).waitFor();
        wallet.alters = (typed) => ({ ...typed, message: { ...typed.message, value: "300000" } });
        await press(page, "Sign in your wallet");
        await page.getByRole("alert").filter({ hasText: "signed something else" }).waitFor();
        wallet.alters = (typed) => typed;
        await press(page, "Try again");
        await page.getByText("$0.20 is refunded.").waitFor();
        await press(page, "Close");
        await page.getByRole("table", { name: "Refunds" }).getByText("$0.20").waitFor();
        expect((await world.contracts.balanceOf(customer.address)) - before, what).to.equal(200_000n);
        // What is left is less now; the second refund has another nonce.
        await fill(page, title, /^Amount to return/, "0.31");
        await (await panel(page, title)).getByRole("button", { name: "Review" }).click();
        if (what !== "charge")
          await (await panel(page, title)).getByRole("alert").filter({ hasText: "at most $0.30" }).waitFor();
        else {
          await press(page, "Sign in your wallet");
          await page.getByText("$0.31 is refunded.").waitFor();
          await press(page, "Close");
        }
      }
      await noted("refund.signed");
      expect(errors).to.deep.equal([]);
    });
  }

  atWidths([1440, 390], "job 7: ends a subscription at its period's end", async (width) => {
    const { world } = at;
    const customer = await world.agent(`a customer of acts, ${width}`);
    const { idHash } = await customer.agent.subscribe({ planId: world.plans.reader, origins: [world.provider.url] });
    const short = customer.address.slice(0, 8);
    const { page, errors } = await open({ width });
    const end = "End a subscription at its period's end";
    await choose(page, end, "Subscription", short);
    await review(page, end);
    await page.getByText(`${customer.address} is served until`).waitFor();
    await confirm(page, "Reader");
    await page.getByText(/^It ends on/).waitFor();
    await noted("subscription.ended", idHash);
    await until("the end of the subscription", async () => {
      const answer = await fetch(`${world.facilitator.url}/subscriptions/${idHash}`);
      return ((await answer.json()) as { ending: boolean }).ending;
    });
    expect((await recordOf(world, idHash)).status).to.equal("ACTIVE");
    expect(errors).to.deep.equal([]);
  });

  atWidths([390, 1440], "job 8: makes a voucher that the contract takes, and none by another key", async (width) => {
    const { world } = at;
    const customer = await world.agent(`a customer with a trial, ${width}`);
    const { page, wallet } = await open({ width });
    const title = "Make a voucher for one customer";
    let asked: { subscriber: string; secretHash: string } | undefined;
    let give: (voucher: never) => void = () => undefined;
    const signup = customer.agent.subscribe({
      planId: world.plans.reader,
      origins: [world.provider.url],
      voucher: (request) => {
        asked = request as typeof asked;
        return new Promise<never>((resolve) => {
          give = resolve;
        });
      },
    });
    await until("the customer's request", async () => asked !== undefined);
    await choose(page, title, "Plan", "Reader");
    await fill(page, title, "Customer's address", asked?.subscriber ?? "");
    await fill(page, title, /^Hash of its secret/, asked?.secretHash ?? "");
    await review(page, title);
    await page.getByText(/may begin Reader for \$0\.00, for 7 days, once/).waitFor();
    wallet.account = { ...wallet.account, key: customer.wallet.privateKey };
    await press(page, "Sign in your wallet");
    await page.getByRole("alert").filter({ hasText: "signed something else, or with another account" }).waitFor();
    wallet.account = { ...wallet.account, key: world.providerAccount.privateKey };
    await press(page, "Try again");
    const text = await page.getByLabel("Copy it now").inputValue();
    await noted("voucher.signed", world.plans.reader);
    give(JSON.parse(text) as never);
    const { idHash } = await signup;
    const record = await world.lens.getFunction("getSubscription")(idHash);
    expect(record.intro).to.equal(true);
    expect(await world.contracts.balanceOf(customer.address)).to.equal(await initialOf(customer.address));
  });

  /** Nothing was charged: what it holds is what it was given. */
  async function initialOf(address: string): Promise<bigint> {
    const token = new Contract(
      at.world.contracts.token,
      ["event Transfer(address indexed from, address indexed to, uint256 value)"],
      at.world.chain.provider,
    );
    const received = await token.queryFilter(token.getEvent("Transfer")(null, address));
    return received.reduce((sum, log) => sum + BigInt(log.data), 0n);
  }

  atWidths([1440, 390], "B21 job 1, job 2: makes, rotates and revokes an API key, by wallet only", async (width) => {
    const name = `billing ${width}`;
    const { world } = at;
    const { page, wallet, errors } = await open({ width });
    const status = async (key: string, path = "/keys/current", init: RequestInit = {}) =>
      (
        await fetch(`${world.facilitator.url}${path}`, {
          ...init,
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        })
      ).status;
    // The key of this tab, as a wallet's sign-in makes it.
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in with your wallet" }).click();
    await page.getByRole("link", { name: "Make an API key" }).waitFor();
    const tab = (await page.evaluate(() => sessionStorage.getItem("turnpike-key"))) ?? "";
    expect(await status(tab)).to.equal(200);
    expect(await status(tab, "/keys")).to.equal(403);
    expect(await status(tab, "/audit")).to.equal(403);
    const listed = await fetch(`${world.facilitator.url}/keys`, { headers: await auditor() });
    const { keys } = (await listed.json()) as {
      keys: { id: string; scopes: string[]; createdAt: number; expiresAt: number }[];
    };
    const own = keys.find(({ id }) => id === tab.split("_")[1]);
    expect(own?.scopes).to.deep.equal(["read", "webhooks"]);
    expect((own?.expiresAt ?? 0) - (own?.createdAt ?? 0)).to.be.within(43_190, 43_210);
    const wish = {
      provider: world.providerAccount.address,
      name: "stolen",
      scopes: ["keys"],
      expiresAt: 1_900_000_000,
    };
    expect(
      await status(tab, "/keys", {
        method: "POST",
        body: JSON.stringify({ ...wish, challenge: "0".repeat(76), signature: `0x${"1".repeat(130)}` }),
      }),
    ).to.equal(422);
    expect(await status(tab, "/refund-accounts", { method: "POST", body: "{}" })).to.equal(400);
    expect(await status(tab, `/refund-accounts/${world.contracts.token}`, { method: "DELETE" })).to.equal(403);

    const made = await panel(page, "Make an API key");
    await made.getByLabel("Name of the key").fill(name);
    await made.getByLabel(/charge use/).check();
    await made.getByRole("button", { name: "Review" }).click();
    await page.getByText(/read figures, lists and events; charge use up to customers' caps\. Until/).waitFor();
    wallet.rejects = (method) => (method === "personal_sign" ? { code: 4001, message: "No" } : undefined);
    await press(page, "Sign in your wallet");
    await page.getByRole("alert").filter({ hasText: "You declined the request" }).waitFor();
    wallet.rejects = () => undefined;
    await press(page, "Try again");
    const first = await page.getByLabel("Copy it now").inputValue();
    await press(page, "Close");
    expect(await status(first)).to.equal(200);
    await (await panel(page, "Keys and audit log")).getByRole("button", { name: "Open by my wallet" }).click();
    await press(page, "Sign in your wallet");
    await page.getByText("They are open.").waitFor();
    await press(page, "Close");
    await page.getByRole("button", { name: `Rotate ${name}` }).click();
    await press(page, "Sign in your wallet");
    const second = await page.getByLabel("Copy it now").inputValue();
    await press(page, "Close");
    expect([await status(first), await status(second)]).to.deep.equal([200, 200]);
    const [, id = ""] = first.split("_");
    await page.getByRole("button", { name: `Revoke ${name} ${id}` }).click();
    await page.getByRole("dialog").getByLabel(/^Type/).fill(name);
    await press(page, "Revoke it");
    await page.getByText("The key is revoked.").waitFor();
    await press(page, "Close");
    expect([await status(first), await status(second)]).to.deep.equal([401, 200]);
    const log = page.getByRole("table", { name: "Audit log" });
    await log.getByText("key.revoked").first().waitFor();
    expect(await page.content()).not.to.include(second.slice(-43));
    expect(errors).to.deep.equal([]);
  });

  it("sends nothing when the wallet refuses, is on another account or chain, or the contract would revert", async () => {
    const name = "Plan that stays";
    const planId = await planOf(name);
    const stranger = await at.world.agent("a stranger to the provider");
    const { page, wallet } = await open();
    const { chainId } = at.world.contracts;
    const alert = (text: RegExp) => page.getByRole("alert").filter({ hasText: text }).first().waitFor();
    await choose(page, "Stop a plan", "Plan", name);
    const own = wallet.account;
    wallet.account = { address: stranger.address, key: stranger.wallet.privateKey };
    await (await panel(page, "Stop a plan")).getByRole("button", { name: "Review" }).click();
    await alert(/Choose that account in your wallet/);
    wallet.account = own;
    wallet.chainId = 1;
    await review(page, "Stop a plan");
    expect(wallet.chainId, "it asked the wallet to switch").to.equal(chainId);
    wallet.rejects = (method) => (method === "eth_sendTransaction" ? { code: 4001, message: "No" } : undefined);
    await confirm(page, name);
    await alert(/You declined the request in your wallet\. Nothing was changed\./);
    wallet.rejects = (method) => (method === "wallet_switchEthereumChain" ? { code: 4001, message: "No" } : undefined);
    wallet.chainId = 1;
    await press(page, "Try again");
    await alert(/stayed on another network/);
    wallet.chainId = chainId;
    wallet.rejects = () => undefined;
    wallet.waits = (method) => (method === "eth_sendTransaction" ? new Promise(() => undefined) : undefined);
    await press(page, "Try again");
    await page.getByRole("status").filter({ hasText: "Your wallet shows the request" }).waitFor();
    await press(page, "Stop waiting");
    await alert(/decline there/);
    expect((await plan(planId)).stopped).to.equal(false);
  });

  it("B22 shows strangers' names as text in forms and dialogs, and passes the accessibility rules, light and dark", async () => {
    await planOf(HOSTILE);
    for (const [width, colorScheme] of [
      [390, "dark"],
      [1440, "light"],
    ] as const) {
      const { page, errors } = await open({ width, names: [HOSTILE, "B"] });
      await page.emulateMedia({ colorScheme });
      expect(await failuresOf(page), `the list at ${width}`).to.deep.equal([]);
      await panel(page, "Stop a plan");
      await page
        .getByRole("button", { name: /^Act with/ })
        .first()
        .click();
      await choose(page, "Stop a plan", "Plan", "<img src=x");
      expect(await failuresOf(page), `${width}`).to.deep.equal([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).to.equal(true);
      await page.screenshot({ path: path.join(SHOTS, `acts-${width}-${colorScheme}.png`), fullPage: true });
      await review(page, "Stop a plan");
      await page.getByRole("heading", { name: "Stop <img src=x" }).waitFor();
      expect(await failuresOf(page), `dialog at ${width}`).to.deep.equal([]);
      await page.screenshot({ path: path.join(SHOTS, `acts-ask-${width}-${colorScheme}.png`) });
      expect(await page.evaluate(() => Reflect.get(window, "owned"))).to.equal(undefined);
      expect((await page.locator("dialog[open]").textContent()) ?? "").not.to.match(/[\u202A-\u202E]/u);
      expect(errors).to.deep.equal([]);
    }
  });
});

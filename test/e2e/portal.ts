/** The payer's portal in a real browser, with a wallet in the page. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { Contract } from "ethers";
import type { Download, Page } from "playwright-core";
import { createPlan, turnpikeInterface } from "turnpike/chain";
import { createFacilitatorClient } from "turnpike/facilitator";
import { type Address, type Hex, PERMIT2, randomBytes, signDigest, toHex, typedDataDigest } from "turnpike/protocol";
import { buyQuote } from "../../examples/agent";
import { expectCode, removeTerminals, terminal, writeSecret } from "../sdk/cli/support/run";
import { signupArgs } from "../support/acts";
import { openPage } from "../support/browser";
import { recordOf, type TestAgent, until, type World } from "../support/sandbox";
import { atWidths } from "../support/variants";
import { failuresOf } from "./support/axe";
import { SHOTS, useDashboard } from "./support/dashboard";
import { tabTo } from "./support/keyboard";
import { addPageWallet, type PageWallet } from "./support/page-wallet";

const HOSTILE = `<img src=x onerror="window.owned=1">\u202E=cmd|'/c calc'!A1`;

const APPROVE = [
  "function approve(address, uint256) returns (bool)",
  "function allowance(address, address) view returns (uint256)",
];

interface Payer extends TestAgent {
  readonly ids: readonly string[];
  readonly idHashes: Readonly<Record<"reader" | "small", `0x${string}`>>;
}

/** Subscribes to a plan of reading and a metered one, buys a quote, and uses what is metered. */
async function payerOf(world: World, name: string): Promise<Payer> {
  const payer = await world.agent(name);
  const origins = [world.provider.url];
  const reader = await payer.agent.subscribe({ planId: world.plans.reader, origins });
  const small = await payer.agent.subscribe({ planId: world.plans.small, maxOverage: 2_000_000, origins });
  await buyQuote(payer.agent, world.provider.url, "ABC");
  const answer = await payer.agent.fetch(`${world.provider.url}/complete`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ words: 1_000 }),
  });
  await answer.arrayBuffer();
  await world.chain.provider.send("hardhat_setBalance", [payer.address, "0xde0b6b3a7640000"]);
  return { ...payer, ids: [reader.id, small.id], idHashes: { reader: reader.idHash, small: small.idHash } };
}

/** A key that reads, as the wallet signs for it. */
async function keyOf({ facilitator }: World, { address, wallet }: TestAgent): Promise<string> {
  const client = createFacilitatorClient({ url: facilitator.url });
  const { chainId, proofSigners } = await client.supported();
  const made = await client.createKey({
    provider: address,
    name: "reader",
    scopes: ["read"],
    chainId,
    facilitator: proofSigners[0] as Address,
    sign: async (data) => signDigest(typedDataDigest(data), wallet.privateKey as Hex),
  });
  if (made.kind === "refused") throw made.error;
  return made.key.key;
}

describe("the payer's portal", function () {
  this.timeout(300_000);
  const at = useDashboard();

  interface Visit {
    readonly page: Page;
    readonly wallet: PageWallet;
    readonly errors: readonly Error[];
    readonly bodies: string[];
  }

  async function open(payer: TestAgent, { width = 1440, names = ["A wallet"], query = "/me" } = {}): Promise<Visit> {
    const { page, errors } = await openPage(at.browser);
    page.setDefaultTimeout(20_000);
    const bodies: string[] = [];
    page.on("response", async (response) => {
      if (/json|csv/.test(response.headers()["content-type"] ?? "")) bodies.push(await response.text().catch(() => ""));
    });
    page.on("request", (request) => expect(new URL(request.url()).hostname).to.equal("127.0.0.1"));
    await page.setViewportSize({ width, height: 844 });
    const { chain, contracts, facilitator } = at.world;
    const keys = { address: payer.address, key: payer.wallet.privateKey };
    const wallet = await addPageWallet(page, { ...keys, chainId: contracts.chainId, rpcUrl: chain.rpcUrl, names });
    await page.goto(`${facilitator.url}${query}`);
    return { page, wallet, errors, bodies };
  }

  async function signIn(payer: TestAgent, options?: Parameters<typeof open>[1]): Promise<Visit> {
    const visit = await open(payer, options);
    await visit.page
      .getByRole("button", { name: /^Sign in with your wallet/ })
      .first()
      .click();
    await visit.page.getByRole("heading", { name: "Token approvals" }).waitFor();
    await visit.page.waitForFunction(() => document.querySelector("main .loading") === null);
    return visit;
  }

  const card = (page: Page, name: string) => page.locator(".card", { hasText: name });

  const agree = (page: Page, name = "Sign in your wallet") => page.getByRole("button", { name, exact: true }).click();

  async function saved(page: Page, button: string, place = 0): Promise<string> {
    const coming = page.waitForEvent("download");
    await page.getByRole("button", { name: button }).nth(place).click();
    const download: Download = await coming;
    return readFileSync((await download.path()) ?? "", "utf8");
  }

  atWidths([390, 1440], "B22 job 16: shows all of a payer and no secret id, and saves receipts", async (width) => {
    const payer = await payerOf(at.world, `a payer who looks, ${width}`);
    const { page, errors, bodies } = await signIn(payer, { width });
    await card(page, "Reader").getByText("$10.00 every 30 days").waitFor();
    await card(page, "Small")
      .getByText(/of at most \$2\.00/)
      .waitFor();
    const charges = page.getByRole("table", { name: "Charges of subscriptions" });
    await charges.getByText("overage").waitFor();
    expect(await charges.getByText("signup").count()).to.equal(2);
    await page.getByRole("table", { name: "One-time payments" }).getByText("/quote").waitFor();
    await page.getByRole("table", { name: "Spent by provider and day" }).getByRole("row").nth(1).waitFor();
    const csv = await saved(page, "Save CSV", 1);
    expect(csv.split("\r\n")[0]).to.match(/^at,provider,amount,amountDecimal,/);
    expect(csv).to.include(payer.idHashes.reader).and.to.include("10.000000");
    const json = JSON.parse(await saved(page, "Save JSON", 1)) as { receipts: { id: string; resource: string }[] };
    expect(json.receipts.map(({ resource }) => new URL(resource).pathname)).to.deep.equal(["/quote"]);
    const key = await page.evaluate(() => sessionStorage.getItem("turnpike-payer-key"));
    const walked: string[] = [];
    for (let cursor: string | undefined = "", round = 0; cursor !== undefined && round < 9; round++) {
      const query = new URLSearchParams({ limit: "1", ...(cursor && { cursor }) });
      const headers = { authorization: `Bearer ${key}` };
      const answer = await fetch(`${at.world.facilitator.url}/payer/charges?${query}`, { headers });
      const { charges: some, next } = (await answer.json()) as { charges: { scheme: string }[]; next?: string };
      walked.push(...some.map(({ scheme }) => scheme));
      cursor = next;
    }
    expect(walked, "one page after another").to.deep.equal(["overage", "signup", "signup"]);
    const strange = async (list: string, key?: string) =>
      fetch(`${at.world.facilitator.url}/payer/${list}`, key ? { headers: { authorization: `Bearer ${key}` } } : {});
    const stranger = await payerOf(at.world, `another payer, ${width}`);
    const theirs = await keyOf(at.world, stranger);
    for (const list of ["charges", "charges.csv", "payments", "payments.csv"]) {
      const text = await (await strange(list, theirs)).text();
      const [mine, foreign] = list.startsWith("charges")
        ? [stranger.idHashes.reader, payer.idHashes.reader]
        : ["/quote", String(json.receipts[0]?.id)];
      expect(text, list).to.include(mine).and.not.include(foreign);
      expect((await strange(list)).status).to.equal(401);
    }
    // A debit of metered use is mined after its answer.
    await until("the sum of another payer alone", async () => {
      const { days } = (await (await strange("spend", theirs)).json()) as { days: { amount: string }[] };
      return days.map(({ amount }) => amount).join() === "16000000";
    });
    expect((await strange("spend")).status).to.equal(401);
    for (const secret of payer.ids) expect(bodies.join() + (await page.content())).not.to.include(secret.slice(-40));
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      for (const details of await page.locator(".card details").all())
        await details.evaluate((box) => ((box as HTMLDetailsElement).open = true));
      expect(await failuresOf(page), colorScheme).to.deep.equal([]);
      await page.screenshot({ path: path.join(SHOTS, `portal-${width}-${colorScheme}.png`), fullPage: true });
    }
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).to.equal(width);
    await card(page, "Reader").getByRole("button", { name: "Pause" }).click();
    expect(await failuresOf(page)).to.deep.equal([]);
    await page.emulateMedia({ colorScheme: "light" });
    expect(await failuresOf(page)).to.deep.equal([]);
    await page.screenshot({ path: path.join(SHOTS, `portal-${width}-ask.png`) });
    expect(errors).to.deep.equal([]);
  });

  atWidths([1440, 390], "job 17: pauses by the keyboard alone, resumes, caps and ends, each signed", async (width) => {
    const payer = await payerOf(at.world, `a payer with a keyboard, ${width}`);
    const { page, wallet, errors } = await open(payer, { width });
    const { keyboard } = page;
    const state = () => recordOf(at.world, payer.idHashes.small);
    await tabTo(page, /^Sign in with your wallet/);
    await keyboard.press("Enter");
    await page.getByRole("heading", { name: "Token approvals" }).waitFor();
    await card(page, "Small").waitFor();
    await tabTo(page, /^Change Small/);
    await keyboard.press("Enter");
    await tabTo(page, /^Pause Small/);
    await keyboard.press("Enter");
    await page.getByText("Nothing is charged and nothing is served until you resume it.").waitFor();
    expect(wallet.signed).to.deep.equal([]);
    await tabTo(page, /^Sign in your wallet/);
    await keyboard.press("Enter");
    await page.getByText("It is paused.").waitFor();
    await tabTo(page, /^Close/);
    await keyboard.press("Enter");
    await card(page, "Small").getByText("paused", { exact: true }).waitFor();
    await card(page, "Small").getByRole("button", { name: "Resume" }).click();
    await agree(page);
    await page.getByText("It is resumed.").waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await card(page, "Small").getByText("active", { exact: true }).waitFor();
    await card(page, "Small").getByLabel("Cap of use").fill("0.75");
    await card(page, "Small").getByRole("button", { name: "Set the cap" }).click();
    await page.getByText(/may charge you for use up to \$0\.75 each period/).waitFor();
    await agree(page);
    await page.getByText("The cap is $0.75.").waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await card(page, "Small")
      .getByText(/of at most \$0\.75/)
      .waitFor();
    await card(page, "Small").getByLabel("No charge from this day on").fill("2031-05-01");
    await card(page, "Small").getByRole("button", { name: "Set the end" }).click();
    await agree(page);
    await page.getByText("It ends on 1 May 2031 00:00.").waitFor();
    expect(wallet.signed.map(({ primaryType }) => primaryType)).to.deep.equal([
      "Pause",
      "Resume",
      "SetMaxOverage",
      "SetNext",
    ]);
    expect((await state()).status).to.equal("ACTIVE");
    expect(errors).to.deep.equal([]);
  });

  it("changes nothing when the wallet refuses, waits, signs something else, or is on another account or chain", async () => {
    const payer = await payerOf(at.world, "a payer whose wallet errs");
    const other = await at.world.agent("another account of a payer");
    const { page, wallet } = await signIn(payer);
    const { chainId } = at.world.contracts;
    const version = async () => (await at.world.lens.getFunction("getSubscription")(payer.idHashes.reader)).version;
    const before = await version();
    const alert = (text: RegExp) => page.getByRole("alert").filter({ hasText: text }).waitFor();
    await card(page, "Reader").getByText("Change").click();
    await card(page, "Reader").getByRole("button", { name: "Cancel now" }).click();
    wallet.rejects = (method) => (method === "eth_signTypedData_v4" ? { code: 4001, message: "No" } : undefined);
    await agree(page);
    await alert(/You declined the request in your wallet\. Nothing was changed\./);
    wallet.rejects = () => undefined;
    wallet.account = { address: other.address, key: other.wallet.privateKey };
    await agree(page, "Try again");
    await alert(/Choose that account in your wallet\. Nothing was changed\./);
    wallet.account = { address: payer.address, key: other.wallet.privateKey };
    await agree(page, "Try again");
    await alert(/signed something else, or with another account\. Nothing was changed\./);
    wallet.account = { address: payer.address, key: payer.wallet.privateKey };
    wallet.alters = (typed) => ({ ...typed, message: { ...typed.message, atPeriodEnd: true } });
    await agree(page, "Try again");
    await alert(/signed something else/);
    wallet.alters = (typed) => typed;
    wallet.chainId = 1;
    wallet.known.delete(chainId);
    await agree(page, "Try again");
    await alert(/does not know/);
    expect(await failuresOf(page), "a dialog with a problem").to.deep.equal([]);
    wallet.chainId = chainId;
    let answer: () => void = () => undefined;
    wallet.waits = (method) =>
      method === "eth_signTypedData_v4" ? new Promise<void>((resolve) => (answer = resolve)) : undefined;
    await agree(page, "Try again");
    await page.getByRole("status").filter({ hasText: "Your wallet shows the request" }).waitFor();
    await agree(page, "Stop waiting");
    await alert(/You stopped waiting/);
    const sent: string[] = [];
    page.on("request", (request) => sent.push(`${request.method()} ${new URL(request.url()).pathname}`));
    const signed = wallet.signed.length;
    answer();
    await until("the late signature", async () => wallet.signed.length > signed);
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(sent.filter((each) => each.startsWith("POST"))).to.deep.equal([]);
    expect(await version()).to.equal(before);
  });

  atWidths([390, 1440], "job 18: stops everything: cancels each, and withdraws both approvals", async (width) => {
    const { world } = at;
    const payer = await payerOf(world, `a payer who leaves, ${width}`);
    const token = new Contract(world.contracts.token, APPROVE, payer.wallet.connect(world.chain.provider));
    await (await token.getFunction("approve")(PERMIT2, 5_000_000n)).wait();
    const approvals = async (): Promise<bigint[]> =>
      Promise.all(
        [world.contracts.turnpike, PERMIT2].map((spender) => token.getFunction("allowance")(payer.address, spender)),
      );
    expect((await approvals()).every((amount) => amount > 0n)).to.equal(true);
    const { page, wallet, errors } = await signIn(payer, { width });
    await page.getByRole("button", { name: "Stop everything" }).click();
    await page.getByText(/3 signatures without gas, and for 1 transaction whose gas you pay/).waitFor();
    // A refusal in between keeps what is done, and the next try goes on with the rest.
    let asked = 0;
    wallet.rejects = (method) =>
      method === "eth_signTypedData_v4" && ++asked === 2 ? { code: 4001, message: "No" } : undefined;
    await agree(page, "Begin");
    await page.getByRole("alert").filter({ hasText: "1 step of 4 was done" }).waitFor();
    await agree(page, "Try again");
    await page.getByText("Everything is stopped").waitFor();
    expect(wallet.signed.map(({ primaryType }) => primaryType)).to.deep.equal(["Permit", "Cancel", "Cancel"]);
    expect(await approvals()).to.deep.equal([0n, 0n]);
    for (const idHash of Object.values(payer.idHashes))
      expect((await recordOf(world, idHash)).status).to.equal("CANCELLED");
    await page.getByRole("button", { name: "Close" }).click();
    await card(page, "Reader").getByText("cancelled", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Stop everything" }).click();
    await page.getByText("Nothing can be charged here").waitFor();
    expect(await page.getByRole("button", { name: "Begin" }).count(), "nothing is left to begin").to.equal(0);
    await page.getByRole("button", { name: "Back" }).click();
    await page.screenshot({ path: path.join(SHOTS, `portal-${width}-stopped.png`), fullPage: true });
    expect(errors).to.deep.equal([]);
  });

  it("stops a hundred and one subscriptions, listed in pages: at once none can be charged, and begun again it does the rest alone", async function () {
    this.timeout(900_000);
    const { world } = at;
    const payer = await world.agent("a payer of much");
    const { provider } = world.chain;
    await provider.send("hardhat_setBalance", [payer.address, "0x56bc75e2d63100000"]);
    const wallet = payer.wallet.connect(provider);
    const { token, turnpike } = world.contracts;
    const terms = { token, amount: 10_000n, months: 1, graceSec: 86_400, metadata: JSON.stringify({ name: "Cheap" }) };
    const { planId } = await createPlan(world.providerAccount, turnpike, terms);
    const approving = new Contract(token, APPROVE, wallet);
    await (await approving.getFunction("approve")(turnpike, 10n ** 12n)).wait();
    const subscribe = new Contract(turnpike, turnpikeInterface, wallet).getFunction("subscribe");
    let nonce = await wallet.getNonce();
    const many = Array.from({ length: 101 }, () => toHex(randomBytes(32)));
    const sent = many.map((secretHash) =>
      subscribe(...signupArgs(payer.address, { planId, secretHash }), { nonce: nonce++, gasLimit: 500_000 }),
    );
    for (const each of await Promise.all(sent)) await each.wait();
    const live = async (): Promise<number> => {
      const client = createFacilitatorClient({ url: world.facilitator.url });
      let count = 0;
      for (let cursor: string | undefined; ; ) {
        const found = await client.subscriptionsOf(payer.address, cursor ? { cursor } : {});
        if (found.kind === "refused") throw found.error;
        count += found.value.subscriptions.filter(({ status }) => status === "ACTIVE").length;
        if (found.value.next === undefined) return count;
        cursor = found.value.next;
      }
    };
    await until("all are indexed", async () => (await live()) === 101);
    const { page, wallet: signer, errors } = await signIn(payer);
    page.setDefaultTimeout(800_000);
    await page.getByRole("region", { name: /^local-/ }).waitFor();
    expect(await page.locator(".card").count()).to.equal(100);
    await page.getByRole("button", { name: "Older" }).first().click();
    await until("the oldest one", async () => (await page.locator(".card").count()) === 1);
    await page.getByRole("button", { name: "Stop everything" }).click();
    await page.getByText(/and 91 more|, 91 more/).waitFor();
    await page.getByText(/102 signatures without gas\./).waitFor();
    let asked = 0;
    signer.rejects = (method) =>
      method === "eth_signTypedData_v4" && ++asked === 4 ? { code: 4001, message: "No" } : undefined;
    await agree(page, "Begin");
    await page.getByRole("alert").filter({ hasText: "3 steps of 102 was done" }).waitFor();
    expect(await approving.getFunction("allowance")(payer.address, turnpike), "nothing can be charged").to.equal(0n);
    expect(signer.signed.map(({ primaryType }) => primaryType)).to.deep.equal(["Permit", "Cancel", "Cancel"]);
    await page.reload();
    await page.getByRole("button", { name: "Stop everything" }).click();
    await page.getByText("No approval is left to withdraw.").waitFor();
    await page.getByText(/99 signatures without gas\./).waitFor();
    await agree(page, "Begin");
    await page.getByText("Everything is stopped").waitFor();
    expect(await live()).to.equal(0);
    expect(errors).to.deep.equal([]);
  });

  it("B21 opens the link of `turnpike portal` once, to read alone, and sends its secret to no address", async () => {
    const { world } = at;
    const payer = await payerOf(world, "the owner of an agent");
    const token = new Contract(world.contracts.token, APPROVE, payer.wallet.connect(world.chain.provider));
    await (await token.getFunction("approve")(PERMIT2, 3_000_000n)).wait();
    const shell = terminal({ TURNPIKE_FACILITATOR_URL: world.facilitator.url });
    writeSecret(path.join(shell.folder, "wallet.key"), payer.wallet.privateKey);
    const ran = await shell.run("portal", "--json").finally(removeTerminals);
    expectCode(ran, 0);
    const { link } = ran.json() as { link: string };
    const [, secret = ""] = link.split("#link=");
    expect(ran.out + ran.err).not.to.include(payer.wallet.privateKey.slice(2));
    const { page } = await openPage(at.browser);
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(link);
    await card(page, "Reader").waitFor();
    await page.getByRole("table", { name: "One-time payments" }).getByText("/quote").waitFor();
    await page.getByText("This page only reads").waitFor();
    const given = page.getByRole("table", { name: "Token approvals" }).getByRole("row").filter({ hasText: "Permit2" });
    await given.getByText("$3.00").waitFor();
    expect(await page.getByRole("button", { name: /Stop everything|Cancel|Withdraw/ }).count()).to.equal(0);
    expect(page.url()).to.equal(`${world.facilitator.url}/me`);
    expect(asked.join()).not.to.include(secret.slice(-43));
    const key = (await page.evaluate(() => sessionStorage.getItem("turnpike-payer-key"))) ?? "";
    expect(key).not.to.equal(secret);
    const authorization = { authorization: `Bearer ${secret}` };
    expect((await fetch(`${world.facilitator.url}/keys/current`, { headers: authorization })).status).to.equal(401);
    const list = await fetch(`${world.facilitator.url}/keys`, { headers: { authorization: `Bearer ${key}` } });
    expect(list.status, "it cannot list or make keys").to.equal(403);
    const again = await openPage(at.browser);
    await again.page.goto(link);
    await again.page.getByRole("alert").filter({ hasText: "This link was opened before" }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await until("the end of the tab's key", async () => {
      const { status } = await fetch(`${world.facilitator.url}/keys/current`, {
        headers: { authorization: `Bearer ${key}` },
      });
      return status === 401;
    });
  });

  it("B22 shows names of plans and wallets that strangers wrote as text, and asks for no icon", async () => {
    const { world } = at;
    const terms = { token: world.contracts.token, amount: 1_000_000n, months: 1, graceSec: 86_400 };
    const metadata = JSON.stringify({ name: HOSTILE });
    const { planId } = await createPlan(world.providerAccount, world.contracts.turnpike, { ...terms, metadata });
    const payer = await world.agent("a payer of a hostile plan");
    await payer.agent.subscribe({ planId, origins: [world.provider.url] });
    const names = [`${HOSTILE} one`, "\u202E"];
    const { page, wallet } = await signIn(payer, { names });
    await page
      .getByRole("button", { name: /^Act with/ })
      .first()
      .click();
    await card(page, "<img src=x").getByText("Change").click();
    await card(page, "<img src=x").getByRole("button", { name: "Pause" }).click();
    await page.getByRole("dialog").getByRole("heading", { name: "Pause <img src=x" }).waitFor();
    expect(
      await page.evaluate(() => [Reflect.get(window, "owned"), document.querySelectorAll("main img").length]),
    ).to.deep.equal([undefined, 0]);
    expect((await page.locator("body").textContent()) ?? "").not.to.match(/[\u202A-\u202E\u2066-\u2069]/u);
    expect(wallet.signed).to.deep.equal([]);
    const address: Address = payer.address;
    expect(page.url()).not.to.include(address);
  });
});

import { expect } from "chai";
import type { Page } from "playwright-core";
import { startArticle } from "../../examples/article";
import { freePort } from "../support/chain";
import { failuresOf } from "./support/axe";
import { PRICE, payOn, shoot, useShop } from "./support/page-shop";

const ARTICLE = `<!doctype html><title>Tides</title><style>h1{color:teal}</style><h1>How tides work</h1><p>The Moon.</p>`;

describe("the payment page in a browser", function () {
  this.timeout(300_000);
  const shop = useShop();

  it("sells the example's article: shows the price, takes one signature, and shows the article in a frame", async () => {
    const article = await startArticle({ ...shop.settings, port: await freePort(), html: ARTICLE });
    try {
      const { page, wallet, errors, spent } = await shop.open(article.url);
      expect(await page.getByRole("heading", { level: 1 }).textContent()).to.equal("How tides work, with four charts");
      expect(await page.locator(".price").textContent()).to.equal("0.50 tUSDon Local 31337");
      expect(await failuresOf(page)).to.deep.equal([]);
      await shoot(page, "price");
      await payOn(page);
      await page.frameLocator("iframe").getByRole("heading", { name: "How tides work" }).waitFor();
      await shoot(page, "bought");
      expect(await page.getByText("Paid 0.50 tUSD").isVisible()).to.equal(true);
      const [, transaction = ""] =
        /^Transaction (0x[0-9a-f]{64})$/.exec((await page.locator("#receipt").textContent()) ?? "") ?? [];
      expect((await shop.world.chain.provider.getTransactionReceipt(transaction))?.status).to.equal(1);
      expect(await failuresOf(page)).to.deep.equal([]);
      const saving = page.waitForEvent("download");
      await page.getByRole("link", { name: "Save a copy" }).click();
      expect((await saving).suggestedFilename()).to.equal("tides.html");
      expect(wallet.signed.map(({ message }) => message.value)).to.deep.equal([String(PRICE)]);
      expect(await spent()).to.equal(PRICE);
      expect(errors).to.deep.equal([]);
    } finally {
      await article.stop();
    }
  });

  it("shows JSON and text as text, images as images, and saves all else", async () => {
    const kinds = [
      ["application/json", '{"a":[1,2]}', "pre", '{\n  "a": [\n    1,\n    2\n  ]\n}'],
      ["text/plain; charset=iso-8859-1", Buffer.from("<b>caf\u00e9</b>", "latin1"), "pre", "<b>caf\u00e9</b>"],
      ["image/svg+xml", '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>', "img", ""],
      ["application/zip", "PK", "p", "This content cannot be shown here. Save a copy to open it."],
    ] as const;
    for (const [type, body, element, text] of kinds) {
      const url = await shop.sell((_request, response) => response.setHeader("Content-Type", type).end(body));
      const { page } = await shop.open(url);
      await payOn(page);
      const shown = page.locator(`#content > ${element}`);
      await shown.waitFor();
      expect(await shown.textContent(), type).to.equal(text);
      if (element === "img") {
        expect(
          await shown.evaluate((image: HTMLImageElement) => image.decode().then(() => image.naturalWidth)),
        ).to.equal(9);
      }
    }
  });

  it("C35 runs no script of what was bought, and keeps it in a frame without an origin", async () => {
    const hostile = `<!doctype html><meta http-equiv="refresh" content="0;url=https://thief.example/">
      <script>parent.document.title = "hacked"; top.location = "https://thief.example/"</script>
      <img src="data:x" onerror="parent.document.title = 'hacked'"><base href="https://thief.example/">
      <form action="https://thief.example/"><button>Go on</button></form><svg onload="alert(1)"></svg>
      <a href="javascript:parent.document.title='hacked'" target="_top">A link</a><p>The hostile report</p>`;
    const url = await shop.sell((_request, response) => response.setHeader("Content-Type", "text/html").end(hostile));
    const { page, errors } = await shop.open(url);
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).origin));
    await payOn(page);
    const frame = page.frameLocator("iframe");
    await frame.getByText("The hostile report").waitFor();
    await frame.getByText("A link").click();
    await frame.getByRole("button", { name: "Go on" }).click();
    expect(await frame.getByText("The hostile report").isVisible()).to.equal(true);
    expect(await page.title()).to.match(/^The report - 127/);
    expect(await page.locator("iframe").getAttribute("sandbox")).to.equal("");
    expect([...new Set(asked)].filter((origin) => /^http/.test(origin))).to.deep.equal([new URL(url).origin]);
    expect(errors).to.deep.equal([]);
  });

  it("C36 charges once when the page is reloaded while its payment is pending, and shows the content again later", async () => {
    let runs = 0;
    const url = await shop.sell((_request, response) => response.end(`run ${++runs}`));
    const { page, wallet, spent } = await shop.open(url);
    const { provider } = shop.world.chain;
    await provider.send("evm_setIntervalMining", [0]);
    try {
      await payOn(page);
      await page.getByText(/^Paying 0\.50 tUSD\./).waitFor();
      await page.reload();
      await page.getByText(/not confirmed yet/).waitFor();
      expect(await page.getByRole("button", { name: "Paying" }).getAttribute("aria-disabled")).to.equal("true");
    } finally {
      await provider.send("evm_setIntervalMining", [200]);
    }
    await page.getByText("run 1").waitFor();
    await page.reload();
    await page.getByText("run 1").waitFor();
    expect(wallet.signed).to.have.length(1);
    expect(await spent()).to.equal(PRICE);
    expect(runs).to.equal(1);
  });

  it("C37 presents the same payment again when its answer is lost, and signs no other", async () => {
    const url = await shop.sell((_request, response) => response.end("the report"));
    const { page, wallet, spent } = await shop.open(url);
    let lost = 0;
    await page.route(url, async (route) => {
      const paid = route.request().headers()["payment-signature"] !== undefined;
      if (!paid || lost++ > 0) return route.continue();
      await route.fetch();
      await route.abort();
    });
    await payOn(page);
    await page.getByText("the report", { exact: true }).waitFor();
    expect(lost).to.be.greaterThan(1);
    expect(wallet.signed).to.have.length(1);
    expect(await spent()).to.equal(PRICE);
  });

  it("C37 does not sign again after an unknown outcome and a refusal, while the first could still be charged", async () => {
    const url = await shop.sell((_request, response) => response.end("the report"));
    const { page, wallet } = await shop.open(url);
    const refusal = JSON.stringify({ error: "InvalidPaymentProof", reason: "terms", message: "No." });
    const answers = [
      { status: 402, body: "This host is not paid for." },
      { status: 402, body: refusal },
    ];
    await page.route(url, async (route) => {
      const answer = route.request().headers()["payment-signature"] === undefined ? undefined : answers.shift();
      return answer ? route.fulfill(answer) : route.continue();
    });
    await payOn(page);
    await page.getByText(/its outcome is not final before/).waitFor();
    expect(await page.getByRole("button", { name: "Paying" }).getAttribute("aria-disabled")).to.equal("true");
    await page.getByText("the report", { exact: true }).waitFor();
    expect(wallet.signed).to.have.length(1);
  });

  it("C37 says that a payment was used whose answer is lost for good, also after a reload, and signs no other", async () => {
    const url = await shop.sell((_request, response) => response.end("the report"), {
      replay: false,
      settle: "before",
    });
    const { page, wallet, spent } = await shop.open(url);
    let isLost = true;
    await page.route(url, async (route) => {
      if (route.request().headers()["payment-signature"] === undefined || !isLost) return route.continue();
      isLost = false;
      await route.fetch();
      await route.abort();
    });
    await payOn(page);
    const problem = page.getByRole("alert").filter({ hasText: "was used, but its content did not arrive" });
    await problem.waitFor();
    await page.reload();
    await problem.waitFor();
    const [nonce] = wallet.signed.map(({ message }) => message.nonce);
    expect(await problem.textContent()).to.contain(nonce);
    expect([wallet.signed.length, await spent()]).to.deep.equal([1, PRICE]);
    await page.getByRole("button", { name: "Start over" }).click();
    await page.getByRole("button", { name: "Connect a wallet" }).waitFor();
  });

  it("says that opening the page again is a new payment where its answer is not kept", async () => {
    const url = await shop.sell((_request, response) => response.end("the report"), { replay: false });
    const { page, wallet, spent } = await shop.open(url);
    await payOn(page);
    await page.getByText("the report", { exact: true }).waitFor();
    await page.reload();
    await page.getByText("It is no longer kept for you").waitFor();
    await page.getByRole("button", { name: "Connect a wallet" }).waitFor();
    expect([wallet.signed.length, await spent()]).to.deep.equal([1, PRICE]);
  });

  it("reports a payment that the gate refuses for its funds, and lets the person pay again", async () => {
    const url = await shop.sell((_request, response) => response.end("the report"));
    const { page, wallet, address, spent } = await shop.open(url, { tokens: 0n });
    wallet.rejects = (method) => (method === "eth_call" ? { code: -32_603, message: "no node" } : undefined);
    await payOn(page);
    await page
      .getByRole("alert")
      .filter({ hasText: "does not have enough of the token. Nothing was charged" })
      .waitFor();
    await shop.world.contracts.mint(address, PRICE);
    await page.getByRole("button", { name: /^Pay/ }).click();
    await page.getByText("the report", { exact: true }).waitFor();
    expect([wallet.signed.length, await spent()]).to.deep.equal([2, 0n]);
  });

  it("charges nothing for a handler that fails, and pays by the same signature when it works", async () => {
    let status = 500;
    const url = await shop.sell((_request, response) => response.writeHead(status).end("made"));
    const { page, wallet, spent } = await shop.open(url);
    await payOn(page);
    await page.getByRole("alert").filter({ hasText: "The server could not answer (500)" }).waitFor();
    expect(await spent()).to.equal(0n);
    status = 200;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("made", { exact: true }).waitFor();
    expect([await spent(), wallet.signed.length]).to.deep.equal([PRICE, 1]);
  });

  it("says in plain words what is wrong, and signs nothing: no wallet, a rejection, no balance, a network", async () => {
    const url = await shop.sell((_request, response) => response.end("the report"));
    const problem = ({ page }: { page: Page }, text: RegExp) =>
      page.getByRole("alert").filter({ hasText: text }).waitFor();

    const bare = await shop.browser.newPage();
    await bare.goto(url);
    await bare.getByRole("button", { name: "Connect a wallet" }).click();
    await problem({ page: bare }, /No wallet was found in this browser/);

    const poor = await shop.open(url, { tokens: 100_000n });
    await payOn(poor.page);
    await problem(poor, /This costs 0\.50 tUSD, and the wallet has 0\.10 tUSD on Local 31337\. Nothing was charged/);

    const careful = await shop.open(url);
    careful.wallet.rejects = (method) =>
      method === "eth_signTypedData_v4" ? { code: 4001, message: "User rejected" } : undefined;
    await payOn(careful.page);
    await problem(careful, /You declined the request in your wallet\. Nothing was charged/);
    careful.wallet.rejects = () => undefined;
    await careful.page.getByRole("button", { name: /^Pay/ }).click();
    await careful.page.getByText("the report", { exact: true }).waitFor();

    const elsewhere = await shop.open(url, { chainId: 1 });
    elsewhere.wallet.known.clear();
    await payOn(elsewhere.page);
    await problem(elsewhere, /The wallet does not know Local 31337\..+chain ID 31337/);
    elsewhere.wallet.known.add(31_337);
    await elsewhere.page.getByRole("button", { name: /^Pay/ }).click();
    await elsewhere.page.getByText("the report", { exact: true }).waitFor();
    for (const { wallet } of [poor]) expect(wallet.signed).to.deep.equal([]);
    for (const { wallet } of [careful, elsewhere]) expect(wallet.signed).to.have.length(1);
  });

  it("asks again when the price has changed, and signs the new one only when that is paid", async () => {
    let price = "$0.50";
    const pricing = [{ type: "one-time" as const, price: () => price }];
    const url = await shop.sell((_request, response) => response.end("the report"), { pricing });
    const { page, wallet, spent } = await shop.open(url);
    await page.getByRole("button", { name: "Connect a wallet" }).click();
    price = "$0.75";
    // A quote holds until it expires; the page reads the price again before it signs an old one.
    await page.clock.setFixedTime(Date.now() + 61_000);
    await page.getByRole("button", { name: "Pay 0.50 tUSD" }).click();
    await page.getByRole("alert").filter({ hasText: "The price is now 0.75 tUSD. Nothing was charged" }).waitFor();
    expect(wallet.signed).to.deep.equal([]);
    await page.getByRole("button", { name: "Pay 0.75 tUSD" }).click();
    await page.getByText("the report", { exact: true }).waitFor();
    expect(await spent()).to.equal(750_000n);
  });

  it("offers every wallet and every price, by keyboard alone", async () => {
    const { token, facilitator, payTo } = shop.settings;
    const elsewhere = { network: "local-4242", token, facilitator, payTo, price: "0.60 tUSD" } as const;
    const pricing = [{ type: "one-time" as const, prices: [{ price: "$0.50" }, elsewhere] }];
    const url = await shop.sell((_request, response) => response.end("the report"), { pricing });
    const { page, wallet } = await shop.open(url, { names: ["First Wallet", "<b>Second</b>"], width: 390 });
    expect(await failuresOf(page)).to.deep.equal([]);
    await shoot(page, "options");
    await page.keyboard.press("Tab");
    await page.keyboard.press("ArrowDown");
    await page.getByText("on Local 4242", { exact: true }).waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "<b>Second</b>" }).waitFor();
    await shoot(page, "wallets");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Pay 0.60 tUSD" }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "does not know Local 4242" }).waitFor();
    await page.getByRole("radio", { name: /0\.50 tUSD/ }).check();
    await page.getByRole("button", { name: "Pay 0.50 tUSD" }).click();
    await page.getByText("the report", { exact: true }).waitFor();
    expect(wallet.signed).to.have.length(1);
    expect(await page.evaluate(() => document.activeElement?.id)).to.equal("received");
    expect(await failuresOf(page)).to.deep.equal([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).to.be.at.most(390);
  });

  it("keeps its contrast in the dark, and fits a telephone", async () => {
    const url = await shop.sell((_request, response) => response.end("the report"));
    for (const [colorScheme, width] of [
      ["dark", 1280],
      ["light", 390],
      ["dark", 320],
    ] as const) {
      const { page } = await shop.open(url, { colorScheme, width, tokens: 100_000n });
      await payOn(page);
      await page.getByRole("alert").filter({ hasText: "the wallet has 0.10 tUSD" }).waitFor();
      await page.getByText("Details").click();
      expect(await failuresOf(page), colorScheme).to.deep.equal([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).to.be.at.most(width);
      await shoot(page, `problem-${colorScheme}-${width}`);
    }
  });

  it("C31 shows a hostile description and address as text, and runs none of it", async () => {
    const attack = `"'><script>document.title="hacked"</script><img src=x onerror='document.title="hacked"'></script>`;
    const url = await shop.sell((_request, response) => response.end("the report"), { description: attack });
    const { page } = await shop.open(`${url}&q="><svg/onload=document.title=1>${encodeURIComponent(attack)}`);
    expect(await page.getByRole("heading", { level: 1 }).textContent()).to.equal(attack);
    expect(await page.title()).to.contain(attack);
    await payOn(page);
    await page.getByText("the report", { exact: true }).waitFor();
  });

  it("C32 cannot be framed by another page", async () => {
    const url = await shop.sell((_request, response) => response.end("the report"));
    const page = await shop.browser.newPage();
    const blocked = page.waitForEvent("console", (message) => /frame-ancestors/.test(message.text()));
    await page.setContent(`<iframe src="${url}"></iframe>`);
    await blocked;
    expect(await page.frameLocator("iframe").getByRole("button").count()).to.equal(0);
  });
});

/** Wallets and people that do not do what the payment page expects: one signature and one charge, or none. */
import { expect } from "chai";
import { PRICE, payOn, useShop } from "./support/page-shop";

describe("the payment page with wallets that misbehave", function () {
  this.timeout(300_000);
  const shop = useShop();
  const sell = () => shop.sell((_request, response) => response.end("the report"));

  it("C38 pays from the account that the wallet changed to while it was asked to sign", async () => {
    const { page, wallet, spent, account } = await shop.open(await sell());
    const other = await account();
    let decline: () => void = () => undefined;
    const declined = new Promise<void>((resolve) => {
      decline = resolve;
    });
    wallet.waits = (method) => (method === "eth_signTypedData_v4" ? declined : undefined);
    wallet.rejects = (method) => (method === "eth_signTypedData_v4" ? { code: 4001, message: "No" } : undefined);
    await payOn(page);
    await page.getByText("Sign in your wallet").waitFor();
    await wallet.switchAccount(other);
    decline();
    await page.getByRole("alert").filter({ hasText: "You declined the request" }).waitFor();
    expect((await page.locator("#account").textContent())?.toLowerCase()).to.contain(
      other.address.slice(-4).toLowerCase(),
    );
    wallet.rejects = () => undefined;
    await page.getByRole("button", { name: /^Pay/ }).click();
    await page.getByText("the report", { exact: true }).waitFor();
    expect(wallet.signed.map(({ message }) => String(message.from).toLowerCase())).to.deep.equal([
      other.address.toLowerCase(),
    ]);
    expect(await spent(), "nothing of the first account").to.equal(0n);
  });

  it("C38 charges nothing by what another account signed, or by another message", async () => {
    const { page, wallet, spent, account, address } = await shop.open(await sell());
    const { key } = wallet.account;
    wallet.account = { key: (await account()).key, address };
    await payOn(page);
    const refused = page.getByRole("alert").filter({ hasText: "was not accepted, and nothing was charged" });
    await refused.waitFor();
    wallet.account = { address, key };
    wallet.alters = (typed) => ({ ...typed, message: { ...typed.message, value: String(2n * PRICE) } });
    await page.getByRole("button", { name: /^Pay/ }).click();
    await page.getByRole("status").filter({ hasText: "Checking your wallet" }).or(refused).first().waitFor();
    await refused.waitFor();
    expect(await spent()).to.equal(0n);
    wallet.alters = (typed) => typed;
    await page.getByRole("button", { name: /^Pay/ }).click();
    await page.getByText("the report", { exact: true }).waitFor();
    expect(await spent()).to.equal(PRICE);
  });

  it("C38 asks for the signature also where the wallet never answers about the balance", async () => {
    const { page, wallet, spent } = await shop.open(await sell());
    wallet.waits = (method) => (method === "eth_call" ? new Promise(() => undefined) : undefined);
    await payOn(page);
    await page.getByText("the report", { exact: true }).waitFor();
    expect(await spent()).to.equal(PRICE);
  });

  it("C36 signs once for two clicks, and charges once when the person goes back, and in a copy of the tab", async () => {
    const url = await sell();
    const { page, wallet, spent } = await shop.open(url);
    await page.getByRole("button", { name: "Connect a wallet" }).dblclick();
    await page.getByRole("button", { name: /^Pay/ }).dblclick();
    const bought = page.getByText("the report", { exact: true });
    await bought.waitFor();
    await page.goto("about:blank");
    await page.goBack();
    await bought.waitFor();
    await page.reload();
    await bought.waitFor();
    const popup = page.waitForEvent("popup");
    // As browsers duplicate a tab: with its storage.
    await page.evaluate((target) => void window.open(target), url);
    await (await popup).getByText("the report", { exact: true }).waitFor();
    const fresh = await page.context().newPage();
    await fresh.goto(url);
    await fresh.getByRole("button", { name: "Connect a wallet" }).waitFor();
    expect([wallet.signed.length, await spent()]).to.deep.equal([1, PRICE]);
  });

  it("C31 shows a description without characters that turn the text around it", async () => {
    const description = "Tides \u202Egnp.egap\u2066 \u202A.";
    const url = await shop.sell((_request, response) => response.end("the report"), { description });
    const { page } = await shop.open(url);
    const shown = `${await page.title()} ${await page.locator("main").textContent()}`;
    expect(shown).to.contain("Tides gnp.egap .");
    expect(shown).not.to.match(/[\u202A-\u202E\u2066-\u2069]/u);
  });
});

import { expect } from "chai";
import { Wallet } from "ethers";
import { createFacilitatorClient } from "turnpike/facilitator";
import { type Address, type Hex, signDigest, typedDataDigest } from "turnpike/protocol";
import { testKey } from "../../scripts/sandbox/chain";
import { openPage } from "../support/browser";
import { useDashboard } from "./support/dashboard";

/** A browser wallet (EIP-1193) as the page sees it: what it signs is decided out here. */
async function withWallet(at: ReturnType<typeof useDashboard>, wallet: Wallet, change = (text: string) => text) {
  const { page, errors } = await openPage(at.browser);
  const signed: string[] = [];
  await page.exposeFunction("signHere", async (hex: string) => {
    const text = change(Buffer.from(hex.slice(2), "hex").toString("utf8"));
    signed.push(text);
    return wallet.signMessage(text);
  });
  await page.addInitScript((address) => {
    (window as unknown as { ethereum: unknown }).ethereum = {
      async request({ method, params }: { method: string; params: readonly string[] }) {
        if (method === "eth_requestAccounts") return [address];
        if (method === "personal_sign")
          return (window as unknown as { signHere(hex: string): Promise<string> }).signHere(params[0] ?? "");
        throw new Error(`the wallet does not do ${method}`);
      },
    };
  }, wallet.address.toLowerCase());
  await page.goto(`${at.world.facilitator.url}/`);
  await page.getByRole("button", { name: "Sign out" }).click();
  return { page, signed, errors };
}

async function keyOf(url: string, wallet: Wallet, scopes: readonly "webhooks"[]): Promise<string> {
  const client = createFacilitatorClient({ url });
  const { chainId, proofSigners } = await client.supported();
  const created = await client.createKey({
    provider: wallet.address as Address,
    name: "narrow",
    scopes,
    chainId,
    facilitator: proofSigners[0] as Address,
    sign: async (data) => signDigest(typedDataDigest(data), wallet.privateKey as Hex),
  });
  if (created.kind === "refused") throw created.error;
  return created.key.key;
}

describe("dashboard: signing in", function () {
  this.timeout(300_000);
  const at = useDashboard();

  it("refuses a key that is none, and takes the provider's", async () => {
    const { page, world } = at;
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("No wallet was found in this browser.").waitFor();
    await page.fill("input[name=key]", `tpk_${"0".repeat(48)}`);
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").textContent()).to.match(/unknown, revoked or past its end/);
    await page.fill("input[name=key]", world.providerKey ?? "");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    expect(page.url()).not.to.include("tpk_");
  });

  it("HF10 says why a key opens nothing: letters of no key, a scope that is missing, a saved key that has ended", async () => {
    const { page, world } = at;
    const alert = (text: RegExp) => page.getByRole("alert").filter({ hasText: text }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    expect(await page.getByRole("alert").count()).to.equal(0);
    await page.fill("input[name=key]", "tpk_schlüssel");
    await page.keyboard.press("Enter");
    await alert(/This is no API key/);
    const wallet = new Wallet(testKey("somebody with a key for webhooks alone"));
    const narrow = await keyOf(world.facilitator.url, wallet, ["webhooks"]);
    await page.fill("input[name=key]", narrow);
    await page.keyboard.press("Enter");
    await alert(/lacks the scope read/);
    for (const [saved, text] of [
      [narrow, /lacks the scope read/],
      [`tpk_${"0".repeat(16)}_${"A".repeat(43)}`, /unknown, revoked or past its end/],
      ["tpk_schlüssel", /signed out|no API key/],
    ] as const) {
      await page.evaluate((key) => sessionStorage.setItem("turnpike-key", key), saved);
      await page.reload();
      await page.getByText("Sign in as a provider").waitFor();
      await alert(text);
    }
    await page.fill("input[name=key]", world.providerKey ?? "");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Overview" }).waitFor();
  });

  it("keeps the key over a reload, and forgets it when signed out", async () => {
    const { page } = at;
    await page.reload();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("Sign in as a provider").waitFor();
    expect(await page.evaluate(() => [sessionStorage.length, localStorage.length, document.cookie])).to.deep.equal([
      0,
      0,
      "",
    ]);
    await page.getByRole("button", { name: "Open the sandbox" }).click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
  });

  it("B21 signs in by a wallet over EIP-4361 for this page's own host, and ends the key when signed out", async () => {
    const { world } = at;
    const wallet = new Wallet(testKey("somebody who signs in"));
    const { page, signed, errors } = await withWallet(at, wallet);
    await page.getByRole("button", { name: "Sign in with your wallet" }).click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    const { host, origin } = new URL(world.facilitator.url);
    expect(signed).to.have.length(1);
    expect(signed[0]).to.match(
      new RegExp(`^${host} wants you to sign in with your Ethereum account:\n${wallet.address}\n`),
    );
    expect(signed[0]).to.include(`\nURI: ${origin}\nVersion: 1\nChain ID: 31337\nNonce: `);
    // A stranger to the operator sees health, and no lanes' balances.
    await page.evaluate(() => {
      location.hash = "/system";
    });
    await page.getByRole("heading", { name: "Health" }).waitFor();
    expect(await page.getByRole("heading", { name: "Relayer keys" }).count()).to.equal(0);

    const key = (await page.evaluate(() => sessionStorage.getItem("turnpike-key"))) ?? "";
    expect(page.url()).not.to.include(key);
    const isLive = async () =>
      (await fetch(`${world.facilitator.url}/keys/current`, { headers: { authorization: `Bearer ${key}` } })).status;
    expect(await isLive()).to.equal(200);
    const ended = page.waitForResponse((answer) => answer.request().method() === "DELETE");
    await page.getByRole("button", { name: "Sign out" }).click();
    await ended;
    expect(await isLive()).to.equal(401);
    expect(errors).to.deep.equal([]);
  });

  it("B21 lets nobody in whose wallet signed for another site", async () => {
    const wallet = new Wallet(testKey("somebody who is phished"));
    const { host } = new URL(at.world.facilitator.url);
    const { page } = await withWallet(at, wallet, (text) => text.replaceAll(host, "turnpike.example"));
    await page.getByRole("button", { name: "Sign in with your wallet" }).click();
    await page.getByRole("alert").filter({ hasText: "is not signed by" }).waitFor();
    expect(await page.evaluate(() => sessionStorage.length)).to.equal(0);
  });
});

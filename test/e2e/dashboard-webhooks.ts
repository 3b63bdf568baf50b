import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { verifyWebhook, WEBHOOK_EVENT_TYPES } from "turnpike/facilitator";
import { until } from "../support/sandbox";
import { atWidths } from "../support/variants";
import { useDashboard, visit, wide } from "./support/dashboard";

interface Received {
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: string;
}

describe("dashboard: webhooks", function () {
  this.timeout(300_000);
  const at = useDashboard();
  const received: Received[] = [];
  let status = 204;
  let receiver: Server;
  let url: string;

  before(async () => {
    receiver = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        received.push({ headers: request.headers, body: Buffer.concat(chunks).toString("utf8") });
        response.writeHead(status).end();
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  });
  after(() => {
    receiver?.close();
    receiver?.closeAllConnections();
  });

  const secretOf = async (): Promise<string> => (await at.page.locator(".secret code").textContent()) ?? "";
  const row = (name: string | RegExp) =>
    at.page.getByRole("list", { name: "Webhook endpoints" }).getByRole("listitem").filter({ hasText: name });
  const deliveries = () => at.page.getByRole("table", { name: "Deliveries" }).getByRole("row");
  let secret: string;

  atWidths([1440, 390], "job 10: adds an endpoint for some events, and shows its secret once", async (width) => {
    const { page } = at;
    await wide(page, width);
    // What follows is done with the last one.
    url = new URL(`/${width}`, url).href;
    await visit(page, "/webhooks");
    await page.getByRole("button", { name: "Add an endpoint" }).click();
    const form = page.getByRole("form", { name: "New endpoint" });
    await form.getByLabel("Address").fill(url);
    await form.getByLabel("Description").fill("billing");
    await form.getByLabel("Only these").check();
    const offered = await form.getByRole("checkbox").locator("..").allTextContents();
    expect(offered.map((text) => text.trim())).to.have.members([...WEBHOOK_EVENT_TYPES]);
    await form.getByLabel("subscription.renewed").check();
    await form.getByRole("button", { name: "Add", exact: true }).click();
    await page.locator(".secret").waitFor();
    secret = await secretOf();
    expect(secret).to.match(/^whsec_/);
    await row(url).filter({ hasText: "2 types" }).waitFor();
    await visit(page, "/payments");
    await visit(page, "/webhooks");
    expect(await page.getByText(secret).count()).to.equal(0);
  });

  it("sends a test, which the receiver can verify, and shows the delivery with its attempts", async () => {
    const { page } = at;
    await page.getByRole("button", { name: `Send a test to ${url}` }).click();
    await page.getByText(`To ${url}, newest first.`).waitFor();
    await deliveries().filter({ hasText: "webhook.test" }).filter({ hasText: "delivered" }).waitFor();
    const { body, headers } = received[0] ?? { body: "", headers: {} };
    expect(verifyWebhook(body, headers, secret).type).to.equal("webhook.test");
    await page.getByRole("link", { name: "webhook.test" }).click();
    await page.getByRole("table", { name: "Attempts" }).getByText("HTTP 204").waitFor();
    await page.getByRole("link", { name: "All deliveries" }).click();
  });

  it("sends a delivery again, also one that failed", async () => {
    const { page } = at;
    status = 500;
    const before = received.length;
    await page.getByRole("button", { name: `Send a test to ${url}` }).click();
    const newest = deliveries().nth(1);
    await newest.filter({ hasText: "pending" }).waitFor();
    await until("an attempt that fails", async () => received.length > before);
    status = 204;
    await newest.getByRole("button", { name: "Send again: webhook.test" }).click();
    await newest.filter({ hasText: "delivered" }).waitFor();
    expect(received.length).to.be.at.least(before + 2);
    await page.getByLabel("State").selectOption("failed");
    await page.getByText("No delivery is in this state.").waitFor();
    expect(page.url()).to.include("state=failed");
    await page.getByLabel("State").selectOption("delivered");
    await deliveries().nth(1).filter({ hasText: "webhook.test" }).waitFor();
    await page.getByLabel("State").selectOption("");
  });

  it("rotates the secret: the new one is shown once, and both sign", async () => {
    const { page } = at;
    await page.getByRole("button", { name: `Rotate the secret of ${url}` }).click();
    await page.getByText("The old one signs too until").waitFor();
    const next = await secretOf();
    expect(next)
      .to.match(/^whsec_/)
      .and.not.equal(secret);
    const before = received.length;
    await page.getByRole("button", { name: `Send a test to ${url}` }).click();
    await until("the test event", async () => received.length > before);
    const { body, headers } = received.at(-1) ?? { body: "", headers: {} };
    for (const one of [secret, next]) expect(verifyWebhook(body, headers, one).type).to.equal("webhook.test");
  });

  it("edits, disables, enables and removes it", async () => {
    const { page } = at;
    await page.getByRole("button", { name: `Edit ${url}` }).click();
    const form = page.getByRole("form", { name: "Change the endpoint" });
    // What turns the text beside it around is shown by its number.
    await form.getByLabel("Description").fill("ledger\u202e");
    await form.getByLabel(/All but the digest/).check();
    await form.getByRole("button", { name: "Save" }).click();
    await row(/ledger\\u202e/)
      .filter({ hasText: "all" })
      .waitFor();
    await page.getByRole("button", { name: `Disable ${url}` }).click();
    await row(/ledger/)
      .filter({ hasText: "disabled" })
      .waitFor();
    expect(await page.getByRole("button", { name: `Send a test to ${url}` }).isDisabled()).to.equal(true);
    await page.getByRole("button", { name: `Enable ${url}` }).click();
    await row(/ledger/)
      .filter({ hasText: "enabled" })
      .waitFor();
    await page.getByRole("button", { name: `Remove ${url}` }).click();
    await page.getByRole("button", { name: "Keep it" }).click();
    await page.getByRole("button", { name: `Remove ${url}` }).click();
    await page.getByRole("button", { name: "Remove it" }).click();
    await row(/ledger/).waitFor({ state: "detached" });
  });

  it("says what is wrong with an address, and keeps what was typed", async () => {
    const { page } = at;
    await page.getByRole("button", { name: "Add an endpoint" }).click();
    const form = page.getByRole("form", { name: "New endpoint" });
    await form.getByLabel("Address").fill("http://user:password@127.0.0.1/");
    await form.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByRole("alert").waitFor();
    expect(await form.getByLabel("Address").inputValue()).to.include("127.0.0.1");
    await form.getByLabel("Address").fill(`https://example.com/${"a".repeat(2_048)}`);
    await form.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByRole("alert").filter({ hasText: "url: is too long: use at most 2048 characters" }).waitFor();
    await form.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("alert").waitFor({ state: "detached" });
  });

  it("HF11 moves the focus into what a button opens, and back", async () => {
    const { page } = at;
    const hasFocus = (name: string) =>
      page.waitForFunction((wanted) => {
        const { activeElement: one } = document;
        return (one?.getAttribute("name") ?? one?.getAttribute("aria-label") ?? one?.textContent) === wanted;
      }, name);
    await page.getByRole("button", { name: "Add an endpoint" }).focus();
    await page.keyboard.press("Enter");
    await hasFocus("url");
    await page.getByRole("button", { name: "Cancel" }).focus();
    await page.keyboard.press("Enter");
    await hasFocus("Add an endpoint");
    await page.keyboard.press("Enter");
    await page.getByLabel("Address").fill(url);
    await page.keyboard.press("Enter");
    await page.locator(".secret").waitFor();
    await hasFocus("Add an endpoint");
    await page.getByRole("button", { name: `Remove ${url}` }).focus();
    await page.keyboard.press("Enter");
    await hasFocus("Remove it");
    await page.getByRole("button", { name: "Keep it" }).focus();
    await page.keyboard.press("Enter");
    await hasFocus(`Remove ${url}`);
    await page.keyboard.press("Enter");
    await hasFocus("Remove it");
    await page.keyboard.press("Enter");
    await page.getByText("The endpoint is removed.").waitFor();
    await hasFocus("Add an endpoint");
  });
});

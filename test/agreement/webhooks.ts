import { readFileSync, writeFileSync } from "node:fs";
import { expect } from "chai";
import { Webhook } from "standardwebhooks";
import { verifyWebhook, WEBHOOK_DATA, WEBHOOK_EVENT_TYPES, type WebhookEventType } from "turnpike/facilitator";
import { DELAYS_SEC } from "../../facilitator/src/webhooks/schedule";
import { webhookExamples } from "./support/webhook-examples";

const PAGE = "docs/reference/webhooks.md";
const GUIDE = "docs/guides/webhooks.md";
/** Shown whole; of the others the page lists what they add. */
const SHOWN: readonly WebhookEventType[] = [
  "payment.settled",
  "refund.settled",
  "plan.created",
  "subscription.created",
  "subscription.renewal_at_risk",
  "allowance.debited",
];
const COMMON: Readonly<Record<string, WebhookEventType>> = {
  payment: "payment.settled",
  refund: "refund.settled",
  plan: "plan.created",
  subscription: "subscription.paused",
  allowance: "subscription.paused",
};

const words = (sec: number): string => {
  if (sec >= 3_600) return `${sec / 3_600} h`;
  return sec >= 60 ? `${sec / 60} min` : sec === 0 ? "at once" : `${sec} s`;
};

describe("agreement > webhooks", () => {
  const examples = webhookExamples();

  it("every event of the wire has an example that a receiver reads as that event", () => {
    const secret = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;
    const nowSec = 1_800_000_000;
    for (const type of WEBHOOK_EVENT_TYPES) {
      const body = examples.get(type) ?? "";
      const id = String(JSON.parse(body).id);
      const signature = new Webhook(secret).sign(id, new Date(nowSec * 1_000), body);
      const headers = { "webhook-id": id, "webhook-timestamp": String(nowSec), "webhook-signature": signature };
      expect(verifyWebhook(body, headers, secret, { nowSec }).type, type).to.equal(type);
      // What is sent is described to the last field: nothing that a type leaves out.
      const described = Object.keys(WEBHOOK_DATA[type].shape);
      expect(described, type).to.include.members(Object.keys(JSON.parse(body).data));
    }
    expect([...examples.keys()].sort()).to.deep.equal([...WEBHOOK_EVENT_TYPES].sort());
  });

  it("docs/reference/webhooks.md shows payloads as the service makes them", () => {
    const page = readFileSync(PAGE, "utf8");
    const shown = SHOWN.map((type) => JSON.stringify(JSON.parse(examples.get(type) ?? "{}"), null, 2));
    const blocks = /```json\n([\s\S]*?)\n```/g;
    let place = 0;
    const expected = page.replace(blocks, () => `\`\`\`json\n${shown[place++] ?? ""}\n\`\`\``);
    // UPDATE_DOCS=1 writes the page instead of judging it.
    if (process.env.UPDATE_DOCS === "1") return writeFileSync(PAGE, expected);
    expect([...page.matchAll(blocks)].map(([, block]) => block)).to.deep.equal(shown);
  });

  it("docs/reference/webhooks.md lists every event with the fields that it alone has", () => {
    const page = readFileSync(PAGE, "utf8");
    const listed = page.split("\n").filter((line) => /^\| `[a-z]+\.[a-z_]+` \|/.test(line));
    const rows = listed.map((line) => line.split("|").map((cell) => cell.trim()));
    expect(rows.map(([, type]) => type?.replaceAll("`", ""))).to.deep.equal(WEBHOOK_EVENT_TYPES);
    for (const [, name = "", , fields = ""] of rows) {
      const type = name.replaceAll("`", "") as WebhookEventType;
      const example = COMMON[type.split(".")[0] ?? ""];
      const common = example ? Object.keys(WEBHOOK_DATA[example].shape) : [];
      const own = Object.keys(WEBHOOK_DATA[type].shape).filter((field) => !common.includes(field));
      expect(fields === "" ? [] : fields.replaceAll("`", "").split(", "), type).to.deep.equal(own);
    }
  });

  it("docs/guides/webhooks.md lists the schedule that the service uses", () => {
    const text = readFileSync(GUIDE, "utf8").replaceAll(/\s+/g, " ");
    expect(text).to.include(`Attempts: ${DELAYS_SEC.map(words).join(", ")}`);
  });
});

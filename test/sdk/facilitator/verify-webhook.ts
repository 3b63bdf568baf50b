import { expect } from "chai";
import { Webhook } from "standardwebhooks";
import { verifyWebhook, WEBHOOK_EVENT_TYPES } from "turnpike/facilitator";
import { keccakText } from "turnpike/protocol";
import { PROVIDER, planPayload } from "../../facilitator/webhooks/support/outbox";

const secretOf = (name: string): string => `whsec_${Buffer.from(keccakText(name).slice(2), "hex").toString("base64")}`;
const SECRET = secretOf("test secret of no worth");
const NOW_SEC = 1_800_000_000;

const envelope = (more: Record<string, unknown> = {}) => ({
  type: "plan.created",
  id: keccakText("event"),
  occurredAt: NOW_SEC - 5,
  network: "local-31337",
  chainId: 31_337,
  subject: keccakText("a plan"),
  sequence: 1,
  data: planPayload(PROVIDER),
  ...more,
});

function sent(event: Record<string, unknown> = envelope(), { secret = SECRET, atSec = NOW_SEC } = {}) {
  const body = JSON.stringify(event);
  const id = String(event.id);
  const signature = new Webhook(secret).sign(id, new Date(atSec * 1_000), body);
  return { body, headers: { "webhook-id": id, "webhook-timestamp": String(atSec), "webhook-signature": signature } };
}

const verify = ({ body, headers }: ReturnType<typeof sent>, secrets: string | string[] = SECRET) =>
  verifyWebhook(body, headers, secrets, { nowSec: NOW_SEC });

function reasonOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    const { code, reason } = error as { code?: string; reason?: string };
    return `${code}: ${reason}`;
  }
  return "accepted";
}

describe("SDK: verifyWebhook", () => {
  it("accepts what the stock signer signed: typed, with amounts as bigint, from text, bytes and any form of headers", () => {
    const { body, headers } = sent();
    const options = { nowSec: NOW_SEC };
    const event = verifyWebhook(body, headers, SECRET, options);
    if (event.type !== "plan.created") throw new Error(event.type);
    expect(event.data).to.include({ amount: 1_000_000n, interval: 86_400 });
    expect(verifyWebhook(Buffer.from(body), new Headers(headers), SECRET, options)).to.deep.equal(event);
    const shouted = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), [value]]));
    expect(verifyWebhook(body, shouted, SECRET.slice(6), options)).to.deep.equal(event);
  });

  it("asks for the raw body where a parser has made an object of it, or it was written again", () => {
    const { body, headers } = sent();
    const message = (given: unknown, more: { headers?: unknown; secrets?: unknown } = {}): string => {
      try {
        verifyWebhook(given as string, (more.headers ?? headers) as never, (more.secrets ?? SECRET) as never, {
          nowSec: NOW_SEC,
        });
      } catch (error) {
        return `${(error as { code?: string }).code}: ${(error as Error).message}`;
      }
      return "accepted";
    };
    for (const parsed of [JSON.parse(body), undefined, null, 5, [1]]) {
      expect(message(parsed)).to.match(/^InvalidWebhook: .*give verifyWebhook the raw body/);
    }
    expect(message(new Uint8Array([0x1f, 0x8b, 8]))).to.match(/not UTF-8: give verifyWebhook the raw body/);
    const rewritten = JSON.stringify(JSON.parse(body), null, 2);
    expect(message(rewritten)).to.match(/^InvalidWebhook: .*no known secret made its signature.* the raw one/);
    expect(message(body, { headers: 5 })).to.match(/^InvalidWebhook: .*headers/);
    for (const secrets of [5, {}, [undefined]])
      expect(message(body, { secrets })).to.match(/^ConfigError: A webhook secret/);
  });

  it("B19 refuses a forged body, id, time, secret or version", () => {
    const { body, headers } = sent();
    const changed: [string, Partial<typeof headers>][] = [
      [body.replace("1000000", "9000000"), {}],
      [`${body} `, {}],
      [body, { "webhook-id": keccakText("other") }],
      [body, { "webhook-timestamp": String(NOW_SEC + 1) }],
      [body, { "webhook-signature": headers["webhook-signature"].replace("v1,", "v2,") }],
      [body, { "webhook-signature": headers["webhook-signature"].slice(3) }],
      [body, { "webhook-signature": "v1," }],
    ];
    for (const [text, more] of changed) {
      const act = () => verifyWebhook(text, { ...headers, ...more }, SECRET, { nowSec: NOW_SEC });
      expect(reasonOf(act), JSON.stringify(more)).to.equal("InvalidWebhook: signature");
    }
    expect(reasonOf(() => verify(sent(), secretOf("another")))).to.equal("InvalidWebhook: signature");
    expect(reasonOf(() => verify(sent(), []))).to.equal("InvalidWebhook: signature");
    for (const empty of ["", "whsec_", "whsec_AAAA", "not base64!"]) {
      expect(
        reasonOf(() => verify(sent(), empty)),
        empty,
      ).to.match(/^ConfigError/);
    }
    for (const name of Object.keys(headers)) {
      const without = { ...headers, [name]: undefined };
      expect(reasonOf(() => verifyWebhook(body, without, SECRET, { nowSec: NOW_SEC }))).to.equal(
        "InvalidWebhook: headers",
      );
    }
  });

  it("B19 refuses a replay outside the tolerance, to the second; inside, the id is the same", () => {
    for (const [ageSec, expected] of [
      [300, "accepted"],
      [301, "InvalidWebhook: timestamp"],
      [-300, "accepted"],
      [-301, "InvalidWebhook: timestamp"],
    ] as const) {
      expect(
        reasonOf(() => verify(sent(envelope(), { atSec: NOW_SEC - ageSec }))),
        `${ageSec}`,
      ).to.equal(expected);
    }
    for (const timestamp of ["", "soon", "1e9", "-1", "1800000000.5", "0x6b49d200"]) {
      const { body, headers } = sent();
      const act = () =>
        verifyWebhook(body, { ...headers, "webhook-timestamp": timestamp }, SECRET, { nowSec: NOW_SEC });
      expect(reasonOf(act), timestamp).to.match(/^InvalidWebhook: (timestamp|headers)$/);
    }
    const first = sent();
    expect(verify(first).id).to.equal(verify(sent(envelope(), { atSec: NOW_SEC - 60 })).id);
  });

  it("B19 events that arrive in the wrong order are ordered by their sequence", () => {
    const events = [3, 1, 2].map((sequence) => verify(sent(envelope({ id: keccakText(`${sequence}`), sequence }))));
    let newest = events[0];
    for (const event of events) if (newest && event.sequence > newest.sequence) newest = event;
    expect(newest?.sequence).to.equal(3);
    expect(new Set(events.map(({ subject }) => subject)).size).to.equal(1);
  });

  it("B19 accepts a signature by either secret, or by both, during a rotation", () => {
    const [old, fresh] = [secretOf("old"), secretOf("fresh")];
    const one = sent(envelope(), { secret: old });
    expect(verify(one, [fresh, old]).type).to.equal("plan.created");
    const both = `${one.headers["webhook-signature"]} ${sent(envelope(), { secret: fresh }).headers["webhook-signature"]}`;
    const headers = { ...one.headers, "webhook-signature": both };
    for (const secret of [old, fresh]) expect(verify({ ...one, headers }, secret).type).to.equal("plan.created");
  });

  it("refuses a signed body that is not an event, and returns a later version's type as unknown", () => {
    for (const event of [
      envelope({ data: {} }),
      envelope({ data: { ...planPayload(PROVIDER), amount: "1e6" } }),
      envelope({ sequence: "1" }),
      envelope({ subject: undefined }),
    ]) {
      expect(reasonOf(() => verify(sent(event)))).to.equal("InvalidWebhook: body");
    }
    const { headers } = sent();
    const other = sent(envelope({ id: keccakText("another") }));
    const signature = new Webhook(SECRET).sign(headers["webhook-id"], new Date(NOW_SEC * 1_000), other.body);
    const swapped = { ...other, headers: { ...headers, "webhook-signature": signature } };
    expect(
      reasonOf(() => verify(swapped)),
      "header and body name two events",
    ).to.equal("InvalidWebhook: body");
    expect(verify(sent(envelope({ type: "plan.renamed", data: { any: 1 } })))).to.include({
      type: "unknown",
      name: "plan.renamed",
    });
    expect(verify(sent(envelope({ type: "webhook.test", data: {} }))).type).to.equal("webhook.test");
  });

  it("accepts every event type of the wire", () => {
    expect([...WEBHOOK_EVENT_TYPES].sort()).to.deep.equal(
      [
        ...["settled", "failed", "reversed", "restored"].flatMap((name) => [`payment.${name}`, `refund.${name}`]),
        ...["created", "deprecated", "stopped", "payee_proposed", "payee_changed", "transferred"].map(
          (name) => `plan.${name}`,
        ),
        ...["created", "renewed", "renewal_at_risk", "renewal_failed", "past_due", "paused", "resumed"].map(
          (name) => `subscription.${name}`,
        ),
        ...["plan_changed", "next_set", "rekeyed", "cancelled", "expired"].map((name) => `subscription.${name}`),
        ...["debited", "threshold_reached", "exhausted", "cap_changed"].map((name) => `allowance.${name}`),
        "digest.daily",
      ].sort(),
    );
  });
});

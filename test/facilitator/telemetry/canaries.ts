import { expect } from "chai";
import { addressOfKey, type Hex, keccakText } from "turnpike/protocol";
import { createLog, secretsOf } from "../../../facilitator/src/telemetry/log";
import { until } from "../../support/facilitator";
import { dereferenced } from "../../support/openapi";
import { type ServiceWorld, startServiceWorld } from "../support/service";
import { type Receiver, startReceiver } from "../webhooks/support/receiver";

interface Schema {
  readonly type?: string;
  readonly properties?: Record<string, Schema>;
  readonly items?: Schema;
}
interface Document {
  readonly paths: Record<
    string,
    Record<
      string,
      {
        parameters?: { name: string; in: string }[];
        requestBody?: { content: Record<string, { schema: Schema }> };
      }
    >
  >;
}

const digits = (name: string, length: number): string => keccakText(name).slice(2).repeat(4).slice(0, length);
/** One of each kind of secret that a client may put in the wrong place. */
const CANARIES = {
  apiKey: `tpk_${digits("key", 16)}_${digits("secret", 43)}`,
  webhookSecret: `whsec_${digits("webhook", 43)}=`,
  subscription: `0x${digits("subscription", 104)}`,
  signature: `0x${digits("signature", 130)}`,
} as const;

describe("Facilitator: canaries", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let receiver: Receiver;
  before(async () => {
    world = await startServiceWorld();
    receiver = await startReceiver();
  });
  after(async () => {
    await receiver.stop();
    await world.stop();
  });

  it("S12 B23 secrets placed in every input of every route are in no log, answer, webhook or metric", async () => {
    const lines: string[] = [];
    const settings = {
      RENEWALS: "false",
      ALLOW_PRIVATE_WEBHOOKS: "true",
      LOG_LEVEL: "debug",
      KEY_REQUESTS_PER_MINUTE: "0",
    };
    const log = createLog({
      level: "debug",
      secrets: secretsOf(world.config(settings)),
      write: (line) => void lines.push(line),
    });
    const service = await world.service(settings, log);
    const key = await service.apiKey();
    const endpoint = await fetch(`${service.url}/webhook-endpoints`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify({ url: receiver.url }),
    });
    const { secret } = (await endpoint.json()) as { secret: string };
    const document = dereferenced<Document>((await (await fetch(`${service.url}/openapi.json`)).json()) as object);

    const answers: string[] = [];
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, { parameters = [], requestBody }] of Object.entries(methods)) {
        for (const canary of Object.values(CANARIES)) {
          const url = new URL(service.url + path.replaceAll(/\{\w+\}/g, canary));
          for (const { name } of parameters.filter((one) => one.in === "query")) url.searchParams.set(name, canary);
          url.searchParams.set("sub", canary);
          const body = requestBody && planted(requestBody.content["application/json"]?.schema ?? {}, canary);
          for (const authorization of [`Bearer ${key}`, `Bearer ${canary}`, canary]) {
            const response = await fetch(url, {
              method: method.toUpperCase(),
              headers: {
                authorization,
                "x-service-sub": canary,
                "x-payment": canary,
                cookie: `a=${canary}`,
                ...(body !== undefined && { "content-type": "application/json" }),
              },
              ...(body !== undefined && { body: JSON.stringify(body) }),
            });
            answers.push(`${[...response.headers].join()} ${await response.text()}`);
          }
        }
      }
    }
    // A real event, so that there is a webhook to look at.
    const subscriber = await world.payer(1_000_000_000n);
    const { request } = await world.signup(subscriber, { permit: 1_000_000_000n });
    await service.client.subscribe(request);
    await until(async () => receiver.received.length > 0, "a webhook came");
    answers.push(await (await fetch(`${service.url}/metrics`)).text());
    log.error({ error: new Error(`${CANARIES.apiKey} ${CANARIES.webhookSecret}`), key, secret }, "planted");
    await service.stop();

    const webhooks = receiver.received.map(({ headers, body }) => JSON.stringify(headers) + body);
    const own = {
      key: key.slice(-43),
      secret: secret.slice(6),
      subscribe: request.signature,
      permit: request.permit?.signature,
    };
    const secrets = {
      ...CANARIES,
      ...own,
      keyTail: CANARIES.apiKey.slice(-43),
      webhookTail: CANARIES.webhookSecret.slice(6),
    };
    expect(lines.length).to.be.greaterThan(100);
    for (const [name, value] of Object.entries(secrets)) {
      const bare = String(value).replace(/^0x/, "").toLowerCase();
      const seen = [...lines, ...answers, ...webhooks].find((text) => text.toLowerCase().includes(bare));
      expect(seen?.slice(0, 600), `${name} was shown`).to.equal(undefined);
    }
  });

  it("S12 keeps API keys by their hash alone", async () => {
    const wallet = {
      key: keccakText("wallet of canaries") as Hex,
      address: addressOfKey(keccakText("wallet of canaries")),
    };
    const service = await world.service({ RENEWALS: "false" });
    const key = await service.apiKey({ wallet });
    await service.stop();
    const core = await world.core();
    const rows = await core.store.db.selectFrom("api_keys").selectAll().execute();
    expect(JSON.stringify(rows)).to.include(key.split("_")[1]).and.not.include(key.slice(-43));
    await core.stop();
  });
});

/** A body of the right shape with the canary at every end. */
function planted(schema: Schema, canary: string): unknown {
  if (schema.type === "array") return [planted(schema.items ?? {}, canary)];
  if (!schema.properties) return canary;
  return Object.fromEntries(Object.entries(schema.properties).map(([name, one]) => [name, planted(one, canary)]));
}

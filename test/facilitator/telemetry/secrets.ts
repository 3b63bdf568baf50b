import { expect } from "chai";
import {
  addressOfKey,
  type Hex,
  keccakText,
  randomBytes,
  secretHashOf,
  subscriptionId,
  toHex,
} from "turnpike/protocol";
import { createLog, secretsOf } from "../../../facilitator/src/telemetry/log";
import { fund } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { type ServiceWorld, startServiceWorld } from "../support/service";

const canary = (name: string): Hex => keccakText(`canary ${name}`);

describe("Facilitator: secrets", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  before(async () => {
    world = await startServiceWorld();
  });
  after(() => world.stop());

  it("S12 B23 keys, signatures, subscription ids and connection URLs appear in no log line and no answer", async () => {
    const lines: string[] = [];
    const relayerKey = canary("relayer");
    await fund(world.chain, addressOfKey(relayerKey));
    const rpcUrl = `${world.chain.rpcUrl}/v2/canary-api-key`;
    const settings = {
      RELAYER_KEYS: relayerKey,
      PROOF_KEY: canary("proofs"),
      RPC_URLS: `${rpcUrl},http://127.0.0.1:9/v2/canary-api-key`,
      LOG_LEVEL: "debug",
    };
    const config = world.config(settings);
    const log = createLog({ level: "debug", secrets: secretsOf(config), write: (line) => lines.push(line) });
    const service = await world.service(settings, log);

    const secret = canary("subscription");
    const subscriber = await world.payer(1_000_000_000n);
    const id = subscriptionId(subscriber.address, secret);
    const { request } = await world.signup(subscriber, { secretHash: secretHashOf(secret), permit: 1_000_000_000n });
    const payment = paymentToWire(await world.signPayment());
    const answers: string[] = [];
    const call = async (path: string, body?: unknown): Promise<void> => {
      const response = await fetch(service.url + path, {
        ...(body !== undefined && { method: "POST", body: JSON.stringify(body) }),
        headers: { "content-type": "application/json", "x-service-sub": id },
      });
      answers.push(await response.text());
    };
    await call("/subscriptions", request);
    await call("/authorize", { signedPayment: payment });
    await call("/authorize", { signedPayment: { ...payment, memo: id } });
    await call(`/subscriptions/${id}`);
    await call(`/payments/${id}?sub=${id}`);
    await call("/settle", { paymentPayload: payment, paymentRequirements: id });
    await call("/events?limit=200");
    await call("/metrics");
    await call("/readyz");
    log.error(
      { error: new Error(`cannot reach ${rpcUrl} with ${relayerKey}`), id, signature: request.signature },
      "planted",
    );
    await service.stop();

    expect(lines.length).to.be.greaterThan(8);
    const secrets = {
      relayerKey,
      proofKey: canary("proofs"),
      secret,
      id,
      subscribe: request.signature,
      payment: payment.signature,
      permit: request.permit?.signature ?? "",
      apiKey: "canary-api-key",
    };
    for (const [name, value] of Object.entries(secrets)) {
      const bare = value.replace(/^0x/, "").toLowerCase();
      const seen = [...lines, ...answers].find((text) => text.toLowerCase().includes(bare));
      // The proof that was asked for is the one thing with a signature in it, the Facilitator's own.
      expect(seen, `${name} was shown`).to.equal(undefined);
    }
  });

  it("S12 B23 log lines have no key of a refund account, and no node's URL with a key in its query or user name", () => {
    const refundKey = canary("refunds");
    const urls = [
      "https://node.example?apikey=canary-query",
      "https://canary-user:canary-password@node.example",
      "https://user:password@node.example/v2/canary-path",
    ];
    const config = world.config({
      REFUND_KEYS: `${addressOfKey(canary("provider"))}=${refundKey}`,
      RPC_URLS: [...urls, "https://plain.example"].join(),
    });
    const lines: string[] = [];
    const log = createLog({ level: "debug", secrets: secretsOf(config), write: (line) => lines.push(line) });
    // As clients of HTTP name a URL: as it was given, written out, or without the user's name, which goes into a header.
    for (const url of urls.flatMap((text) => [text, new URL(text).href, text.replace(/\/\/.*@/, "//")])) {
      log.error({ error: new Error("no answer", { cause: new TypeError(`cannot reach ${url}`) }) }, "planted");
    }
    log.warn({ reason: `cannot sign with ${refundKey} at https://plain.example` }, "planted");
    expect(lines.join()).not.to.match(/canary-/);
    expect(lines.join()).not.to.include(refundKey.slice(2));
    expect(lines.at(-1), "a URL without a key helps").to.include("https://plain.example");
  });

  it("prints a configuration without its keys", () => {
    const key = toHex(randomBytes(32));
    const config = world.config({ RELAYER_KEYS: key });
    expect(JSON.stringify(config, (_, value) => (typeof value === "bigint" ? String(value) : value))).not.to.include(
      key.slice(2),
    );
  });
});

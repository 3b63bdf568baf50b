/**
 * Receives webhooks as a provider's program would: verifies each signature and stores the event. At its address it
 * lists the events, newest first, as a page for browsers and as JSON for programs. The API key that it registers with
 * belongs to the sandbox and is worthless elsewhere.
 */
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { API_SCOPES, createFacilitatorClient, verifyWebhook } from "turnpike/facilitator";
import { type Address, type Hex, isTurnpikeError, signDigest, typedDataDigest } from "turnpike/protocol";
import type { FundedWallet } from "./chain";
import { type Delivered, inboxPage, PAGE_HEADERS } from "./inbox-page";

export interface Inbox {
  readonly url: string;
  stop(): Promise<void>;
}

const KEPT = 500;

const MAX_BODY_BYTES = 1_000_000;

/** A key with every scope for the provider's wallet. */
export async function providerKey(facilitatorUrl: string, wallet: FundedWallet): Promise<string> {
  const client = createFacilitatorClient({ url: facilitatorUrl });
  const { chainId, proofSigners } = await client.supported();
  const provider = wallet.address as Address;
  const created = await client.createKey({
    provider,
    name: "sandbox",
    scopes: API_SCOPES,
    chainId,
    facilitator: proofSigners[0] as Address,
    sign: async (data) => signDigest(typedDataDigest(data), wallet.privateKey as Hex),
  });
  if (created.kind === "refused") throw created.error;
  return created.key.key;
}

export async function startInbox(facilitatorUrl: string, apiKey: string, port: number): Promise<Inbox> {
  const received: Delivered[] = [];
  const path = `/${randomUUID()}`;
  let secret = "";

  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_BODY_BYTES) request.destroy();
      else chunks.push(chunk);
    });
    request.on("end", () => {
      if (request.method === "GET" && request.url === "/") {
        const newest = [...received].reverse();
        const isBrowser = request.headers.accept?.includes("text/html") ?? false;
        response.writeHead(200, isBrowser ? PAGE_HEADERS : { "content-type": "application/json" });
        response.end(isBrowser ? inboxPage(newest) : JSON.stringify(newest, null, 2));
        return;
      }
      if (request.method !== "POST" || request.url !== path) {
        response.writeHead(404).end();
        return;
      }
      const delivered = read(Buffer.concat(chunks).toString("utf8"), request.headers, secret);
      // At-least-once delivery: the same event again has the same id.
      if (!received.some(({ id }) => id === delivered.id)) received.push(delivered);
      received.splice(0, received.length - KEPT);
      response.writeHead(delivered.isVerified ? 204 : 400).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  try {
    const answer = await fetch(`${facilitatorUrl}/webhook-endpoints`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${apiKey}` },
      body: JSON.stringify({ url: url + path, description: "the sandbox's inbox" }),
    });
    if (!answer.ok) throw new Error(`The Facilitator takes no webhook endpoint: HTTP ${answer.status}.`);
    secret = ((await answer.json()) as { secret: string }).secret;
    return { url, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function read(body: string, headers: NodeJS.Dict<string | string[]>, secret: string): Delivered {
  try {
    const event = verifyWebhook(body, headers, secret);
    return { id: event.id, type: event.type, occurredAt: event.occurredAt, isVerified: true, body: JSON.parse(body) };
  } catch (error) {
    if (!isTurnpikeError(error)) throw error;
    return {
      id: String(headers["webhook-id"]),
      type: "unverified",
      occurredAt: 0,
      isVerified: false,
      body: error.code,
    };
  }
}

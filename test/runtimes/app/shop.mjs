// What every runtime of the suite runs: sells `/report` and `/relay/*`, and buys what `/buy?of=` names.
import { createAgent, walletFromKey } from "turnpike/agent";
import { createProvider, memoryClaims } from "turnpike/gate";
import { paymentGate } from "turnpike/gate/fetch";

async function begin({ gate, amount, upstream, agent }) {
  const provider = await createProvider({ ...gate, claims: memoryClaims() });
  const gated = paymentGate({ provider, pricing: [{ type: "one-time", amount }] });
  const report = gated((request) => Response.json({ paid: request.payment.kind }));
  const relay = gated(async (request) => {
    const { body, headers } = await fetch(`${upstream}${new URL(request.url).pathname}`);
    const kept = [...headers].filter(([name]) => name === "content-type" || name === "content-length");
    return new Response(body, { headers: kept });
  });
  const { key, ...options } = agent;
  const buyer = createAgent({ ...options, wallet: walletFromKey(key) });
  return async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/up") return new Response("up");
    if (pathname === "/report") return report(request);
    if (pathname.startsWith("/relay/")) return relay(request);
    const { status, receipt } = await buyer.pay(searchParams.get("of"));
    return Response.json({ status, transaction: receipt.transaction, amount: String(receipt.amount) });
  };
}

/** Begins with the first request, as a function of a platform does. */
export function shopOf(settings) {
  let shop;
  return async (request) => {
    try {
      shop ??= begin(JSON.parse(settings));
      return await (await shop)(request);
    } catch (error) {
      return new Response(String(error?.stack ?? error), { status: 500 });
    }
  };
}

/** Stock facilitators over HTTP: the packages' own verify and settle, with a funded key on the test's chain. */
import { createServer, type IncomingMessage } from "node:http";
import { closeServer, listen } from "../../support/gate";
import { walletOf } from "./clients";
import { accounts, type Hex, v1, v2 } from "./stock";
import { CAIP2, type InteropWorld, V1_NETWORK } from "./world";

export interface StockFacilitator {
  readonly url: string;
  stop(): Promise<void>;
}

interface Endpoints {
  verify(payload: object, requirements: object): Promise<object>;
  settle(payload: object, requirements: object): Promise<object>;
  supported(): object;
}

export const STOCK_FACILITATORS: Readonly<Record<string, (world: InteropWorld) => Promise<StockFacilitator>>> = {
  async "x402 1.2.0"(world) {
    const client = await fundedClient(world, "stock facilitator v1");
    const { verify, settle } = v1.facilitator();
    return onHttp({
      verify: (payload, requirements) => verify(client, payload, requirements),
      settle: (payload, requirements) => settle(client, payload, requirements),
      supported: () => ({ kinds: [{ x402Version: 1, scheme: "exact", network: V1_NETWORK }] }),
    });
  },
  async "@x402/core 2.27.0"(world) {
    const client = await fundedClient(world, "stock facilitator v2");
    const { x402Facilitator } = v2.facilitator();
    const signer = v2.signer().toFacilitatorEvmSigner(client);
    const facilitator = new x402Facilitator();
    facilitator.register(CAIP2, new (v2.facilitatorScheme().ExactEvmScheme)(signer));
    return onHttp({
      verify: (payload, requirements) => facilitator.verify(payload, requirements),
      settle: (payload, requirements) => facilitator.settle(payload, requirements),
      supported: () => facilitator.getSupported(),
    });
  },
};

async function fundedClient(world: InteropWorld, name: string): Promise<object> {
  const { privateKey } = await world.chain.wallet(name);
  const account = accounts().privateKeyToAccount(privateKey as Hex);
  return Object.assign(walletOf(world, account), { address: account.address });
}

async function onHttp(endpoints: Endpoints): Promise<StockFacilitator> {
  const server = createServer((request, response) => {
    answer(endpoints, request).then(
      (body) => response.writeHead(200, { "Content-Type": "application/json" }).end(body),
      (error: Error) =>
        response.writeHead(500, { "Content-Type": "application/json" }).end(JSON.stringify({ error: error.message })),
    );
  });
  return { url: await listen(server), stop: () => closeServer(server) };
}

async function answer(endpoints: Endpoints, request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += chunk;
  if (request.url === "/supported") return JSON.stringify(endpoints.supported());
  const { paymentPayload, paymentRequirements } = JSON.parse(text) as Record<string, object>;
  const endpoint = request.url === "/verify" ? endpoints.verify : endpoints.settle;
  return JSON.stringify(await endpoint(paymentPayload ?? {}, paymentRequirements ?? {}));
}

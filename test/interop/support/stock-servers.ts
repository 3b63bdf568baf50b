/** Stock resource servers, configured as their documentation shows, with any Facilitator. */
import { createServer } from "node:http";
import { Hono } from "hono";
import { closeServer, listen } from "../../support/gate";
import { counter, onFetch, type Served } from "./gates";
import { type NextOptions, startNext } from "./next-server";
import { stockExpress, type V2ResourceServer, v1, v2 } from "./stock";
import { CAIP2, type InteropWorld, V1_NETWORK } from "./world";

export type StockServer =
  | "x402-express"
  | "x402-hono"
  | "@x402/express"
  | "@x402/hono"
  | "@x402/next, withX402"
  | "@x402/next, proxy";

/** a dollar string of the network's default token, or base units of a token */
export type StockPrice = string | { readonly amount: string; readonly token: "wide" };

export interface StockRoutes {
  /** path -> price */
  readonly prices: Readonly<Record<string, StockPrice>>;
  /** version 2: paths that settle before their handler */
  readonly upfront?: readonly string[];
  /** what the handlers do before they answer */
  readonly before?: (path: string) => Promise<void> | void;
  /** version 2: signs offers and receipts by this issuer of the stock extension */
  readonly offerReceipt?: object;
  /** @x402/next: what the handlers answer */
  readonly body?: (path: string) => string;
  /** status of the handlers' answers; 200 unless given */
  readonly status?: (path: string) => number;
}

type ExpressApp = {
  use(middleware: unknown): void;
  get(path: string, handler: (request: { path: string }, response: ExpressAnswer) => unknown): void;
};
interface ExpressAnswer {
  status(code: number): { json(body: object): void };
}

export const STOCK_SERVERS: Readonly<
  Record<StockServer, (world: InteropWorld, facilitator: string, routes: StockRoutes) => Promise<Served>>
> = {
  async "x402-express"(world, facilitator, routes) {
    return onExpress(
      v1.express().paymentMiddleware(world.payTo, v1Routes(world, routes), { url: facilitator }),
      routes,
    );
  },
  async "x402-hono"(world, facilitator, routes) {
    return onHono(v1.hono().paymentMiddleware(world.payTo, v1Routes(world, routes), { url: facilitator }), routes);
  },
  async "@x402/express"(world, facilitator, routes) {
    const { x402ResourceServer, paymentMiddleware } = v2.express();
    return onExpress(
      paymentMiddleware(v2Routes(world, routes), resourceServer(x402ResourceServer, facilitator, routes)),
      routes,
    );
  },
  async "@x402/hono"(world, facilitator, routes) {
    const { x402ResourceServer, paymentMiddleware } = v2.hono();
    const server = resourceServer(x402ResourceServer, facilitator, routes);
    return onHono(paymentMiddleware(v2Routes(world, routes), server), routes);
  },
  "@x402/next, withX402": (world, facilitator, routes) => onNext("withX402", world, facilitator, routes),
  "@x402/next, proxy": (world, facilitator, routes) => onNext("proxy", world, facilitator, routes),
};

const onNext = (
  form: NextOptions["form"],
  world: InteropWorld,
  facilitator: string,
  routes: StockRoutes,
): Promise<Served> =>
  startNext({
    ...{ form, facilitator, routes: v2Routes(world, routes) },
    async answer(path) {
      await routes.before?.(path);
      return { status: routes.status?.(path) ?? 200, body: routes.body?.(path) ?? '{"answer":42}' };
    },
  });

type ResourceServer = new (facilitator: object) => V2ResourceServer;

function resourceServer(Server: ResourceServer, url: string, { offerReceipt }: StockRoutes): object {
  const { HTTPFacilitatorClient } = v2.server();
  const server = new Server(new HTTPFacilitatorClient({ url }));
  if (offerReceipt) server.registerExtension(v2.offerReceipt().createOfferReceiptExtension(offerReceipt));
  return server.register(CAIP2, new (v2.serverScheme().ExactEvmScheme)());
}

function v1Routes({ wide }: InteropWorld, { prices }: StockRoutes): object {
  const routes = Object.entries(prices).map(([path, price]) => {
    const { address, decimals, name, version } = wide;
    const asset = { address, decimals, eip712: { name, version } };
    return [
      `GET ${path}`,
      { price: typeof price === "string" ? price : { amount: price.amount, asset }, network: V1_NETWORK },
    ];
  });
  return Object.fromEntries(routes);
}

function v2Routes({ wide, payTo }: InteropWorld, { prices, upfront = [], offerReceipt }: StockRoutes): object {
  const extensions = offerReceipt && { extensions: v2.offerReceipt().declareOfferReceiptExtension() };
  const routes = Object.entries(prices).map(([path, price]) => {
    const { address: asset, name, version } = wide;
    const asked = typeof price === "string" ? price : { amount: price.amount, asset, extra: { name, version } };
    const flow = upfront.includes(path) && { extra: { paymentFlow: "upfront" } };
    return [
      `GET ${path}`,
      {
        accepts: { scheme: "exact", network: CAIP2, payTo, price: asked, ...flow },
        description: "A route",
        ...extensions,
      },
    ];
  });
  return Object.fromEntries(routes);
}

async function onExpress(middleware: unknown, routes: StockRoutes): Promise<Served> {
  const count = counter();
  const app = (stockExpress() as () => ExpressApp)();
  app.use(middleware);
  for (const path of Object.keys(routes.prices)) {
    app.get(path, async (_request, response) => {
      count.add();
      await routes.before?.(path);
      response.status(routes.status?.(path) ?? 200).json({ answer: 42 });
    });
  }
  const server = createServer(app as never);
  return { url: await listen(server), runs: count.read, stop: () => closeServer(server) };
}

async function onHono(middleware: unknown, routes: StockRoutes): Promise<Served> {
  const count = counter();
  const app = new Hono();
  app.use(middleware as never);
  for (const path of Object.keys(routes.prices)) {
    app.get(path, async (c) => {
      count.add();
      await routes.before?.(path);
      return c.json({ answer: 42 }, (routes.status?.(path) ?? 200) as never);
    });
  }
  return onFetch(app.fetch as never, count);
}

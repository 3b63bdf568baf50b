/** A real gate that sells for 0.50, and the Facilitator that settles for it; the chain counts what moved. */
import {
  FRAMEWORKS,
  type RouteSpec,
  type SmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";
import { addressOf, Chain, type FacilitatorStandIn, startFacilitator } from "../../agent/support/world";

export interface Shop {
  readonly chain: Chain;
  readonly facilitator: FacilitatorStandIn;
  /** as the gate and the wallet know it */
  readonly facilitatorUrl: string;
  readonly gate: TestServer;
  readonly url: string;
}

const FIFTY_CENTS = 500_000n;

interface Sold {
  readonly amount?: bigint | (() => bigint);
  readonly handle?: RouteSpec["handle"];
}

/**
 * Opens a shop with these routes.
 * @param front puts another server before the Facilitator, and returns its URL
 */
export async function openShop(
  routes: Readonly<Record<string, Sold>>,
  front: (facilitator: FacilitatorStandIn) => Promise<string> = async ({ url }) => url,
): Promise<Shop> {
  const chain = new Chain();
  const facilitator = await startFacilitator(chain);
  const url = await front(facilitator);
  const provider = testProvider({ url, signer: addressOf("facilitator") } as SmallFacilitator, { verify: "signature" });
  const specs = Object.entries(routes).map(([path, { amount = FIFTY_CENTS, handle }]): RouteSpec => {
    const sold = handle ?? (() => ({ body: JSON.stringify({ sold: path }) }));
    return { path, gate: { pricing: [{ type: "one-time", amount }] }, handle: sold };
  });
  const gate = await FRAMEWORKS.express(provider, specs);
  return { chain, facilitator, gate, facilitatorUrl: url, url: gate.url };
}

/** The table of chains beside those of other makers: a payer signs under the same name and version. */
import { createRequire } from "node:module";
import path from "node:path";
import { expect } from "chai";
import { caip2Of, knownToken, networkOfChain } from "turnpike/protocol";

const from = createRequire(path.resolve(__dirname, "package.json"));

interface StockScheme {
  parsePrice(price: string, network: string): Promise<{ asset: string; extra?: { name: string; version: string } }>;
}

interface ViemToken {
  readonly addresses: Readonly<Record<number, string>>;
}

const { usdc, eurc } = from("viem/tokens") as { readonly usdc: ViemToken; readonly eurc: ViemToken };

const CHAINS = [8453, 84532, 137, 80002, 42161, 421614, 10, 11155420, 43114, 43113, 480, 4801, 42220, 11142220].concat([
  59144, 59141, 143, 10143,
]);

/** Those of them that the stock package of x402 knows. */
const OF_X402 = [8453, 84532, 137, 42161, 421614, 43114, 42220, 11142220, 143];

describe("interop > the table of chains", () => {
  it("has viem's addresses of USDC and EURC", () => {
    for (const chainId of CHAINS) {
      const network = networkOfChain(chainId);
      expect(network.token?.address, network.name).to.equal(usdc.addresses[chainId]);
      const euro = network.otherTokens?.find(({ symbol }) => symbol === "EURC")?.address;
      expect(euro, network.name).to.equal(eurc.addresses[chainId]);
    }
  });

  it("has the names and versions of @x402/evm", async () => {
    const { ExactEvmScheme } = from("@x402/evm/exact/server") as { readonly ExactEvmScheme: new () => StockScheme };
    for (const chainId of OF_X402) {
      const network = networkOfChain(chainId);
      const { asset, extra } = await new ExactEvmScheme().parsePrice("$1", caip2Of(chainId));
      const known = knownToken(network, asset as `0x${string}`);
      expect(known, network.name).to.equal(network.token);
      expect(known, network.name).to.deep.include({ name: extra?.name, version: extra?.version });
    }
  });
});

/** `configure()` without network or signers: what the Facilitator says by https is pinned, and nothing else counts. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { type ClaimStore, close, configure, memoryClaims, type Provider, type ProviderOptions } from "turnpike/gate";
import type { TurnpikeError } from "turnpike/protocol";
import {
  addressOf,
  FRAMEWORKS,
  headerOf,
  NOW,
  PAY_TO,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  SUPPORTED,
  send,
  startSmallFacilitator,
  TOKEN,
} from "../../../support/gate";

const URL = "https://facilitator.example";

const OTHER_CHAIN = { ...SUPPORTED, network: "local-31338", chainId: 31_338, proofSigners: [addressOf("elsewhere")] };

describe("configure() without network or signers", () => {
  let facilitator: SmallFacilitator;
  let folder: string;
  const warnings: string[] = [];
  const note = ({ message }: Error) => void warnings.push(message);
  const variables = ["TURNPIKE_FACILITATOR_SIGNERS", "VERCEL"] as const;

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-first-use-"));
    process.on("warning", note);
  });
  afterEach(async () => {
    process.off("warning", note);
    for (const name of variables) delete process.env[name];
    warnings.length = 0;
    await close();
    await facilitator.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** The Facilitator by the address that certificates would prove. */
  const byHttps: ProviderOptions["fetch"] = (input, init) => fetch(input.replace(URL, facilitator.url), init);
  const start = (more: ProviderOptions = {}): Promise<Provider> =>
    configure({
      payTo: PAY_TO,
      facilitator: { url: URL },
      token: { address: TOKEN, name: "Test USD", version: "1", decimals: 6, currency: "USD" },
      secret: "a secret of this test, long enough to be one",
      claims: folder,
      clock: { nowSec: () => NOW },
      fetch: byHttps,
      ...more,
    });
  /** What selling a route ends with. */
  const outcome = async (more?: ProviderOptions): Promise<string> => {
    try {
      await (await start(more)).gate({ price: "$0.50" }).ready();
      return "sells";
    } catch (error) {
      return `${(error as TurnpikeError).code}: ${(error as Error).message}`;
    }
  };
  /** Answers to proofs of two signers. */
  async function statuses(provider: Provider): Promise<number[]> {
    const server = await FRAMEWORKS.express(provider, [{ path: "/x", gate: { price: "$0.50" } }]);
    try {
      const url = `${server.url}/x`;
      const sent: number[] = [];
      for (const signer of ["facilitator", "elsewhere"]) {
        const entry = (await quoteOf(url)).accepts[0];
        if (!entry) throw new TypeError("no entry");
        sent.push((await send(url, { headers: headerOf(proofOf(entry, { signedBy: signer })) })).status);
      }
      return sent;
    } finally {
      await server.stop();
    }
  }

  it("J3 serves for proofs of the signer that it saw first, and says which one that is", async () => {
    expect(await statuses(await start())).to.deep.equal([200, 402]);
    expect(warnings.join("\n")).to.include(`Pinned ${facilitator.signer}, the signer of ${URL} on local-31337`);
  });

  it("J3 refuses a Facilitator that has changed its signer, and every proof of the new one", async () => {
    await start();
    facilitator.supported = { ...SUPPORTED, proofSigners: [addressOf("elsewhere"), facilitator.signer] };
    expect(await outcome()).to.match(/^ConfigError: facilitator\.signers .* pins .* signs with .*Check with/);
    facilitator.mode = "down";
    const provider = await start();
    facilitator.mode = "valid";
    expect(await statuses(provider)).to.deep.equal([200, 402]);
  });

  it("J3 pins the current signer alone, of the next and former ones that are listed after it", async () => {
    facilitator.supported = { ...SUPPORTED, proofSigners: [facilitator.signer, addressOf("elsewhere")] };
    expect(await statuses(await start())).to.deep.equal([200, 402]);
  });

  it("starts again on its pins while the Facilitator is away, and not the first time", async () => {
    facilitator.mode = "down";
    expect(await outcome()).to.match(/^Unavailable: /);
    facilitator.mode = "valid";
    expect(await outcome()).to.equal("sells");
    facilitator.mode = "down";
    expect(await outcome()).to.equal("sells");
  });

  it("keeps its network when the Facilitator names another one", async () => {
    await start();
    facilitator.supported = OTHER_CHAIN;
    expect(await statuses(await start())).to.deep.equal([200, 402]);
  });

  it("needs the network where the Facilitator settles on several, and pins that one's signer", async () => {
    facilitator.supported = { ...SUPPORTED, chains: [OTHER_CHAIN, SUPPORTED] };
    expect(await outcome()).to.equal(
      "ConfigError: network is not set (TURNPIKE_NETWORK): the Facilitator settles on local-31338, local-31337; name one",
    );
    expect(await statuses(await start({ network: "local-31337" }))).to.deep.equal([200, 402]);
  });

  const shared = (): ClaimStore => {
    const pins = new Map<string, string>();
    return {
      ...memoryClaims({ warn: false }),
      async pinned(name, first) {
        const text = pins.get(name) ?? (await first());
        pins.set(name, text);
        return text;
      },
    };
  };

  it("J3 pins in a store of the provider's own that pins", async () => {
    const claims = shared();
    expect(await outcome({ claims })).to.equal("sells");
    facilitator.supported = { ...SUPPORTED, proofSigners: [addressOf("elsewhere")] };
    expect(await outcome({ claims })).to.match(/^ConfigError: facilitator\.signers .* signs with/);
  });

  const unpinned: Record<string, () => ProviderOptions> = {
    "by plain http": () => ({ facilitator: { url: facilitator.url } }),
    "with claims in memory": () => ({ claims: "memory" }),
    "with a store that pins nothing": () => ({ claims: memoryClaims({ warn: false }) }),
    "on a serverless host": () => {
      process.env.VERCEL = "1";
      return {};
    },
    "with an empty list of signers": () => ({ facilitator: { url: URL, signers: [] } }),
  };
  for (const [where, more] of Object.entries(unpinned)) {
    it(`J3 trusts nobody ${where}`, async () => {
      const given = more();
      expect(await outcome({ network: "local-31337", ...given })).to.match(
        /^ConfigError: facilitator\.signers is empty \(TURNPIKE_FACILITATOR_SIGNERS\)/,
      );
      if (given.facilitator?.signers === undefined)
        expect(await outcome(given)).to.match(/^ConfigError: network is not set/);
    });
  }

  it("J3 takes the environment's signers before any that it sees", async () => {
    process.env.TURNPIKE_FACILITATOR_SIGNERS = addressOf("elsewhere");
    expect(await outcome()).to.match(/^ConfigError: facilitator\.signers .* signs with/);
    process.env.TURNPIKE_FACILITATOR_SIGNERS = facilitator.signer;
    expect(await outcome()).to.equal("sells");
    expect(warnings.filter((text) => text.startsWith("Pinned"))).to.deep.equal([]);
  });
});

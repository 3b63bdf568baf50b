import { expect } from "chai";
import { apiKeyTypedData } from "turnpike/facilitator";
import {
  type Address,
  addressOfKey,
  type Hex,
  keccakText,
  networkOfChain,
  signDigest,
  typedDataDigest,
} from "turnpike/protocol";
import type { Store } from "../../../facilitator/src/db/open";
import { createKeys, type Keys } from "../../../facilitator/src/providers/keys";
import { createWebhookEndpoints } from "../../../facilitator/src/webhooks/endpoints";
import { freshStore } from "../../support/store";

const [A, B] = [31_337, 31_338] as const;
const FACILITATOR = addressOfKey(keccakText("facilitator"));
const OWNER = keccakText("owner of a wallet");
const ORIGIN = { address: "127.0.0.1", requestId: "r" };
/** The answer of ERC-1271 to a signature that it accepts. */
const ACCEPTED = `0x1626ba7e${"0".repeat(56)}` as Hex;

describe("Facilitator: API keys on several chains", () => {
  let store: Store;
  before(async () => {
    store = await freshStore();
  });
  after(() => store?.close());

  const keysOn = (chainId: number): Keys =>
    createKeys({
      store,
      network: networkOfChain(chainId),
      chainIds: [A, B],
      facilitator: FACILITATOR,
      operators: [],
      chain: { code: async () => "0x60", call: async () => ({ kind: "ok", data: ACCEPTED }) },
      nowMs: Date.now,
    });

  async function created(chainId: number, provider: Address): Promise<string> {
    const keys = keysOn(chainId);
    const wanted = { provider, name: "k", scopes: ["read" as const, "keys" as const, "webhooks" as const] };
    const { challenge, expiresAt } = await keys.challenge(wanted, undefined);
    const terms = { ...wanted, challenge, expiresAt };
    const signature = signDigest(
      typedDataDigest(apiKeyTypedData({ ...terms, facilitator: FACILITATOR, chainId })),
      OWNER,
    );
    const { key } = await keys.create({ ...terms, signature }, ORIGIN, undefined);
    return `Bearer ${key}`;
  }

  it("of a wallet's key are valid on each; of a contract, on its own chain and for its own rows alone", async () => {
    const ofKey = await created(A, addressOfKey(OWNER));
    for (const chainId of [A, B])
      expect(await keysOn(chainId).authenticate(ofKey, { scope: "read" }, ORIGIN)).to.deep.include({
        chainIds: [A, B],
      });

    const contract = addressOfKey(keccakText("a contract's address"));
    const ofContract = await created(A, contract);
    const onA = await keysOn(A).authenticate(ofContract, { scope: "read" }, ORIGIN);
    expect(onA).to.deep.include({ chainIds: [A], isEveryChain: false });
    const refused = await keysOn(B)
      .authenticate(ofContract, { scope: "read" }, ORIGIN)
      .catch((error: { code: string }) => error);
    expect(refused).to.include({ code: "InvalidApiKey" });
    // What concerns no chain is answered by any process, with the rows of the key's own chain.
    const shared = await keysOn(B).authenticate(ofContract, { scope: "keys", isShared: true }, ORIGIN);
    expect(shared).to.deep.include({ chainIds: [A] });
    // Somebody else's contract at the same address of the other chain.
    const twin = await created(B, contract);
    const onB = await keysOn(B).authenticate(twin, { scope: "keys", isShared: true }, ORIGIN);
    expect(await keysOn(A).list(onA)).to.have.length(1);
    expect((await keysOn(A).list(onB)).map(({ id }) => id)).to.deep.equal([onB.keyId]);
    const stolen = await keysOn(A)
      .revoke(onB, onA.keyId)
      .catch((error: { code: string }) => error);
    expect(stolen).to.include({ code: "UnknownObject" });

    const endpoints = createWebhookEndpoints({
      store,
      network: networkOfChain(A),
      allowPrivate: true,
      nowMs: Date.now,
    });
    const { id } = await endpoints.create(onB, { url: "http://127.0.0.1:1/", description: "" });
    expect(await endpoints.list(onB)).to.have.length(1);
    expect(await endpoints.list(onA), "an endpoint of the twin's is not shown").to.deep.equal([]);
    const foreign = await endpoints.remove(onA, id).catch((error: { code: string }) => error);
    expect(foreign).to.include({ code: "UnknownObject" });
  });
});

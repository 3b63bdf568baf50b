/** One Facilitator on two chains: a route that is paid on either, and proofs that count on their own chain alone. */
import { createAgent, walletFromKey } from "turnpike/agent";
import { encodePaymentProof, HEADER, type Hex, isPlanEntry } from "turnpike/protocol";
import { buyProof, quoteOf } from "../by-hand";
import type { Cast } from "../cast";
import { mustBe } from "../narrate";
import { UNIT, type World } from "../world";

/** @param second the same people on the other chain */
export async function walkChains({ world, narrator, ada }: Cast, second: World): Promise<void> {
  const networks = [world, second].map(({ contracts }) => contracts.network);
  const url = `${world.provider.url}/anywhere`;

  await narrator.step(
    "One route, two chains",
    `The 402 offers ${networks.join(" and ")}. Ada pays on the one that her policy prefers, each time at the same Facilitator.`,
    async () => {
      const { accepts } = await quoteOf(url);
      const offered = accepts.filter((entry) => !isPlanEntry(entry)).map(({ network }) => network);
      mustBe([...offered].sort().join(), [...networks].sort().join(), "the networks that are offered");
      for (const paid of [world, second]) {
        const { network } = paid.contracts;
        const before = await paid.contracts.balanceOf(ada.address);
        mustBe(await paidOn(network), network, "the chain that was paid on");
        mustBe(before - (await paid.contracts.balanceOf(ada.address)), UNIT / 2n, `what Ada spent on ${network}`);
      }
    },
  );

  await narrator.step(
    "A proof of one chain at a gate of the other",
    "It is no payment there: the gate answers with a fresh 402, and nothing moves.",
    async () => {
      const hand = { wallet: ada.wallet, chainId: world.contracts.chainId, facilitator: world.facilitator.url };
      const path = "/quote?symbol=ADA";
      const proof = await buyProof(hand, `${world.provider.url}${path}`);
      const show = async (provider: string) => {
        const headers = { [HEADER.payment]: encodePaymentProof(proof) };
        return (await narrator.fetch(`${provider}${path}`, { headers })).status;
      };
      mustBe(await show(second.provider.url), 402, `the status on ${second.contracts.network}`);
      mustBe(await show(world.provider.url), 200, `the status on ${world.contracts.network}`);
    },
  );

  /** Buys with an agent that prefers one of the two. */
  async function paidOn(network: string): Promise<string> {
    const agent = createAgent({
      wallet: walletFromKey(ada.wallet.privateKey as Hex),
      policy: {
        perPayment: UNIT,
        perDay: 10n * UNIT,
        tokens: [world.contracts.token],
        prefer: { networks: [network] },
      },
      facilitators: [world.facilitator.url],
      deployments: [world.contracts, second.contracts],
      fetch: narrator.fetch,
    });
    try {
      const response = await agent.pay(url);
      return ((await response.json()) as { paidOn: string }).paidOn;
    } finally {
      await agent.close();
    }
  }
}

/** One-time payments: bought once, used once. */
import { createFacilitatorClient, submitRefund } from "turnpike/facilitator";
import {
  type Address,
  encodePaymentProof,
  HEADER,
  type Hex,
  isTurnpikeError,
  mutableTypes,
  type TypedData,
} from "turnpike/protocol";
import { buyQuote } from "../../../examples/agent";
import { buyProof } from "../by-hand";
import type { Cast } from "../cast";
import { mustBe } from "../narrate";
import { UNIT } from "../world";

export async function walkOneTime({ world, narrator, ada, poor }: Cast): Promise<void> {
  const { contracts, facilitator, provider, providerAccount, specialist } = world;
  const hand = { wallet: ada.wallet, chainId: contracts.chainId, facilitator: facilitator.url };
  const spent = async (act: () => Promise<unknown>): Promise<bigint> => {
    const before = await contracts.balanceOf(ada.address);
    await act();
    return before - (await contracts.balanceOf(ada.address));
  };

  await narrator.step("A free route", "Not every route is behind the gate.", async () => {
    mustBe((await narrator.fetch(`${provider.url}/free`)).status, 200, "the status");
  });

  await narrator.step(
    "A one-time payment",
    "agent.pay() asks, gets the price (402), signs a token transfer, has the Facilitator settle it and asks again with the proof.",
    async () => {
      const paid = await spent(async () => {
        const response = await buyQuote(ada.agent, provider.url, "ETH");
        mustBe(response.status, 200, "the status");
      });
      mustBe(paid, UNIT / 2n, "what the agent spent");
    },
  );

  await narrator.step(
    "A refund",
    "The provider signs a transfer back to Ada with its own wallet, named after her payment: the token accepts it once.",
    async () => {
      const { receipt } = await buyQuote(ada.agent, provider.url, "DOT");
      const client = createFacilitatorClient({ url: facilitator.url });
      const refund = {
        target: { type: "payment" as const, paymentId: receipt?.paymentId as Hex },
        amount: UNIT / 4n,
        token: contracts.token,
        payer: ada.address,
        account: providerAccount.address as Address,
        deployment: contracts,
        sign: async ({ domain, types, message }: TypedData) =>
          (await providerAccount.signTypedData({ ...domain }, mutableTypes(types), { ...message })) as Hex,
      };
      const outcomes: string[] = [];
      const spentAfter = await spent(async () => {
        for (let time = 0; time < 2; time++) outcomes.push((await submitRefund(client, refund)).kind);
      });
      mustBe(outcomes.join(", "), "settled, settled", "the outcome of the refund, and of the same one again");
      mustBe(spentAfter, -UNIT / 4n, "what Ada spent");
    },
  );

  await narrator.step(
    "The same purchase, retried ten times",
    "Ten requests with one idempotency key: the token itself refuses a second transfer for it.",
    async () => {
      const paid = await spent(async () => {
        const idempotencyKey = "order 4711 of the sandbox";
        const url = `${provider.url}/quote?symbol=BTC`;
        const statusOf = (response: Response) => response.status;
        const codeOf = (error: { code: string }) => error.code;
        const tries = Array.from({ length: 10 }, () => ada.agent.pay(url, { idempotencyKey }).then(statusOf, codeOf));
        mustBe((await Promise.all(tries)).includes(200), true, "that one was served");
      });
      mustBe(paid, UNIT / 2n, "what the agent spent in all");
    },
  );

  await narrator.step(
    "A proof is good once, for one request, as it was signed",
    "Taken to another route, edited or forged, it is answered with a fresh 402. Shown again, it gets its own answer again.",
    async () => {
      const url = `${provider.url}/quote?symbol=SOL`;
      const proof = await buyProof(hand, url);
      const show = async (target: string, value: string) => {
        const response = await narrator.fetch(target, { headers: { [HEADER.payment]: value } });
        return `${response.status}${response.headers.has(HEADER.replayed) ? " replayed" : ""}`;
      };
      const genuine = encodePaymentProof(proof);
      mustBe(await show(`${provider.url}/quote?symbol=ADA`, genuine), "402", "the status for another query");
      mustBe(await show(`${provider.url}/choice`, genuine), "402", "the status for another route");
      mustBe(await show(url, encodePaymentProof({ ...proof, amount: 1n })), "402", "the status of an edited proof");
      const forged = proof.signature.endsWith("1b")
        ? proof.signature.replace(/1b$/, "1c")
        : proof.signature.replace(/1c$/, "1b");
      mustBe(
        await show(url, encodePaymentProof({ ...proof, signature: forged as typeof proof.signature })),
        "402",
        "the status of a forged proof",
      );
      mustBe(await show(url, genuine), "200", "the status of the proof itself");
      mustBe(await show(url, genuine), "200 replayed", "the status of the proof again");
    },
  );

  await narrator.step(
    "An agent that sells to agents",
    "The specialist is a provider to Ada and an agent to the provider: it buys a quote and sells advice.",
    async () => {
      const before = await contracts.balanceOf(world.specialistAccount.address);
      const response = await ada.agent.pay(`${specialist.url}/advice?symbol=ETH`);
      mustBe(response.status, 200, "the status");
      const earned = (await contracts.balanceOf(world.specialistAccount.address)) - before;
      mustBe(earned, UNIT / 4n, "what the specialist earned");
    },
  );

  await narrator.step(
    "Insufficient funds",
    "An agent without tokens gets an error with that name, before anything is sent to the chain.",
    async () => {
      const error: unknown = await poor.agent.pay(`${provider.url}/quote`).catch((reason) => reason);
      narrator.sayError(error);
      mustBe(isTurnpikeError(error) ? error.code : String(error), "InsufficientFunds", "the error");
    },
  );
}

/**
 * Refunds a payment, from the wallet that received it. Run it with the values of a settled payment:
 * FACILITATOR_URL, CHAIN_ID, TURNPIKE, TOKEN, PAYMENT_ID, PAYER, AMOUNT (base units), PAYEE_KEY, and INDEX for a
 * further refund of the same payment.
 */
import { Wallet } from "ethers";
import { createFacilitatorClient, submitRefund } from "turnpike/facilitator";
import { type Address, type Hex, mutableTypes } from "turnpike/protocol";

export async function refundFromEnvironment(env: Readonly<Record<string, string | undefined>>): Promise<string> {
  const value = (name: string): string => {
    const found = env[name];
    if (!found) throw new Error(`set ${name}`);
    return found;
  };
  const wallet = new Wallet(value("PAYEE_KEY"));
  const outcome = await submitRefund(createFacilitatorClient({ url: value("FACILITATOR_URL") }), {
    target: { type: "payment", paymentId: value("PAYMENT_ID") as Hex },
    index: Number(env.INDEX ?? 0),
    amount: BigInt(value("AMOUNT")),
    token: value("TOKEN") as Address,
    payer: value("PAYER") as Address,
    account: wallet.address as Address,
    deployment: { chainId: Number(value("CHAIN_ID")), turnpike: value("TURNPIKE") as Address },
    sign: async ({ domain, types, message }) =>
      (await wallet.signTypedData(domain, mutableTypes(types), message)) as Hex,
  });
  if (outcome.kind === "refused") throw outcome.error;
  return outcome.kind === "settled"
    ? `refunded in transaction ${outcome.refund.transaction}`
    : "pending: run the same command again";
}

if (require.main === module) {
  refundFromEnvironment(process.env).then(console.log, (error: Error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}

/** The terms of a plan as the subscriber's own `setNext` shows them. */
import { Contract, type Provider } from "ethers";
import { lensInterface } from "turnpike/chain";
import { type Address, type Hex, lensAddressOf } from "turnpike/protocol";

/** @param planId all zero: no plan, whose terms are zero */
export async function nextTermsOf(provider: Provider, turnpike: Address, planId: Hex) {
  const lens = new Contract(lensAddressOf(turnpike), lensInterface, provider);
  const { token, payTo, amount, interval, months } = (await lens.getFunction("getPlan")(planId)).terms;
  return { token, payTo, amount, interval, months };
}

/** The provider's operations as free functions, on the provider that `configure()` or the environment named. */
import type { PaymentProof, PaymentRequiredWire } from "../protocol";
import { defaultProvider } from "./default-provider";
import type { Provider } from "./provider";
import type { AnyRequest } from "./verify";

export { parsePaymentProof } from "../protocol";
export { deductAllowance } from "./provider";

/** @see Provider.verifyPaymentProof */
export async function verifyPaymentProof(
  proof: PaymentProof,
  options: { readonly request?: AnyRequest } = {},
): Promise<boolean> {
  return defaultProvider().verifyPaymentProof(proof, options);
}

/** @see Provider.buildPaymentRequired */
export function buildPaymentRequired(options: {
  readonly plan: string;
  readonly request?: AnyRequest;
}): PaymentRequiredWire {
  return defaultProvider().buildPaymentRequired(options);
}

/** @see Provider.context */
export function context(): ReturnType<Provider["context"]> {
  return defaultProvider().context();
}

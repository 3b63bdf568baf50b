/** Admits requests to providers' endpoints: an API key identifies the caller and limits its rate. */
import type { EndpointSpec } from "turnpike/facilitator";
import { TurnpikeError } from "turnpike/protocol";
import type { Caller, KeyNeed, Origin } from "../providers/keys";
import type { ApiServices } from "./services";

/** Decides who may call. */
export interface Admission {
  /** @throws InvalidApiKey, ScopeMissing, RateLimited */
  admit(authorization: string | null, origin: Origin): Promise<Caller>;
}

type Scoped = Pick<EndpointSpec, "scope" | "chain" | "isForOperators">;

/** @returns undefined for an endpoint that is open to anyone */
export const admissionOf = (services: ApiServices, { scope, ...terms }: Scoped): Admission | undefined =>
  scope && admissionTo(services, { scope, ...terms });

export function admissionTo(
  { providers, keyLimit }: ApiServices,
  { scope, chain, isForOperators }: Scoped & { readonly scope: KeyNeed["scope"] },
): Admission {
  return {
    async admit(authorization, origin) {
      const caller = await providers.admit(authorization, { scope, isShared: chain === "shared" }, origin);
      keyLimit.take(caller.keyId);
      if (isForOperators && !caller.isOperator)
        throw new TurnpikeError("ScopeMissing", "only wallets that OPERATORS names may ask for this", {
          details: { scope: "operator" },
        });
      return caller;
    },
  };
}

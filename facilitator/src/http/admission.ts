/** Admits requests to providers' endpoints: an API key identifies the caller and limits its rate. */
import type { ApiScope } from "turnpike/facilitator";
import { TurnpikeError } from "turnpike/protocol";
import type { Caller, KeyNeed } from "../providers/keys";
import type { Admission } from "./endpoint";
import type { ApiServices } from "./services";

export function admissionTo(
  { providers, keyLimit }: ApiServices,
  scope: ApiScope | "any",
  { isShared = false }: Omit<KeyNeed, "scope"> = {},
): Admission<Caller> {
  return {
    scope,
    async admit(authorization, origin) {
      const caller = await providers.admit(authorization, { scope, isShared }, origin);
      keyLimit.take(caller.keyId);
      return caller;
    },
  };
}

/** A key with the scope `read` of a wallet that operates this service. */
export function operatorAdmission(services: ApiServices): Admission<Caller> {
  const { scope, admit } = admissionTo(services, "read");
  return {
    scope,
    async admit(authorization, origin) {
      const caller = await admit(authorization, origin);
      if (!caller.isOperator)
        throw new TurnpikeError("ScopeMissing", "only wallets that OPERATORS names may ask for this", {
          details: { scope: "operator" },
        });
      return caller;
    },
  };
}

/** Endpoints of providers: who asks is known by an API key, and asks no more often than the key may. */
import type { ApiScope } from "turnpike/facilitator";
import type { Caller } from "../providers";
import type { Doors } from "./app";
import type { Admission } from "./endpoint";

export function admissionTo({ providers, keyLimit }: Doors, scope: ApiScope | "any"): Admission<Caller> {
  return {
    scope,
    async admit(authorization, origin) {
      const caller = await providers.admit(authorization, scope, origin);
      keyLimit.take(caller.keyId);
      return caller;
    },
  };
}

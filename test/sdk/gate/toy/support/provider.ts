/** A provider whose gates read the toy dialect besides the built-in ones. */
import type { Provider, ProviderOptions } from "turnpike/gate";
import { createGateContext } from "../../../../../sdk/src/gate/core/context";
import { DIALECTS } from "../../../../../sdk/src/gate/dialects";
import { providerFrom } from "../../../../../sdk/src/gate/provider/provider";
import { toy } from "./dialect";

export function toyProvider(options: ProviderOptions): Provider {
  const context = createGateContext(options, { meterOf: () => undefined, reportsOf: () => undefined });
  return providerFrom(context, [], [...DIALECTS, toy]);
}

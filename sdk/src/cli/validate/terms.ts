/** Checks PaymentRequired of version 1 and of version 2, wherever a server sends them. */
import type { JsonObject } from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { memberOf } from "../../protocol/headers";
import { checkAccepts, type Price } from "./entries";
import type { Problems } from "./problem";

/** Checks the resource that terms name: over HTTP the requested URL, over MCP the tool. */
export type CheckResource = (part: "v1" | "v2", value: unknown, where: string) => void;

/** Names that stock version 1 clients know, of the networks that this package knows. */
const V1_NETWORKS = new Set(["base", "base-sepolia", "polygon", "polygon-amoy", "avalanche", "avalanche-fuji", "sei"]);

/** Checks terms of version 2. @returns their prices */
export function checkTermsV2(problems: Problems, terms: JsonObject, checkResource: CheckResource): Price[] {
  if (terms.x402Version !== 2) problems.add("v2", "x402_version", "x402Version");
  checkResource("v2", memberOf(terms.resource, "url"), "resource.url");
  if (terms.extensions !== undefined && !isObject(terms.extensions)) problems.add("v2", "extensions", "extensions");
  const rules = { part: "v2", amountField: "amount", schemes: ["exact", "upto", "batch-settlement"] } as const;
  return checkAccepts(problems, terms.accepts, rules, ({ network }, where) => {
    if (typeof network !== "string" || !/^[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}$/.test(network)) {
      problems.add("v2", "network", `${where}.network`);
    }
  });
}

/** Checks terms of version 1. @returns their prices */
export function checkTermsV1(problems: Problems, terms: JsonObject, checkResource: CheckResource): Price[] {
  if (terms.x402Version !== 1) problems.add("v1", "x402_version", "x402Version");
  const rules = { part: "v1", amountField: "maxAmountRequired", schemes: ["exact"] } as const;
  return checkAccepts(problems, terms.accepts, rules, (entry, where) => {
    const { network, description, mimeType, resource } = entry;
    if (typeof network !== "string" || network === "") problems.add("v1", "network", `${where}.network`);
    else if (!V1_NETWORKS.has(network) && !network.startsWith("solana")) {
      problems.add("v1", "unknown_network", `${where}.network`);
    }
    if (typeof description !== "string") problems.add("v1", "description", `${where}.description`);
    if (typeof mimeType !== "string") problems.add("v1", "mime_type", `${where}.mimeType`);
    checkResource("v1", resource, `${where}.resource`);
  });
}

/** Decodes a revert into a typed error, under the contract error's own name and with its arguments. */
import type { ErrorFragment, Result } from "ethers/abi";
import { type ErrorCode, type Hex, isErrorCode, STATUSES, TurnpikeError } from "../protocol";
import { aText } from "../protocol/arguments";
import { batchSettlerInterface, turnpikeInterface } from "./abi";

const INTERFACES = [turnpikeInterface, batchSettlerInterface] as const;

/**
 * The error that a contract reverted with.
 * @param revert the revert's data, or an error of ethers or of a JSON-RPC endpoint that carries it
 * @returns undefined when there is no revert data, or it is not one of this project's errors
 */
export function decodeRevert(revert: unknown): TurnpikeError | undefined {
  const data = typeof revert === "string" ? asHex(revert) : findData(revert, 0);
  if (!data || data.length < 10) return undefined;
  for (const iface of INTERFACES) {
    const fragment = iface.getError(data.slice(0, 10));
    if (!fragment || !isErrorCode(fragment.name)) continue;
    const args = decodeArgs(() => iface.decodeErrorResult(fragment, data));
    if (!args) return undefined;
    const details = detailsOf(fragment, args);
    const shown = Object.entries(details).map(([name, value]) => `${name} ${value}`);
    const text = shown.length > 0 ? `${fragment.name}: ${shown.join(", ")}` : undefined;
    return new TurnpikeError(fragment.name, text, { details });
  }
  return undefined;
}

/**
 * The name behind four selector bytes, as `renewBatch` and `debitBatch` return them; undefined for 0 and unknown
 * selectors.
 */
export function reasonName(selector: string): ErrorCode | undefined {
  aText(selector, "selector");
  for (const iface of INTERFACES) {
    const name = iface.getError(selector.slice(0, 10))?.name;
    if (isErrorCode(name)) return name;
  }
  return undefined;
}

function detailsOf(fragment: ErrorFragment, args: Result): Record<string, string | number> {
  const details: Record<string, string | number> = {};
  fragment.inputs.forEach((input, index) => {
    const value: unknown = args[index];
    details[input.name] = input.name === "status" ? (STATUSES[Number(value)] ?? Number(value)) : String(value);
  });
  return details;
}

function decodeArgs(decode: () => Result): Result | undefined {
  try {
    return decode();
  } catch {
    // Data that only begins like one of our errors: from another contract.
    return undefined;
  }
}

const asHex = (text: string): Hex | undefined => (/^0x[0-9a-fA-F]*$/.test(text) ? (text as Hex) : undefined);

/** Endpoints wrap revert data at different depths: error.data, error.info.error.data, error.error.data.data ... */
function findData(value: unknown, depth: number): Hex | undefined {
  if (typeof value !== "object" || value === null || depth > 4) return undefined;
  const holder = value as Record<string, unknown>;
  if (typeof holder.data === "string" && asHex(holder.data)) return holder.data as Hex;
  for (const key of ["data", "error", "info", "cause"]) {
    const found = findData(holder[key], depth + 1);
    if (found) return found;
  }
  return undefined;
}

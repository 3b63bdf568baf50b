/** Decodes the revert of a simulated call into the error that clients receive. */
import { AbiCoder } from "ethers";
import { decodeRevert } from "turnpike/chain";
import { type Hex, TurnpikeError } from "turnpike/protocol";

export interface ContractError {
  /** Solidity name; `Error` for a require with text; `unknown` */
  readonly name: string;
  readonly args: Readonly<Record<string, string | number | boolean>>;
  readonly text?: string;
  readonly data: Hex;
  /** under its own name when it is an error of the contracts, else TransferFailed */
  readonly error: TurnpikeError;
}

const REQUIRE_TEXT = "0x08c379a0";

export function decodeContractError(data: Hex): ContractError {
  const known = decodeRevert(data);
  if (known) return { name: known.code, args: known.details, data, error: known };
  const text = data.startsWith(REQUIRE_TEXT) ? textOf(data) : undefined;
  const error = new TurnpikeError("TransferFailed", text === undefined ? undefined : `the call reverts: ${text}`);
  return { name: text === undefined ? "unknown" : "Error", args: {}, data, error, ...(text !== undefined && { text }) };
}

function textOf(data: Hex): string | undefined {
  try {
    return String(AbiCoder.defaultAbiCoder().decode(["string"], `0x${data.slice(10)}`)[0]).slice(0, 200);
  } catch {
    // Any contract may revert with bytes that only start like a require's text.
    return undefined;
  }
}

/** Revert data in words: a contract's error by name and arguments, and the wire error that tells it. */
import { AbiCoder, Interface } from "ethers";
import { type ErrorCode, type Hex, isErrorCode, TurnpikeError } from "turnpike/protocol";
import { IBatchSettler__factory, ITurnpike__factory } from "turnpike/chain/generated";

export interface ContractError {
  /** Solidity name; `Error` for a require with text, `Panic`, or `unknown` */
  readonly name: string;
  readonly args: Readonly<Record<string, string>>;
  /** where the name stands in the table of errors */
  readonly code?: ErrorCode;
  /** the text of a require */
  readonly text?: string;
  readonly data: Hex;
}

const abis = [new Interface(ITurnpike__factory.abi), new Interface(IBatchSettler__factory.abi)];

export function decodeContractError(data: Hex): ContractError {
  try {
    if (data.startsWith("0x08c379a0")) {
      const [text] = AbiCoder.defaultAbiCoder().decode(["string"], `0x${data.slice(10)}`);
      return { name: "Error", args: {}, text: String(text), data };
    }
    for (const abi of abis) {
      const parsed = abi.parseError(data);
      if (!parsed) continue;
      const args = Object.fromEntries(
        parsed.fragment.inputs.map((input, index) => [input.name, String(parsed.args[index])]),
      );
      return { name: parsed.name, args, data, ...(isErrorCode(parsed.name) && { code: parsed.name }) };
    }
  } catch {
    // Anyone's contract may revert with bytes that only look like one of these errors.
  }
  return { name: "unknown", args: {}, data };
}

/** @returns the error of a four-byte reason as batches report it, e.g. in `RenewalFailed` */
export function contractErrorName(selector: Hex): string | undefined {
  for (const abi of abis) {
    const fragment = abi.fragments.find((entry) => entry.type === "error" && abi.getError(selector) === entry);
    if (fragment) return abi.getError(selector)?.name;
  }
  return undefined;
}

export function contractErrorToTurnpike(error: ContractError): TurnpikeError {
  if (error.code) return new TurnpikeError(error.code, undefined, { details: error.args });
  return new TurnpikeError("TransferFailed", error.text ? `the call reverts: ${error.text.slice(0, 200)}` : undefined);
}

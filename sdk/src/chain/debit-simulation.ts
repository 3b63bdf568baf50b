import { type Address, type ErrorCode, type Hex, hexToBytes, isTurnpikeError, Unavailable } from "../protocol";
import { turnpikeInterface } from "./abi";
import type { DebitItem } from "./debit-sender";
import { decodeRevert, reasonName } from "./errors";
import type { Rpc } from "./rpc";

/** The most gas one transaction may have (EIP-7825). */
export const MAX_TRANSACTION_GAS = 2n ** 24n;

/** @see Frames.ITEM_GAS in contracts/libraries/Frames.sol */
export const DEBIT_ITEM_GAS = 450_000n;

/** Assumed of a debit when the endpoint cannot measure; no honest token comes near. */
const UNMEASURED_ITEM_GAS = 150_000n;

export interface DebitSimulation {
  /** one for each item, in order; undefined: it would succeed */
  readonly reasons: readonly (ErrorCode | undefined)[];
  /** execution alone, without the transaction's intrinsic gas */
  readonly gasUsed: bigint;
}

export interface DebitSimulationRequest {
  readonly rpc: Rpc;
  readonly turnpike: Address;
  readonly operator: Address;
  readonly items: readonly DebitItem[];
}

export function encodeDebits(items: readonly DebitItem[]): Hex {
  return turnpikeInterface.encodeFunctionData("debitBatch", [items]) as Hex;
}

/** @returns undefined when so many items do not fit into one transaction. @throws Unavailable */
export async function simulateDebits(request: DebitSimulationRequest): Promise<DebitSimulation | undefined> {
  try {
    return (await measure(request)) ?? (await judge(request));
  } catch (error) {
    if (isTurnpikeError(error) && error.code === "InsufficientGas") return undefined;
    throw error;
  }
}

/**
 * Gas limits by eth_estimateGas are unreliable for batches, and eth_call returns no gas. So for this one call the
 * operator's account is given code that makes the batch call and returns what it used.
 */
async function measure({
  rpc,
  turnpike,
  operator,
  items,
}: DebitSimulationRequest): Promise<DebitSimulation | undefined> {
  const call = { to: operator, data: encodeDebits(items), gas: toQuantity(MAX_TRANSACTION_GAS) };
  let answer: Hex;
  try {
    answer = await rpc.send<Hex>("eth_call", [call, "latest", { [operator]: { code: measuringCode(turnpike) } }]);
  } catch {
    // Not every endpoint takes overrides; if it is down altogether, the plain call says so.
    return undefined;
  }
  const words = /^0x([0-9a-f]{64})([0-9a-f]{64})([0-9a-f]*)$/.exec(answer);
  if (words === null) return undefined;
  const returned: Hex = `0x${words[3] ?? ""}`;
  if (BigInt(`0x${words[2]}`) === 0n) throw unreadable(returned);
  return { reasons: reasonsOf(returned, items.length), gasUsed: BigInt(`0x${words[1]}`) };
}

async function judge({ rpc, turnpike, operator, items }: DebitSimulationRequest): Promise<DebitSimulation> {
  const call = { from: operator, to: turnpike, data: encodeDebits(items), gas: toQuantity(MAX_TRANSACTION_GAS) };
  const returned = await rpc.send<Hex>("eth_call", [call, "latest"]);
  return { reasons: reasonsOf(returned, items.length), gasUsed: UNMEASURED_ITEM_GAS * BigInt(items.length) };
}

function reasonsOf(returned: Hex, count: number): (ErrorCode | undefined)[] {
  let selectors: readonly string[];
  try {
    selectors = turnpikeInterface.decodeFunctionResult("debitBatch", returned)[0] as readonly string[];
  } catch {
    throw unreadable(returned);
  }
  if (selectors.length !== count) throw unreadable(returned);
  return selectors.map((selector) =>
    BigInt(selector) === 0n ? undefined : (reasonName(selector) ?? "TransferFailed"),
  );
}

function unreadable(returned: Hex): Error {
  return (
    decodeRevert(returned) ?? new Unavailable("debitBatch() gave no readable answer: is Turnpike at this address?")
  );
}

/** Calls `target` with the calldata; returns gas used, success, and what it returned: each 32 bytes, then the rest. */
function measuringCode(target: Address): Hex {
  return `0x${[
    "365f5f37", //           memory[0..] = calldata
    "5a", //                 gas before
    "5f5f365f5f", //         no output area, whole input, no value
    `73${target.slice(2).toLowerCase()}`,
    "5af1", //               call with all gas
    "905a9003", //           [success, gas before - gas after]
    "5f52602052", //         memory[0] = used, memory[32] = success
    "3d5f60403e", //         memory[64..] = returndata
    "3d6040015ff3", //       return it all
  ].join("")}`;
}

/** min(2^24, intrinsic + simulated use x 1.3 + two item caps): each frame can be given its whole allowance. */
export function debitGasLimit(data: Hex, gasUsed: bigint): bigint {
  const limit = intrinsicGas(data) + (gasUsed * 13n) / 10n + 2n * DEBIT_ITEM_GAS;
  return limit < MAX_TRANSACTION_GAS ? limit : MAX_TRANSACTION_GAS;
}

/** The higher of the two prices of calldata (EIP-7623), so that either rule is covered. */
function intrinsicGas(data: Hex): bigint {
  let tokens = 0;
  for (const byte of hexToBytes(data)) tokens += byte === 0 ? 1 : 4;
  return 21_000n + 10n * BigInt(tokens);
}

const toQuantity = (value: bigint): Hex => `0x${value.toString(16)}`;

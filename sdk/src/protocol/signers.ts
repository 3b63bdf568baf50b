/** Decides whose signature counts on a statement about a payment, and for payments that settled before what time. */
import { type Address, checksum, isAddress } from "./address";
import { aList, aText, fieldsOf } from "./arguments";

/** A signer of payment proofs. */
export interface ProofSigner {
  readonly address: Address;
  /** unix seconds: it counts only for payments that settled before; absent: for all */
  readonly until?: number;
}

/** The signers that a judge accepts. */
export interface TrustedSigners {
  readonly list: readonly ProofSigner[];
  /** @returns undefined for an address that is not accepted at all */
  find(address: Address): ProofSigner | undefined;
  /**
   * Returns whether its statement about a payment counts.
   * @param settledAtSec block time of the payment as the judge's own chain or database has it, never as the statement
   * says
   */
  isTrustedSigner(address: Address, settledAtSec: number): boolean;
}

/** A set to judge by. The first of several entries for one address counts. */
export function trustSigners(signers: readonly ProofSigner[]): TrustedSigners {
  aList(signers, "signers");
  for (const signer of signers) fieldsOf(signer, "signers");
  const byAddress = new Map([...signers].reverse().map((signer) => [checksum(signer.address), signer]));
  const find = (address: Address) => byAddress.get(checksum(address));
  return {
    list: signers,
    find,
    isTrustedSigner(address, settledAtSec) {
      const signer = find(address);
      return signer !== undefined && (signer.until === undefined || settledAtSec < signer.until);
    },
  };
}

/** Of an instant that everyone reads the same: with its zone, and not with a day alone. */
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

const SECONDS = /^\d{1,11}$/;

/** Unix seconds of a time that is written as such or in ISO 8601 with its zone. */
export function parseInstant(text: string): number | undefined {
  aText(text, "text");
  if (SECONDS.test(text)) return Number(text);
  const ms = INSTANT.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1_000);
}

/**
 * Reads `0x...` or `0x...@TIME`, where TIME is the end of its validity.
 * @returns undefined for anything else
 */
export function parseProofSigner(text: string): ProofSigner | undefined {
  aText(text, "text");
  const [given = "", time, ...more] = text.split("@");
  if (!isAddress(given) || more.length > 0) return undefined;
  const address = checksum(given);
  if (time === undefined) return { address };
  const until = parseInstant(time);
  return until === undefined ? undefined : { address, until };
}

/**
 * Sends debits by a plan operator's own transactions. The meter merges and schedules.
 */
import { type Address, type Hex, isAddress, isPrivateKey } from "../protocol";
import { aText, fieldsOf, wrongKind } from "../protocol/arguments";
import { readDebitOutcome } from "./debit-outcome";
import type { DebitSender, MeterStates } from "./debit-sender";
import { DebitTransactions, type OperatorOptions } from "./debit-transactions";
import { createMeterStates } from "./metered-states";
import { requireRpc } from "./require-rpc";

export type { OperatorOptions, TransactionSigner } from "./debit-transactions";

/** An account that sends transactions of its own. */
export interface Operator {
  readonly address: Address;
  readonly sender: DebitSender;
  readonly states: MeterStates;
  /** Returns the account's balance, and what it needs for one debit at the current fees; wei. @throws Unavailable */
  gasFunds(): Promise<GasFunds>;
}

/** Both in wei. */
export interface GasFunds {
  readonly held: bigint;
  readonly needed: bigint;
}

/** The gas limit that `prepare` gives a transaction with one debit, rounded up. */
const ONE_DEBIT_GAS = 1_250_000n;

/** Sends a provider's own transactions: one nonce at a time, replaced when they are stuck. */
export function createOperator(options: OperatorOptions): Operator {
  requireRpc(fieldsOf(options, "options").rpc, "options.rpc");
  aText(options.turnpike, "options.turnpike");
  if (typeof options.signer === "string" ? !isPrivateKey(options.signer) : !isAddress(options.signer?.address))
    throw wrongKind(options.signer, "options.signer", "a private key, or a wallet with its address");
  const { rpc, turnpike, confirmations = 1 } = options;
  const transactions = new DebitTransactions(options);
  const { address } = transactions;
  return {
    address,
    sender: {
      prepare: (items) => transactions.prepare(items),
      submit: (payloads) => transactions.submit(payloads),
      outcome: (items, payloads) => readDebitOutcome({ rpc, turnpike, address, confirmations }, items, payloads),
      replace: (payloads) => transactions.replace(payloads),
    },
    states: createMeterStates({ rpc, turnpike }),
    async gasFunds() {
      const [held, { maxFeePerGas: fee }] = await Promise.all([
        rpc.send<Hex>("eth_getBalance", [address, "latest"]).then(BigInt),
        transactions.currentFees(),
      ]);
      return { held, needed: ONE_DEBIT_GAS * fee };
    },
  };
}

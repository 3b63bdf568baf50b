/**
 * Signs usage receipts of metered charges with the provider's receipt key, and checks on chain that plans name this key.
 */
import { RIGHTS, rightsOf, topicOfAccount } from "../../chain/operators";
import type { Rpc } from "../../chain/rpc";
import {
  type Address,
  addressOfKey,
  ConfigError,
  encodeUsageReceipt,
  type Hex,
  isPrivateKey,
  isTurnpikeError,
  MAX_USAGE_RECEIPTS,
  randomBytes,
  requestHashOf,
  signDigest,
  type TurnpikeDeployment,
  toHex,
  typedDataDigest,
  usageReceiptTypedData,
} from "../../protocol";
import type { ReceiptCount } from "../metering/receipt-count";
import type { ChargedUsage } from "../metering/usage-meter";
import type { GateRequest } from "./request";
import { type Origin, resourceOfRequest } from "./resource";

/** A charge that was made durable, and what it was for. */
export interface ReceiptDraft {
  readonly count: ReceiptCount;
  readonly usage: ChargedUsage;
  /** base units, > 0 */
  readonly amount: bigint;
}

/** Who was charged, and for which request. */
export interface ReceiptSubject {
  readonly planId: Hex;
  readonly idHash: Hex;
  readonly request: GateRequest | undefined;
}

export interface UsageReceiptOptions {
  readonly key: Hex;
  readonly deployment: TurnpikeDeployment;
  readonly origin: Origin;
  /** undefined: rights are not checked */
  readonly rpc: Rpc | undefined;
  /** Writes the loss of a right to the process's log. */
  readonly warn: (message: string) => void;
}

export class UsageReceiptIssuer {
  readonly address: Address;
  readonly #options: UsageReceiptOptions;
  /** plans whose right was found */
  readonly #proved = new Set<Hex>();

  /** @throws ConfigError for a text that is no key */
  constructor(options: UsageReceiptOptions) {
    if (!isPrivateKey(options.key)) {
      throw new ConfigError("receiptKey (TURNPIKE_RECEIPT_KEY) is no private key: 0x and 64 hex digits, not all zeros");
    }
    this.#options = options;
    this.address = addressOfKey(options.key);
  }

  /** Signs a receipt, which takes about a millisecond. @returns its text */
  sign({ planId, idHash, request }: ReceiptSubject, { count, usage, amount }: ReceiptDraft): string {
    const { key, deployment, origin } = this.#options;
    const salt = toHex(randomBytes(16));
    const { unit, units, unitPrice } = usage;
    const receipt = {
      planId,
      idHash,
      ...count,
      unit,
      units,
      amount,
      unitPrice: `${unitPrice.amount}/${unitPrice.per}`,
      requestHash: requestHashOf(salt, request?.method ?? "", request ? resourceFor(request, origin) : ""),
    };
    const signature = signDigest(typedDataDigest(usageReceiptTypedData(deployment, receipt)), key);
    return encodeUsageReceipt({ receipt, salt, signature });
  }

  /**
   * Proves that each plan gives this key the right RECEIPT: without it no receipt counts.
   * @throws ConfigError that names the plan and the remedy; Unavailable when the chain cannot be asked
   */
  async prove(planIds: readonly Hex[]): Promise<void> {
    const { rpc, deployment } = this.#options;
    if (!rpc) return;
    const open = planIds.filter((planId) => !this.#proved.has(planId));
    const rights = await Promise.all(
      open.map((planId) => rightsOf({ rpc, turnpike: deployment.turnpike }, planId, this.address)),
    );
    open.forEach((planId, i) => {
      const held = rights[i] ?? 0;
      if ((held & RIGHTS.receipt) === 0) throw new ConfigError(this.#missing(planId, held));
      this.#proved.add(planId);
    });
  }

  /** Checks plans again whose rights new blocks may have changed. @param topics undefined: all of them */
  onBlocks(topics: ReadonlySet<string> | undefined): void {
    const isTouched = (planId: Hex) => !topics || (topics.has(planId) && topics.has(topicOfAccount(this.address)));
    for (const planId of [...this.#proved].filter(isTouched)) {
      this.#proved.delete(planId);
      this.prove([planId]).catch((error: unknown) => {
        // During an outage the next change, or the next start, finds it.
        if (isTurnpikeError(error) && error.code === "ConfigError") this.#options.warn(error.message);
      });
    }
  }

  #missing(planId: Hex, held: number): string {
    const rights = held | RIGHTS.receipt;
    return `receiptKey (TURNPIKE_RECEIPT_KEY) is the key of ${this.address}, which may not sign usage receipts of plan ${planId}: the plan's provider calls setOperator(${planId}, ${this.address}, ${rights}), or leave receiptKey out`;
  }
}

/** The resource as quotes name it; the target where that has none. */
function resourceFor(request: GateRequest, origin: Origin): string {
  try {
    return resourceOfRequest(request, origin);
  } catch {
    return request.target;
  }
}

/** The receipts of one request that no answer has carried yet. */
export class ReceiptTray {
  readonly #issuer: UsageReceiptIssuer;
  readonly #subject: ReceiptSubject;
  #drafts: ReceiptDraft[] = [];

  constructor(issuer: UsageReceiptIssuer, subject: ReceiptSubject) {
    this.#issuer = issuer;
    this.#subject = subject;
  }

  /** Keeps the last ones, whose totals contain the others. */
  add(draft: ReceiptDraft): void {
    this.#drafts = [...this.#drafts.slice(1 - MAX_USAGE_RECEIPTS), draft];
  }

  take(): readonly string[] {
    return this.#drafts.splice(0).map((draft) => this.#issuer.sign(this.#subject, draft));
  }
}

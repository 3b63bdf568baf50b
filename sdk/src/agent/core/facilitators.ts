/** Manages the Facilitators that this agent may use: only those of its configuration, whatever a provider names. */
import type { ChangeOutcome, PermitOutcome, Refused } from "../../facilitator/client";
import { createPayerClient, type PayerClient } from "../../facilitator/payer-client";
import type { Account } from "../../facilitator/subscriptions";
import { NO_VERDICT } from "../../facilitator/transport";
import {
  type Address,
  ConfigError,
  caip2Of,
  configuredAddress,
  type Hex,
  isTurnpikeError,
  type Network,
  networkOfChain,
  PaymentPending,
  PolicyRefused,
  sameAddress,
  systemClock,
  TurnpikeError,
} from "../../protocol";
import { anything, aText, optionsOf, textOr } from "../../protocol/arguments";
import { Deadline } from "../../protocol/exchange";
import { backoffMs, type Effects, RetryBudget } from "./effects";
import { isPrivateChannel } from "./request";

/** A Facilitator that may get signatures: its base URL, alone or with the signers whose proofs count. */
export type FacilitatorOption =
  | string
  | {
      readonly url: string;
      /** pins whose proofs count; default: the signers that the Facilitator announces at `GET /supported` */
      readonly signers?: readonly string[];
    };

export interface Facilitators {
  /** The configured Facilitator at `url`; the first one where none is named. Undefined for any other. */
  find(url: string | undefined): Facilitator | undefined;
  /** Returns every configured Facilitator, `first` before the others. */
  inOrder(first: Facilitator | undefined): Facilitator[];
}

export interface AccountOnChain {
  readonly address: Address;
  readonly token: Address;
  readonly chainId: number;
}

export interface Facilitator {
  /** as configured, without a trailing slash */
  readonly url: string;
  readonly client: PayerClient;
  /** whether the agent's options name its signers */
  readonly pinned: boolean;
  /** Returns the signers whose proofs count; undefined when the Facilitator announces none. Asks once, or `again`. */
  proofSigners(options?: { readonly again?: boolean }): Promise<readonly Address[] | undefined>;
  /** @throws PolicyRefused where it does not serve the chain (`OTHER_CHAIN`), Unavailable, or its refusal */
  account(of: AccountOnChain, signal?: AbortSignal): Promise<Account>;
}

const checkFacilitator = textOr(
  optionsOf<Exclude<FacilitatorOption, string>>({ url: aText, signers: anything }, ["url"]),
);

/** @throws ConfigError for what is no http(s) address, and for plain http to another machine */
export function createFacilitators(
  options: readonly FacilitatorOption[],
  effects: Effects,
  allowHttp: boolean,
): Facilitators {
  if (!Array.isArray(options)) throw new ConfigError("facilitators must be a list of base URLs");
  const known = new Map<string, Facilitator>();
  for (const [index, option] of (options as readonly FacilitatorOption[]).entries()) {
    checkFacilitator(option, `facilitators[${index}]`);
    const { url: text, signers } = typeof option === "string" ? { url: option, signers: undefined } : option;
    const url = normalize(text);
    if (url === undefined) throw new ConfigError(`facilitators holds "${text}", which is no http(s) address`);
    if (!allowHttp && !isPrivateChannel(url)) {
      throw new ConfigError(`facilitators holds "${text}": use https, or set policy.allowHttp`);
    }
    known.set(url, createFacilitator(url, effects, signers && pinnedSigners(url, signers)));
  }
  return {
    inOrder: (first) => [...(first ? [first] : []), ...[...known.values()].filter((each) => each !== first)],
    find: (url) => {
      if (url === undefined) return known.values().next().value;
      const normalized = normalize(url);
      return normalized === undefined ? undefined : known.get(normalized);
    },
  };
}

function pinnedSigners(url: string, signers: readonly string[]): readonly Address[] {
  if (!Array.isArray(signers) || signers.length === 0) {
    throw new ConfigError(`facilitators: signers of ${url} must be a list of addresses; leave it out to pin none`);
  }
  const field = `facilitators: signers of ${url}`;
  return (signers as readonly string[]).map((signer) =>
    configuredAddress(signer, `${field}:`, `${field} holds "${signer}", no address`),
  );
}

/** A payment never waits longer than this for the list of signers. */
const SIGNERS_TIMEOUT_MS = 5_000;

function createFacilitator(url: string, effects: Effects, pinned: readonly Address[] | undefined): Facilitator {
  const timeoutMs = effects.limits.facilitatorTimeoutMs;
  // Bodies are read here, so that an exchange ends with the agent as a whole.
  const exchange: typeof effects.fetch = (input, init) =>
    effects.fetch(input, {
      ...init,
      signal: AbortSignal.any([effects.closing, ...(init.signal ? [init.signal] : [])]),
    });
  const client = createPayerClient({ url, fetch: exchange, timeoutMs });
  async function announced(): Promise<readonly Address[] | undefined> {
    const deadline = new Deadline(SIGNERS_TIMEOUT_MS);
    try {
      const { proofSigners, chains = [] } = await client.supported({ signal: deadline.signal });
      return [...new Set([...proofSigners, ...chains.flatMap((chain) => chain.proofSigners)])];
    } catch {
      // Whatever went wrong, there is no list; a payment does not fail for that.
      return undefined;
    } finally {
      deadline.end();
    }
  }
  let signers = pinned && Promise.resolve<readonly Address[] | undefined>(pinned);
  return {
    url,
    client,
    pinned: pinned !== undefined,
    async proofSigners({ again = false } = {}) {
      if (!pinned && (again || !signers)) signers = announced();
      const asked = signers;
      const found = await asked;
      // Without an answer the next payment asks again.
      if (found === undefined && signers === asked) signers = undefined;
      return found;
    },
    async account({ address, token, chainId }, signal) {
      const found = await client.account({ address, token }, { network: caip2Of(chainId), signal });
      if (found.kind === "refused" && found.error.details.field !== "network") throw found.error;
      // Older Facilitators answer about their own chain.
      const isOwn = found.kind === "found" && found.value.chainId === chainId && sameAddress(found.value.token, token);
      if (isOwn) return found.value;
      throw new PolicyRefused(
        `The Facilitator ${url} does not serve ${networkOfChain(chainId).name}. Configure one that does in \`facilitators\`.`,
        { reason: OTHER_CHAIN, ...(found.kind === "refused" && { cause: found.error }) },
      );
    },
  };
}

/** Why a Facilitator says nothing about an account: it settles on other chains. */
export const OTHER_CHAIN = "network";

function normalize(text: string): string | undefined {
  if (typeof text !== "string" || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  if ((url.protocol !== "http:" && url.protocol !== "https:") || url.username || url.search || url.hash)
    return undefined;
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

const MAX_SKEW_SEC = 15 * 60;

/**
 * Returns the chain's time that a Facilitator reports, or the wall clock's where the two differ too much. A false time
 * could make the agent sign windows that stay open long after they are needed. A local chain's clock may have been
 * moved on purpose.
 */
export function plausibleTimeSec(reportedSec: number, chainId: number, networks: readonly Network[]): number {
  const wallSec = systemClock.nowSec();
  return isLocal(chainId, networks) || Math.abs(reportedSec - wallSec) <= MAX_SKEW_SEC ? reportedSec : wallSec;
}

const isLocal = (chainId: number, networks: readonly Network[]): boolean =>
  networkOfChain(chainId, networks).name.startsWith("local-");

const MAX_TURNS = 60;

type Outcome = ChangeOutcome | PermitOutcome;

export type Known<O extends Outcome> = Exclude<O, { kind: "pending" }>;

/** The refusal behind an answer without an outcome, where this very post has submitted nothing for sure. */
export function refusalBeforeWork({ cause }: TurnpikeError): TurnpikeError | undefined {
  return isTurnpikeError(cause) && NO_VERDICT.has(cause.code) ? cause : undefined;
}

/** How long to wait after such a refusal: as long as it says. */
export const waitMsOf = ({ retryAfterSec = 0 }: TurnpikeError, leastMs: number): number =>
  Math.max(retryAfterSec * 1_000, leastMs);

/**
 * Posts one signed change until its outcome is known or the retry budget ends. Signs nothing.
 * @returns the outcome, or the refusal; `wasUnsure`: an earlier post may have been accepted
 * @throws PaymentPending when the outcome stays unknown: call again, which posts the same
 */
export async function submit<O extends Outcome>(
  effects: Effects,
  job: {
    readonly idHash: Hex | undefined;
    /** whether an earlier call posted the same; a refusal then does not prove that nothing was submitted */
    readonly isRepeated?: boolean;
    readonly post: () => Promise<O>;
    /** called once, when the outcome is not known at once */
    readonly onPending?: () => void;
  },
): Promise<{ readonly outcome: Known<O>; readonly wasUnsure: boolean }> {
  const retries = new RetryBudget({ budgetMs: effects.limits.settleMs, turns: MAX_TURNS, effects });
  let wasUnsure = false;
  for (let turn = 0; ; turn++) {
    let waitMs = backoffMs(turn);
    let cause: TurnpikeError | undefined;
    try {
      const outcome = await job.post();
      if (outcome.kind !== "pending") return { outcome: outcome as Known<O>, wasUnsure };
      waitMs = Math.max(100, Math.min(outcome.retryAfterSec * 1_000, 5_000));
    } catch (error) {
      if (!isTurnpikeError(error) || error.code !== "Unavailable") throw error;
      cause = error;
      const refusal = refusalBeforeWork(error);
      if (refusal && !wasUnsure && !job.isRepeated) {
        return { outcome: { kind: "refused", error: notSubmitted(refusal, error, job.idHash) } as Known<O>, wasUnsure };
      }
      if (refusal) waitMs = waitMsOf(error, waitMs);
    }
    if (!wasUnsure) job.onPending?.();
    wasUnsure = true;
    if (await retries.wait(waitMs)) continue;
    const why = cause === undefined ? "" : ` (${cause.message.replace(/\.$/, "")})`;
    throw new PaymentPending(
      `The outcome of the change is not known yet${why}. Repeat the call: it presents the same one.`,
      {
        ...(cause === undefined ? {} : { cause }),
        ...(cause?.retryAfterSec === undefined ? {} : { retryAfterSec: cause.retryAfterSec }),
        ...(job.idHash === undefined ? {} : { details: { idHash: job.idHash } }),
      },
    );
  }
}

function notSubmitted(refusal: TurnpikeError, cause: TurnpikeError, idHash: Hex | undefined): TurnpikeError {
  const { code } = refusal;
  const { retryAfterSec } = cause;
  const when = retryAfterSec === undefined ? "later" : `in ${retryAfterSec} s`;
  const message =
    code === "RateLimited"
      ? `The Facilitator's rate limit refused the change, and nothing was submitted. Repeat the call ${when}.`
      : "The Facilitator has no route for the change, and nothing was submitted. Check its address.";
  return new TurnpikeError(code, message, {
    cause,
    ...(retryAfterSec === undefined ? {} : { retryAfterSec }),
    ...(idHash === undefined ? {} : { details: { idHash } }),
  });
}

export const isRefused = (outcome: { readonly kind: string }): outcome is Refused => outcome.kind === "refused";

/**
 * Keeps what a Facilitator supports, as `GET /supported` states it: its least amount, and what quotes
 * have to name. Known answers are used at once and renewed behind the requests that read them.
 */
import { tokenInterface } from "../../chain/abi";
import { callView, type Rpc } from "../../chain/rpc";
import { judgeTokenDomain, readTokenDomain } from "../../chain/token-domain";
import { NO_ANSWER } from "../../chain/views";
import type { Supported } from "../../facilitator/supported";
import {
  type Address,
  caip2Of,
  checksum,
  EIP2612_GAS_SPONSORING,
  isAddress,
  isTurnpikeError,
  Unavailable,
} from "../../protocol";
import { atMost, sharedCall } from "../../protocol/exchange";
import type { StatedSupport } from "../methods";
import type { Settings } from "./settings";

/** One answer; a new object where anything changed. */
export interface FacilitatorSupport extends StatedSupport {
  /** the least that it settles of this token, base units, but for 0; undefined: not stated */
  readonly minAmount: string | undefined;
  /** as it lists the gate's token: the domain that it takes signatures for; "unlisted": it settles other tokens alone */
  readonly token: { readonly name: string; readonly version: string } | "unlisted" | undefined;
  /** its keys, former ones that can still send among them */
  readonly senders: readonly Address[];
}

export interface SupportSource {
  /** Returns the last answer, and renews it in the background; undefined before the first. */
  known(): FacilitatorSupport | undefined;
  /** @throws Unavailable when the Facilitator does not answer, and never did */
  read(): Promise<FacilitatorSupport>;
  /** Reads the first answer where there is none, and waits for it until it was asked for this long ago. */
  readWithin(waitMs: number): Promise<void>;
  /** Returns whether a payment that names this key can settle; asks again for a key that is new. @throws Unavailable */
  isSender(address: Address): Promise<boolean>;
}

export interface SupportSourceParts {
  readonly settings: Pick<Settings, "facilitator" | "facilitatorWaitMs" | "network" | "token">;
  readonly rpc: Rpc | undefined;
  readonly supported: () => Promise<Supported>;
}

/** An answer is renewed when it is this old. */
const RENEW_MS = 60_000;

/** Requests that nobody can answer yet, and payloads that name unknown keys, ask no more often than this. */
const ASK_AGAIN_MS = 5_000;

/** How long an answer of the Facilitator waits for what the chain says of the token. */
const PERMITS_WAIT_MS = 500;

const ignored = (): undefined => undefined;

/** Another project's Facilitator states nothing that this gate relies on; it refuses what it does not settle. */
const UNSTATED: FacilitatorSupport = {
  methods: undefined,
  uptoSigner: undefined,
  sponsorsGas: false,
  minAmount: undefined,
  token: undefined,
  senders: [],
};

export function createSupportSource({ settings, rpc, supported }: SupportSourceParts): SupportSource {
  const isForeign = settings.facilitator?.trustUnsigned === true;
  let current = isForeign ? UNSTATED : undefined;
  let askedAtMs = isForeign ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
  let hasFailed = false;
  let readingPermits: Promise<void> | undefined;
  let hasPermits: boolean | undefined = settings.token?.permits;

  /** A silent node does not keep back what the Facilitator says: until it answers, no sponsoring is offered. */
  async function awaitPermits({ address }: NonNullable<Settings["token"]>): Promise<void> {
    let isLate = false;
    readingPermits ??= (rpc ? readPermits(rpc, address, settings.network.chainId) : Promise.resolve(false))
      .then((has) => {
        hasPermits = has;
        if (isLate) askedAtMs = Number.NEGATIVE_INFINITY;
      }, ignored)
      .finally(() => {
        readingPermits = undefined;
      });
    await atMost(PERMITS_WAIT_MS, readingPermits, () => {
      isLate = true;
    });
  }

  const renew = sharedCall(settings.facilitatorWaitMs + PERMITS_WAIT_MS, async () => {
    askedAtMs = performance.now();
    hasFailed = false;
    try {
      return await ask();
    } catch (error) {
      hasFailed = true;
      throw error;
    }
  });

  async function ask(): Promise<FacilitatorSupport> {
    const answer = await supported();
    const isAdvertised = answer.extensions.includes(EIP2612_GAS_SPONSORING);
    if (isAdvertised && hasPermits === undefined && settings.token) await awaitPermits(settings.token);
    const next = supportIn(answer, settings, isAdvertised && hasPermits === true);
    if (JSON.stringify(next) !== JSON.stringify(current)) current = next;
    return current ?? next;
  }

  const isOlderThan = (ms: number): boolean => performance.now() - askedAtMs > ms;

  return {
    known() {
      if (current && isOlderThan(RENEW_MS)) void renew().catch(() => undefined);
      return current;
    },
    async read() {
      if (current) return current;
      // It has just failed: requests in between do not wait for another attempt.
      if (hasFailed && !isOlderThan(ASK_AGAIN_MS)) {
        throw new Unavailable("The Facilitator did not state what it supports.", { retryAfterSec: 2 });
      }
      return renew();
    },
    async readWithin(waitMs) {
      const asked = this.read().then(ignored, ignored);
      // A question that was lost with its request is asked again, and waited for as a new one.
      await atMost(0, asked, ignored);
      // Only one question is under way, so its age bounds the wait of all who need its answer.
      await atMost(waitMs - (performance.now() - askedAtMs), asked, ignored);
    },
    async isSender(address) {
      const { senders } = await this.read();
      if (senders.includes(address) || !isOlderThan(ASK_AGAIN_MS)) return senders.includes(address);
      return (await renew()).senders.includes(address);
    },
  };
}

function supportIn(
  { kinds, transferMethods, relayers, tokens }: Supported,
  { network: { chainId }, token }: Pick<Settings, "network" | "token">,
  sponsorsGas: boolean,
): FacilitatorSupport {
  const upto = kinds.find(({ scheme, network }) => scheme === "upto" && network === caip2Of(chainId));
  const named = upto?.extra?.facilitatorAddress;
  const uptoSigner = typeof named === "string" && isAddress(named) ? checksum(named) : undefined;
  const listed = tokens.find(({ address }) => address === token?.address);
  const isUnlisted = !listed && token !== undefined && tokens.length > 0;
  return {
    methods: transferMethods ?? [],
    uptoSigner,
    sponsorsGas,
    minAmount: listed?.minAmount,
    token: listed ? { name: listed.name, version: listed.version } : isUnlisted ? "unlisted" : undefined,
    senders: [...new Set([...(uptoSigner ? [uptoSigner] : []), ...relayers])],
  };
}

/**
 * Returns whether a token answers `nonces`, which EIP-2612 permits need, and has a domain that payers can sign for.
 * @throws Unavailable
 */
async function readPermits(rpc: Rpc, token: Address, chainId: number): Promise<boolean> {
  try {
    await callView(rpc, { to: token, iface: tokenInterface, method: "nonces", args: [token] });
    const stated = await readTokenDomain(rpc, token);
    const { name = "", version = "1" } = stated.domain ?? stated;
    const verdict = judgeTokenDomain({ chainId, token, name, version }, stated);
    return verdict.kind !== "other" || verdict.signable !== undefined;
  } catch (error) {
    if (isTurnpikeError(error) && error.reason === NO_ANSWER) return false;
    throw error;
  }
}

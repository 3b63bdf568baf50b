/** A payer's token approvals, how each is withdrawn, and the act that stops everything. */

import type { SupportedWire } from "turnpike/facilitator";
import { type Address, permitTypedData } from "turnpike/protocol";
import type { AnswerAt } from "../api";
import { plainText, plural } from "../format";
import { Problem, type Progress } from "../wallet/account";
import type { Wanted } from "../wallet/ask";
import { PERMIT2, withdrawApproval } from "../wallet/calls";
import { type ActContext, cancelNow, laterOf, type Mine, settled } from "./me-acts";

export interface Approval {
  readonly token: string;
  readonly tokenName: string;
  readonly spender: string;
  /** in words */
  readonly of: "Turnpike" | "Permit2";
  /** base units */
  readonly amount: string;
  /** of an approval that a signature withdraws; absent: it takes a transaction */
  readonly permit?: AnswerAt<"GET", `/accounts/${string}`>;
}

/** Reads what Turnpike and Permit2 may take, by the service: a payer without a wallet here sees it, too. */
export async function approvalsOf({ api, supported }: Pick<ActContext, "api" | "supported">, owner: string) {
  const read = async (token: string, isPermit2: boolean): Promise<Approval> => {
    const spender = isPermit2 ? PERMIT2 : undefined;
    const account = await api.get(`/accounts/${owner}`, { token, spender });
    return {
      token,
      tokenName: plainText(account.tokenName),
      spender: spender ?? supported.turnpike,
      of: isPermit2 ? "Permit2" : "Turnpike",
      amount: account.approval,
      ...(account.permitNonce !== undefined && !isPermit2 && { permit: account }),
    };
  };
  return Promise.all(
    [false, true].flatMap((isPermit2) => supported.tokens.map(({ address }) => read(address, isPermit2))),
  );
}

async function withdraw(at: ActContext, approval: Approval, progress: Progress): Promise<void> {
  const { account, api, supported } = at;
  if (!approval.permit) {
    await account.send(withdrawApproval(approval.token, approval.spender), progress);
    return;
  }
  const { chainId, network, turnpike } = supported;
  const {
    tokenName: name,
    tokenVersion: version,
    permitNonce = "0",
    chainTimeSec,
  } = await api.get(`/accounts/${account.address}`, { token: approval.token });
  const deadline = String(laterOf(chainTimeSec, network) + 600);
  const owner = account.address;
  const token = approval.token as Address;
  const signature = await account.sign(
    permitTypedData(
      { chainId, token, name, version },
      {
        owner: owner as Address,
        spender: turnpike as Address,
        value: 0n,
        nonce: BigInt(permitNonce),
        deadline: BigInt(deadline),
      },
    ),
    progress,
  );
  const body = { network, token, owner, value: "0", deadline, signature };
  await settled(() => api.send("POST", "/permits", body), progress);
}

const priceOf = ({ permit }: Approval): string =>
  permit ? "One signature, without gas." : "It is a transaction of your wallet: you pay its gas.";

export function withdrawAct(at: ActContext, approval: Approval): Wanted {
  const { of, tokenName } = approval;
  return {
    title: `Withdraw ${of}'s approval for ${tokenName}`,
    words: [
      of === "Turnpike"
        ? "No subscription can be charged in this token any more: each ends after its grace unless you approve again."
        : "No payment over Permit2 can be made with this token until you approve again, for any application.",
      priceOf(approval),
    ],
    button: "Ask my wallet",
    async run(progress) {
      await withdraw(at, approval, progress);
      return "The approval is withdrawn.";
    },
  };
}

interface Everything {
  readonly live: readonly Mine[];
  readonly given: readonly Approval[];
}

const NAMED = 10;

/** Names the chain where there are several. */
export const on = ({ chains = [], network }: SupportedWire): string => (chains.length > 1 ? ` on ${network}` : "");

/**
 * Withdraws by signatures first, as nothing can be charged from then on; cancels every subscription; then withdraws what
 * takes a transaction. After a refusal it goes on with what is left, and begun again it does what is not done.
 */
export function stopAct(at: ActContext, { live, given }: Everything): Wanted {
  const signed = given.filter(({ permit }) => permit);
  const sent = given.filter(({ permit }) => !permit);
  const signatures = live.length + signed.length;
  const rest = live.length - NAMED;
  const names = live.slice(0, NAMED).map(({ name }) => name);
  const done = new Set<object>();
  const title = `Stop everything${on(at.supported)}`;
  if (given.length + live.length === 0)
    return { title, words: ["Nothing can be charged here: no approval and no subscription is left."] };
  return {
    title,
    words: [
      given.length === 0
        ? "No approval is left to withdraw."
        : `Withdraws: ${given.map(({ of, tokenName }) => `${of} for ${tokenName}`).join(", ")}.`,
      live.length === 0
        ? "No subscription is left to cancel."
        : `Cancels at once, without return of what is paid: ${[...names, ...(rest > 0 ? [`${rest} more`] : [])].join(", ")}.`,
      `Your wallet asks for ${plural(signatures, "signature")} without gas${
        sent.length === 0 ? "" : `, and for ${plural(sent.length, "transaction")} whose gas you pay`
      }.`,
    ],
    button: "Begin",
    async run(progress) {
      const withdrawal = (approval: Approval) => ({
        of: approval,
        name: `withdraw ${approval.of} for ${approval.tokenName}`,
        run: (by: Progress) => withdraw(at, approval, by),
      });
      const steps = [
        ...signed.map(withdrawal),
        ...live.map((mine) => ({
          of: mine,
          name: `cancel ${mine.name}`,
          run: (by: Progress) => cancelNow(at, mine, by),
        })),
        ...sent.map(withdrawal),
      ];
      for (const [place, step] of steps.entries()) {
        if (done.has(step.of)) continue;
        const say = (text: string) => progress.say(`${place + 1} of ${steps.length}, ${step.name}: ${text}`);
        try {
          await step.run({ ...progress, say });
        } catch (error) {
          if (!(error instanceof Error) || done.size === 0) throw error;
          const isOver = given.every((approval) => approval.of !== "Turnpike" || done.has(approval));
          throw new Problem(
            `${error.message} Before that, ${plural(done.size, "step")} of ${steps.length} was done.${
              isOver ? " No subscription can be charged any more. Try again later for the rest." : ""
            }`,
          );
        }
        done.add(step.of);
      }
      return `Everything is stopped: nothing can be charged here${on(at.supported)} any more.`;
    },
  };
}

/** A payer's token approvals, how each is withdrawn, and the act that stops everything. */

import { type Address, permitTypedData } from "turnpike/protocol";
import type { AnswerAt } from "../api";
import { plainText, plural } from "../format";
import { Problem, type Progress } from "../wallet/account";
import type { Wanted } from "../wallet/ask";
import { PERMIT2, readApproval, withdrawApproval } from "../wallet/calls";
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

/** Reads Turnpike's approvals from the service. */
export async function turnpikeApprovals({ api, supported }: Pick<ActContext, "api" | "supported">, owner: string) {
  const accounts = await Promise.all(
    supported.tokens.map(({ address }) => api.get(`/accounts/${owner}`, { token: address })),
  );
  return accounts.map(
    (account): Approval => ({
      token: account.token,
      tokenName: plainText(account.tokenName),
      spender: supported.turnpike,
      of: "Turnpike",
      amount: account.approval,
      ...(account.permitNonce !== undefined && { permit: account }),
    }),
  );
}

/** Reads Permit2's approvals by the wallet. */
export async function permit2Approvals({ account, supported }: Pick<ActContext, "account" | "supported">) {
  const approvals: Approval[] = [];
  for (const { address, name } of supported.tokens) {
    const answer = await account.read(readApproval(address, account.address, PERMIT2));
    if (!/^0x[0-9a-f]{64}$/i.test(answer)) throw new Problem("The wallet could not read the approvals for Permit2.");
    const amount = BigInt(answer).toString();
    approvals.push({ token: address, tokenName: plainText(name), spender: PERMIT2, of: "Permit2", amount });
  }
  return approvals;
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
  /** whether there are older ones that are not among them */
  readonly more: boolean;
  readonly given: readonly Approval[];
}

/** Cancels every subscription, then withdraws every approval. After a refusal it goes on with what is left. */
export function stopAct(at: ActContext, { live, more, given }: Everything): Wanted {
  const signatures = live.length + given.filter(({ permit }) => permit).length;
  const transactions = given.filter(({ permit }) => !permit).length;
  const names = live.map(({ name }) => name).join(", ");
  const done = new Set<object>();
  return {
    title: "Stop everything",
    words: [
      live.length === 0
        ? "No subscription is left to cancel."
        : `Cancels at once, without return of what is paid: ${names}.`,
      ...(more
        ? ["Subscriptions older than the newest 100 are not cancelled; without approvals they cannot be charged."]
        : []),
      given.length === 0
        ? "No approval is left to withdraw."
        : `Then withdraws: ${given.map(({ of, tokenName }) => `${of} for ${tokenName}`).join(", ")}.`,
      `Your wallet asks for ${plural(signatures, "signature")} without gas${
        transactions === 0 ? "" : `, and for ${plural(transactions, "transaction")} whose gas you pay`
      }.`,
    ],
    button: "Begin",
    async run(progress) {
      const steps = [
        ...live.map((mine) => ({
          of: mine,
          name: `cancel ${mine.name}`,
          run: (by: Progress) => cancelNow(at, mine, by),
        })),
        ...given.map((approval) => ({
          of: approval,
          name: `withdraw ${approval.of} for ${approval.tokenName}`,
          run: (by: Progress) => withdraw(at, approval, by),
        })),
      ];
      for (const [place, step] of steps.entries()) {
        if (done.has(step.of)) continue;
        const say = (text: string) => progress.say(`${place + 1} of ${steps.length}, ${step.name}: ${text}`);
        try {
          await step.run({ ...progress, say });
        } catch (error) {
          if (!(error instanceof Error) || done.size === 0) throw error;
          throw new Problem(`${error.message} Before that, ${plural(done.size, "step")} of ${steps.length} was done.`);
        }
        done.add(step.of);
      }
      return "Everything is stopped: nothing can be charged here any more.";
    },
  };
}

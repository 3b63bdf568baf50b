/** Checks the keys: that they can sign and pay, and that nobody else can read or use them. */
import { statSync } from "node:fs";
import { type Address, ConfigError } from "turnpike/protocol";
import type { ChainReader } from "../../chain/chain-reader";
import type { Finding } from "../../chain/contract-checks";
import type { FacilitatorConfig } from "../../config";
import type { KeySource } from "../../config/key-source";
import type { Store } from "../../db/open";
import { acceptedSigners } from "../../relayer/accepted-signers";
import { openSigner } from "../../relayer/keys";
import { coins } from "../../relayer/lane-state";
import { type DigestSigner, PROBE_DIGEST } from "../../relayer/signer";

const GROUP_READS = 0o040;

/** Modes by which others may read a file, or anyone but its owner change it. */
const OPEN = 0o037;

const ANYONE_WRITES = 0o222;

export interface KeyDoctor {
  readonly config: FacilitatorConfig;
  /** absent when no node answers */
  readonly chain: ChainReader | undefined;
  /** absent when the database cannot be read */
  readonly store: Store | undefined;
}

export async function examineKeys({ config, chain, store }: KeyDoctor): Promise<Finding[]> {
  const findings: Finding[] = [];
  const known: KnownKey[] = [];
  for (const [index, source] of config.relayerKeys.entries()) {
    const subject = `RELAYER_KEYS ${index + 1}`;
    findings.push(...fileFindings(subject, source));
    const signer = await opened(subject, source, config, findings);
    if (!signer) continue;
    known.push({ subject, role: "relayer", address: signer.address });
    if (chain) findings.push(...(await laneFindings(subject, signer, { config, chain, store })));
  }
  if (config.proofKey) {
    findings.push(...fileFindings("PROOF_KEY", config.proofKey));
    const signer = await opened("PROOF_KEY", config.proofKey, config, findings);
    if (signer) {
      known.push({ subject: "PROOF_KEY", role: "proof", address: signer.address });
      findings.push(...signerFindings(signer.address, config));
    }
  }
  for (const { provider, source } of config.refundKeys ?? []) {
    const subject = `REFUND_KEYS ${provider}`;
    findings.push(...fileFindings(subject, source));
    const signer = await opened(subject, source, config, findings);
    if (signer) known.push({ subject, role: "refund", address: signer.address });
  }
  return [...findings, ...sharedKeyFindings(known)];
}

interface KnownKey {
  readonly subject: string;
  readonly role: "relayer" | "proof" | "refund";
  readonly address: Address;
}

const REMEDY: Readonly<Record<Exclude<KnownKey["role"], "relayer">, string>> = {
  proof: "make a key of its own for PROOF_KEY, and announce it first (docs/operators/keys.md)",
  refund: "make an account of its own for refunds, and have the provider name it (docs/guides/refunds.md)",
};

/** A relayer's key is in use all the time, in each process with the role: a thief of it must get nothing else by it. */
function sharedKeyFindings(known: readonly KnownKey[]): Finding[] {
  const relayers = known.filter(({ role }) => role === "relayer");
  return known.flatMap(({ subject, role, address }): Finding[] => {
    if (role === "relayer") return [];
    const relayer = relayers.find((each) => each.address === address);
    if (!relayer) return [];
    const gain = role === "proof" ? "forge proofs of payment" : "spend the refunds' account";
    const detail = `is the key of ${relayer.subject} (${address}) too: a thief of the relayer's key can ${gain}`;
    return [{ level: "warn", subject, detail, remedy: REMEDY[role] }];
  });
}

function signerFindings(current: Address, { proofSigners }: FacilitatorConfig): Finding[] {
  const subject = "PROOF_SIGNERS";
  try {
    return acceptedSigners(current, proofSigners)
      .list.slice(1)
      .map(({ address, until }) => {
        const till = until === undefined ? "for every payment" : `until ${new Date(until * 1_000).toISOString()}`;
        return { level: "ok", subject, detail: `proofs by ${address} count ${till}` };
      });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [{ level: "fail", subject, detail: error.message, remedy: "see docs/operators/keys.md" }];
  }
}

function fileFindings(subject: string, source: KeySource): Finding[] {
  if (source.kind !== "local") return [];
  if (source.path === undefined) {
    const remedy =
      "fine for a trial; in production, keep it in a file (file:PATH) or a key management service (aws-kms:ID)";
    return [{ level: "ok", subject, detail: `is in the environment: ${remedy}` }];
  }
  const mode = statSync(source.path).mode & 0o777;
  // As Kubernetes mounts a secret for the group of a pod: 0440.
  const isMounted = (mode & ANYONE_WRITES) === 0;
  const isGroups = (mode & GROUP_READS) !== 0;
  if ((mode & OPEN) === 0 && (!isGroups || isMounted))
    return [{ level: "ok", subject, detail: `only its owner${isGroups ? " and its group" : ""} can read its file` }];
  const detail = `its file can be read by others (mode ${mode.toString(8)})`;
  return [{ level: "fail", subject, detail, remedy: `chmod 600 ${source.path}` }];
}

async function opened(
  subject: string,
  source: KeySource,
  config: FacilitatorConfig,
  findings: Finding[],
): Promise<DigestSigner | undefined> {
  try {
    const signer = await openSigner(source, config);
    await signer.signDigest(PROBE_DIGEST);
    findings.push({ level: "ok", subject, detail: `${signer.address} signs` });
    return signer;
  } catch (error) {
    const detail = error instanceof Error ? error.message : "it cannot sign";
    const remedy =
      "check that the key exists, that this machine may use it, and that KMS_ENDPOINT and AWS_REGION are right";
    findings.push({ level: "fail", subject, detail, remedy });
    return undefined;
  }
}

async function laneFindings(
  subject: string,
  { address }: DigestSigner,
  { config, chain, store }: { config: FacilitatorConfig; chain: ChainReader; store: Store | undefined },
): Promise<Finding[]> {
  const [balance, nonce] = await Promise.all([chain.balanceWei(address), chain.nonce(address)]);
  const eth = coins(balance);
  const isLow = balance < config.minBalanceWei;
  const findings: Finding[] = [
    isLow
      ? {
          level: "fail",
          subject,
          detail: `${address} holds ${eth}, below MIN_BALANCE_WEI`,
          remedy: "send it native coins",
        }
      : { level: "ok", subject, detail: `${address} holds ${eth}` },
  ];
  const lane = await store?.db
    .selectFrom("lanes")
    .selectAll()
    .where("chain_id", "=", config.chainId)
    .where("key", "=", address)
    .executeTakeFirst();
  const remedy = "find out who else sent with it; then start once with ADOPT_NONCE=true";
  if (lane?.status === "stopped") {
    findings.push({ level: "fail", subject, detail: `its lane has stopped: ${lane.reason}`, remedy });
  } else if (lane && nonce > lane.next_nonce) {
    const detail = `the chain has ${nonce} transactions of it, this database ${lane.next_nonce}`;
    findings.push({ level: "fail", subject, detail, remedy });
  }
  return findings;
}

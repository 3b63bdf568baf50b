/**
 * Derives secrets, without storage, from signatures that the wallet makes only for this purpose. A wallet whose
 * signatures differ from one time to the next (or a contract wallet) gets random secrets, kept in the ledger.
 */
import {
  concatBytes,
  type Hex,
  hexToBytes,
  hmacSha256,
  keccak256,
  randomBytes,
  rootTypedData,
  SIGNATURE_65,
  type TurnpikeDeployment,
  toBase64Url,
  toHex,
  utf8ToBytes,
  wordOfUint,
} from "../../protocol";
import type { AgentLedger } from "../ledger/ledger";
import type { Signer } from "./wallet";

/** The root secret of one deployment's subscriptions; `undefined` when the wallet cannot make the same one twice. */
export type DerivedRoot = Hex | undefined;

export interface Roots {
  ofSubscriptions(deployment: TurnpikeDeployment): Promise<DerivedRoot>;
  /** Derives the Idempotency-Key that is sent for the caller's own key: not guessable, not shared between agents. */
  purchaseKey(callerKey: string, ledger: AgentLedger): Promise<string>;
}

const PURCHASES = "purchases";

export function createRoots(signer: Signer): Roots {
  const known = new Map<string, Promise<DerivedRoot>>();

  const derive = (id: string, deployment?: TurnpikeDeployment): Promise<DerivedRoot> => {
    const found = known.get(id);
    if (found) return found;
    const derived = deriveRoot(signer, deployment);
    known.set(id, derived);
    derived.catch(() => known.delete(id));
    return derived;
  };

  return {
    ofSubscriptions: (deployment) => derive(`${deployment.chainId}:${deployment.turnpike.toLowerCase()}`, deployment),
    async purchaseKey(callerKey, ledger) {
      const root = (await derive(PURCHASES)) ?? (await storedRoot(ledger, await signer.address()));
      return toBase64Url(hmacSha256(hexToBytes(root), utf8ToBytes(callerKey)));
    },
  };
}

async function deriveRoot(signer: Signer, deployment?: TurnpikeDeployment): Promise<DerivedRoot> {
  const data = rootTypedData(deployment);
  const [first, second] = [await signer.sign(data), await signer.sign(data)];
  if (first !== second || !SIGNATURE_65.test(first) || !(await signer.isOwnKey(data, first))) return undefined;
  return keccak256(hexToBytes(first));
}

async function storedRoot(ledger: AgentLedger, address: string): Promise<Hex> {
  const id = `${PURCHASES}:${address.toLowerCase()}`;
  const stored = ledger.root(id);
  if (stored) return stored.value;
  const value = toHex(randomBytes(32));
  await ledger.put({ type: "root", id, value });
  return value;
}

/** secret_n = HMAC-SHA256(root, abi.encode(planId, uint32 n)). */
export function derivedSecret(root: Hex, planId: Hex, n: number): Hex {
  return toHex(hmacSha256(hexToBytes(root), concatBytes(hexToBytes(planId), wordOfUint(n))));
}

export function randomSecret(): Hex {
  return toHex(randomBytes(32));
}

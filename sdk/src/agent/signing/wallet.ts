/**
 * Wraps the agent's account: signs typed data and nothing else. Accepts ethers signers, viem accounts and bare keys.
 * Also derives secrets, without storage, from signatures that the wallet makes only for this purpose.
 */
import {
  type Address,
  addressOfKey,
  ConfigError,
  checksum,
  concatBytes,
  type Hex,
  hexToBytes,
  hmacSha256,
  isAddress,
  keccak256,
  mutableTypes,
  PolicyRefused,
  randomBytes,
  recoverSigner,
  rootTypedData,
  SIGNATURE_65,
  signDigest,
  type TurnpikeDeployment,
  type TypedData,
  toBase64Url,
  toHex,
  typedDataDigest,
  utf8ToBytes,
  wordOfUint,
} from "../../protocol";
import type { AgentLedger } from "../ledger/ledger";

/** As `ethers.Signer` has it. */
export interface EthersLikeWallet {
  /** The account's address. */
  getAddress(): Promise<string>;
  /** @returns an EIP-712 signature */
  // Method syntax: ethers declares mutable types here, and a signer never writes to them.
  signTypedData(
    domain: object,
    types: Record<string, { name: string; type: string }[]>,
    message: object,
  ): Promise<string>;
}

/** As viem's `LocalAccount` has it. */
export interface ViemLikeWallet {
  readonly address: string;
  /** @returns an EIP-712 signature */
  // Callers of viem's generic signature are typed per message; here the message is already checked typed data.
  // biome-ignore lint/suspicious/noExplicitAny: viem's parameter type is generic over every possible message
  signTypedData(data: any): Promise<string>;
}

/** What signs: an ethers signer, a viem account, or {@link walletFromKey}. */
export type AgentWallet = EthersLikeWallet | ViemLikeWallet;

export interface Signer {
  address(): Promise<Address>;
  /** @throws PolicyRefused (reason "wallet") when the wallet does not sign */
  sign(data: TypedData): Promise<Hex>;
  /** Returns whether `signature` is an ECDSA signature of this account over `data`; false for contract wallets. */
  isOwnKey(data: TypedData, signature: Hex): Promise<boolean>;
}

/** A wallet of one private key, in memory. The key is reachable through no property. */
export function walletFromKey(privateKey: Hex): EthersLikeWallet {
  if (!/^0x[0-9a-fA-F]{64}$/.test(privateKey)) {
    const given = typeof privateKey === "string" ? "something else" : String(typeof privateKey);
    throw new ConfigError(`walletFromKey takes a private key, 0x and 64 hex digits, and got ${given}.`);
  }
  const address = addressOfKey(privateKey);
  return {
    getAddress: async () => address,
    signTypedData: async (domain, types, message) => {
      const primaryType = Object.keys(types)[0] ?? "";
      return signDigest(typedDataDigest({ domain, types, message, primaryType } as unknown as TypedData), privateKey);
    },
  };
}

/** @throws ConfigError when `wallet` can neither name its account nor sign */
export function createSigner(wallet: AgentWallet): Signer {
  if (typeof wallet?.signTypedData !== "function") {
    throw new ConfigError("wallet must have signTypedData, as ethers signers and viem accounts do");
  }
  let known: Promise<Address> | undefined;
  const address = () => {
    known ??= readAddress(wallet);
    return known;
  };
  return {
    address,
    async sign(data) {
      const { domain, types, message, primaryType } = data;
      let signature: string;
      try {
        signature =
          "getAddress" in wallet
            ? await wallet.signTypedData({ ...domain }, mutableTypes(types), { ...message })
            : await wallet.signTypedData({ domain, types, primaryType, message });
      } catch (cause) {
        throw new PolicyRefused("The wallet did not sign.", { reason: "wallet", cause });
      }
      return normalizeSignature(signature);
    },
    async isOwnKey(data, signature) {
      return recoverSigner(typedDataDigest(data), signature) === (await address());
    },
  };
}

async function readAddress(wallet: AgentWallet): Promise<Address> {
  const text = "getAddress" in wallet ? await wallet.getAddress() : wallet.address;
  if (!isAddress(text)) throw new ConfigError("the wallet's address is not 0x and 40 hex digits");
  return checksum(text);
}

const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

/**
 * Low s and v of 27 or 28, whatever the wallet writes; signatures of other lengths (contract wallets) stay as they are.
 */
export function normalizeSignature(signature: string): Hex {
  if (!/^0x(?:[0-9a-fA-F]{2})+$/.test(signature)) {
    throw new PolicyRefused("The wallet's answer is no signature.", { reason: "wallet" });
  }
  if (!SIGNATURE_65.test(signature)) return signature as Hex;
  const s = BigInt(`0x${signature.slice(66, 130)}`);
  const isHigh = s > CURVE_ORDER / 2n;
  const v = Number.parseInt(signature.slice(130), 16) % 27;
  const lowS = (isHigh ? CURVE_ORDER - s : s).toString(16).padStart(64, "0");
  return `0x${signature.slice(2, 66).toLowerCase()}${lowS}${(27 + (isHigh ? 1 - v : v)).toString(16)}`;
}

/** The root secret of one deployment's subscriptions; `undefined` when the wallet cannot make the same one twice. */
export type DerivedRoot = Hex | undefined;

export interface Roots {
  ofSubscriptions(deployment: TurnpikeDeployment): Promise<DerivedRoot>;
  /** Derives the Idempotency-Key that is sent for the caller's own key: not guessable, not shared between agents. */
  purchaseKey(callerKey: string, ledger: AgentLedger): Promise<string>;
}

const PURCHASES = "purchases";

/**
 * Derives secrets from the wallet's signatures. A wallet whose signatures differ from one time to the next (or a
 * contract wallet) gets random secrets, kept in the ledger.
 */
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

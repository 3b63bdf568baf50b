/**
 * Wraps the agent's account: signs typed data and nothing else. Accepts ethers signers, viem accounts and bare keys.
 */
import {
  type Address,
  addressOfKey,
  ConfigError,
  checksum,
  type Hex,
  isAddress,
  PolicyRefused,
  recoverSigner,
  SIGNATURE_65,
  signDigest,
  type TypedData,
  typedDataDigest,
} from "../../protocol";

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
  if (!/^0x[0-9a-fA-F]{64}$/.test(privateKey)) throw new ConfigError("A private key is 0x and 64 hex digits.");
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
            ? await wallet.signTypedData({ ...domain }, mutable(types), { ...message })
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

const mutable = (types: TypedData["types"]): Record<string, { name: string; type: string }[]> =>
  Object.fromEntries(Object.entries(types).map(([name, fields]) => [name, fields.map((field) => ({ ...field }))]));

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

/**
 * Wraps the agent's account: signs typed data and nothing else. Accepts ethers signers, viem accounts and clients,
 * EIP-1193 providers and bare keys.
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
  isPrivateKey,
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

/** As viem's `WalletClient` has it, with a local account or one of a wallet in the browser. */
export interface ViemLikeWalletClient {
  readonly account?: { readonly address: string } | undefined;
  /** The wallet's accounts; the first is used where the client names none. */
  getAddresses(): Promise<readonly string[]>;
  /** @returns an EIP-712 signature */
  // biome-ignore lint/suspicious/noExplicitAny: viem's parameter type is generic over every possible message
  signTypedData(data: any): Promise<string>;
}

/** As EIP-1193 has it: `window.ethereum`, or what WalletConnect makes. */
export interface Eip1193Provider {
  /** Sends a JSON-RPC request to the wallet, as EIP-1193 defines it. */
  // biome-ignore lint/suspicious/noExplicitAny: providers type their parameters and results per method
  request(call: { readonly method: string; readonly params?: any }): Promise<any>;
}

/**
 * What signs: an ethers signer, a viem account or `WalletClient`, an EIP-1193 provider, or {@link walletFromKey}. The
 * account is read once: for another account, create another agent.
 */
export type AgentWallet = EthersLikeWallet | ViemLikeWallet | ViemLikeWalletClient | Eip1193Provider;

export interface Signer {
  address(): Promise<Address>;
  /** @throws PolicyRefused (reason "wallet") when the wallet does not sign */
  sign(data: TypedData): Promise<Hex>;
  /** Returns whether `signature` is an ECDSA signature of this account over `data`; false for contract wallets. */
  isOwnKey(data: TypedData, signature: Hex): Promise<boolean>;
}

/** A wallet of one private key, in memory. The key is reachable through no property. */
export function walletFromKey(privateKey: Hex): EthersLikeWallet {
  if (!isPrivateKey(privateKey)) {
    const given = typeof privateKey === "string" ? "something else" : String(typeof privateKey);
    throw new ConfigError(`walletFromKey takes a private key, 0x and 64 hex digits, not all zeros, and got ${given}.`);
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
export function createSigner(given: AgentWallet): Signer {
  const wallet = accountOf(given);
  let known: Promise<Address> | undefined;
  const address = () => {
    known ??= readAddress(wallet).catch((error: unknown) => {
      // A user who declined once may share an account the next time.
      known = undefined;
      throw error;
    });
    return known;
  };
  return {
    address,
    async sign(data) {
      const payer = await address();
      try {
        return normalizeSignature(await wallet.sign(data, payer));
      } catch (cause) {
        if (cause instanceof PolicyRefused) throw cause;
        throw new PolicyRefused(`The wallet did not sign${whyUnsigned(cause)}.`, { reason: "wallet", cause });
      }
    },
    async isOwnKey(data, signature) {
      return recoverSigner(typedDataDigest(data), signature) === (await address());
    },
  };
}

interface Account {
  address(): Promise<unknown>;
  sign(data: TypedData, payer: Address): Promise<string>;
}

/** @throws ConfigError for what is no wallet of a known kind */
function accountOf(wallet: AgentWallet): Account {
  if (typeof (wallet as EthersLikeWallet | undefined)?.signTypedData !== "function") {
    if (typeof (wallet as Eip1193Provider | undefined)?.request === "function") return eip1193Account(wallet as never);
    throw new ConfigError(
      "wallet must have signTypedData, as ethers signers, viem accounts and WalletClients do, or request, as EIP-1193 providers do",
    );
  }
  if ("getAddress" in wallet) {
    return {
      address: () => wallet.getAddress(),
      sign: ({ domain, types, message }) => wallet.signTypedData({ ...domain }, mutableTypes(types), { ...message }),
    };
  }
  if ("address" in wallet) {
    const { address } = wallet;
    return { address: async () => address, sign: (data) => wallet.signTypedData(data) };
  }
  const client = wallet as ViemLikeWalletClient;
  return {
    address: async () => client.account?.address ?? (await client.getAddresses())[0],
    // With its own account object a client signs locally; with an address it asks the wallet.
    sign: (data, payer) => client.signTypedData({ ...data, account: client.account ?? payer }),
  };
}

/** Of EIP-1193 and of JSON-RPC: the wallet has no such method. */
const UNSUPPORTED: readonly unknown[] = [4200, -32601];

/** A wallet that sends calls alone (EIP-5792) can pay nobody, whatever the policy allows. */
function whyUnsigned(cause: unknown): string {
  const code = (cause as { code?: unknown } | undefined)?.code;
  return UNSUPPORTED.includes(code)
    ? ": it has no eth_signTypedData_v4. Use a wallet or account that signs typed data (EIP-712)"
    : "";
}

/** Fields of an EIP-712 domain in the standard's order: `eth_signTypedData_v4` needs their types. */
const DOMAIN_FIELDS = [
  { name: "name", type: "string" },
  { name: "version", type: "string" },
  { name: "chainId", type: "uint256" },
  { name: "verifyingContract", type: "address" },
] as const;

function eip1193Account(provider: Eip1193Provider): Account {
  return {
    async address() {
      const [known] = (await provider.request({ method: "eth_accounts" })) as readonly unknown[];
      // The wallet asks its user only where no account is shared yet.
      return known ?? (await provider.request({ method: "eth_requestAccounts" }))[0];
    },
    sign({ domain, types, message, primaryType }, payer) {
      const fields = DOMAIN_FIELDS.filter(({ name }) => name in domain);
      const data = { domain, message, primaryType, types: { EIP712Domain: fields, ...types } };
      const text = JSON.stringify(data, (_name, value) => (typeof value === "bigint" ? value.toString() : value));
      return provider.request({ method: "eth_signTypedData_v4", params: [payer, text] });
    },
  };
}

async function readAddress(wallet: Account): Promise<Address> {
  let text: unknown;
  try {
    text = await wallet.address();
  } catch (cause) {
    throw new PolicyRefused("The wallet shares no account.", { reason: "wallet", cause });
  }
  if (!isAddress(text)) throw new ConfigError("the wallet names no account: its address is not 0x and 40 hex digits");
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
  if (stored) {
    await ledger.requireSaved(stored);
    return stored.value;
  }
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

/**
 * What stock packages are tried on: a chain with Base Sepolia's id, which all of them know, a test token at the address
 * of Circle's USDC there, a token with 18 decimals, this project's Facilitator, and payers of every kind.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Contract, ContractFactory, toBeHex, Wallet } from "ethers";
import { createPlan } from "turnpike/chain";
import { createProvider, memoryClaims, type Provider, type ProviderOptions } from "turnpike/gate";
import { type Address, addressOfKey, defaultGraceSec, type Hex, networkOfChain } from "turnpike/protocol";
import { startFacilitator } from "../../../facilitator/src/app/start";
import { loadConfig } from "../../../facilitator/src/config";
import { readArtifact } from "../../../scripts/deploy/artifact";
import type { FundedWallet } from "../../../scripts/sandbox/chain";
import { providerKey } from "../../../scripts/sandbox/inbox";
import { placePermit2 } from "../../../scripts/sandbox/permit2";
import { type Chain, freePort, startChain, testKey } from "../../support/chain";
import { deployAll, type LocalContracts } from "../../support/deployment";
import { startPostgres } from "../../support/postgres";
import { deployFactory, type TestFactory, wrapSignature } from "../../support/undeployed-wallets";
import { accounts, type StockAccount } from "./stock";

export const CHAIN_ID = 84_532;
export const CAIP2 = `eip155:${CHAIN_ID}`;
export const V1_NETWORK = "base-sepolia";
const BLOCK_MS = 150;
const SECRET = "a secret of the interop suite, long enough";

export type PayerKind = "key" | "ERC-1271" | "ERC-6492" | "EIP-7702";

export interface Payer {
  readonly kind: PayerKind;
  readonly address: Address;
  /** of the account, or of the wallet's owner */
  readonly key: Hex;
  /** as viem and the stock packages take it */
  readonly account: StockAccount;
}

export interface TokenFacts {
  readonly address: Address;
  readonly name: string;
  readonly version: string;
  readonly decimals: number;
}

export interface InteropWorld {
  readonly chain: Chain;
  readonly contracts: LocalContracts;
  readonly facilitatorUrl: string;
  readonly facilitatorSigner: Address;
  readonly usdc: TokenFacts;
  /** 18 decimals */
  readonly wide: TokenFacts;
  readonly payTo: Address;
  readonly planId: Hex;
  /** Another account each time, with 100 whole units of both tokens. */
  payer(kind?: PayerKind): Promise<Payer>;
  /** transfers of `token` from `payer` to `payTo`, by the token's logs */
  transfers(payer: string, token?: TokenFacts): Promise<bigint[]>;
  provider(options?: ProviderOptions): Provider;
  /** An API key of the wallet that is paid. */
  sellerKey(): Promise<string>;
  /** Submits a standard payload's authorization to the token itself, as anyone could who saw it. */
  spend(payload: object): Promise<void>;
  stop(): Promise<void>;
}

interface SignedTransfer {
  readonly authorization: Readonly<Record<"from" | "to" | "value" | "validAfter" | "validBefore" | "nonce", string>>;
  readonly signature: string;
}

const TOKEN_ABI = [
  "constructor(string,string,string,uint8)",
  "function mint(address,uint256)",
  "function transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
  "event Transfer(address indexed from, address indexed to, uint256 value)",
];

export async function startInteropWorld(): Promise<InteropWorld> {
  const home = mkdtempSync(path.join(tmpdir(), "turnpike-interop-"));
  const closers: (() => Promise<unknown>)[] = [async () => rmSync(home, { recursive: true, force: true })];
  const chain = await startChain({ chainId: CHAIN_ID, blockMs: BLOCK_MS });
  closers.push(() => chain.stop());
  const contracts = await deployAll(chain);
  const postgres = process.env.TEST_PG_URL ? await startPostgres() : undefined;
  if (postgres) closers.push(() => postgres.stop());
  const database = postgres
    ? { DATABASE_URL: await postgres.migrated() }
    : { PGLITE_DIR: path.join(home, "facilitator") };
  await placePermit2(chain);
  const minter = await chain.wallet("interop minter");
  const usdc = await placeUsdc(chain, minter);
  const wide = await deployToken(minter, { name: "Wide USD", version: "1", decimals: 18 });
  const seller = await chain.wallet("interop seller");
  const payTo = seller.address as Address;

  const intervalSec = 30 * 86_400;
  const plan = { token: usdc.address, amount: 5_000_000n, intervalSec, graceSec: defaultGraceSec(intervalSec) };
  const { planId } = await createPlan(seller, contracts.turnpike, { ...plan, metadata: "{}" });

  const factory = await deployFactory(minter, "WalletFactory");
  const port = await freePort();
  const relayer = await chain.wallet("interop relayer");
  const proofKey = testKey("interop proofs") as Hex;
  const facilitator = await startFacilitator(
    loadConfig({
      CHAIN_ID: String(CHAIN_ID),
      RPC_URLS: chain.rpcUrl,
      TURNPIKE: contracts.turnpike,
      BATCH_SETTLER: contracts.batchSettler,
      TOKENS: JSON.stringify([usdc, wide].map(({ address, name, version }) => ({ address, name, version }))),
      RELAYER_KEYS: relayer.privateKey,
      PERMIT2: "true",
      UPTO_SIGNER: relayer.address,
      PROOF_KEY: proofKey,
      // Fifty payers at once are no overload, also on a machine that is slow.
      MAX_QUEUE_AGE_MS: "120000",
      METRICS_PORT: "public",
      WALLET_FACTORIES: factory.address,
      ...database,
      START_BLOCK: "0",
      BLOCK_TIME_MS: String(BLOCK_MS),
      POLL_MS: "50",
      FINALITY_DEPTH: "1",
      PORT: String(port),
      ALLOW_PRIVATE_LISTINGS: "true",
      LOG_LEVEL: process.env.TURNPIKE_INTEROP_LOG ?? "silent",
    }),
  );
  closers.push(() => facilitator.stop());
  const facilitatorUrl = `http://127.0.0.1:${port}`;
  const facilitatorSigner = addressOfKey(proofKey);

  // Many at once: nonces are counted here, not asked for.
  const faucet = await chain.wallet("interop faucet");
  let minted = 0;
  const mint = async ({ address }: TokenFacts, to: Address, amount: bigint): Promise<void> => {
    const contract = new Contract(address, TOKEN_ABI, faucet);
    await (await contract.getFunction("mint")(to, amount, { nonce: minted++, gasLimit: 100_000n })).wait();
  };

  let payers = 0;
  return {
    chain,
    contracts,
    facilitatorUrl,
    facilitatorSigner,
    usdc,
    wide,
    payTo,
    planId,
    async payer(kind = "key") {
      const made = await makePayer(kind, testKey(`interop payer ${payers++}`) as Hex, { chain, minter, factory });
      await Promise.all([usdc, wide].map((token) => mint(token, made.address, 100n * 10n ** BigInt(token.decimals))));
      return made;
    },
    async transfers(payer, token = usdc) {
      const contract = new Contract(token.address, TOKEN_ABI, chain.provider);
      const logs = await contract.queryFilter(contract.filters.Transfer?.(payer, payTo) ?? "Transfer", 0);
      return logs.flatMap((log) => ("args" in log ? [log.args.value as bigint] : []));
    },
    async spend(payload) {
      const { authorization: a, signature } = (payload as { payload: SignedTransfer }).payload;
      const token = new Contract(usdc.address, TOKEN_ABI, await chain.wallet("interop stranger"));
      const transfer = token.getFunction("transferWithAuthorization");
      await (await transfer(a.from, a.to, a.value, a.validAfter, a.validBefore, a.nonce, signature)).wait();
    },
    provider: (options = {}) =>
      createProvider({
        network: V1_NETWORK,
        networkNames: "x402-v1",
        rpcUrl: chain.rpcUrl,
        turnpike: contracts.turnpike,
        payTo,
        facilitator: { url: facilitatorUrl, signers: [facilitatorSigner] },
        secret: SECRET,
        claims: memoryClaims({ warn: false }),
        pollMs: 100,
        ...options,
      }),
    sellerKey: () => providerKey(facilitatorUrl, seller),
    async stop() {
      for (const close of closers.reverse()) await close();
    },
  };
}

async function deployToken(
  signer: FundedWallet,
  { name, version, decimals }: Omit<TokenFacts, "address">,
): Promise<TokenFacts> {
  const { initCode } = readArtifact("contracts/test/TestToken.sol", "TestToken");
  const made = await new ContractFactory(TOKEN_ABI, initCode, signer).deploy(name, "tUSD", version, decimals);
  await made.waitForDeployment();
  return { address: (await made.getAddress()) as Address, name, version, decimals };
}

/** Stock servers and clients know one address for "$0.01" on Base Sepolia: the test token has to be there. */
async function placeUsdc(chain: Chain, signer: FundedWallet): Promise<TokenFacts> {
  const preset = networkOfChain(CHAIN_ID).token;
  if (!preset) throw new TypeError("Base Sepolia has no preset token");
  const { address: template } = await deployToken(signer, { ...preset });
  const { provider } = chain;
  await provider.send("hardhat_setCode", [preset.address, await provider.getCode(template)]);
  // name and version as the contract returns them; the balances stay empty
  for (let slot = 3; slot < 10; slot++) {
    const value = await provider.getStorage(template, slot);
    await provider.send("hardhat_setStorageAt", [preset.address, `0x${slot.toString(16)}`, value]);
  }
  return preset;
}

interface PayerOrigin {
  readonly chain: Chain;
  readonly minter: FundedWallet;
  readonly factory: TestFactory;
}

async function makePayer(kind: PayerKind, key: Hex, { chain, minter, factory }: PayerOrigin): Promise<Payer> {
  const account = accounts().privateKeyToAccount(key);
  const owner = addressOfKey(key);
  const walletAccount = (address: Address, signTypedData: (message: never) => Promise<Hex>): StockAccount =>
    accounts().toAccount({
      address,
      signTypedData,
      signMessage: (message: never) => account.signMessage(message),
      signTransaction: () => Promise.reject(new TypeError("a contract wallet sends nothing itself")),
    });
  const ownerSigns = (message: never) => account.signTypedData(message) as Promise<Hex>;
  switch (kind) {
    case "key":
      return { kind, key, address: owner, account };
    case "ERC-1271": {
      const address = await deployWallet(minter, owner);
      return { kind, key, address, account: walletAccount(address, ownerSigns) };
    }
    case "ERC-6492": {
      const { address, deployment } = await factory.wallet(owner);
      const sign = async (message: never) => wrapSignature(await ownerSigns(message), deployment);
      return { kind, key, address, account: walletAccount(address, sign) };
    }
    case "EIP-7702":
      await delegate(chain, new Wallet(key, chain.provider), await deployWallet(minter, owner));
      return { kind, key, address: owner, account };
  }
}

async function deployWallet(deployer: FundedWallet, owner: Address): Promise<Address> {
  const { initCode } = readArtifact("contracts/test/TestWallets.sol", "TestWallet");
  const made = await new ContractFactory(["constructor(address)"], initCode, deployer).deploy(owner);
  await made.waitForDeployment();
  return (await made.getAddress()) as Address;
}

/** The account's own transaction that makes it run the wallet's code. */
async function delegate(chain: Chain, account: Wallet, implementation: Address): Promise<void> {
  await chain.provider.send("hardhat_setBalance", [account.address, toBeHex(10n ** 18n).replace(/^0x0+/, "0x")]);
  const authorization = await account.authorize({ address: implementation, nonce: 1, chainId: CHAIN_ID });
  const sent = await account.sendTransaction({
    type: 4,
    // anywhere but to itself, whose new code takes no bare call
    to: "0x000000000000000000000000000000000000dEaD",
    nonce: 0,
    gasLimit: 200_000n,
    authorizationList: [authorization],
  });
  await sent.wait();
  const code = await chain.provider.getCode(account.address);
  if (code.toLowerCase() !== `0xef0100${implementation.slice(2).toLowerCase()}`)
    throw new TypeError(`the account was not delegated: ${code}`);
}

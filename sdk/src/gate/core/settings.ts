/** Turns options into settings: checks each once, at start-up, with an error that says what to correct. */
import { type Deployment, findDeployment, requireDeployment } from "../../chain/deployments";
import {
  type Address,
  ConfigError,
  checksumFault,
  configuredAddress,
  DEFAULT_MEMO_LIFE_SEC,
  findNetwork,
  knownToken,
  type MemoKey,
  type Network,
  networkOfChain,
  type PricedToken,
  type ProofSigner,
  parseProofSigner,
  randomBytes,
  requireNetwork,
  requireNoKey,
  sha256,
  type TokenPreset,
  type TrustedSigners,
  toBase64Url,
  toHex,
  trustSigners,
  utf8ToBytes,
  ZERO_ADDRESS,
} from "../../protocol";
import { tokensOf } from "../../protocol/networks";
import { TRANSFER_METHODS, type TransferMethodName } from "../../protocol/transfer-methods";
import { WITHOUT_AUTHORIZATIONS } from "../methods";
import { type ReplayLimits, replayLimitsOf } from "../replay/keeper";
import type { FacilitatorSetting, PaymentTarget, PinnedSigner, ProviderOptions, VerifyMode } from "./options";
import { checkFacilitator, checkProviderOptions, checkToken } from "./provider-checks";

export interface TokenSetting extends PricedToken {
  readonly address: Address;
  readonly name?: string;
  readonly version?: string;
  /** of its one-time prices */
  readonly transferMethod?: TransferMethodName;
  /** whether it has EIP-2612 permits; undefined: read from the chain */
  readonly permits?: boolean;
  /** whether its decimals are a setting, which may be wrong, and not this package's own table */
  readonly hasGivenDecimals: boolean;
}

/** What an entry of a price is paid with and settled by: it may differ from the provider's own. */
export interface TargetSettings {
  readonly network: Network;
  /** the network's name as it is written in quotes */
  readonly networkText: string;
  readonly rpcUrls: readonly string[];
  readonly deployment: Deployment | undefined;
  /** of one-time prices; its EIP-712 name and version may be left to the chain */
  readonly token: TokenSetting | undefined;
  readonly payTo: Address | undefined;
  readonly facilitator:
    | {
        readonly url: string;
        readonly signers: TrustedSigners;
        readonly trustUnsigned: boolean;
        /** undefined: nothing is refunded automatically */
        readonly refundsKey: string | undefined;
      }
    | undefined;
}

/** The provider's settings, and those of one target. */
export interface Settings extends TargetSettings {
  /** undefined: not set, so that the default applies */
  readonly networkNames: ProviderOptions["networkNames"];
  readonly extraNetworks: readonly Network[];
  readonly facilitatorWaitMs: number;
  readonly publicUrl: string | undefined;
  readonly trustProxy: boolean;
  /** the first one issues */
  readonly memoKeys: readonly [MemoKey, ...MemoKey[]];
  readonly verify: VerifyMode;
  readonly confirmations: number;
  readonly settleWaitMs: number;
  readonly quoteLifeSec: number;
  /** undefined: no answer is kept */
  readonly replay: ReplayLimits | undefined;
}

const MIN_SECRET_LENGTH = 32;

export const FACILITATOR_WAIT_MS = 5_000;

/** @throws ConfigError naming the setting */
export function settingsOf(options: ProviderOptions, isProduction: boolean): Settings {
  checkProviderOptions(options);
  if (!options.network)
    throw new ConfigError(
      "network is not set (TURNPIKE_NETWORK): e.g. base-mainnet or local-31337. configure() reads it of a Facilitator by https, where claims last",
    );
  const extraNetworks = options.networks ?? [];
  for (const each of extraNetworks)
    for (const token of tokensOf(each)) address(token.address, `networks: token of ${each.name}`);
  const named = requireNetwork(options.network, extraNetworks);
  const network = networkOfChain(named.chainId, extraNetworks);
  const { chainId } = network;
  const { networkNames } = options;
  const deployment =
    options.turnpike === undefined
      ? findDeployment(chainId)
      : requireDeployment({ chainId, turnpike: options.turnpike });
  return {
    network,
    networkText: networkTextOf(network, networkNames),
    networkNames,
    extraNetworks,
    rpcUrls: rpcUrlsOf(options),
    deployment,
    token: tokenOf(options.token, network, "token"),
    payTo: options.payTo === undefined ? undefined : payee(options.payTo, "payTo"),
    facilitator: options.facilitator && facilitatorOf(options.facilitator, "facilitator"),
    facilitatorWaitMs: whole(options.facilitatorWaitMs ?? FACILITATOR_WAIT_MS, "facilitatorWaitMs", 1),
    publicUrl: publicUrlOf(options, isProduction),
    trustProxy: options.trustProxy ?? false,
    memoKeys: memoKeysOf(options, isProduction),
    verify: options.verify ?? "facilitator",
    confirmations: whole(options.confirmations ?? 1, "confirmations", 1),
    settleWaitMs: whole(options.settleWaitMs ?? 20_000, "settleWaitMs", 0),
    quoteLifeSec: whole(options.quoteLifeSec ?? DEFAULT_MEMO_LIFE_SEC, "quoteLifeSec", 30),
    replay: replayLimitsOf(options.replay),
  };
}

const networkTextOf = (network: Network, names: Settings["networkNames"]): string =>
  names === "x402-v1" ? (network.x402v1 ?? network.name) : network.name;

const rpcUrlsOf = ({ rpcUrl }: PaymentTarget): readonly string[] =>
  typeof rpcUrl === "string" ? [rpcUrl] : (rpcUrl ?? []);

/**
 * Derives the settings that one entry of a price is paid by.
 * @param field the entry's own, for errors
 * @throws ConfigError naming the setting
 */
export function targetSettings(base: Settings, target: PaymentTarget, field: string): Settings {
  const { extraNetworks } = base;
  const network = target.network === undefined ? base.network : entryNetworkOf(target.network, extraNetworks, field);
  const isOwn = network.chainId === base.network.chainId;
  const rpcUrls = rpcUrlsOf(target);
  if (isOwn && rpcUrls.length > 0) {
    throw new ConfigError(`${field}.rpcUrl is of the provider's own network: set it on the provider alone`);
  }
  const isOwnToken = isOwn && target.token === undefined;
  const own: TargetSettings = {
    network,
    networkText: networkTextOf(network, base.networkNames),
    rpcUrls: isOwn ? base.rpcUrls : rpcUrls,
    deployment: isOwn ? base.deployment : undefined,
    token: isOwnToken ? base.token : tokenOf(target.token, network, `${field}.token`),
    payTo: target.payTo === undefined ? ownOnly(isOwn, base.payTo) : payee(target.payTo, `${field}.payTo`),
    facilitator: target.facilitator
      ? facilitatorOf(target.facilitator, `${field}.facilitator`)
      : ownOnly(isOwn, base.facilitator),
  };
  const settings = { ...base, ...own };
  if (!isOwn) requireComplete(settings, field);
  return settings;
}

const ownOnly = <T>(isOwn: boolean, setting: T): T | undefined => (isOwn ? setting : undefined);

function entryNetworkOf(name: string, extraNetworks: readonly Network[], field: string): Network {
  const found = findNetwork(name, extraNetworks);
  if (found) return networkOfChain(found.chainId, extraNetworks);
  throw new ConfigError(
    `${field}.network is "${name}": use a preset's name, local-<chainId>, eip155:<chainId>, or one of the option \`networks\``,
  );
}

function requireComplete({ network, token, payTo, facilitator, rpcUrls, verify }: Settings, field: string): void {
  const missing = (name: string, why: string) =>
    new ConfigError(`${field}.${name} is not set: ${why} on ${network.name}`);
  if (!token) throw missing("token", "there is no default token");
  if (!payTo) throw missing("payTo", "name who receives payments");
  if (!facilitator) throw missing("facilitator", "name the Facilitator that settles");
  if (rpcUrls.length > 0) return;
  if (verify === "onchain") throw missing("rpcUrl", 'verify "onchain" reads the chain');
  if (token.name === undefined || token.version === undefined) {
    throw missing("rpcUrl", "without token.name and token.version they are read from the chain");
  }
}

function tokenOf(token: PaymentTarget["token"], network: Network, field: string): TokenSetting | undefined {
  if (token === undefined) return presetSetting(network.token, network);
  checkToken(token, field);
  const presetAt = (given: Address) => presetSetting(knownToken(network, given), network);
  if (typeof token === "string") {
    const given = address(token, field);
    return presetAt(given) ?? { address: given, hasGivenDecimals: false };
  }
  const { decimals, currency, transferMethod = "eip3009" } = token;
  if (decimals !== undefined && whole(decimals, `${field}.decimals`, 0) > MAX_DECIMALS) {
    throw new ConfigError(`${field}.decimals is ${decimals}: use at most ${MAX_DECIMALS}`);
  }
  if (currency !== undefined && currency !== "USD") {
    throw new ConfigError(`${field}.currency is "${String(currency)}": "USD" is all it can be`);
  }
  if (!Object.hasOwn(TRANSFER_METHODS, transferMethod)) {
    const known = Object.keys(TRANSFER_METHODS).join('" or "');
    throw new ConfigError(`${field}.transferMethod is "${String(transferMethod)}": use "${known}"`);
  }
  const given = { ...token, address: address(token.address, `${field}.address`) };
  // As TURNPIKE_TOKEN alone has it.
  const preset = Object.keys(token).length === 1 ? presetAt(given.address) : undefined;
  return preset ?? { ...given, hasGivenDecimals: decimals !== undefined };
}

function presetSetting(preset: TokenPreset | undefined, { chainId }: Network): TokenSetting | undefined {
  if (!preset) return undefined;
  const { name, version, isUnverified, isBridged, ...known } = preset;
  const isOfTable = knownToken(networkOfChain(chainId), preset.address) === preset;
  const domain = isUnverified ? {} : { name, version };
  // Every token of this package's table that no bridge made has EIP-2612 permits.
  const permits = isOfTable && !isBridged ? { permits: true } : {};
  const method = isBridged ? { transferMethod: WITHOUT_AUTHORIZATIONS.name } : {};
  return { ...known, ...domain, ...permits, ...method, hasGivenDecimals: !isOfTable };
}

/** A whole token of more decimals is no uint256. */
export const MAX_DECIMALS = 77;

function facilitatorOf(facilitator: FacilitatorSetting, field: string): NonNullable<Settings["facilitator"]> {
  checkFacilitator(facilitator, field);
  const url = httpUrl(facilitator.url, `${field}.url`);
  const signers = (facilitator.signers ?? []).map((signer) => signerOf(signer, `${field}.signers`));
  const named = new Set(signers.map((signer) => signer.address));
  if (named.size < signers.length) throw new ConfigError(`${field}.signers names an address twice`);
  if (signers.length > 0 && signers.every(({ until }) => until !== undefined)) {
    throw new ConfigError(`${field}.signers are all retired: pin the Facilitator's current signer too`);
  }
  const { trustUnsigned = false, refundsKey } = facilitator;
  return { url, signers: trustSigners(signers), trustUnsigned, refundsKey };
}

function signerOf(given: string | PinnedSigner, field: string): ProofSigner {
  const text = typeof given === "string" ? given : [given.address, given.until].filter(isGiven).join("@");
  const signer = parseProofSigner(text);
  const [written = ""] = text.split("@");
  requireNoKey(written, field);
  const fault = signer && checksumFault(written as Address);
  if (fault) throw new ConfigError(`${field} ${fault}`);
  if (signer) return signer;
  throw new ConfigError(
    `${field} has "${text}": use an address (0x and 40 hex digits), or an address with @ and the end of its validity (unix seconds, or ISO 8601 with its zone)`,
  );
}

const isGiven = (part: string | number | undefined): part is string | number => part !== undefined;

function publicUrlOf({ publicUrl, trustProxy }: ProviderOptions, isProduction: boolean): string | undefined {
  if (publicUrl !== undefined) return httpUrl(publicUrl, "publicUrl");
  if (isProduction && !trustProxy) {
    throw new ConfigError("publicUrl is not set (TURNPIKE_PUBLIC_URL): in production a gate must know its own address");
  }
  return undefined;
}

function memoKeysOf({ secret }: ProviderOptions, isProduction: boolean): Settings["memoKeys"] {
  const secrets = typeof secret === "string" ? [secret] : (secret ?? []);
  const keys = secrets.map((text): MemoKey => {
    if (text.length < MIN_SECRET_LENGTH) {
      throw new ConfigError(
        `secret has fewer than ${MIN_SECRET_LENGTH} characters: make one with openssl rand -hex 32`,
      );
    }
    const bytes = utf8ToBytes(text);
    return { id: toBase64Url(sha256(bytes)).slice(0, 8), secret: bytes };
  });
  const [first, ...rest] = keys;
  if (first) return [first, ...rest];
  if (isProduction) throw new ConfigError("secret is not set (TURNPIKE_SECRET): make one with openssl rand -hex 32");
  process.emitWarning("TURNPIKE_SECRET is not set: quotes made by this process are worth nothing to another one.");
  return [{ id: toHex(randomBytes(4)).slice(2), secret: randomBytes(32) }];
}

export function address(value: string, field: string): Address {
  return configuredAddress(value, field, `${field} is "${value}": an address is 0x and 40 hex digits`);
}

/** @throws ConfigError also for the zero address: what is paid to it is lost */
function payee(value: string, field: string): Address {
  const payTo = address(value, field);
  if (payTo !== ZERO_ADDRESS) return payTo;
  throw new ConfigError(`${field} is the zero address, and what is paid to it is lost: name the account that is paid`);
}

export function httpUrl(value: string, field: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash || url.username) {
    throw new ConfigError(`${field} must be an http(s) address without credentials, query or fragment`);
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

function whole(value: number, field: string, min: number): number {
  if (Number.isSafeInteger(value) && value >= min) return value;
  throw new ConfigError(`${field} is ${value}: use a whole number of at least ${min}`);
}

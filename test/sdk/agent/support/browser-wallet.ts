/** A wallet as browsers inject it, with a key of the tests behind it. */
import { expect } from "chai";
import { concat, keccak256, TypedDataEncoder, type TypedDataField, Wallet } from "ethers";
import type { Eip1193Provider } from "turnpike/agent";
import { testKey } from "./world";

interface TypedDataJson {
  readonly domain: object;
  readonly types: Record<string, TypedDataField[]>;
  readonly message: Record<string, unknown>;
}

export interface BrowserWallet extends Eip1193Provider {
  readonly asked: string[];
}

export interface BrowserWalletOptions {
  readonly isShared?: boolean;
  /** how often its user declines */
  readonly declines?: number;
  /** the type EIP712Domain that it signs, of the one that it is given; default: as the standard has it */
  domainType?(given: readonly TypedDataField[]): readonly TypedDataField[];
}

/** JSON in, JSON out, and the user decides. */
export function browserWallet({ isShared = true, declines = 0, domainType }: BrowserWalletOptions = {}): BrowserWallet {
  const wallet = new Wallet(testKey("payer"));
  const asked: string[] = [];
  let left = declines;
  return {
    asked,
    async request({ method, params }) {
      asked.push(method);
      if (method === "eth_chainId") return "0x7a69";
      if (method === "eth_accounts" && !isShared) return [];
      if (method !== "eth_accounts" && left-- > 0) throw Object.assign(new Error("User rejected."), { code: 4001 });
      if (method === "eth_accounts" || method === "eth_requestAccounts") return [wallet.address.toLowerCase()];
      expect(method).to.equal("eth_signTypedData_v4");
      const [account, text] = params as [string, string];
      expect(account.toLowerCase()).to.equal(wallet.address.toLowerCase());
      const { domain, types, message } = JSON.parse(text) as TypedDataJson;
      const { EIP712Domain: fields, ...rest } = types;
      expect(fields?.map(({ name }) => name)).to.deep.equal(Object.keys(domain));
      if (!domainType) return wallet.signTypedData(domain, rest, message);
      const own = { EIP712Domain: [...domainType(fields ?? [])] };
      const separator = TypedDataEncoder.hashStruct("EIP712Domain", own, { ...domain });
      const digest = keccak256(concat(["0x1901", separator, TypedDataEncoder.from(rest).hash(message)]));
      return wallet.signingKey.sign(digest).serialized;
    },
  };
}

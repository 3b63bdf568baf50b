/** A wallet as browsers inject it, with a key of the tests behind it. */
import { expect } from "chai";
import { type TypedDataField, Wallet } from "ethers";
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

/** JSON in, JSON out, and the user decides. @param declines how often */
export function browserWallet({ isShared = true, declines = 0 } = {}): BrowserWallet {
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
      return wallet.signTypedData(domain, rest, message);
    },
  };
}

/** Signs transfers that the token itself checks, by EIP-3009. */
import { transferTypedData } from "../../../protocol";
import { TRANSFER_METHODS } from "../../../protocol/transfer-methods";
import { headerOf } from "../dialects";
import type { AgentMethod } from "./method";
import { tokenDomain } from "./token-domain";

export const eip3009: AgentMethod = {
  ...TRANSFER_METHODS.eip3009,
  async prepare(context, option, payer) {
    const { chainId, token, payTo, amount, tokenDomain: reported } = option;
    const domain = await tokenDomain(context, { chainId, token, reported });
    return async ({ validBeforeSec }, nonce) => {
      const validBefore = BigInt(validBeforeSec);
      const transfer = { from: payer, to: payTo, value: amount, validAfter: 0n, validBefore, nonce };
      const signature = await context.signer.sign(transferTypedData(domain, transfer));
      const authorization = { ...transfer, value: `${amount}`, validAfter: "0", validBefore: `${validBefore}` };
      if (option.dialect !== "turnpike") return { header: headerOf(option, { signature, authorization }) };
      const { network, memo, resource } = option;
      return { signedPayment: { scheme: "exact", network, token, authorization, signature, memo, resource } };
    };
  },
};

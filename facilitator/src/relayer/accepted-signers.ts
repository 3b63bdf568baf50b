/** Lists the signers whose proofs this service accepts: its own key, and the keys before and after it. */
import { type Address, ConfigError, type ProofSigner, type TrustedSigners, trustSigners } from "turnpike/protocol";

/** @throws ConfigError when the key in use is retired, or an address is listed twice with different ends */
export function acceptedSigners(current: Address, further: readonly ProofSigner[] = []): TrustedSigners {
  const accepted: ProofSigner[] = [{ address: current }];
  for (const signer of further) {
    const known = accepted.find(({ address }) => address === signer.address);
    if (!known) accepted.push(signer);
    else if (known.until !== signer.until) {
      const what = signer.address === current ? "retires the address of PROOF_KEY" : "names an address twice";
      throw new ConfigError(`PROOF_SIGNERS ${what}: ${signer.address}. List it once, with the end that applies`);
    }
  }
  return trustSigners(accepted);
}

import { isPrivateChannel } from "../../agent/core/request";
import { createFacilitatorClient } from "../../facilitator";
import { type Address, findNetwork } from "../../protocol";
import { CommandFailed, UsageError } from "../command-errors";
import type { CliIo } from "../io";

/** What a new project is configured with. */
export interface FacilitatorFacts {
  readonly url: string;
  readonly network: string;
  readonly turnpike: Address;
  readonly signers: readonly Address[];
  readonly token: { readonly address: Address; readonly name: string; readonly version: string };
}

/** @throws UsageError for an address that is not private, Unavailable when the Facilitator does not answer */
export async function factsOf(io: CliIo, url: string): Promise<FacilitatorFacts> {
  if (!URL.canParse(url) || !isPrivateChannel(url)) {
    throw new UsageError("--facilitator is no https address.", "Use https; plain http is for this machine alone.");
  }
  const client = createFacilitatorClient({ url, fetch: (input, init) => io.fetch(input, init) });
  const { network, turnpike, proofSigners, tokens } = await client.supported({ signal: io.signal });
  const [token] = tokens;
  if (!token) throw new UsageError(`The Facilitator at ${url} settles no token.`, "Name another with --facilitator.");
  // These are written into a file of settings: a line break there would be another setting.
  const odd = [network, token.name, token.version].find((text) => !/^[\w .,:()+-]{1,128}$/.test(text));
  if (odd !== undefined || findNetwork(network) === undefined) {
    throw new CommandFailed(
      `The Facilitator at ${url} announces a network or token name that cannot be written to a settings file.`,
      "Name another with --facilitator, or configure the project by hand.",
    );
  }
  return { url, network, turnpike, signers: proofSigners, token };
}

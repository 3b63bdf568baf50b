import { walletFromKey } from "../../agent";
import { isPrivateChannel } from "../../agent/core/request";
import { createFacilitatorClient } from "../../facilitator";
import { type Address, type Hex, mutableTypes } from "../../protocol";
import type { Command } from "../command";
import { UsageError } from "../command-errors";
import { listVariable } from "../environment";
import { EXIT_CODES } from "../exit-codes";
import { requireWalletKey } from "../open-agent";
import { timeText } from "./shown-subscription";

/** The link and what it opens end after this time. */
const LIFE_SEC = 1_800;

/** The command `portal`. The link only reads: what changes a subscription is signed where the wallet's key is. */
export const portalCommand: Command = {
  name: "portal",
  summary: "print a link that shows, once and in one browser, everything that this wallet pays at a Facilitator",
  words: [],
  flags: {},
  examples: ["npx turnpike portal", "npx turnpike portal --json"],
  async run(context) {
    const { io, output } = context;
    const [url] = listVariable(io, "TURNPIKE_FACILITATOR_URL");
    if (url === undefined) {
      throw new UsageError(
        "TURNPIKE_FACILITATOR_URL is not set, and the link is made there.",
        "Set it to the Facilitator that the wallet pays through.",
      );
    }
    if (!URL.canParse(url) || !isPrivateChannel(url)) {
      throw new UsageError("TURNPIKE_FACILITATOR_URL is no https address, so no link is made there.", "Use https.");
    }
    const wallet = walletFromKey(await requireWalletKey(context));
    const client = createFacilitatorClient({ url, fetch: (input, init) => io.fetch(input, init) });
    const { chainId, proofSigners } = await client.supported({ signal: io.signal });
    const expiresAt = Math.floor(Date.now() / 1_000) + LIFE_SEC;
    const made = await client.createKey(
      {
        provider: (await wallet.getAddress()) as Address,
        name: "portal link",
        scopes: ["read"],
        expiresAt,
        chainId,
        facilitator: proofSigners[0] as Address,
        sign: async ({ domain, types, message }) =>
          (await wallet.signTypedData(domain, mutableTypes(types), message)) as Hex,
      },
      { signal: io.signal },
    );
    if (made.kind === "refused") throw made.error;
    // Browsers send what follows # to no server: the page exchanges it by POST, once.
    const link = `${url.replace(/\/+$/, "")}/me#link=${made.key.key}`;
    output.result({ link, expiresAt }, [
      link,
      `Opens once, until ${timeText(expiresAt)}. It only reads: the wallet's key stays here, so it changes nothing.`,
    ]);
    return EXIT_CODES.done.code;
  },
};

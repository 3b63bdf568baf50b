/** Separates a public chain's own nodes from private chains with its id, and from forks of it. */
import { networkOfChain } from "turnpike/protocol";

/** The hashes of the first blocks. */
const GENESIS: Readonly<Record<number, string>> = {
  8453: "0xf712aa9241cc24369b143cf6dce85f0902a9731e70d66818a3a5845b296c73dd",
  84532: "0x0dcc9e089e30b90ddfc55be9a37dd15bc551aeee999d2e2b51414c54eaf934e4",
};

/** What development nodes alone answer, forks of a public chain among them. */
const DEVNET_METHODS = ["anvil_nodeInfo", "hardhat_metadata"];

type Send = (method: string, parameters: unknown[]) => Promise<unknown>;

/** Whether a development node answers: one in memory, on this machine, or a fork. */
export async function isDevnet(send: Send): Promise<boolean> {
  const answers = await Promise.all(
    DEVNET_METHODS.map((method) =>
      send(method, []).then(
        (answer) => answer !== null && answer !== undefined,
        () => false,
      ),
    ),
  );
  return answers.includes(true) || /^(hardhat|anvil)/i.test(String(await send("web3_clientVersion", [])));
}

/**
 * @param known the hash of block 0, for a chain whose own is not listed here
 * @throws where a public chain's record would be written of another chain
 */
export async function requireGenuine(
  send: Send,
  chainId: number,
  known: string | undefined = process.env.TURNPIKE_GENESIS_HASH,
): Promise<void> {
  const { name } = networkOfChain(chainId);
  if (name === `local-${chainId}`) return;
  if (await isDevnet(send)) {
    throw new Error(
      `The node of TURNPIKE_RPC_URL is a development node, a fork perhaps, with the id of ${name}: name a node of ` +
        "that chain, or a folder for the record in TURNPIKE_DEPLOYMENTS.",
    );
  }
  const expected = GENESIS[chainId] ?? known?.toLowerCase();
  if (!expected) {
    throw new Error(
      `The first block of ${name} is not known here: set TURNPIKE_GENESIS_HASH to the hash of block 0 that an explorer shows.`,
    );
  }
  const genesis = (await send("eth_getBlockByNumber", ["0x0", false])) as { readonly hash?: string } | null;
  if (!genesis?.hash)
    throw new Error(`The node of TURNPIKE_RPC_URL has not kept block 0 of ${name}: name one that has.`);
  if (genesis.hash.toLowerCase() !== expected) {
    throw new Error(
      `The node of TURNPIKE_RPC_URL has the id of ${name} and another first block, ${genesis.hash}: it is another chain.`,
    );
  }
}

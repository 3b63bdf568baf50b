/** Sends commands to Redis through the client that the caller has: of one server, of a sentinel, or of a cluster. */
import { ConfigError } from "../../protocol/errors";

/** A client of `ioredis` (`Redis`, `Cluster`) or of `redis` (`createClient`, `createCluster`, `createSentinel`), connected by the caller. */
export type RedisClient =
  | {
      /** Sends one command, as ioredis does. */
      call(command: string, ...args: string[]): Promise<unknown>;
    }
  | {
      /** Sends one command, as redis does. */
      sendCommand(args: string[]): Promise<unknown>;
    }
  | {
      /** Sends one command to the node of a key, as a cluster of redis does. */
      sendCommand(firstKey: string | undefined, isReadonly: boolean | undefined, args: string[]): Promise<unknown>;
      /** the nodes that hold keys, as the client knows them now */
      readonly masters: readonly object[];
    }
  | {
      /** Sends one command to the master, as a sentinel of redis does. */
      sendCommand(isReadonly: boolean | undefined, args: string[]): Promise<unknown>;
      /** Returns the master that commands go to; undefined where there is none. */
      getMasterNode(): unknown;
    };

/** Sends a command to one server. */
export type Send = (command: string, ...args: string[]) => Promise<unknown>;

export interface RedisLink {
  readonly isCluster: boolean;
  /** what the client puts before every key on its own; "" where nothing */
  readonly keyPrefix: string;
  /** which nodes the client reads from, where it may choose others than masters */
  readonly readsFrom: string;
  /** Sends a command to the node that holds this key. May send it twice, when the connection breaks. */
  send(key: string, command: string, ...args: string[]): Promise<unknown>;
  /** @returns what sends to each master */
  masters(): Promise<readonly Send[]>;
}

/** How often a command is sent whose reply was lost; the store's own time limit ends it earlier. */
const MAX_SENDS = 5;

const LOST_REPLY = /^Socket closed unexpectedly/;

interface IoredisClient {
  call: Send;
  readonly isCluster?: boolean;
  readonly options?: { readonly keyPrefix?: string; readonly scaleReads?: unknown };
  nodes?(role: "master"): IoredisClient[];
}

/** What of the clients of `redis` is used; `sendCommand` differs by kind. */
interface NodeRedisClient {
  sendCommand(...args: unknown[]): Promise<unknown>;
  readonly masters?: readonly object[];
  nodeClient?(node: object): NodeRedisClient | Promise<NodeRedisClient>;
  getMasterNode?(): unknown;
}

/** @throws ConfigError for what is no client */
export function linkOf(client: RedisClient): RedisLink {
  const given = client as unknown as Partial<IoredisClient & NodeRedisClient> & { readonly then?: unknown };
  if (given === undefined || given === null)
    throw new ConfigError(`client is ${given}: pass a client of ioredis or redis`);
  if (typeof given.call === "function") return ioredisLink(given as IoredisClient);
  if (typeof given.sendCommand === "function") return nodeRedisLink(given as NodeRedisClient);
  if (typeof given.then === "function") throw new ConfigError("client is a promise: await it");
  throw new ConfigError("client has neither call nor sendCommand: pass a client of ioredis or of redis 4 or later");
}

function ioredisLink(client: IoredisClient): RedisLink {
  const isCluster = client.isCluster === true;
  const { keyPrefix = "", scaleReads = "master" } = client.options ?? {};
  return {
    isCluster,
    keyPrefix,
    readsFrom: isCluster ? String(scaleReads) : "master",
    // It finds the node by the keys of the command, and sends again what got no reply.
    send: (_key, ...command) => client.call(...command),
    async masters() {
      if (!isCluster || !client.nodes) return [(...command) => client.call(...command)];
      // The nodes are known once it is connected.
      await client.call("PING");
      return client.nodes("master").map(
        (node): Send =>
          (...command) =>
            node.call(...command),
      );
    },
  };
}

function nodeRedisLink(client: NodeRedisClient): RedisLink {
  const isCluster = client.masters !== undefined;
  const sendTo = (key: string, command: readonly string[]): Promise<unknown> => {
    if (isCluster) return sendToOwner((args) => client.sendCommand(key, false, args), command);
    return client.getMasterNode ? client.sendCommand(false, command) : client.sendCommand(command);
  };
  return {
    isCluster,
    keyPrefix: "",
    readsFrom: "master",
    send: (key, ...command) => sendAgain(() => sendTo(key, command)),
    async masters() {
      if (!isCluster) return [(...command) => sendAgain(() => sendTo("", command))];
      const nodes = await Promise.all((client.masters ?? []).map((node) => client.nodeClient?.(node)));
      return nodes.flatMap((node) => (node ? [(...command: string[]) => node.sendCommand(command)] : []));
    },
  };
}

/**
 * With `useReplicas` a client keeps the connection of a replica that it asked for reads, also once that is a master. When
 * it is a replica again, it refuses a script's writes instead of naming the master, so the client never learns of that.
 */
async function sendToOwner(
  send: (args: readonly string[]) => Promise<unknown>,
  command: readonly string[],
): Promise<unknown> {
  try {
    return await send(command);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith("READONLY")) throw error;
    await send(["READWRITE"]);
    return send(command);
  }
}

/** `redis` reports a lost reply at once, and does not send again: whether the command ran is then unknown. */
async function sendAgain(send: () => Promise<unknown>): Promise<unknown> {
  for (let sent = 1; ; sent++) {
    try {
      const reply = send();
      if (typeof reply?.then === "function") return await reply;
    } catch (error) {
      if (sent === MAX_SENDS || !(error instanceof Error) || !LOST_REPLY.test(error.message)) throw error;
      continue;
    }
    throw new ConfigError(
      "client returns no promise: leave out legacyMode of redis 4, or use ioredis or redis 4 or later",
    );
  }
}

/** What to do about a reply or a client's error, by its start. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [/^READONLY/, "It is a read-only replica: connect to its master."],
  [/^(?:NOAUTH|WRONGPASS)/, "It refuses the client: check the client's user and password."],
  [
    /^NOPERM/,
    "It refuses a command to the client's user: allow EVAL, EVALSHA, MGET, SMEMBERS and the keys under the prefix.",
  ],
  [/^NOREPLICAS/, "It has fewer replicas than min-replicas-to-write."],
  [/^OOM/, "It is full: raise maxmemory, or remove other data."],
  [/^MISCONF/, "It cannot write to its disk: read its log."],
  [/^LOADING/, "It is loading its data: wait."],
  [/^(?:MOVED|CROSSSLOT)/, "It is a cluster: use a client of clusters, and a prefix for one."],
  [/^CLUSTERDOWN/, "The cluster has slots without a master."],
  [/^The client is closed/, "The client is not connected: await its connect() before the gate starts."],
];

/** @returns what to do about a fault, for the provider; undefined where nothing is known of it */
export function remedyOf(fault: unknown): string | undefined {
  const message = fault instanceof Error ? fault.message : "";
  return REMEDIES.find(([start]) => start.test(message))?.[1];
}

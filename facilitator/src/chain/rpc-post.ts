/** Posts to nodes by the client below `fetch`, at a third of its cost, over connections that are kept. */
import { MAX_ANSWER_BYTES, type RpcPost } from "turnpike/chain";
import { Agent, request } from "undici";

const CONNECTIONS = 32;

const dispatcher = new Agent({
  connections: CONNECTIONS,
  keepAliveTimeout: 4_000,
  maxResponseSize: MAX_ANSWER_BYTES,
});

/** Keeps no connection. */
const fresh = new Agent({ connections: CONNECTIONS, pipelining: 0, maxResponseSize: MAX_ANSWER_BYTES });

export const postKeptAlive: RpcPost = async (url, { body, headers, signal, isRepeated }) => {
  const through = isRepeated ? fresh : dispatcher;
  const response = await request(url, { method: "POST", headers, body, signal, dispatcher: through });
  return { status: response.statusCode, text: await response.body.text() };
};

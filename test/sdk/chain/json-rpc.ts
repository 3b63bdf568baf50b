import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { json } from "node:stream/consumers";
import { expect } from "chai";
import {
  connectRpc,
  faultOf,
  postByFetch,
  type RpcAnswer,
  RpcAnswerError,
  RpcEndpoint,
  revertDataOf,
} from "turnpike/chain";
import { TurnpikeError, Unavailable } from "turnpike/protocol";
import { postKeptAlive } from "../../../facilitator/src/chain/rpc-post";

interface Asked {
  readonly id: number;
  readonly method: string;
}
type Answer = (asked: Asked | Asked[], response: ServerResponse, request: IncomingMessage) => unknown;

const CHAIN_ID = 31_337;
const rejection = (answer: Promise<unknown>) => answer.then(() => undefined).catch((error: unknown) => error);

describe("JSON-RPC over HTTP", () => {
  const servers: Server[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close().closeAllConnections();
  });

  /** @param answer returns the body, or undefined when it has answered itself */
  async function serve(answer: Answer): Promise<{ url: string; asked: (Asked | Asked[])[]; headers: object[] }> {
    const asked: (Asked | Asked[])[] = [];
    const headers: object[] = [];
    const server = createServer(async (request, response) => {
      const body = (await json(request)) as Asked | Asked[];
      asked.push(body);
      headers.push(request.headers);
      const answered = answer(body, response, request);
      if (answered !== undefined) response.end(typeof answered === "string" ? answered : JSON.stringify(answered));
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, headers };
  }
  const withResult = (asked: Asked | Asked[]): RpcAnswer | RpcAnswer[] =>
    Array.isArray(asked)
      ? asked.map(({ id, method }) => ({ id, result: method }))
      : { id: asked.id, result: asked.method };
  const withError = (error: object) => (asked: Asked | Asked[]) => ({ id: (asked as Asked).id, error });

  /** Resets the connections of its first requests. */
  const resetting = (resets: number): Answer => {
    let left = resets;
    return (body, _response, { socket }) => (left-- > 0 ? void socket.resetAndDestroy() : withResult(body));
  };

  /** Resets every connection that is used again, as a proxy does which has forgotten them. */
  const forgetting = (): Answer => {
    const used = new WeakSet<object>();
    return (body, _response, { socket }) => {
      if (used.has(socket)) return void socket.resetAndDestroy();
      used.add(socket);
      return withResult(body);
    };
  };

  /** Reads frames of a client, each shorter than 126 bytes; other frames than text are none. */
  function* callsIn(frames: Buffer): Generator<Asked> {
    for (let at = 0; at < frames.length; at += 6 + ((frames[at + 1] ?? 0) & 127)) {
      const mask = frames.subarray(at + 2, at + 6);
      const text = frames.subarray(at + 6, at + 6 + ((frames[at + 1] ?? 0) & 127));
      const plain = Buffer.from(text.map((byte, i) => byte ^ (mask[i % 4] ?? 0)));
      if (((frames[at] ?? 0) & 15) === 1) yield JSON.parse(plain.toString()) as Asked;
    }
  }

  /** Loses its first sockets with the first call of each. */
  async function serveSocket(first: number) {
    let left = first;
    const asked: string[] = [];
    const server = createServer();
    servers.push(server);
    server.on("upgrade", ({ headers }, socket: Socket) => {
      const key = `${headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
      const accept = createHash("sha1").update(key).digest("base64");
      const head = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"];
      socket.write([...head, `Sec-WebSocket-Accept: ${accept}`, "", ""].join("\r\n"));
      socket.on("data", (frames) => {
        for (const { id, method } of callsIn(frames)) {
          if (socket.destroyed) return;
          asked.push(method);
          if (left-- > 0) return void socket.resetAndDestroy();
          const answer = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id, result: method }));
          socket.write(Buffer.concat([Buffer.from([0x81, answer.length]), answer]));
        }
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const losing = (sockets: number) => {
      left = sockets;
    };
    return { url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, losing };
  }

  /** What the agent posts by, and what the Facilitator does. */
  const POSTS = { fetch: postByFetch(fetch), "kept connections": postKeptAlive };

  for (const [name, post] of Object.entries(POSTS)) {
    describe(`posted by ${name}`, () => {
      const endpoint = (url: string, more: { timeoutMs?: number; signal?: AbortSignal } = {}) =>
        new RpcEndpoint({ url, post, timeoutMs: 5_000, ...more });
      const calls = ["a", "b", "c"].map((method) => ({ method, params: [] }));

      it("returns a batch's answers in the order of its calls, and sends one call without a list", async () => {
        const { url, asked } = await serve((body) => [withResult(body)].flat().reverse());
        expect((await endpoint(url).exchange(calls)).map(({ result }) => result)).to.deep.equal(["a", "b", "c"]);
        expect(await endpoint(url).request("eth_chainId", [])).to.equal("eth_chainId");
        expect(asked[1]).to.deep.equal({ jsonrpc: "2.0", id: 0, method: "eth_chainId", params: [] });
      });

      it("throws the error that a node answers with, its data too", async () => {
        const { url } = await serve(withError({ code: 3, message: "execution reverted", data: "0x08c379a0" }));
        const error = await rejection(endpoint(url).request("eth_call", []));
        expect(error).to.be.instanceOf(RpcAnswerError);
        expect(error).to.include({ rpcCode: 3, message: "execution reverted", data: "0x08c379a0" });
      });

      for (const [code, answer] of Object.entries<Answer>({
        http_503: (_, response) => void response.writeHead(503).end(),
        http_302: (_, response, { headers }) => {
          response.writeHead(302, { location: `http://${headers.host}/elsewhere` }).end();
        },
        no_json: () => "<html>",
        incomplete: (body) => [withResult(body)].flat().slice(1),
        limit_exceeded: (body) =>
          [body].flat().map(({ id }) => ({ id, error: { code: -32_005, message: "slow down" } })),
      })) {
        it(`names the fault ${code}, without the URL`, async () => {
          const { url, asked } = await serve(answer);
          const error = await rejection(endpoint(`${url}/s3cr3t`).exchange(calls));
          expect(faultOf(error)).to.equal(code);
          expect(String(error)).not.to.include("s3cr3t");
          expect(asked, "a redirect is not followed").to.have.length(1);
        });
      }

      it("names what the system says of a connection that fails", async () => {
        const error = await rejection(endpoint("http://127.0.0.1:1").request("eth_chainId", []));
        expect(["econnrefused", "no_answer"]).to.include(faultOf(error));
      });

      it("ends an exchange that takes too long, and each with the signal, also a later one", async () => {
        const { url } = await serve(() => undefined);
        const late = await rejection(endpoint(url, { timeoutMs: 20 }).request("eth_chainId", []));
        expect(late).to.be.instanceOf(Unavailable).and.to.include({ reason: "timeout" });
        const stop = new AbortController();
        const stopped = endpoint(url, { signal: stop.signal });
        const two = [rejection(stopped.request("eth_chainId", [])), rejection(stopped.request("eth_chainId", []))];
        stop.abort(new Error("enough"));
        for (const each of [...two, rejection(stopped.request("eth_chainId", []))])
          expect(await each).to.include({ message: "enough" });
      });

      it("asks once more, and no more than that, where a kept connection is reset before the answer", async () => {
        for (const [resets, answered] of [
          [1, true],
          [2, false],
        ] as const) {
          const { url, asked } = await serve(resetting(resets));
          const answer = endpoint(url).exchange(calls);
          if (answered) expect((await answer).map(({ result }) => result)).to.deep.equal(["a", "b", "c"]);
          else expect(await rejection(answer)).to.be.instanceOf(Error);
          expect(asked).to.have.length(2);
        }
      });

      it("never sends a transaction again by itself", async () => {
        for (const method of ["eth_sendRawTransaction", "eth_sendTransaction"]) {
          const { url, asked } = await serve(resetting(1));
          const both = [
            { method: "eth_chainId", params: [] },
            { method, params: [] },
          ];
          expect(await rejection(endpoint(url).exchange(both))).to.be.instanceOf(Error);
          expect(asked).to.have.length(1);
        }
      });

      it("sends a URL's user and password as a header", async () => {
        const { url, headers } = await serve(withResult);
        await endpoint(url.replace("://", "://us%20er:p%C3%A4ss@")).request("eth_chainId", []);
        await endpoint(url).request("eth_chainId", []);
        const basic = `Basic ${Buffer.from("us er:päss").toString("base64")}`;
        expect(headers[0]).to.include({ authorization: basic, "content-type": "application/json" });
        expect(headers[1]).not.to.have.property("authorization");
      });
    });
  }

  it("reads no more of an answer than it should", async () => {
    const { url } = await serve(() => JSON.stringify("a".repeat(1_000)));
    const endpoint = new RpcEndpoint({ url, post: postByFetch(fetch, 999), timeoutMs: 5_000 });
    expect(faultOf(await rejection(endpoint.request("eth_chainId", [])))).to.equal("too_large");
  });

  it("separates a call that ran and failed from one that did not run", () => {
    const failed: [string, unknown, string | undefined][] = [
      ["execution reverted", "0x08c379a0", "0x08c379a0"],
      ["execution reverted", undefined, "0x"],
      ["VM Exception", { message: "reverted", data: "0x12" }, "0x12"],
      ["VM execution error.", "Reverted 0x", "0x"],
      ["out of gas", undefined, "0x"],
      ["invalid opcode: INVALID", undefined, "0x"],
      ["invalid jump destination", undefined, "0x"],
      ["header not found", undefined, undefined],
      ["daily request count exceeded", { see: "https://node.example" }, undefined],
    ];
    for (const [message, data, expected] of failed)
      expect(revertDataOf(new RpcAnswerError(-32_000, message, data)), message).to.equal(expected);
  });

  describe("through a list of endpoints", () => {
    const connect = (...urls: string[]) => connectRpc({ urls, chainId: CHAIN_ID, timeoutMs: 2_000 });

    it("asks a throttled endpoint once more", async () => {
      let left = 1;
      const { url, asked } = await serve((body, response) => {
        if (left-- <= 0) return withResult(body);
        response.writeHead(429).end();
        return undefined;
      });
      const rpc = connect(url);
      expect(await rpc.send("eth_chainId", [])).to.equal("eth_chainId");
      expect(asked).to.have.length(2);
      rpc.close();
    });

    it("asks again on a connection of its own where every kept one was forgotten", async () => {
      const { url } = await serve(forgetting());
      const rpc = connect(url);
      const kept = new RpcEndpoint({ url, post: postKeptAlive, timeoutMs: 5_000 });
      const agents = new RpcEndpoint({ url, post: postByFetch(fetch), timeoutMs: 5_000 });
      const ways = [rpc.send.bind(rpc), kept.request.bind(kept), agents.request.bind(agents)];
      for (const ask of ways.map((way) => () => way("eth_chainId", []))) {
        await Promise.all(Array.from({ length: 4 }, ask));
        for (let i = 0; i < 3; i++) expect(await ask()).to.equal("eth_chainId");
      }
      rpc.close();
    });

    it("reads once more on a socket of its own where one is lost, at once and for every call under way", async () => {
      const { url, asked, losing } = await serveSocket(1);
      const rpc = connectRpc({ urls: url, chainId: CHAIN_ID, timeoutMs: 60_000 });
      const methods = ["eth_chainId", "eth_blockNumber", "eth_gasPrice"];
      expect(await Promise.all(methods.map((method) => rpc.send(method, [])))).to.deep.equal(methods);
      losing(2);
      expect(await rejection(rpc.send("eth_chainId", []))).to.include({ code: "Unavailable" });
      losing(1);
      const sent = asked.length;
      expect(await rejection(rpc.send("eth_sendRawTransaction", ["0x00"]))).to.include({ code: "Unavailable" });
      expect(asked.slice(sent)).to.deep.equal(["eth_sendRawTransaction"]);
      rpc.close();
    });

    it("does not send a transaction again where its connection is reset", async () => {
      const { url, asked } = await serve(resetting(1));
      const rpc = connect(url);
      expect(await rejection(rpc.send("eth_sendRawTransaction", ["0x00"]))).to.include({ code: "Unavailable" });
      expect(asked).to.have.length(1);
      rpc.close();
    });

    it("sends a URL's user and password as a header", async () => {
      const { url, headers } = await serve(withResult);
      const rpc = connect(url.replace("://", "://user:pass@"));
      await rpc.send("eth_chainId", []);
      expect(headers[0]).to.include({ authorization: `Basic ${Buffer.from("user:pass").toString("base64")}` });
      rpc.close();
    });

    it("reports a bare revert as the contract's answer, and any other error as an outage to retry", async () => {
      const answers = [
        { error: { code: 3, message: "execution reverted" }, reason: "no_answer", retryAfterSec: undefined },
        { error: { code: -32_000, message: "header not found" }, reason: undefined, retryAfterSec: 2 },
      ];
      for (const { error, ...expected } of answers) {
        const { url } = await serve(withError(error));
        const rpc = connect(url);
        const thrown = (await rejection(rpc.send("eth_call", [{}, "latest"]))) as TurnpikeError;
        expect(thrown).to.be.instanceOf(TurnpikeError).and.to.include({ code: "Unavailable" });
        expect({ reason: thrown.reason, retryAfterSec: thrown.retryAfterSec }).to.deep.equal(expected);
        rpc.close();
      }
    });

    it("ends what is under way when it is closed", async () => {
      let arrived = () => {};
      const asked = new Promise<void>((resolve) => {
        arrived = resolve;
      });
      const { url } = await serve(() => arrived());
      const rpc = connectRpc({ urls: url, chainId: CHAIN_ID, timeoutMs: 60_000 });
      const answer = rejection(rpc.send("eth_chainId", []));
      await asked;
      rpc.close();
      expect(await answer).to.include({ code: "Unavailable" });
    });
  });
});

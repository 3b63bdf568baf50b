/** Runs the snippet of the gate's guide that keeps credentials out of logs, with the real pino and its own serializers. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { Writable } from "node:stream";
import { expect } from "chai";
import { type DestinationStream, pino, stdSerializers } from "pino";
import { HEADER } from "turnpike/protocol";

const GUIDE = path.resolve(__dirname, "../../docs/guides/gate.md");

describe("the guide to a gate", () => {
  it("hides every credential that pino would write of a request", async () => {
    const [, list, paths] =
      /const credentials = (\[.*\]);\n.*redact: (credentials\.map\(.*?\)) \}\)/.exec(await readFile(GUIDE, "utf8")) ??
      [];
    const redact: string[] = new Function(`const credentials = ${list}; return ${paths};`)();
    const credentials = [HEADER.payment, HEADER.paymentSignatureV2, HEADER.subscription, HEADER.signIn];
    const headers = Object.fromEntries(credentials.map((name) => [name.toLowerCase(), `secret of ${name}`]));
    const written = (options: object): string => {
      const text: string[] = [];
      const into = new Writable({ write: (chunk, _encoding, done) => done(void text.push(String(chunk))) });
      const request = { method: "GET", url: "/report", headers: { ...headers, accept: "*/*" }, socket: {} };
      pino({ serializers: { req: stdSerializers.req }, ...options }, into as DestinationStream).info({ req: request });
      return text.join("");
    };
    expect(written({}), "what is to be hidden").to.include("secret of X-Service-Sub");
    expect(written({ redact })).to.include('"accept":"*/*"').and.not.include("secret of");
  });
});

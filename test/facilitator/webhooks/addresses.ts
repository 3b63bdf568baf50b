import { createSocket } from "node:dgram";
import type { LookupAddress } from "node:dns";
import { Resolver } from "node:dns/promises";
import { stat } from "node:fs/promises";
import { expect } from "chai";
import { isPublicAddress } from "turnpike/protocol";
import { type Lookup, publicLookup, RefusedAddress } from "turnpike/public-lookup";
import { connectionFault } from "../../../facilitator/src/lib/guarded-connector";
import { checkPublicUrl, dnsLookup } from "../../../facilitator/src/lib/public-addresses";
import { createSender } from "../../../facilitator/src/webhooks/send";
import { type Receiver, startReceiver } from "./support/receiver";

const CLOSED = { allowPrivate: false };
const LOCAL = { allowPrivate: true };

const INSIDE = [127, 0, 0, 1];
const OUTSIDE = [93, 184, 216, 34];

const PRIVATE = [
  ...["127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "100.100.100.200"],
  ...["169.254.169.254", "168.63.129.16", "198.18.0.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"],
  ...[
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:7f00:1",
    "fd00:ec2::254",
    "fe80::1",
  ],
  ...[
    "64:ff9b::7f00:1",
    "64:ff9b:1::a9fe:a9fe",
    "2002:7f00:1::",
    "2001:0:53aa::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
  ],
];

describe("Facilitator: addresses of webhooks", () => {
  let receiver: Receiver;
  before(async () => {
    receiver = await startReceiver();
  });
  after(() => receiver.stop());
  beforeEach(() => {
    receiver.received.length = 0;
    receiver.answer(204);
  });

  it("B18 takes public unicast addresses for public, and nothing else", () => {
    for (const address of PRIVATE) expect(isPublicAddress(address), address).to.equal(false);
    for (const address of ["", "localhost", "example.com", "1.2.3", "8.8.8.8:53"]) {
      expect(isPublicAddress(address), address).to.equal(false);
    }
    for (const address of ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"]) {
      expect(isPublicAddress(address), address).to.equal(true);
    }
  });

  it("B18 refuses URLs that say by themselves that they lead inside", () => {
    const refused = [
      ...PRIVATE.map((address) => `https://${address.includes(":") ? `[${address}]` : address}/hook`),
      // The same address in the other ways that a URL may write it.
      ...["https://2130706433/", "https://0x7f.1/", "https://0177.0.0.1/", "https://127.1/", "https://①27.0.0.1/"],
      ...["https://localhost/", "https://localhost./", "https://a.localhost/", "https://metadata.google.internal/"],
      ...["http://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "javascript:1"],
      ...["https://user:secret@example.com/", "https://example.com/#part", "https://", "nonsense", "//example.com"],
    ];
    for (const url of refused) {
      expect(() => checkPublicUrl(url, CLOSED), url)
        .to.throw()
        .with.property("code", "InvalidRequest");
    }
    expect(checkPublicUrl("https://example.com/hook?a=b", CLOSED)).to.equal("https://example.com/hook?a=b");
    expect(checkPublicUrl("http://127.0.0.1:9/hook", LOCAL)).to.equal("http://127.0.0.1:9/hook");
    expect(() => checkPublicUrl("ftp://127.0.0.1/", LOCAL)).to.throw();
  });

  const named = (host: string) => receiver.url.replace("127.0.0.1", host);
  const send = async (url: string, lookup?: Lookup, timeoutMs = 60_000) => {
    const sender = createSender({ allowPrivate: false, timeoutMs, ...(lookup && { lookup }) });
    const result = await sender.send({ url, headers: {}, body: "{}" });
    await sender.close();
    return result;
  };
  const resolvesTo =
    (...answers: LookupAddress[][]): Lookup =>
    (_host, _options, callback) =>
      callback(null, answers.shift() ?? []);
  const v4 = (address: string): LookupAddress => ({ address, family: 4 });

  it("B18 connects to no private address, in the URL or behind a name", async () => {
    const refused = { kind: "failed", error: "address" };
    expect(await send(receiver.url)).to.deep.equal(refused);
    expect(await send(named("[::ffff:127.0.0.1]"))).to.deep.equal(refused);
    expect(await send(named("inside.example"), resolvesTo([v4("127.0.0.1")]))).to.deep.equal(refused);
    expect(await send(named("v6.example"), resolvesTo([{ address: "::1", family: 6 }]))).to.deep.equal(refused);
    expect(await send(named("mapped.example"), resolvesTo([{ address: "::ffff:7f00:1", family: 6 }]))).to.deep.equal(
      refused,
    );
    expect(receiver.received).to.deep.equal([]);
  });

  it("B18 judges the address that is connected to: a name that changes its mind gains nothing", async () => {
    const asked: string[] = [];
    const rebinding: Lookup = (host, _options, callback) => {
      asked.push(host);
      // Public when it was registered, inside when it is used.
      callback(null, asked.length === 1 ? [v4("93.184.216.34")] : [v4("127.0.0.1")]);
    };
    await new Promise<void>((resolve) => rebinding("rebind.example", { all: true }, () => resolve()));
    expect(await send(named("rebind.example"), rebinding)).to.deep.equal({ kind: "failed", error: "address" });
    expect(asked).to.have.length(2);
    expect(receiver.received).to.deep.equal([]);
  });

  it("B18 of a name with public and private addresses uses the public ones alone", async () => {
    // The public one is of a network that leads nowhere: it is tried, and the private one beside it is not.
    const result = await send(named("mixed.example"), resolvesTo([v4("127.0.0.1"), v4("192.0.3.1")]), 1_000);
    expect(result.kind).to.equal("failed");
    expect(receiver.received).to.deep.equal([]);
  });

  it("B50 asks DNS without the threads that files need, so that names which nobody answers hold nothing up", async () => {
    const server = createSocket("udp4");
    server.on("message", (question, { port }) => {
      const name = question.subarray(13, 13 + (question[12] ?? 0)).toString();
      if (name === "silent") return;
      const isV4 = question.readUInt16BE(question.indexOf(0, 12) + 1) === 1;
      const end = question.indexOf(0, 12) + 5;
      const head = Buffer.from([...question.subarray(0, 2), 0x81, 0x80, 0, 1, 0, isV4 ? 1 : 0, 0, 0, 0, 0]);
      const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, ...(name === "inside" ? INSIDE : OUTSIDE)]);
      server.send(Buffer.concat([head, question.subarray(12, end), ...(isV4 ? [answer] : [])]), port, "127.0.0.1");
    });
    await new Promise<void>((resolve) => server.bind(0, "127.0.0.1", resolve));
    const resolver = new Resolver();
    resolver.setServers([`127.0.0.1:${server.address().port}`]);
    const lookup = publicLookup(dnsLookup(resolver));
    const found = (name: string) =>
      new Promise((resolve) => lookup(name, { all: true }, (error, all) => resolve(error ?? all)));
    let ended = 0;
    const silent = Array.from({ length: 32 }, (_, i) => found(`silent.${i}.example`).finally(() => ended++));
    expect(await found("api.example")).to.deep.equal([v4(OUTSIDE.join("."))]);
    expect(await found("inside.example")).to.be.instanceOf(RefusedAddress);
    await stat(__filename);
    expect(ended).to.equal(0);
    resolver.cancel();
    for (const error of await Promise.all(silent)) expect(connectionFault(error)).to.equal("dns");
    server.close();
  });

  it("B18 follows no redirect", async () => {
    receiver.answer((response) => void response.writeHead(302, { location: named("169.254.169.254") }).end());
    const sender = createSender({ allowPrivate: true, timeoutMs: 60_000 });
    const result = await sender.send({ url: receiver.url, headers: {}, body: "{}" });
    await sender.close();
    expect(result).to.deep.equal({ kind: "answered", statusCode: 302 });
    expect(receiver.received).to.have.length(1);
  });

  it("distinguishes a name that does not resolve, a receiver that is down, and one without TLS", async () => {
    const nowhere: Lookup = (_host, _options, callback) =>
      callback(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }), []);
    expect(await send(named("nowhere.example"), nowhere)).to.deep.equal({ kind: "failed", error: "dns" });
    const sender = createSender({ allowPrivate: true, timeoutMs: 60_000 });
    expect(await sender.send({ url: "http://127.0.0.1:1/", headers: {}, body: "{}" })).to.deep.equal({
      kind: "failed",
      error: "connection",
    });
    const withoutTls = receiver.url.replace("http:", "https:");
    expect(await sender.send({ url: withoutTls, headers: {}, body: "{}" })).to.deep.equal({
      kind: "failed",
      error: "tls",
    });
    await sender.close();
  });
});

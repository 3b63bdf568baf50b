/**
 * What a payment buys from a server that is asked in ways that browsers, proxies and cut connections ask: HA23. Each row
 * pays once, as a stock client does, and is compared with what a plain payment buys.
 */
import { connect } from "node:net";
import { type Hex, keccakText } from "turnpike/protocol";
import { paymentFor, paymentsOfWallets, type ReplayResult } from "./replays";
import { ask, type RawAnswer, type RawRequest, requestText } from "./tricks/wire";

const ORIGIN = "https://page.example";

/** Conditions and codings to which a whole answer is the answer. */
const PLAIN: readonly (readonly [what: string, ...lines: string[]])[] = [
  ["If-None-Match: *", "If-None-Match: *"],
  ["If-Modified-Since", "If-Modified-Since: Tue, 31 Dec 2999 23:59:59 GMT"],
  ["no coding", "Accept-Encoding: identity"],
  ["a range of nothing", "Range: bytes=99999999-"],
];

/** Forms in which what was bought is asked for again. */
const AGAIN: readonly (readonly [
  what: string,
  line: string,
  isExact: (sent: RawAnswer, whole: RawAnswer) => boolean,
])[] = [
  [
    "its first byte",
    "Range: bytes=0-0",
    ({ status, text }, whole) => status !== 206 || text === whole.text.slice(0, 1),
  ],
  ["its last byte", "Range: bytes=-1", ({ status, text }, whole) => status !== 206 || text === whole.text.slice(-1)],
  [
    "no coding",
    "Accept-Encoding: identity",
    ({ headers }) => (headers["content-encoding"] ?? "identity") === "identity",
  ],
];

/** @param url serves one text of ASCII to GET, and to POST where it sells that */
export async function* tryAnswers(url: string, key: Hex, only = ""): AsyncGenerator<ReplayResult> {
  const wants = (id: string) => id.startsWith(only) || only.startsWith(id);
  const { pathname, search } = new URL(url);
  const target = `${pathname}${search}`;
  const paidLines = async (method?: string) =>
    Object.entries(await paymentFor(url, key, method)).map(([name, value]) => `${name}: ${value}`);
  const buy = async (request: Partial<RawRequest> = {}) => {
    const lines = [...(await paidLines()), ...(request.lines ?? [])];
    return { lines, answer: await ask(url, { target, ...request, lines }) };
  };
  if (!wants("HA23")) return;

  const { answer: whole } = await buy();
  if (whole?.status !== 200)
    throw new TypeError(`${url} answered ${whole?.status} to an honest payment: nothing is proven by the rest`);
  const framed = (answer: RawAnswer | undefined) =>
    answer !== undefined &&
    Number(answer.headers["content-length"] ?? answer.text.length) === Buffer.byteLength(answer.text);
  yield result("HA23 the head before the body, and all of it", framed(whole), whole);

  for (const [what, ...lines] of PLAIN) {
    const { answer } = await buy({ lines });
    const isRefused = answer !== undefined && answer.status >= 400;
    yield result(`HA23 ${what}`, isRefused || (answer?.status === 200 && answer.text === whole.text), answer);
  }

  for await (const [what, sent] of paymentsOfWallets(url, key)) {
    const answer = await ask(url, { target, lines: Object.entries(sent).map(([name, value]) => `${name}: ${value}`) });
    yield result(`HA23 ${what}`, answer?.status === 200 && answer.text === whole.text, answer);
  }

  for (const [what, line, isExact] of AGAIN) {
    const { lines, answer: first } = await buy({
      lines: [`Idempotency-Key: ${keccakText(`${url} ${what} ${Date.now()}`)}`],
    });
    const again = await ask(url, { target, lines: [...lines, line] });
    const isServed = again !== undefined && again.status < 300;
    yield result(`HA23 bought, and asked for again: ${what}`, !isServed || isExact(again, first ?? whole), again);
  }

  const asked = await ask(url, { target, lines: [`Origin: ${ORIGIN}`] });
  const isReadable = ["*", ORIGIN].includes(asked?.headers["access-control-allow-origin"] ?? "");
  const lines = [
    `Origin: ${ORIGIN}`,
    "Access-Control-Request-Method: GET",
    "Access-Control-Request-Headers: x-payment",
  ];
  const preflight = await ask(url, { method: "OPTIONS", target, lines });
  const allows = /\*|x-payment/i.test(preflight?.headers["access-control-allow-headers"] ?? "");
  const isCollectable = preflight !== undefined && preflight.status < 300 && allows;
  yield result("HA23 a page that reads the 402 can send the payment", !isReadable || isCollectable, preflight);

  if ((await ask(url, { method: "POST", target, lines: ["Content-Length: 0"] }))?.status !== 402) return;
  const body = "x".repeat(2_000);
  const sent = { method: "POST", target, lines: [...(await paidLines("POST")), `Content-Length: ${body.length}`] };
  await cutUpload(url, requestText(new URL(url).host, { ...sent, body: body.slice(0, 1_000) }));
  const retried = await retry(() => ask(url, { ...sent, body }));
  yield result("HA23 an upload that was cut, and then sent whole", (retried?.status ?? 500) < 300, retried);
}

function result(id: string, isSafe: boolean, answer: RawAnswer | undefined): ReplayResult {
  return {
    id,
    kind: isSafe ? "safe" : "unsafe",
    saw: answer ? `HTTP ${answer.status}, ${answer.text.length} bytes` : "nothing",
  };
}

/** Sends the beginning of a request, and leaves once it is under way. */
function cutUpload(url: string, text: string): Promise<void> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port || 80), hostname, () =>
      socket.write(text, () => setTimeout(() => socket.destroy(), UNDER_WAY_MS)),
    );
    socket.on("error", () => undefined);
    socket.on("close", () => resolve());
  });
}

const UNDER_WAY_MS = 1_000;

const TRIES = 20;

/** While the first attempt is still given up. */
async function retry(ask: () => Promise<RawAnswer | undefined>): Promise<RawAnswer | undefined> {
  let answer = await ask();
  for (let tried = 1; answer?.status === 409 && tried < TRIES; tried++) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    answer = await ask();
  }
  return answer;
}

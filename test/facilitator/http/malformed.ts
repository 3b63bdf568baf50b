import { request as httpRequest } from "node:http";
import { expect } from "chai";
import { dereferenced } from "../../support/openapi";
import { JSON_TYPE, useService } from "../support/http-service";
import { paymentToWire } from "../support/payments";
import { expectProblem } from "../support/problem";

interface Document {
  readonly paths: Record<string, { get?: { parameters?: readonly { readonly name: string; readonly in: string }[] } }>;
}

describe("Facilitator: malformed input", function () {
  this.timeout(120_000);
  const http = useService();
  const { post } = http;

  it("S11 answers every malformed body with a 4xx that names the field and quotes no parser", async () => {
    const good = { signedPayment: paymentToWire(await http.world.signPayment()) };
    const withField = (field: string, value: unknown) => ({
      signedPayment: { ...good.signedPayment, [field]: value },
    });
    const text = JSON.stringify(good);
    const bodies: [string, string][] = [
      ["", "body"],
      ["nonsense", "body"],
      ["[]", "body"],
      ["null", "body"],
      ['"text"', "body"],
      [text.slice(0, -1), "body"],
      [`${text}${text}`, "body"],
      [`\uFEFF${text}`, "body"],
      [text.replace('"scheme"', '"scheme":"x","scheme"'), "body"],
      [text.replace("{", '{"__proto__":{"a":1},'), "body"],
      [text.replace('"exact"', '"exact\\u0000"'), "body"],
      [`{"signedPayment":${"[".repeat(1_000)}${"]".repeat(1_000)}}`, "body"],
      ["{}", "signedPayment"],
      [JSON.stringify({ signedPayment: [] }), "signedPayment"],
      [JSON.stringify(withField("scheme", "upto")), "signedPayment.scheme"],
      [JSON.stringify(withField("network", 7)), "signedPayment.network"],
      [JSON.stringify(withField("token", "0x12")), "signedPayment.token"],
      [JSON.stringify(withField("signature", "0xzz")), "signedPayment.signature"],
      [JSON.stringify(withField("memo", "m".repeat(10_000))), "signedPayment.memo"],
      [
        JSON.stringify(withField("authorization", { ...good.signedPayment.authorization, value: "1e6" })),
        "signedPayment.authorization.value",
      ],
      [
        JSON.stringify(withField("authorization", { ...good.signedPayment.authorization, value: "-1" })),
        "signedPayment.authorization.value",
      ],
      [
        JSON.stringify(withField("authorization", { ...good.signedPayment.authorization, value: 1 })),
        "signedPayment.authorization.value",
      ],
      [
        JSON.stringify(
          withField("authorization", { ...good.signedPayment.authorization, nonce: `0x${"0".repeat(63)}` }),
        ),
        "signedPayment.authorization.nonce",
      ],
    ];
    for (const [body, field] of bodies) {
      const problem = await expectProblem(await post("/authorize", body), 400, "InvalidRequest");
      expect(problem.message, body.slice(0, 80)).to.match(new RegExp(`^${field.replaceAll(".", "\\.")}: `));
      expect(problem.message).not.to.match(/JSON at position|Unexpected token|SyntaxError|zod/i);
    }
  });

  it("S11 B14 refuses other media types, oversized bodies and bytes that are not UTF-8", async () => {
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/json; charset=latin1",
      "application/xml",
    ]) {
      await expectProblem(await post("/authorize", "{}", { "content-type": type }), 415, "UnsupportedMediaType");
    }
    const large = JSON.stringify({ a: "x".repeat(100_000) });
    await expectProblem(await post("/authorize", large), 413, "PayloadTooLarge");
    const chunks = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 20; i++) controller.enqueue(new Uint8Array(10_000).fill(32));
        controller.close();
      },
    });
    const streamed = await fetch(`${http.service.url}/authorize`, {
      method: "POST",
      headers: JSON_TYPE,
      body: chunks,
      duplex: "half",
    } as RequestInit);
    await expectProblem(streamed, 413, "PayloadTooLarge");
    await expectProblem(await post("/authorize", new Uint8Array([0x7b, 0xff, 0xfe, 0x7d])), 400, "InvalidRequest");
  });

  it("S11 seeded garbage on every endpoint is a 4xx in bounded time", async () => {
    const document = (await (await fetch(`${http.service.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, unknown>>;
    };
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed % below;
    };
    const pieces = [
      "{",
      "}",
      "[",
      "]",
      '"',
      ":",
      ",",
      "0x",
      "null",
      "1e999",
      "\\u0000",
      '"signedPayment"',
      "�",
      "../",
      "%00",
      " ",
      "-1",
    ];
    const garbage = () => Array.from({ length: random(40) }, () => pieces[random(pieces.length)]).join("");
    for (const [path, methods] of Object.entries(document.paths)) {
      for (let round = 0; round < 8; round++) {
        const filled = path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(garbage() || "x"));
        const startedMs = performance.now();
        const response =
          "post" in methods
            ? await post(filled, garbage())
            : path.includes("{")
              ? await fetch(`${http.service.url}${filled}`)
              : await fetch(
                  `${http.service.url}${filled}?limit=${encodeURIComponent(`${garbage()}!`)}&cursor=!&type=!`,
                );
        const isPlain = "get" in methods && !path.includes("{") && !["/plans", "/events"].includes(path);
        if (!isPlain) expect(response.status, `${path} ${await response.text()}`).to.be.within(400, 499);
        expect(performance.now() - startedMs).to.be.lessThan(30_000);
      }
    }
  });

  it("S11 refuses NUL in every parameter of a query, which no database stores, and names it", async () => {
    const document = dereferenced<Document>((await (await http.call("/openapi.json")).json()) as object);
    const key = await http.service.apiKey();
    let asked = 0;
    for (const [path, methods] of Object.entries(document.paths)) {
      if (path.includes("{")) continue;
      for (const { name, in: place } of methods.get?.parameters ?? []) {
        if (place !== "query") continue;
        const answer = await http.call(`${path}?${name}=a%00b`, { key });
        // For operators of the service alone.
        if (answer.status === 403) continue;
        const problem = await expectProblem(answer, 400, "InvalidRequest");
        // No network has such a name, whatever the endpoint.
        const isNamed = name === "network" ? /^network: (has the character NUL|must be a network's name)/ : undefined;
        expect(problem.message, `${path} ${name}`).to.match(isNamed ?? new RegExp(`${name}: has the character NUL`));
        asked++;
      }
    }
    expect(asked).to.be.greaterThan(20);
  });

  it("names a query parameter that is missing, malformed or given twice", async () => {
    const account = `${http.service.url}/accounts/${http.world.payee}`;
    for (const query of [
      "",
      "?token=abc",
      `?token=${http.world.contracts.token}&token=${http.world.contracts.token}`,
    ]) {
      const problem = await expectProblem(await fetch(account + query), 400, "InvalidRequest");
      expect(problem.message).to.match(/^token: /);
    }
    await expectProblem(await fetch(`${http.service.url}/nowhere`), 404, "NotFound");
    await expectProblem(await fetch(`${http.service.url}/authorize`), 405, "MethodNotAllowed");
  });

  it("S11 gives up a request whose head never ends, without harm to others", async () => {
    const raw = httpRequest(`${http.service.url}/authorize`, {
      method: "POST",
      headers: { ...JSON_TYPE, "x-big": "h".repeat(20_000) },
    });
    const status = await new Promise((resolve) => {
      raw.on("response", (response) => resolve(response.statusCode));
      raw.on("error", () => resolve("cut"));
      raw.end("{}");
    });
    expect(status).to.be.oneOf([431, "cut"]);
    expect((await fetch(`${http.service.url}/healthz`)).status).to.equal(200);
  });
});

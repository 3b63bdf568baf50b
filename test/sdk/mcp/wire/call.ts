import { expect } from "chai";
import fc from "fast-check";
import { callHash, callText, canonicalJson, toolResource } from "../../../../sdk/src/mcp/wire";

describe("mcp > wire > call", () => {
  it("serialises equal JSON to one text, whatever the order of its members", () => {
    const shuffled = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(shuffled);
      if (typeof value !== "object" || value === null) return value;
      return Object.fromEntries(
        Object.entries(value)
          .reverse()
          .map(([name, each]) => [name, shuffled(each)]),
      );
    };
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const text = canonicalJson(value);
        expect(JSON.parse(text)).to.deep.equal(JSON.parse(JSON.stringify(value)));
        // Names such as "__proto__" survive no copy by assignment.
        if (!JSON.stringify(value).includes("__proto__")) expect(canonicalJson(shuffled(value))).to.equal(text);
      }),
    );
  });

  it("writes the form of RFC 8785", () => {
    const value = {
      "€": 1,
      "\r": 2,
      \ufb33: 3,
      1: 4,
      "😂": 5,
      "\u0080": 6,
      ö: 7,
      n: [1e30, 4.5, 2e-3, 1e-27, -0],
    };
    expect(canonicalJson(value)).to.equal(
      '{"\\r":2,"1":4,"n":[1e+30,4.5,0.002,1e-27,0],"\u0080":6,"ö":7,"€":1,"😂":5,"\ufb33":3}',
    );
    expect(canonicalJson({ a: undefined, b: null })).to.equal('{"b":null}');
  });

  it("MC2 separates two calls by their server, their tool and every argument", () => {
    const call = { server: "https://a.example", tool: "quote", args: { symbol: "ABC", days: 1 } };
    const texts = [
      call,
      { ...call, server: "https://b.example" },
      { ...call, tool: "quotes" },
      { ...call, args: { symbol: "ABC", days: "1" } },
      { ...call, args: { symbol: "ABC" } },
      { ...call, args: { symbol: "ABC", days: 1, __proto__: null, extra: null } },
      { ...call, args: JSON.parse('{"symbol":"ABC","days":1,"__proto__":{}}') },
      // Moved across the borders of the parts.
      { ...call, server: 'https://a.example","quote', tool: "" },
    ].map((each) => callHash(each));
    expect(new Set(texts).size).to.equal(texts.length);
    expect(callText({ ...call, args: undefined })).to.equal(callText({ ...call, args: {} }));
  });

  it("MC2 refuses arguments whose values have no JSON form: two of them would be one text", () => {
    for (const value of [new Date(0), new Map(), new Set([1]), 1n, () => 1, Symbol("a"), Number.NaN, /a/]) {
      expect(() => canonicalJson({ a: [value] }), String(value)).to.throw("arguments.a[0]: must be JSON, and is ");
    }
  });

  it("MC8 refuses nesting that would exhaust the stack", () => {
    const deep = JSON.parse(`${"[".repeat(5_000)}${"]".repeat(5_000)}`);
    expect(() => canonicalJson(deep)).to.throw("must be nested at most 64 levels deep");
  });

  it("names a tool's resource, one for each name", () => {
    expect(toolResource("get_quote-2.x")).to.equal("mcp://tool/get_quote-2.x");
    expect(toolResource("a/b")).to.equal("mcp://tool/a%2Fb");
    for (const name of ["", "..", ".", "a b", "a?b", "a#b", "a%2Fb", "ä", "x".repeat(129)]) {
      expect(() => toolResource(name), name).to.throw("the tool's name is");
    }
  });
});

import { expect } from "chai";
import { parseStrictJson } from "../../../sdk/src/protocol/headers";

describe("protocol > strict JSON", () => {
  const READ = [
    "{}",
    '{"a":1,"b":[1,{"a":2}],"c":{"a":3}}',
    '{"a":"\\"b\\":1,\\"b\\":2"}',
    '{"a":"ends in a backslash\\\\","b":1}',
    '{"a\\\\":1,"a":2}',
    '{"a":"{[","b":"]}"}',
  ];
  for (const text of READ) {
    it(`reads ${text} as JSON.parse does`, () => {
      expect(parseStrictJson(text)).to.deep.equal(JSON.parse(text));
    });
  }

  const REFUSED: Readonly<Record<string, string>> = {
    "a key twice": '{"a":1,"a":2}',
    "a key twice, once escaped": '{"a":1,"\\u0061":2}',
    "a key twice, deep inside": '{"x":[{"y":{"a":1,"a":2}}]}',
    "a key twice behind a string that ends in a backslash": '{"a":"\\\\","a":2}',
    "a prototype": '{"__proto__":{"a":1}}',
    "a prototype, escaped": '{"\\u005f_proto__":{"a":1}}',
    "an escaped NUL": '{"a":"b\\u0000c"}',
    "a NUL": '{"a":"b\0c"}',
    "more depth than any credential has": `${'{"a":'.repeat(9)}1${"}".repeat(9)}`,
    "a string without an end": '{"a":"b',
    "a string whose end is escaped": '{"a":"b\\"}',
    "a list": "[1]",
    "two objects": "{}{}",
    nothing: "",
  };
  for (const [what, text] of Object.entries(REFUSED)) {
    it(`C8 refuses ${what}`, () => {
      expect(parseStrictJson(text)).to.equal(undefined);
    });
  }
});

/** The pages of this project look alike: the dashboard, and those that are one document. */
import { readFileSync } from "node:fs";
import { expect } from "chai";
import { BASE } from "../../sdk/src/gate/page/style";

describe("agreement > style", () => {
  it("has one value for each colour, light and dark", () => {
    const dashboard = readFileSync("facilitator/dashboard/src/style.css", "utf8");
    const [light = "", dark = ""] = [...BASE.matchAll(/:root\{([^}]*)\}/g)].map(([, body]) => body);
    const valueIn = (text: string, name: string) => new RegExp(`${name}:([^;}]*)`).exec(`${text};`)?.[1];
    const shared = [...dashboard.matchAll(/(--[\w-]+): light-dark\((.*?), (.*?)\);/g)].filter(
      ([, name = ""]) => valueIn(light, name) !== undefined,
    );
    expect(shared).to.have.length.above(8);
    for (const [, name = "", ...values] of shared)
      expect([valueIn(light, name), valueIn(dark, name)], name).to.deep.equal(values);
  });
});

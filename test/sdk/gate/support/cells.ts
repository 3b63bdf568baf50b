/** Tests of every kind of cells: in memory, in a log, in PostgreSQL, in Redis. */
import { expect } from "chai";
import type { AskedChange, Cells } from "../../../../sdk/src/gate/cells/cells";

/** @param make fresh, empty cells, or with `again` a second user of those that were made last */
export function testCells(make: (again?: boolean) => Cells): void {
  const change = (key: string, expected: string | undefined, next: string, more: Partial<AskedChange> = {}) => ({
    key,
    expected,
    next,
    ...more,
  });

  it("are changed where they are as expected, and otherwise not", async () => {
    const cells = make();
    expect(await cells.read(["a", "b"])).to.deep.equal([undefined, undefined]);
    expect(await cells.swap([change("a", undefined, "1")])).to.equal(true);
    expect(await cells.swap([change("a", undefined, "2")])).to.equal(false);
    expect(await cells.swap([change("a", "2", "3")])).to.equal(false);
    expect(await cells.swap([change("a", "1", "2")])).to.equal(true);
    expect(await cells.read(["b", "a"])).to.deep.equal([undefined, "2"]);
  });

  it("change together or not at all", async () => {
    const cells = make();
    await cells.swap([change("a", undefined, "1")]);
    const both = [change("a", "1", "2"), change("fact@a", "1", "2")];
    expect(await cells.swap(both)).to.equal(false);
    expect(await cells.read(["a", "fact@a"])).to.deep.equal(["1", undefined]);
    expect(await cells.swap([change("a", "1", "2"), change("fact@a", undefined, "2")])).to.equal(true);
    expect(await cells.read(["a", "fact@a"])).to.deep.equal(["2", "2"]);
  });

  it("are changed by one of many users at once", async () => {
    const [one, other] = [make(), make(true)];
    const users = Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? one : other));
    const made = await Promise.all(users.map((cells, i) => cells.swap([change("a", undefined, String(i))])));
    expect(made.filter(Boolean)).to.have.length(1);
    const winner = String(made.indexOf(true));
    expect([...(await one.read(["a"])), ...(await other.read(["a"]))]).to.deep.equal([winner, winner]);
  });

  it("are listed from one change to another", async () => {
    const cells = make();
    await cells.swap([change("a", undefined, "1", { listed: true }), change("b@a", undefined, "2")]);
    await cells.swap([change("a", "1", "3")]);
    expect(await cells.listed()).to.deep.equal([{ key: "a", text: "3" }]);
    await cells.swap([change("a", "3", "3", { listed: false })]);
    expect(await cells.listed()).to.deep.equal([]);
  });

  it("have any text", async () => {
    const cells = make();
    const texts = ['{"a":"1n"}', '"quoted"', "tab\tand\nbreak;", "été 漢字 😀", " ", "0x00\\u0041"];
    for (const [i, text] of texts.entries()) await cells.swap([change(`k${i}`, undefined, text)]);
    const again = make(true);
    expect(await again.read(texts.map((_, i) => `k${i}`))).to.deep.equal(texts);
    for (const [i, text] of texts.entries())
      expect(await again.swap([change(`k${i}`, text, "next")]), text).to.equal(true);
  });
}

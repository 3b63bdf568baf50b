import { expect } from "chai";
import { faultsOf, snippetsOfPages } from "./support/snippets";

describe("agreement > the TypeScript of the documentation", function () {
  this.timeout(300_000);

  it("compiles against the SDK, and a fault is reported by its line", () => {
    const snippets = snippetsOfPages();
    expect(snippets).to.have.length.greaterThan(50);
    const wrong = { page: "a page", line: 7, code: "const price = 1;\nconst text: string = price;\n" };
    expect(faultsOf([...snippets, wrong])).to.deep.equal([
      "a page:8 Type 'number' is not assignable to type 'string'.",
    ]);
  });
});

import { expect } from "chai";
import { CASES, trialsOf, tryCase } from "./support/battery";
import * as turnpike from "./support/clients/turnpike";

describe("hostile servers and Facilitators, against this project's agent", () => {
  for (const hostile of CASES) {
    for (const dialect of trialsOf(hostile, turnpike)) {
      it(`${hostile.id} (${dialect}): ${hostile.safeResult}`, async () => {
        const { kind, saw } = await tryCase(hostile, turnpike, dialect);
        expect(kind, saw).to.equal("safe");
      }).timeout(30_000);
    }
  }
});

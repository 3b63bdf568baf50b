import path from "node:path";
import { testKilledWhileSettling } from "../support/settle-killed";

describe("a gate that is killed while a payment of MPP settles, with claims in a file", function () {
  this.timeout(120_000);

  testKilledWhileSettling({
    place: (folder) => ({ kind: "file", folder: path.join(folder, "claims") }),
    shiftsMs: [0, 61_000],
    byMpp: true,
  });
});

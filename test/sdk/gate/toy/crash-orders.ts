import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileClaims, memoryClaims } from "turnpike/gate";
import { ONE_TIME } from "../../../support/gate";
import { type PurchaseKind, testCrashOrders } from "../support/crash-orders";
import { toyPaid } from "./support/client";
import { toyProvider } from "./support/provider";

describe("a purchase in the toy dialect whose gates die", () => {
  let folder: string;
  let places = 0;

  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-toy-crash-orders-"));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  const inMemory = () => {
    const store = memoryClaims({ warn: false });
    return { open: () => ({ ...store, close: async () => undefined }) };
  };
  const inFile = () => {
    const place = path.join(folder, String(places++));
    return { open: () => fileClaims({ folder: place }) };
  };
  const toy: PurchaseKind = {
    gate: { pricing: ONE_TIME },
    pay: (quoted) => toyPaid(quoted),
    createProvider: toyProvider,
    asksOnce: true,
  };
  testCrashOrders("in memory", inMemory, 60, { "the toy": toy });
  testCrashOrders("in one file", inFile, 40, { "the toy": toy });
});

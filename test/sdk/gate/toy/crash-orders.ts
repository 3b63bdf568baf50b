import { ONE_TIME } from "../../../support/gate";
import { localPlaces, type PurchaseKind, testCrashOrders } from "../support/crash-orders";
import { toyPaid } from "./support/client";
import { toyProvider } from "./support/provider";

describe("a purchase in the toy dialect whose gates die", () => {
  const { inMemory, inFile } = localPlaces();
  const toy: PurchaseKind = {
    gate: { pricing: ONE_TIME },
    pay: (quoted) => toyPaid(quoted),
    createProvider: toyProvider,
    asksOnce: true,
  };
  testCrashOrders("in memory", inMemory, 60, { "the toy": toy });
  testCrashOrders("in one file", inFile, 40, { "the toy": toy });
});

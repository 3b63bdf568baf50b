import { gated } from "../../../gate.mjs";

export const GET = gated(() => {
  throw new RangeError("broke");
});

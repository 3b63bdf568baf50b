import { shopOf } from "./shop.mjs";

let shop;
export default {
  fetch(request, { SHOP }) {
    shop ??= shopOf(SHOP);
    return shop(request);
  },
};

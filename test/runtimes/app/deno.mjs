import { shopOf } from "./shop.mjs";

Deno.serve({ port: Number(Deno.env.get("PORT")), hostname: "127.0.0.1" }, shopOf(Deno.env.get("SHOP")));

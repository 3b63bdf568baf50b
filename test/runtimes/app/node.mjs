import { createServer } from "node:http";
import { Readable } from "node:stream";
import { shopOf } from "./shop.mjs";

const shop = shopOf(process.env.SHOP);
createServer(async (req, res) => {
  const response = await shop(new Request(`http://${req.headers.host}${req.url}`, { headers: req.headers }));
  res.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body) Readable.fromWeb(response.body).pipe(res);
  else res.end();
}).listen(Number(process.env.PORT), "127.0.0.1");

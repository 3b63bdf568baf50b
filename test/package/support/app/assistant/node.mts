import { createServer } from "node:http";
import { gated, paymentGate } from "turnpike/gate/node";

const gate = paymentGate({ price: "$0.05" });
createServer(gated(gate, (request, response) => response.end(request.payment?.kind))).listen(3000);

import fastify from "fastify";
import { paymentGate } from "turnpike/gate/fastify";

const app = fastify();
const preHandler = paymentGate({ price: "$0.05" });
app.get("/report", { preHandler }, async (request) => ({ paidBy: request.payment?.kind }));
await app.listen({ port: 3000 });

// Deno, Bun, and everything else that serves (Request) => Response
import { paymentGate } from "turnpike/gate/fetch";

const gate = paymentGate({ price: "$0.05" });
export default { fetch: gate((request) => Response.json({ paidBy: request.payment.kind })) };

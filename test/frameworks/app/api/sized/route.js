import { gatedByBody } from "../../../gate.mjs";

export const POST = gatedByBody(async (request) => Response.json({ got: await request.json() }));

import { gated } from "../../../../gate.mjs";

const paid = gated(async (request, { params }) => {
  const { id } = await params;
  const { payment } = request;
  if (id === "stream") {
    const parts = ["one ", "two ", "three"];
    const body = new ReadableStream({
      pull(controller) {
        const part = parts.shift();
        if (part === undefined) controller.close();
        else controller.enqueue(new TextEncoder().encode(part));
      },
    });
    return new Response(body);
  }
  return Response.json({ id, payer: payment.payer, body: await request.text() });
});

export const GET = paid;
export const POST = paid;
export const HEAD = paid;
export const OPTIONS = paid;

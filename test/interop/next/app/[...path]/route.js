import { withX402 } from "@x402/next";
import { NextResponse } from "next/server";
import { isProxied, routes, server } from "../../selling.mjs";

export const dynamic = "force-dynamic";

/** Answers what the test says, as its bytes come. */
async function handler({ nextUrl }) {
  const { status, body } = await fetch(`${process.env.ANSWERS_URL}${nextUrl.pathname}`);
  return new NextResponse(body, { status, headers: { "Content-Type": "application/json" } });
}

export const GET = isProxied ? handler : withX402(handler, routes, server);

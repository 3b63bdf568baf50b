import { paymentProxy } from "@x402/next";
import { NextResponse } from "next/server";
import { isProxied, routes, server } from "./selling.mjs";

export const proxy = isProxied ? paymentProxy(routes, server) : () => NextResponse.next();

/** A process that sells the tools of the specified server over stdio, on a simulated chain of its own. */
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { Chain } from "../../agent/support/world";
import { specServer } from "./spec-server";

const chain = new Chain();
chain.nowSec = Math.floor(Date.now() / 1_000);
void specServer(chain).open().connect(new StdioServerTransport());

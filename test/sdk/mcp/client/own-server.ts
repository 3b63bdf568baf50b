/** The agent's client at this project's own paid tools, in one process, with a small Facilitator. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { receiptOf, wrapMcpClientWithPayment } from "turnpike/mcp/client";
import { paidTool } from "turnpike/mcp/server";
import {
  NOW,
  ONE_TIME,
  OVER_PERMIT2,
  type SmallFacilitator,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { agentFor } from "../../agent/support/world";

describe("an agent's MCP client at this project's paid tools", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let client: Client;
  let isFailing = false;

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = OVER_PERMIT2;
    const token = { address: TOKEN, name: "Test USD", version: "1", transferMethod: "permit2" as const };
    provider = testProvider(facilitator, { token });
    const server = new McpServer({ name: "tools", version: "1.0.0" });
    const sold = { provider, serverId: "stdio:tools", pricing: ONE_TIME, settle: "before" } as const;
    paidTool(server, "once", sold, () => ({ isError: isFailing, content: [{ type: "text", text: "fine" }] }));
    client = new Client({ name: "buyer", version: "1.0.0" });
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    await server.connect(theirs);
    await client.connect(ours);
  });
  afterEach(async () => {
    await client.close();
    await provider.close();
    await facilitator.stop();
  });

  it("MB1 a payment that has settled for a failed call buys the next one, and no other is signed", async () => {
    const policy = { perPayment: 10_000_000n, perDay: 10_000_000n, tokens: [TOKEN], methods: ["permit2"] as const };
    const subject = agentFor("http://127.0.0.1:1", { policy, clock: { nowSec: () => NOW } });
    const paying = wrapMcpClientWithPayment(client, subject.agent, { server: "tools" });
    isFailing = true;
    expect((await paying.callTool({ name: "once" })).isError).to.equal(true);
    isFailing = false;
    const served = await paying.callTool({ name: "once" });
    expect([served.isError, receiptOf(served)?.resumed]).to.deep.equal([false, true]);
    expect(subject.signed).to.deep.equal(["PermitWitnessTransferFrom"]);
  });
});

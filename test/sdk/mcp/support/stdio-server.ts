/**
 * The process of examples/mcp-server.ts with a provider in memory, whose keys are those of every test provider. The
 * first line of stderr is a subscription's secret id.
 */
import { createTestProvider } from "turnpike/testing";

const world = createTestProvider();
const { planId } = world.addPlan({});
process.env.PLAN = planId;
process.stderr.write(`${world.subscribe({ planId }).id}\n`);
void world.install().then(() => import("../../../../examples/mcp-server.js"));

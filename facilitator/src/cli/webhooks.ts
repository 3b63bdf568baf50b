/** `facilitator webhooks`: what an operator does to one endpoint while the service runs. */
import type { Command } from "commander";
import type { DatabaseSettings } from "../config";
import { openStore } from "../db/open";
import { disableEndpoint, sendWaiting } from "../webhooks/operate";

type WebhookAct = "disable" | "send";

export function addWebhookCommands(program: Command, run: (act: WebhookAct, id: string) => Promise<void>): void {
  const webhooks = program
    .command("webhooks")
    .description("disable an endpoint, or send what waits for it, while the service runs");
  webhooks
    .command("disable <endpoint>")
    .description("disable an endpoint and drop what waits for it; its owner can enable it")
    .action((id: string) => run("disable", id));
  webhooks
    .command("send <endpoint>")
    .description("make everything due now that waits for an endpoint")
    .action((id: string) => run("send", id));
}

/** @throws UnknownObject */
export async function webhookCommand({ database }: DatabaseSettings, act: WebhookAct, id: string): Promise<void> {
  const store = await openStore(database);
  const endpoint = { store, id, nowMs: Date.now() };
  try {
    if (act === "send") process.stdout.write(`${await sendWaiting(endpoint)} deliveries to ${id} are due now\n`);
    else {
      await disableEndpoint(endpoint);
      process.stdout.write(`${id} is disabled, and nothing waits for it\n`);
    }
  } finally {
    await store.close();
  }
}

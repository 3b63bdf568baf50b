/** A provider's process: the example's gate with an API key and no gas. Its address is its first line. */
import { writeSync } from "node:fs";
import { type ExampleProviderOptions, startProvider } from "../../../examples/provider";

void startProvider(JSON.parse(process.env.PROVIDER ?? "{}") as ExampleProviderOptions).then(({ url }) =>
  writeSync(1, `${url}\n`),
);

/** Reads the file that limits what commands may spend. Unknown fields are errors. */
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import * as z from "zod";
import type { AgentPolicy } from "../agent";
import { paidWithFields, policyFields } from "../agent/core/policy-fields";
import { parseStrictJson } from "../protocol";
import { UsageError } from "./command-errors";
import { homeFolder } from "./environment";
import type { CliIo } from "./io";

const amount = z.union([z.number().int().nonnegative(), z.string().regex(/^(0|[1-9][0-9]{0,77})$/)]);

const policySchema = z.strictObject({
  ...policyFields(amount),
  prefer: z.strictObject(paidWithFields).optional(),
});

/**
 * Reads the policy file: the one that is named, else `policy.json` in the home folder.
 * @returns undefined when none is named and there is none in the home folder
 * @throws UsageError that names the field
 */
export async function readPolicyFile(io: CliIo, named: string | undefined): Promise<AgentPolicy | undefined> {
  const file = named === undefined ? join(homeFolder(io), "policy.json") : resolve(io.cwd, named);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    const isMissing = (error as { code?: string }).code === "ENOENT";
    if (isMissing && named === undefined) return undefined;
    throw new UsageError(
      `The policy file ${file} ${isMissing ? "does not exist" : "cannot be read"}.`,
      'Name a file with at least perPayment and perDay, in base units: { "perPayment": "100000", "perDay": "1000000" }.',
    );
  }
  const json = parseStrictJson(text);
  const read = json && policySchema.safeParse(json);
  if (read?.success) return withoutUndefined(read.data);
  const issue = read?.error.issues[0];
  const what = issue
    ? `${issue.path.join(".") || "the object"}: ${issue.message}`
    : "it is no JSON object, or repeats a field";
  throw new UsageError(
    `The policy file ${file} is malformed: ${what}.`,
    "Correct the field. Amounts are base units, as whole numbers or decimal strings.",
  );
}

type PolicyFields = z.output<typeof policySchema>;

/** Drops fields that are absent, which the types of the policy keep apart from undefined ones. */
function withoutUndefined(fields: PolicyFields): AgentPolicy {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as unknown as AgentPolicy;
}

/**
 * Where a private key is: in the environment, in a file, or in a key management service that never releases it. Files
 * are read at the start, so that an unreadable key stops the start and not the first payment.
 */
import { readFileSync } from "node:fs";
import { type Hex, isPrivateKey } from "turnpike/protocol";
import { z } from "zod";
import { Secret } from "./setting";

export type KeySource =
  | { readonly kind: "local"; readonly key: Secret<Hex> /** when it came from a file */; readonly path?: string }
  | { readonly kind: "aws-kms" /** key id, alias or ARN */; readonly keyId: string };

const FILE = "file:";

const AWS_KMS = "aws-kms:";

export const keySource = z.string().transform((text, context): KeySource => {
  if (isPrivateKey(text)) return { kind: "local", key: secretOf(text) };
  if (text.startsWith(FILE)) {
    const path = text.slice(FILE.length);
    const found = readKeyFile(path);
    if ("key" in found) return { kind: "local", key: secretOf(found.key), path };
    // A key in the place of a path is not printed.
    const shown = /[0-9a-fA-F]{64}/.test(path) ? "that is named by 64 hex digits" : path;
    context.addIssue({ code: "custom", message: `names the file ${shown}, which ${found.fault}` });
    return z.NEVER;
  }
  if (text.startsWith(AWS_KMS) && text.length > AWS_KMS.length) {
    return { kind: "aws-kms", keyId: text.slice(AWS_KMS.length) };
  }
  context.addIssue({
    code: "custom",
    message: "must be a private key (0x and 64 hex digits, not all zeros), file:PATH or aws-kms:ID",
  });
  return z.NEVER;
});

const secretOf = (text: string): Secret<Hex> => new Secret(text.toLowerCase() as Hex);

function readKeyFile(path: string): { readonly key: string } | { readonly fault: string } {
  try {
    const text = readFileSync(path, "utf8").trim();
    return isPrivateKey(text) ? { key: text } : { fault: "holds no private key (0x and 64 hex digits, not all zeros)" };
  } catch (error) {
    const { code } = error as { code?: string };
    return { fault: code === "ENOENT" ? "does not exist" : `cannot be read (${code})` };
  }
}

/**
 * Keeps usage receipts in a folder that several processes share: a file for each subscription, a line for each receipt.
 * Node only. Lines are appended whole, so no lock is needed; a line that a crash has cut is skipped.
 */
import { appendFile, open, readFile, rename } from "node:fs/promises";
import { join, resolve } from "node:path";
import { isDiskFull } from "../../file-lock";
import { ConfigError } from "../../protocol";
import { anObject, aText } from "../../protocol/arguments";
import { type KeptReceipt, nameOfReceipts, type ReceiptFault, type ReceiptStore } from "../ledger/evidence";
import { makeFolder } from "./folder";

const LINE = /^(?:(malformed|subscription|request) )?([!-~]+)$/;

/**
 * Keeps usage receipts in a folder.
 * @param folder on a local disk; it is made for its owner alone
 */
export function fileReceipts(folder: string): ReceiptStore {
  if (typeof folder !== "string" || folder === "") throw new ConfigError("fileReceipts needs a folder");
  const root = resolve(folder);
  const fileOf = (subscription: Omit<KeptReceipt, "text" | "fault">) =>
    join(root, `${nameOfReceipts(subscription)}.receipts`);
  let made: Promise<void> | undefined;
  return {
    async add(receipts) {
      made ??= makeFolder(root);
      await made.catch((cause: unknown) => {
        made = undefined;
        throw new ConfigError(`receipts: the folder ${root} cannot be made; name another one`, { cause });
      });
      const texts = new Map<string, string>();
      for (const receipt of receipts) {
        const file = fileOf(receipt);
        texts.set(file, `${texts.get(file) ?? ""}\n${lineOf(receipt)}`);
      }
      // Begun and ended by a line break: what another process was cut off from writing spoils no other line.
      for (const [file, text] of texts) {
        await appendFile(file, `${text}\n`, { mode: 0o600 }).catch((cause: unknown) => {
          if (!isDiskFull(cause)) throw cause;
          throw new ConfigError(`receipts: ${root} cannot be written: its disk is full; free some space on it`, {
            cause,
          });
        });
      }
    },
    async list({ chainId, turnpike, idHash }) {
      const text = await readFile(fileOf({ chainId, turnpike, idHash }), "utf8").catch(
        (error: NodeJS.ErrnoException) => {
          if (error.code === "ENOENT") return "";
          throw new ConfigError(`receipts: ${root} cannot be read`, { cause: error });
        },
      );
      const found = new Map<string, KeptReceipt>();
      for (const line of text.split("\n")) {
        const [, fault, receipt] = LINE.exec(line) ?? [];
        if (receipt === undefined || found.has(receipt)) continue;
        const base = { chainId, turnpike, idHash, text: receipt };
        found.set(receipt, fault === undefined ? base : { ...base, fault: fault as ReceiptFault });
      }
      return [...found.values()];
    },
  };
}

const lineOf = ({ fault, text }: KeptReceipt): string => (fault === undefined ? text : `${fault} ${text}`);

/** Writes an audit for others to verify, whole or not at all. Node only. */
export async function writeAudit(path: string, audit: { readonly text: string }): Promise<void> {
  aText(path, "path");
  anObject(audit, "audit");
  aText(audit.text, "audit.text");
  const { text } = audit;
  const file = resolve(path);
  const handle = await open(`${file}.new`, "w", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(`${file}.new`, file);
}

/** Presents a signed payment to the gate and reads its answer. Signs nothing. */
import type { HEADER } from "../../../protocol/headers";
import { hasBought, isUnsure } from "../../../protocol/refusals";
import type { StoredPayment } from "./storage";

export type Outcome =
  /** what was bought; transaction: undefined where nothing was charged */
  | { readonly kind: "content"; readonly content: Content; readonly transaction: string | undefined }
  /** not known yet: present the same payment again */
  | { readonly kind: "pending"; readonly waitMs: number }
  /** has bought its request before, and the answer is not available */
  | { readonly kind: "spent" }
  /** was not accepted. isFinal: nothing was sent to the chain by this attempt */
  | { readonly kind: "refused"; readonly reason: string; readonly message: string; readonly isFinal: boolean }
  /** the server answered with an error, and the payment can be presented again */
  | { readonly kind: "failed"; readonly message: string };

export interface Content {
  readonly status: number;
  readonly type: string;
  readonly disposition: string;
  readonly bytes: ArrayBuffer;
}

/** As a browser asks for a page: the handler sees no difference to one that was opened for nothing. */
const ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";

// Typed by the one table of names, without bundling it.
const PAYMENT: typeof HEADER.paymentSignatureV2 = "PAYMENT-SIGNATURE";
const RECEIPT: typeof HEADER.paymentResponseV2 = "PAYMENT-RESPONSE";

const WAITING: ReadonlySet<number> = new Set([409, 425, 429, 502, 503, 504]);

const DEFAULT_WAIT_MS = 2_000;

const MAX_WAIT_MS = 15_000;

export async function present({ header }: StoredPayment): Promise<Outcome> {
  let response: Response;
  let bytes: ArrayBuffer;
  try {
    const headers = { Accept: ACCEPT, [PAYMENT]: header };
    response = await fetch(pageUrl(), { headers, cache: "no-store", redirect: "manual" });
    bytes = await response.arrayBuffer();
  } catch {
    return { kind: "pending", waitMs: DEFAULT_WAIT_MS };
  }
  if (response.type === "opaqueredirect") {
    return { kind: "failed", message: "The server answered with a redirect, which this page cannot follow." };
  }
  const receipt = response.headers.get(RECEIPT);
  const { status } = response;
  if (response.ok || (receipt !== null && status < 500)) return served(response, bytes, receipt);
  if (WAITING.has(status)) return { kind: "pending", waitMs: waitOf(response) };
  const { error, reason, message } = problemIn(bytes);
  if (status !== 402) {
    const why = message === "" ? "" : ` ${message}`;
    return { kind: "failed", message: `The server could not answer (${status}).${why}` };
  }
  // Not the gate's: a host or a proxy has answered, and says nothing about the payment.
  if (error === "") return { kind: "pending", waitMs: DEFAULT_WAIT_MS };
  if (error === "PaymentAlreadyUsed" || hasBought(reason)) return { kind: "spent" };
  return { kind: "refused", reason, message, isFinal: !isUnsure(reason) };
}

/** The address that is sold; a fragment is not part of it. */
export const pageUrl = (): string => `${location.pathname}${location.search}`;

function served({ status, headers }: Response, bytes: ArrayBuffer, receipt: string | null): Outcome {
  const type = headers.get("Content-Type") ?? "";
  const disposition = headers.get("Content-Disposition") ?? "";
  const transaction = receipt === null ? undefined : transactionIn(receipt);
  return { kind: "content", content: { status, type, disposition, bytes }, transaction };
}

/** @returns an empty text where a receipt names no transaction */
function transactionIn(receipt: string): string {
  try {
    const { transaction } = JSON.parse(atob(receipt)) as { transaction?: unknown };
    return typeof transaction === "string" && /^0x[0-9a-f]{64}$/i.test(transaction) ? transaction : "";
  } catch {
    return "";
  }
}

function waitOf(response: Response): number {
  const seconds = Number(response.headers.get("Retry-After") ?? Number.NaN);
  return Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds * 1_000, MAX_WAIT_MS) : DEFAULT_WAIT_MS;
}

function problemIn(bytes: ArrayBuffer): { readonly error: string; readonly reason: string; readonly message: string } {
  const text = (value: unknown): string => (typeof value === "string" ? value.slice(0, 400) : "");
  try {
    const body = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown> | null;
    return { error: text(body?.error), reason: text(body?.reason), message: text(body?.message) };
  } catch {
    return { error: "", reason: "", message: "" };
  }
}

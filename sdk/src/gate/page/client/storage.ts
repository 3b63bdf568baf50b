/**
 * Stores the one signed payment of this address in this tab, so that a reload presents it again instead of signing
 * another.
 */

/** A signed payment. */
export interface StoredPayment {
  /** value of PAYMENT-SIGNATURE */
  readonly header: string;
  readonly nonce: string;
  /** "0.50 USDC" */
  readonly label: string;
  /** this browser's clock, after which the token refuses the transfer */
  readonly endsAtMs: number;
  /** presented before, with an unknown outcome */
  readonly isUnknown?: boolean;
  /** its content was shown */
  readonly isServed?: boolean;
}

const KEY = `turnpike payment ${location.pathname}${location.search}`;

/** @throws where the browser stores nothing: then nothing may be signed */
export function store(payment: StoredPayment): void {
  sessionStorage.setItem(KEY, JSON.stringify(payment));
}

export function stored(): StoredPayment | undefined {
  try {
    const text = sessionStorage.getItem(KEY);
    return text === null ? undefined : (JSON.parse(text) as StoredPayment);
  } catch {
    return undefined;
  }
}

export function forget(): void {
  sessionStorage.removeItem(KEY);
}

/** Returns whether the browser stores anything for this page. */
export function canStore(): boolean {
  try {
    sessionStorage.setItem(`${KEY} check`, "1");
    sessionStorage.removeItem(`${KEY} check`);
    return true;
  } catch {
    return false;
  }
}

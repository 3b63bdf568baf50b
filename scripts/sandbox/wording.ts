/** Formats amounts, addresses and secrets for a reader: short. */
import { formatUnits } from "ethers";

const HEX = /0x[0-9a-fA-F]{12,}/g;

/** Formats base units of a 6-decimal token as whole tokens. */
export const units = (amount: bigint | string | undefined): string => Number(formatUnits(amount ?? 0n, 6)).toFixed(2);

export const shortened = (text: string): string => (text.length > 24 ? `${text.slice(0, 12)}...` : text);

export const withShortHex = (text: string): string => text.replace(HEX, (hex) => `${hex.slice(0, 8)}..`);

export const withoutHex = (text: string): string => text.replace(HEX, "");

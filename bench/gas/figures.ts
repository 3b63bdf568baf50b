// What is measured, as figures in gas.

import type { ContractTransactionResponse } from "ethers";

export interface Figure {
  figure: string;
  value: number;
  goal: number | null;
}

export const figures: Figure[] = [];

export function record(figure: string, value: number, goal: number | null = null): void {
  figures.push({ figure, value: Math.round(value), goal });
}

export async function gasOf(sent: Promise<ContractTransactionResponse>): Promise<number> {
  const receipt = await (await sent).wait();
  if (receipt?.status !== 1) throw new Error("a measured transaction failed");
  return Number(receipt.gasUsed);
}

/** All hostile cases, and how one client is put through them. */
import { GRANTS } from "./cases-grants";
import { SETTLEMENT } from "./cases-settlement";
import { dialectsOf, TERMS } from "./cases-terms";
import { type Finding, type HostileCase, type HostileClient, Play } from "./play";
import { DIALECTS, type Dialect, PRICE, Stage } from "./stage";

export const CASES: readonly HostileCase[] = [
  ...[...SETTLEMENT, ...TERMS].sort((a, b) => numberOf(a) - numberOf(b)),
  ...GRANTS,
];

/** An honest gate and Facilitator: a client that cannot pay here has proven nothing by not paying elsewhere. */
export const CONTROL: HostileCase = {
  id: "honest",
  does: "Asks for one payment, takes it, serves.",
  safeResult: "one payment of the quoted price, and HTTP 200",
  async run(play) {
    const gate = await play.stage.gate();
    const outcome = await play.attempt(`${gate.url}/data?q=1`);
    const values = play.stage.authorizations.map(({ value }) => BigInt(value));
    const isPaid = values.length === 1 && values[0] === PRICE;
    return play.also(isPaid && outcome.kind === "answered" && outcome.status === 200, "the control");
  },
};

function numberOf({ id }: HostileCase): number {
  return Number(/^D(\d+)/.exec(id)?.[1]);
}

export type Result = { readonly id: string; readonly dialect: Dialect } & (
  | ({ readonly kind: "safe" | "unsafe" } & Pick<Finding, "saw">)
  | { readonly kind: "not applicable"; readonly saw: string }
);

/** The dialects in which this client is tried in this case. */
export function trialsOf(hostile: HostileCase, client: HostileClient): readonly Dialect[] {
  const spoken = client.dialects ?? DIALECTS;
  return dialectsOf(hostile).filter((dialect) => spoken.includes(dialect));
}

export async function tryCase(hostile: HostileCase, client: HostileClient, dialect: Dialect): Promise<Result> {
  const { id, needs } = hostile;
  if (needs && !client.features?.includes(needs)) {
    return { id, dialect, kind: "not applicable", saw: `the client has no ${needs}` };
  }
  const stage = await Stage.open(dialect);
  try {
    const { safe, saw } = await hostile.run(new Play(stage, client));
    return { id, dialect, kind: safe ? "safe" : "unsafe", saw };
  } finally {
    await stage.close();
  }
}

/** API keys and the audit log. A tab's own key sees neither: the wallet signs for a key that does, for ten minutes. */
import { useState } from "preact/hooks";
import type { ApiScope } from "turnpike/facilitator";
import { type AnswerAt, createApi } from "../api";
import { escapedText, formatDate, formatTime } from "../format";
import { Alert, Hex, Panel, Table } from "../parts";
import { useSigned } from "../use";
import type { Wallet } from "../wallet/account";
import { ACTS, type ActId } from "../wallet/act-list";
import { Ask, type Wanted, wordsOf } from "../wallet/ask";
import { keyBy } from "../wallet/sign-in";

type Key = AnswerAt<"GET", "/keys">["keys"][number];

type Entry = AnswerAt<"GET", "/audit">["entries"][number];

const SCOPES = {
  read: "read figures, lists and events",
  debits: "charge use up to customers' caps",
  webhooks: "manage webhooks and labels",
  keys: "list and revoke keys, read the audit log",
  reports: "send counts of gates",
  listings: "manage listings of the catalogue",
  refunds: "refund from the account that you named",
} satisfies Record<ApiScope, string>;

/** Of those that have ended, the audit log says who made them. */
const isValid = ({ revokedAt, expiresAt }: Key): boolean => revokedAt === undefined && expiresAt > Date.now() / 1_000;

const LIST_SEC = 600;
const DAY_SEC = 86_400;

export function KeyActs({ act, wallet }: { act: ActId; wallet: Wallet | undefined }) {
  const { who } = useSigned();
  const [opened, setOpened] = useState<{
    readonly key: string;
    readonly keys: readonly Key[];
    readonly entries: readonly Entry[];
  }>();
  const [wanted, setWanted] = useState<Wanted>();
  const [problem, setProblem] = useState<string>();
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<readonly ApiScope[]>(["read"]);
  const [days, setDays] = useState("365");
  const account = who.provider;

  async function read(key: string): Promise<void> {
    const api = createApi(key);
    const [{ keys }, { entries }] = await Promise.all([api.get("/keys"), api.get("/audit", { limit: 50 })]);
    setOpened({ key, keys, entries });
  }

  const make = (
    by: Wallet,
    made: { readonly name: string; readonly scopes: readonly ApiScope[]; readonly lifeSec: number },
    title: string,
    extra: readonly string[],
  ): Wanted => ({
    title,
    words: [
      `A program that holds it may, in your name: ${made.scopes.map((scope) => SCOPES[scope]).join("; ")}. Until ${formatDate(Date.now() / 1_000 + made.lifeSec)}.`,
      "Your wallet shows a text that names these scopes. It moves no money and costs no gas.",
      ...extra,
    ],
    button: "Sign in your wallet",
    async run(progress) {
      progress.say("Your wallet shows the text. Nothing changes until you sign it there.");
      const { key } = await keyBy(by, { ...made, account, check: () => progress.check() });
      return { words: "Store the key now: it is shown this once.", copy: key };
    },
  });

  const revoke = (key: Key): Wanted => ({
    title: `Revoke the key ${key.name}`,
    words: [`Programs that use it are refused from now on, for good. It may: ${key.scopes.join(", ")}.`],
    typed: key.name,
    button: "Revoke it",
    async run() {
      await createApi(opened?.key).send("DELETE", `/keys/${key.id}`);
      return "The key is revoked.";
    },
  });

  return (
    <>
      {act === "make-key" && (
        <Panel note={ACTS[act].about}>
          <form
            class="act"
            onSubmit={(event) => {
              event.preventDefault();
              setProblem(undefined);
              const life = Number(days);
              if (!wallet) return setProblem("Choose a wallet above.");
              if (scopes.length === 0) return setProblem("Choose what the key may do.");
              if (!/^[!-~](?:[ -~]{0,62}[!-~])?$/.test(name))
                return setProblem("The name must have 1 to 64 plain letters.");
              if (!/^\d{1,4}$/.test(days) || life < 1 || life > 1_825)
                return setProblem("A key lives for 1 to 1825 days.");
              setWanted(make(wallet, { name, scopes, lifeSec: life * DAY_SEC }, `Make the key ${name}`, []));
            }}
          >
            <label>
              Name of the key
              <input required autocomplete="off" value={name} onInput={(event) => setName(event.currentTarget.value)} />
            </label>
            <label>
              Days that it lives
              <input
                required
                inputMode="numeric"
                value={days}
                onInput={(event) => setDays(event.currentTarget.value)}
              />
            </label>
            <fieldset>
              <legend>It may</legend>
              {(Object.entries(SCOPES) as [ApiScope, string][]).map(([scope, text]) => (
                <label key={scope}>
                  <input
                    type="checkbox"
                    checked={scopes.includes(scope)}
                    onChange={() =>
                      setScopes(scopes.includes(scope) ? scopes.filter((each) => each !== scope) : [...scopes, scope])
                    }
                  />{" "}
                  {text}
                </label>
              ))}
            </fieldset>
            <p class="buttons">
              <button type="submit" class="main">
                Review<span class="hidden">: Make an API key</span>
              </button>
            </p>
            <Alert text={problem} />
          </form>
        </Panel>
      )}
      {act === "keys" && (
        <Panel note={ACTS[act].about}>
          {!opened ? (
            <p class="buttons">
              <button
                type="button"
                disabled={!wallet}
                onClick={() => {
                  if (!wallet) return;
                  setWanted({
                    title: "Open the keys and the audit log",
                    words: [
                      "Your wallet signs for a key that lists and revokes your keys. It stays in this tab and ends in ten minutes.",
                    ],
                    button: "Sign in your wallet",
                    async run(progress) {
                      const wish = { name: "key list", scopes: ["keys"] as const, lifeSec: LIST_SEC, account };
                      const { key } = await keyBy(wallet, { ...wish, check: () => progress.check() });
                      await read(key);
                      return "They are open.";
                    },
                  });
                }}
              >
                Open by my wallet
              </button>
            </p>
          ) : (
            <>
              <Table
                caption="API keys"
                empty="No key."
                rows={opened.keys.filter(isValid)}
                id={({ id }) => id}
                columns={[
                  {
                    title: "Key",
                    isProse: true,
                    cell: (key) => (
                      <>
                        <bdi>{escapedText(key.name)}</bdi>
                        <span class="note line">
                          <code>{key.id}</code> {key.scopes.join(", ")}
                        </span>
                        <span class="note line">until {formatDate(key.expiresAt)}</span>
                        <span class="buttons">
                          {wallet && (
                            <button
                              type="button"
                              class="quiet"
                              onClick={() =>
                                setWanted(
                                  make(
                                    wallet,
                                    {
                                      name: key.name,
                                      scopes: key.scopes,
                                      lifeSec: Math.max(60, key.expiresAt - Math.floor(Date.now() / 1_000)),
                                    },
                                    `Rotate the key ${key.name}`,
                                    ["The old key works until you revoke it: give your programs the new one first."],
                                  ),
                                )
                              }
                            >
                              Rotate<span class="hidden"> {key.name}</span>
                            </button>
                          )}
                          <button type="button" class="quiet" onClick={() => setWanted(revoke(key))}>
                            Revoke
                            <span class="hidden">
                              {" "}
                              {key.name} {key.id}
                            </span>
                          </button>
                        </span>
                      </>
                    ),
                  },
                  { title: "Made", isMinor: true, cell: ({ createdAt }) => formatTime(createdAt) },
                  {
                    title: "Used",
                    isMinor: true,
                    cell: ({ lastUsedAt }) => (lastUsedAt ? formatTime(lastUsedAt) : "never"),
                  },
                ]}
              />
              <Table
                caption="Audit log"
                empty="Nothing yet."
                rows={opened.entries}
                columns={[
                  { title: "When", cell: ({ at }) => formatTime(at) },
                  { title: "Act", cell: ({ act }) => act },
                  { title: "About", isMinor: true, cell: ({ object }) => <Hex value={object} /> },
                  { title: "By", isSpare: true, cell: ({ actor }) => <Hex value={actor} /> },
                ]}
              />
            </>
          )}
        </Panel>
      )}
      {wanted && (
        <Ask
          wanted={wanted}
          onClose={(isChanged) => {
            setWanted(undefined);
            if (isChanged && opened)
              read(opened.key).catch((error: unknown) => {
                setOpened(undefined);
                setProblem(wordsOf(error));
              });
          }}
        />
      )}
    </>
  );
}

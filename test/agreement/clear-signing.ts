import { readFileSync } from "node:fs";
import { expect } from "chai";
import {
  type Address,
  actTypedData,
  type Hex,
  rootTypedData,
  subscribeTypedData,
  type TypedData,
  voidTypedData,
  voucherTypedData,
} from "turnpike/protocol";
import { CLEAR_SIGNING } from "../../scripts/deploy/record";

interface Field {
  readonly path: string;
  readonly label: string;
  readonly format: keyof typeof FORMATS;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly visible?: string | { readonly ifNotIn: readonly unknown[] };
}

interface Format {
  readonly $id: string;
  readonly intent: string;
  readonly interpolatedIntent?: string;
  readonly fields: readonly Field[];
}

/** The formats of ERC-7730 that the descriptor uses: the types that each accepts, and its parameters. */
const FORMATS = {
  raw: { types: ["string", "bool", "bytes32", "uint256", "uint16"], params: [] },
  addressName: { types: ["address"], params: ["types"] },
  tokenTicker: { types: ["address"], params: [] },
  tokenAmount: { types: ["uint256"], params: ["tokenPath"] },
  date: { types: ["uint256", "uint40"], params: ["encoding"] },
  duration: { types: ["uint256"], params: [] },
} as const;

/** Characters that the smallest screens show: Ledger's devices cut what is longer. */
const MAX_LABEL = 20;
const MAX_INTENT = 30;

const FORMAT_PROPERTIES = ["$id", "intent", "interpolatedIntent", "fields"];

/** What means "none", other than 0. */
const NONE: Readonly<Record<string, string>> = {
  bytes32: `0x${"00".repeat(32)}`,
  address: `0x${"00".repeat(20)}`,
  string: "",
};

/** Fields that a person cannot judge by reading them. */
const IDS = ["planId", "newPlanId", "idHash", "secretHash", "version"];

const word = `0x${"01".repeat(32)}` as Hex;
const account = `0x${"02".repeat(20)}` as Address;
const deployment = { chainId: 1, turnpike: account };
const terms = { token: account, payTo: account, amount: 1n, intervalSec: 60, months: 0 };
const first = { firstAmount: 0n, firstInterval: 60 };
const signup = { subscriber: account, planId: word, secretHash: word, deadline: 1n };
const act = { subscriber: account, idHash: word, version: 0, deadline: 1n };

/** Every message in Turnpike's own domain, as the SDK makes it. */
const MESSAGES: readonly TypedData[] = [
  subscribeTypedData(deployment, terms, { ...signup, maxOverage: 0n }),
  voucherTypedData(deployment, { ...signup, ...first, token: account }),
  voidTypedData(deployment, { subscriber: account, secretHash: word, deadline: 1n }),
  actTypedData(deployment, "Pause", act),
  actTypedData(deployment, "Resume", { ...act, token: account, maxCharge: 1n }),
  actTypedData(deployment, "Cancel", { ...act, atPeriodEnd: true }),
  actTypedData(deployment, "SetMaxOverage", { ...act, token: account, cap: 1n }),
  actTypedData(deployment, "SetNext", { ...act, until: 0, nextPlanId: word, terms }),
  actTypedData(deployment, "ChangePlan", { ...act, newPlanId: word, maxOverage: 0n, maxCharge: 1n, terms }),
  actTypedData(deployment, "Rekey", { ...act, newSecretHash: word }),
  rootTypedData(deployment),
];

const encodeType = ({ primaryType, types }: TypedData): string =>
  `${primaryType}(${(types[primaryType] ?? []).map(({ type, name }) => `${type} ${name}`).join(",")})`;

/** The type strings that the contract hashes. */
function contractTypes(): string[] {
  const source = readFileSync("contracts/libraries/TypedData.sol", "utf8");
  return [...source.matchAll(/keccak256\(\s*((?:"[^"]*"\s*)+)\)/g)]
    .map(([, parts = ""]) => [...parts.matchAll(/"([^"]*)"/g)].map(([, text]) => text).join(""))
    .filter((text) => text.includes("("));
}

describe("agreement > clear signing", () => {
  const descriptor = JSON.parse(readFileSync(CLEAR_SIGNING, "utf8"));
  const formats: Readonly<Record<string, Format>> = descriptor.display.formats;

  it("has the messages of the contract and the SDK, and no other", () => {
    const shown = Object.keys(formats);
    expect(shown).to.have.members(MESSAGES.map(encodeType));
    const contract = contractTypes();
    expect(contract.length).to.equal(10);
    // Turnpike never verifies the message that a wallet derives its root secret from.
    expect(shown.filter((type) => !type.startsWith("TurnpikeRoot("))).to.have.members(contract);
  });

  it("is for the domain that the SDK signs, at the deployments that the SDK lists", () => {
    const { domain, deployments } = descriptor.context.eip712;
    const { chainId, turnpike: verifyingContract } = deployment;
    for (const message of MESSAGES) expect(message.domain).to.deep.equal({ ...domain, chainId, verifyingContract });
    const listed: { chainId: number; turnpike: string }[] = JSON.parse(
      readFileSync("sdk/src/chain/deployed.json", "utf8"),
    );
    expect(deployments).to.deep.equal(listed.map(({ chainId, turnpike }) => ({ chainId, address: turnpike })));
  });

  it("has no section and no property that version 2 of ERC-7730 does not define", () => {
    const known: readonly (readonly [object, readonly string[]])[] = [
      [descriptor, ["$schema", "$comment", "includes", "context", "metadata", "display"]],
      [descriptor.context, ["$id", "eip712"]],
      [descriptor.context.eip712, ["domain", "domainSeparator", "deployments"]],
      [descriptor.metadata, ["owner", "contractName", "info", "token", "constants", "enums"]],
      [descriptor.display, ["definitions", "formats"]],
      ...Object.values(formats).map((format) => [format, FORMAT_PROPERTIES] as const),
    ];
    for (const [section, names] of known) expect(names).to.include.members(Object.keys(section));
    const types = Object.values(formats).flatMap(({ fields }) => fields.flatMap(({ params }) => params?.types ?? []));
    expect(["wallet", "eoa", "contract", "token", "collection"]).to.include.members(types);
    // The key of a format is the type that EIP-712 encodes.
    for (const key of Object.keys(formats)) expect(key).to.match(/^\w+\((?:\w+ \w+,)*\w+ \w+\)$/);
  });

  for (const message of MESSAGES) {
    const formatOf = () => formats[encodeType(message)] as Format;
    const types = new Map((message.types[message.primaryType] ?? []).map(({ name, type }) => [name, type]));

    it(`${message.primaryType}: has each field once, in a format for its type`, () => {
      const { fields, $id, intent } = formatOf();
      expect($id).to.equal(message.primaryType);
      expect(intent).to.be.a("string").and.have.length.within(1, MAX_INTENT);
      expect(fields.map(({ path }) => path)).to.have.members([...types.keys()]);
      for (const { path, label, format, params = {}, visible = "always", ...rest } of fields) {
        expect(rest, path).to.deep.equal({});
        expect(label, path).to.be.a("string").and.have.length.within(1, MAX_LABEL);
        expect(FORMATS[format].types, path).to.include(types.get(path));
        expect(Object.keys(params), path).to.deep.equal([...FORMATS[format].params]);
        if (/amount|charge|cap|overage/i.test(path)) expect(format, path).to.equal("tokenAmount");
        if (format === "tokenAmount") expect(types.get(String(params.tokenPath)), path).to.equal("address");
        // A wallet may refuse an address of type "wallet" that it does not control: only the signer is one.
        const isSigner = path === "subscriber" && message.primaryType !== "Voucher";
        if (format === "addressName")
          expect(params.types, path).to.deep.equal([isSigner ? "wallet" : "eoa", "contract"]);
        if (format === "date") expect(params.encoding).to.equal("timestamp");
        if (typeof visible === "string") expect(visible, path).to.be.oneOf(["always", "optional", "never"]);
        else expect(Object.keys(visible), path).to.deep.equal(["ifNotIn"]);
      }
    });

    it(`${message.primaryType}: hides ids and what means "none", and nothing else`, () => {
      const { fields, interpolatedIntent = "" } = formatOf();
      for (const { path, visible = "always" } of fields) {
        if (visible === "never" || visible === "optional") expect(IDS, path).to.include(path);
        if (typeof visible !== "object") continue;
        expect(visible.ifNotIn, path).to.deep.equal([NONE[types.get(path) ?? ""] ?? 0]);
      }
      const shown = fields.flatMap(({ path, visible = "always" }) => (visible === "always" ? [path] : []));
      for (const [, name] of interpolatedIntent.matchAll(/\{([^}]*)\}/g)) expect(shown).to.include(name);
    });
  }
});

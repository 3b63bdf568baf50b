/** The wire API of AWS KMS (JSON 1.1), with real keys inside: as the client sends it and as the service answers. */
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { secp256k1 } from "@noble/curves/secp256k1";

/** What the AWS client needs in the environment; nothing checks them. */
export const AWS_ENV = { AWS_REGION: "eu-central-1", AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" };

/** What it does instead of signing well. */
export type KmsFault = "other key" | "silent" | "broken" | "throttled" | "5xx" | "hanging" | "denied";

export interface Kms {
  readonly url: string;
  readonly asked: { target: string; body: Record<string, unknown> }[];
  /** of all keys, or of the keys with this id */
  fault?: KmsFault | undefined;
  readonly faultOf: Map<string, KmsFault>;
  /** signatures that it gives before it throttles the next ones; undefined: any number */
  signaturesLeft?: number | undefined;
  stop(): Promise<void>;
}

interface Keys {
  readonly own: KeyObject;
  readonly other: KeyObject;
  readonly publicKey: string;
}

const ERRORS: Partial<Record<KmsFault, readonly [status: number, type: string]>> = {
  throttled: [400, "ThrottlingException"],
  "5xx": [500, "KMSInternalException"],
  denied: [400, "AccessDeniedException"],
};

/** Makes a key for each id that is asked for. */
export async function startKms(curve = "secp256k1", spec = "ECC_SECG_P256K1"): Promise<Kms> {
  const keys = new Map<string, Keys>();
  const keysOf = (id: string): Keys => {
    const known = keys.get(id) ?? makeKeys(curve);
    keys.set(id, known);
    return known;
  };
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await text(request)) as Record<string, unknown>;
    const target = String(request.headers["x-amz-target"]);
    kms.asked.push({ target, body });
    const id = String(body.KeyId);
    const fault = kms.faultOf.get(id) ?? kms.fault ?? spend(target);
    if (fault === "silent") return void request.socket.destroy();
    if (fault === "hanging") return;
    const error = fault && ERRORS[fault];
    if (error) return answer(response, error[0], { __type: error[1], message: "no" });
    const { own, other, publicKey } = keysOf(id);
    if (target === "TrentService.GetPublicKey") {
      return answer(response, 200, { KeyId: id, KeySpec: spec, KeyUsage: "SIGN_VERIFY", PublicKey: publicKey });
    }
    const Signature = fault === "broken" ? "AAAA" : signed(fault ? other : own, String(body.Message));
    answer(response, 200, { KeyId: id, SigningAlgorithm: "ECDSA_SHA_256", Signature });
  });
  function spend(target: string): KmsFault | undefined {
    if (target !== "TrentService.Sign" || kms.signaturesLeft === undefined) return undefined;
    if (kms.signaturesLeft === 0) return "throttled";
    kms.signaturesLeft -= 1;
    return undefined;
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const kms: Kms = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: [],
    faultOf: new Map(),
    stop: () => new Promise((resolve) => void server.close(() => resolve()).closeAllConnections()),
  };
  return kms;
}

function makeKeys(curve: string): Keys {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: curve });
  const other = generateKeyPairSync("ec", { namedCurve: curve }).privateKey;
  return { own: privateKey, other, publicKey: publicKey.export({ format: "der", type: "spki" }).toString("base64") };
}

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/x-amz-json-1.1" }).end(JSON.stringify(body));
}

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
let signatures = 0;

/** DER over the digest as it is; every other one with a high s, as KMS does not care. */
function signed(key: KeyObject, digest: string): string {
  const secret = Buffer.from(String(key.export({ format: "jwk" }).d), "base64url");
  const { r, s } = secp256k1.sign(Buffer.from(digest, "base64"), secret);
  const integer = (value: bigint): Buffer => {
    const hex = value.toString(16);
    const bytes = Buffer.from(hex.length % 2 ? `0${hex}` : hex, "hex");
    const body = (bytes[0] ?? 0) > 127 ? Buffer.concat([Buffer.of(0), bytes]) : bytes;
    return Buffer.concat([Buffer.of(2, body.length), body]);
  };
  const body = Buffer.concat([integer(r), integer(signatures++ % 2 ? ORDER - s : s)]);
  return Buffer.concat([Buffer.of(0x30, body.length), body]).toString("base64");
}

async function text(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of request) body += chunk;
  return body;
}

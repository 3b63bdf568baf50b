/**
 * The stock packages, from this folder's own lock file. They are loaded by name, so that the project's checks need not
 * have them; of their types only what the suite uses is written down here.
 */
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";

export type Hex = `0x${string}`;

export interface StockAccount {
  readonly address: Hex;
  signTypedData(message: never): Promise<Hex>;
  signMessage(message: never): Promise<Hex>;
}

/** What `X-PAYMENT-RESPONSE` and `PAYMENT-RESPONSE` hold, as the packages' own helpers decode them. */
export interface StockReceipt {
  readonly success: boolean;
  readonly transaction: string;
  readonly network: string;
  readonly payer?: string;
}

type Fetch = typeof fetch;
type Middleware = (...args: never[]) => unknown;
interface Axios {
  get(url: string): Promise<{ status: number; data: unknown; headers: Record<string, string | undefined> }>;
}

export interface Viem {
  createWalletClient(options: object): object & { extend(actions: unknown): object };
  createPublicClient(options: object): { readContract(call: object): Promise<unknown> };
  publicActions: unknown;
  http(url: string): unknown;
  custom(provider: object): unknown;
}

const from = createRequire(path.resolve(__dirname, "../package.json"));
const load = <T>(name: string): T => from(name) as T;

/** A client of the MCP SDK that pays; `confirm` null: it asks nobody. */
interface PayingMcpClient {
  listTools(): Promise<{ tools: unknown[] }>;
  callTool(confirm: null, params: object): Promise<CallToolResult>;
}

export const agents = () => load<{ withX402Client(client: object, config: object): PayingMcpClient }>("agents/x402");

/** A client of MPP: pays by `fetch` what a 402 asks for. */
export interface MppClient {
  readonly fetch: Fetch;
}

/** Charges requests: with a 402, or by what wraps the answer. */
interface MppServer {
  charge(terms: {
    readonly amount: string;
  }): (
    request: Request,
  ) => Promise<
    | { readonly status: 402; readonly challenge: Response }
    | { readonly status: 200; withReceipt(response: Response): Response }
  >;
}

interface MppReceipt {
  readonly method: string;
  readonly reference: string;
  readonly status: string;
}

/** What `@agentcash/discovery` says of a document or an endpoint. */
export interface AgentcashWarning {
  readonly code: string;
  readonly path?: string;
}

interface AgentcashEndpoint {
  readonly method: string;
  readonly path: string;
  readonly authMode?: string;
  readonly price?: string;
  readonly protocols?: readonly string[];
  readonly estimatedPrice?: string;
  readonly paymentOptions?: readonly { readonly amount: string }[];
}

interface Agentcash {
  discoverOriginSchema(asked: object): Promise<{ readonly endpoints?: readonly AgentcashEndpoint[] }>;
  checkEndpointSchema(asked: object): Promise<{ readonly advisories?: readonly AgentcashEndpoint[] }>;
  getOpenAPI(origin: string): Promise<{ unwrapOr(otherwise: null): object | null }>;
  checkL2ForOpenAPI(source: object | null): object;
  getWarningsForOpenAPI(source: object | null): readonly AgentcashWarning[];
  getWarningsForL2(routes: object): readonly AgentcashWarning[];
  getWarningsForL3(endpoint: object): readonly AgentcashWarning[];
}

export const agentcash = () => load<Agentcash>("@agentcash/discovery");

export const mppx = {
  discovery: () => load<{ validate(document: unknown): readonly object[] }>("mppx/discovery"),
  client: () =>
    load<{
      Mppx: { create(options: object): MppClient };
      evm: { charge(options: object): object };
    }>("mppx/client"),
  server: () =>
    load<{
      Mppx: { create(options: object): MppServer };
      evm: { charge(options: object): object };
    }>("mppx/server"),
  /** pays for tool calls */
  mcpClient: () =>
    load<{
      McpClient: { wrap<C extends object>(client: C, config: object): C };
    }>("mppx/mcp/client").McpClient,
  /** charges tool calls: throws what asks for payment */
  mcpServer: () => load<{ Transport: { mcpSdk(): object } }>("mppx/server").Transport.mcpSdk(),
  receipts: () => load<{ Receipt: { fromResponse(response: Response): MppReceipt } }>("mppx").Receipt,
};

export const viem = () => load<Viem>("viem");
export const accounts = () =>
  load<{ privateKeyToAccount(key: Hex): StockAccount; toAccount(account: object): StockAccount }>("viem/accounts");
export const baseSepolia = () => load<{ baseSepolia: object }>("viem/chains").baseSepolia;

export const v1 = {
  fetch: () =>
    load<{
      wrapFetchWithPayment(fetch: Fetch, wallet: object, maxValue?: bigint): Fetch;
      decodeXPaymentResponse(header: string): StockReceipt;
    }>("x402-fetch"),
  axios: () =>
    load<{
      withPaymentInterceptor(axios: Axios, wallet: object): Axios;
      decodeXPaymentResponse(header: string): StockReceipt;
    }>("x402-axios"),
  express: () => load<{ paymentMiddleware(payTo: Hex, routes: object, facilitator: object): never }>("x402-express"),
  hono: () => load<{ paymentMiddleware(payTo: Hex, routes: object, facilitator: object): never }>("x402-hono"),
  client: () =>
    load<{
      createPaymentHeader(wallet: object, version: number, requirements: object): Promise<string>;
    }>("x402/client"),
  schemes: () => load<{ exact: { evm: { decodePayment(header: string): object } } }>("x402/schemes"),
  verify: () =>
    load<{
      useFacilitator(facilitator: { url: string }): {
        verify(payload: object, requirements: object): Promise<StockVerdict>;
        settle(payload: object, requirements: object): Promise<StockReceipt & { errorReason?: string }>;
        supported(): Promise<{ kinds: { x402Version: number; scheme: string; network: string }[] }>;
        list(options?: { type?: string; limit?: number; offset?: number }): Promise<StockCatalogue>;
      };
    }>("x402/verify"),
  facilitator: () =>
    load<{
      verify(client: object, payload: object, requirements: object): Promise<object>;
      settle(client: object, payload: object, requirements: object): Promise<object>;
    }>("x402/facilitator"),
  types: () =>
    load<{
      PaymentRequirementsSchema: { parse(value: unknown): unknown };
      PaymentPayloadSchema: { parse(value: unknown): unknown };
      VerifyResponseSchema: { parse(value: unknown): unknown };
      SettleResponseSchema: { parse(value: unknown): unknown };
      SupportedPaymentKindsResponseSchema: { parse(value: unknown): unknown };
      DiscoveredResourceSchema: { parse(value: object): unknown };
    }>("x402/types"),
};

export interface StockItem {
  readonly resource: string;
  readonly x402Version: number;
  readonly lastUpdated: string;
  readonly accepts: readonly Record<string, unknown>[];
  readonly extensions?: { readonly bazaar?: object };
}

interface StockCatalogue {
  readonly items: readonly StockItem[];
  readonly pagination: { readonly limit: number; readonly offset: number; readonly total: number };
}

export interface StockVerdict {
  readonly isValid: boolean;
  readonly invalidReason?: string;
  readonly payer?: string;
}

export interface V2Client {
  register(network: string, scheme: object): V2Client;
  setSpendControls(controls: unknown): V2Client;
  registerExtension(extension: object): V2Client;
  createPaymentPayload(required: object): Promise<Record<string, unknown>>;
  onAfterPaymentCreation(hook: (context: { paymentPayload: Record<string, unknown> }) => Promise<void>): V2Client;
}
interface V2ClientPackage {
  x402Client: new () => V2Client;
  decodePaymentResponseHeader(header: string): StockReceipt;
}

export interface V2ResourceServer {
  register(network: string, scheme: object): V2ResourceServer;
  registerExtension(extension: object): V2ResourceServer;
  initialize(): Promise<void>;
}

interface Verified {
  readonly signer: Hex;
  readonly payload: Record<string, unknown>;
}

interface V2OfferReceipt {
  createOfferReceiptExtension(issuer: object): object;
  declareOfferReceiptExtension(): object;
  createEIP712OfferReceiptIssuer(kid: string, signTypedData: (data: never) => Promise<Hex>): object;
  createJWSOfferReceiptIssuer(kid: string, signer: object): object;
  extractOffersFromPaymentRequired(required: object): object[];
  decodeSignedOffers(offers: object[]): (Record<string, unknown> & { signedOffer: object })[];
  findAcceptsObjectFromSignedOffer(offer: object, accepts: object[]): object | undefined;
  extractReceiptFromResponse(response: Response): object | undefined;
  verifyOfferSignatureEIP712(offer: object): Promise<Verified>;
  verifyReceiptSignatureEIP712(receipt: object): Promise<Verified>;
  verifyReceiptMatchesOffer(receipt: object, offer: object, payers: string[]): boolean;
}

export const v2 = {
  fetch: () => load<V2ClientPackage & { wrapFetchWithPayment(fetch: Fetch, client: V2Client): Fetch }>("@x402/fetch"),
  axios: () => load<V2ClientPackage & { wrapAxiosWithPayment(axios: Axios, client: V2Client): Axios }>("@x402/axios"),
  clientScheme: () => load<{ ExactEvmScheme: new (signer: object) => object }>("@x402/evm/exact/client"),
  serverScheme: () => load<{ ExactEvmScheme: new () => object }>("@x402/evm/exact/server"),
  uptoClientScheme: () => load<{ UptoEvmScheme: new (signer: object) => object }>("@x402/evm/upto/client"),
  uptoServerScheme: () => load<{ UptoEvmScheme: new () => object }>("@x402/evm/upto/server"),
  gasSponsoring: () => load<{ declareEip2612GasSponsoringExtension(): object }>("@x402/extensions"),
  facilitatorScheme: () => load<{ ExactEvmScheme: new (signer: object) => object }>("@x402/evm/exact/facilitator"),
  signer: () =>
    load<{
      toClientEvmSigner(signer: object, client?: object): object;
      toFacilitatorEvmSigner(client: object): object;
    }>("@x402/evm"),
  express: () =>
    load<{
      paymentMiddleware(routes: object, server: object): Middleware;
      x402ResourceServer: new (facilitator: object) => V2ResourceServer;
      setSettlementOverrides(response: object, overrides: { amount: string }): void;
    }>("@x402/express"),
  hono: () =>
    load<{
      paymentMiddleware(routes: object, server: object): never;
      x402ResourceServer: new (facilitator: object) => V2ResourceServer;
      setSettlementOverrides(context: object, overrides: { amount: string }): void;
    }>("@x402/hono"),
  server: () =>
    load<{
      HTTPFacilitatorClient: new (options: {
        url: string;
      }) => {
        verify(payload: object, requirements: object): Promise<StockVerdict>;
        settle(payload: object, requirements: object): Promise<StockReceipt & { errorReason?: string }>;
        getSupported(): Promise<{
          kinds: { x402Version: number; scheme: string; network: string }[];
          extensions: string[];
          signers: Record<string, string[]>;
        }>;
      };
    }>("@x402/core/server"),
  http: () =>
    load<{
      decodePaymentRequiredHeader(header: string): Record<string, never>;
      encodePaymentSignatureHeader(payload: object): string;
    }>("@x402/core/http"),
  schemas: () =>
    load<{
      validatePaymentRequired(value: unknown): object;
      validatePaymentPayload(value: unknown): object;
      PaymentRequirementsV2Schema: { parse(value: unknown): unknown };
    }>("@x402/core/schemas"),
  facilitator: () =>
    load<{
      x402Facilitator: new () => {
        register(network: string, scheme: object): unknown;
        verify(payload: object, requirements: object): Promise<object>;
        settle(payload: object, requirements: object): Promise<object>;
        getSupported(): object;
      };
    }>("@x402/core/facilitator"),
  paymentIdentifier: () =>
    load<{
      appendPaymentIdentifierToExtensions(extensions: object, id?: string): object;
      validatePaymentIdentifier(extension: unknown): { valid: boolean; errors?: string[] };
    }>("@x402/extensions/payment-identifier"),
  signIn: () =>
    load<{
      wrapFetchWithSIWx(fetch: Fetch, signer: StockAccount): Fetch;
      createSIWxClientExtension(options: { signers: StockAccount[] }): object;
      createSIWxPayload(info: object, signer: StockAccount, url: string): Promise<Record<string, unknown>>;
      encodeSIWxHeader(payload: object): string;
    }>("@x402/extensions/sign-in-with-x"),
  offerReceipt: () => load<V2OfferReceipt>("@x402/extensions/offer-receipt"),
  bazaar: () =>
    load<{
      validateDiscoveryExtension(extension: unknown): { valid: boolean; errors?: string[] };
      extractDiscoveryInfo(payload: object, requirements: object): Record<string, unknown> | null;
      withBazaar(client: object): {
        readonly extensions: {
          readonly bazaar: {
            listResources(params?: object): Promise<StockCatalogue>;
            search(params: { query: string; network?: string }): Promise<{ readonly resources: readonly StockItem[] }>;
          };
        };
      };
    }>("@x402/extensions/bazaar"),
};

/** Every word of the installed packages' code that is a reason of a refusal. */
export function reasonsOf(...packages: string[]): ReadonlySet<string> {
  const words = packages.flatMap((name) => {
    const folder = path.dirname(from.resolve(name));
    const files = readdirSync(folder, { recursive: true }).map(String);
    const texts = files
      .filter((file) => /\.m?js$/.test(file))
      .map((file) => readFileSync(path.join(folder, file), "utf8"));
    return texts.flatMap((text) => [...text.matchAll(/"([a-z0-9]+(?:_[a-z0-9]+)+)"/g)].map(([, word = ""]) => word));
  });
  return new Set(words);
}

export const axios = () => load<{ create(): Axios }>("axios");
export const stockExpress = () => load<unknown>("express");

/** An MCP server whose stock package adds tools that are paid for. */
interface PaidTools<Price> {
  paidTool(
    name: string,
    description: string,
    price: Price,
    parameters: object,
    annotations: object,
    run: () => Promise<object>,
  ): unknown;
}

export const mcpServers = {
  agents: () => load<{ withX402(server: object, config: object): PaidTools<number> }>("agents/x402"),
  x402: () =>
    load<{
      createPaidMcpHandler(
        register: (server: PaidTools<{ readonly price: number }>) => void,
        options: object,
        config: object,
      ): (request: Request) => Promise<Response>;
    }>("x402-mcp/server"),
};

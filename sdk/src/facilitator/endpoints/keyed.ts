/**
 * Names each endpoint by method and path, for clients: `GET /payments/{id}`. Types alone, so that what a browser loads has
 * no texts and none of the inputs' schemas.
 */
import type * as z from "zod";
import type { EndpointSpec } from "./endpoint";
import type * as figures from "./figures";
import type * as payer from "./payer";
import type * as payments from "./payments";
import type * as providers from "./providers";
import type * as records from "./records";
import type * as subscriptions from "./subscriptions";

type GroupsOf<M> = { [K in keyof M as K extends `${string}_ENDPOINTS` ? K : never]: M[K] };

type Groups = GroupsOf<
  typeof figures & typeof payer & typeof payments & typeof providers & typeof records & typeof subscriptions
>;

/** Any endpoint of the API. */
type Each = { [K in keyof Groups]: Groups[K][keyof Groups[K]] }[keyof Groups];

type KeyOf<E> = E extends Pick<EndpointSpec, "method" | "path"> ? `${Uppercase<E["method"]>} ${E["path"]}` : never;

/** `POST /authorize`, `GET /payments/{id}`, ... */
export type EndpointKey = KeyOf<Each>;

/** The endpoint of that method and path. */
export type EndpointAt<K extends EndpointKey> = Each extends infer E
  ? E extends unknown
    ? KeyOf<E> extends K
      ? E
      : never
    : never
  : never;

/** The fields of an endpoint's path. */
export type ParamsOf<E> = E extends { readonly params: infer P extends z.ZodObject }
  ? { readonly params: { readonly [K in keyof z.input<P>]: string } }
  : { readonly params?: never };

/** The schemas of an endpoint's answers. */
export type AnswerSchemaOf<E> = E extends { readonly answers: infer A } ? A[keyof A] : never;

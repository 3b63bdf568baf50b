/** Where gate processes of a test keep their claims. */
import { type ClaimStore, fileClaims } from "turnpike/gate";
import { postgresClaims } from "turnpike/gate/postgres";
import { redisClaims } from "turnpike/gate/redis";

export type ClaimPlace =
  | { readonly kind: "file"; readonly folder: string }
  | { readonly kind: "postgres"; readonly url: string }
  | { readonly kind: "redis"; readonly socket: string };

export function claimsAt(place: ClaimPlace): ClaimStore {
  switch (place.kind) {
    case "file":
      return fileClaims({ folder: place.folder });
    case "postgres": {
      const pool = new (require("pg") as typeof import("pg")).Pool({ connectionString: place.url, max: 8 });
      pool.on("error", () => undefined);
      return postgresClaims(pool);
    }
    case "redis":
      return redisClaims(new (require("ioredis") as typeof import("ioredis")).Redis(place.socket));
  }
}

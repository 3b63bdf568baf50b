/** Fits a kept answer to the request that asks for it again: as it was, made from the whole where that is exact, or not. */
import { type Asking, askedBy, isSameAsk } from "./asked";
import { cut, isAskedPart, isPart, wholeOf } from "./byte-range";
import { accepts, codingsOf, decoded } from "./coding";
import type { KeptAnswer } from "./keeper";

export type Fitted =
  | { readonly kind: "answer"; readonly answer: KeptAnswer }
  /** it is kept, but not as this request asks for it; the request as it was first gets it */
  | { readonly kind: "unfit"; readonly message: string };

const fitted = (answer: KeptAnswer): Fitted => ({ kind: "answer", answer });

export async function fitAnswer(kept: KeptAnswer, request: Asking): Promise<Fitted> {
  const asked = askedBy(request) ?? {};
  // A HEAD has no body that could be of another form.
  if (request.method === "HEAD" || isSameAsk(kept.asked, asked)) return fitted(kept);
  const isRanged = request.method === "GET";
  const isExactPart = isPart(kept) && (!isRanged || isAskedPart(kept, asked));
  const answer = isExactPart ? kept : wholeOf(kept);
  if (!answer) return unfitRange(kept);
  const codings = codingsOf(answer);
  if (accepts(asked.acceptEncoding, codings)) {
    // The bytes of a coded answer are not those of the content: it is sent whole.
    return fitted(isExactPart || !isRanged || codings.length > 0 ? answer : cut(answer, asked));
  }
  const plain = isExactPart ? undefined : await decoded(answer);
  if (plain) return fitted(plain);
  return asked.acceptEncoding === undefined ? fitted(answer) : unfitCoding(codings);
}

function unfitRange({ headers, asked }: KeptAnswer): Fitted {
  const part = headers["content-range"] ?? "several ranges";
  const again = asked?.range === undefined ? "the Range that it had first" : `Range: ${asked.range}`;
  const message = `This payment has bought a part of the content (${part}), and that part alone is kept: repeat the request with ${again}, and do not pay again for it.`;
  return { kind: "unfit", message };
}

function unfitCoding(codings: readonly string[]): Fitted {
  const message = `The answer that this payment has bought is kept coded as ${codings.join(", ")}, which this request refuses and the gate cannot decode: repeat the request with the Accept-Encoding that it had first, and do not pay again for it.`;
  return { kind: "unfit", message };
}

/**
 * Copies the body of a fetch-style response as it passes, and settles before its end leaves. What is there at once is
 * settled before its first byte; a stream is passed on as it comes.
 */
import { type KeptAnswer, mayBeKept, safeHeaders } from "./kept-answer";
import { Recorder, STREAM_MS } from "./recorder";

export interface FetchRecording {
  readonly maxBytes: number;
  /** Called once. Rejects when the claim could not be written: then nothing more may leave. */
  readonly settle: (answer: KeptAnswer | undefined) => Promise<unknown>;
}

type Chunk = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>["read"]>>;

/** @throws what `settle` throws, while nothing has left */
export async function recordResponse(response: Response, { maxBytes, settle }: FetchRecording): Promise<Response> {
  const { status, statusText, headers, body } = response;
  const declared = headers.get("content-length");
  const length = declared === null ? undefined : Number(declared);
  const kept = mayBeKept(status, headers.get("content-type") ?? undefined) ? safeHeaders(headers) : undefined;
  if (!kept || body?.locked || (length ?? 0) > maxBytes) {
    await settle(undefined);
    return response;
  }
  const recorder = new Recorder(maxBytes);
  const answer = (): KeptAnswer => ({ status, headers: kept, body: recorder.body() });
  if (!body) {
    await settle(answer());
    return response;
  }
  const reader = body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  const passed: Uint8Array[] = [];
  const isLater = new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)));
  const init = { status, statusText, headers };
  for (;;) {
    const reading = reader.read();
    // The next read receives the rejection.
    reading.catch(() => undefined);
    const chunk = await Promise.race([reading, isLater]).catch(() => undefined);
    if (chunk?.done) {
      await settle(answer());
      return new Response(recorder.body() as BodyInit, init);
    }
    if (!chunk) return new Response(passOn({ reader, reading, passed, recorder, answer, length, settle }), init);
    recorder.push(chunk.value);
    passed.push(chunk.value);
    if (recorder.isWhole) continue;
    await settle(undefined);
    return new Response(
      passOn({ reader, reading: undefined, passed, recorder, answer, length, settle: undefined }),
      init,
    );
  }
}

interface Passing {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  /** a read that has begun */
  readonly reading: Promise<Chunk> | undefined;
  /** read, and not sent yet */
  readonly passed: Uint8Array[];
  readonly recorder: Recorder;
  readonly answer: () => KeptAnswer;
  /** what the head declares */
  readonly length: number | undefined;
  /** undefined: it is settled already */
  readonly settle: FetchRecording["settle"] | undefined;
}

function passOn({ reader, reading, passed, recorder, answer, length, settle }: Passing): ReadableStream<Uint8Array> {
  let next = reading;
  let settling: Promise<unknown> | undefined;
  const settleOnce = async (kept?: KeptAnswer): Promise<void> => {
    clearTimeout(timer);
    settling ??= settle?.(kept);
    await settling;
  };
  const giveUp = (): void => {
    recorder.stop();
    // The reader of the rest receives the rejection.
    settleOnce().catch(() => undefined);
    if (isCancelled) reader.cancel().catch(() => undefined);
  };
  let isCancelled = false;
  const timer = settle && setTimeout(giveUp, STREAM_MS);
  timer?.unref?.();

  /** @returns undefined at the end, with everything settled */
  async function read(): Promise<Uint8Array | undefined> {
    let chunk: Chunk;
    try {
      // Cleared before awaiting: a stream that is cancelled during a read starts another read.
      const taken = next ?? reader.read();
      next = undefined;
      chunk = await taken;
    } catch (error) {
      await settleOnce();
      throw error;
    }
    if (chunk.done) {
      await settleOnce(recorder.isWhole ? answer() : undefined);
      return undefined;
    }
    recorder.push(chunk.value);
    // The last byte of a declared length waits as the end does.
    if (!recorder.isWhole) await settleOnce();
    else if (recorder.bytes === length) await settleOnce(answer());
    return chunk.value;
  }

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const chunk = passed.shift() ?? (await read());
        if (chunk) controller.enqueue(chunk);
        else controller.close();
      },
      async cancel(reason) {
        isCancelled = true;
        if (!settle || settling) return reader.cancel(reason);
        // The client has left, and comes back for this answer: the rest is read for it.
        try {
          while (recorder.isWhole && (await read()));
        } catch {
          // It broke off, or could not be written: no reader is left.
        }
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

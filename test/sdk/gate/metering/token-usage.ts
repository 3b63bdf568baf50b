import { expect } from "chai";
import { anthropicUsage, openAiUsage, type TokenUsage, type UsageReader } from "turnpike/gate";

const readAll = (reader: UsageReader, chunks: readonly unknown[]): TokenUsage | undefined =>
  chunks.map((chunk) => reader(chunk)).at(-1);

const delta = (content: string) => ({ object: "chat.completion.chunk", choices: [{ index: 0, delta: { content } }] });

describe("The usage that language models state", () => {
  it("is read from OpenAI's chat completions, whole and in chunks", () => {
    const usage = {
      prompt_tokens: 100,
      completion_tokens: 25,
      total_tokens: 125,
      prompt_tokens_details: { cached_tokens: 60 },
    };
    const expected = { input: 40, cachedInput: 60, cacheWrite: 0, output: 25, basis: "stated" };
    expect(readAll(openAiUsage(), [{ object: "chat.completion", usage }])).to.deep.equal(expected);
    const chunks = [delta("a"), { ...delta("b"), usage: null }, { choices: [], usage }, "[DONE]"];
    expect(readAll(openAiUsage(), chunks)).to.deep.equal(expected);
  });

  it("is read from OpenAI's responses, whole and in events", () => {
    const usage = { input_tokens: 30, input_tokens_details: { cached_tokens: 0 }, output_tokens: 9, total_tokens: 39 };
    const expected = { input: 30, cachedInput: 0, cacheWrite: 0, output: 9, basis: "stated" };
    expect(readAll(openAiUsage(), [{ object: "response", usage }])).to.deep.equal(expected);
    const events = [
      { type: "response.created", response: { usage: null } },
      { type: "response.output_text.delta", delta: "a" },
      { type: "response.completed", response: { usage } },
    ];
    expect(readAll(openAiUsage(), events)).to.deep.equal(expected);
  });

  it("is read from Anthropic's messages, whole and in events", () => {
    const usage = {
      input_tokens: 12,
      cache_read_input_tokens: 50,
      cache_creation_input_tokens: 7,
      output_tokens: 33,
    };
    const expected = { input: 12, cachedInput: 50, cacheWrite: 7, output: 33, basis: "stated" };
    expect(readAll(anthropicUsage(), [{ type: "message", usage }])).to.deep.equal(expected);
    const events = [
      { type: "message_start", message: { usage: { ...usage, output_tokens: 1 } } },
      { type: "content_block_delta", delta: { type: "text_delta", text: "a" } },
      { type: "message_delta", usage: { output_tokens: 33 } },
      { type: "message_stop" },
    ];
    expect(readAll(anthropicUsage(), events)).to.deep.equal(expected);
  });

  it("is at least one output token for each part of the content, until it is stated", () => {
    const chunks = [delta(""), delta("a"), delta("b"), delta("c")];
    expect(readAll(openAiUsage(), chunks)?.output).to.equal(3);
    const parts = Array.from({ length: 4 }, () => ({ type: "content_block_delta", delta: { text: "a" } }));
    expect(readAll(anthropicUsage(), parts)?.output).to.equal(4);
  });

  it("counts calls of tools and reasoning while they stream, not only text", () => {
    const parts = [
      { tool_calls: [{ index: 0, id: "c", function: { name: "search", arguments: "" } }] },
      { tool_calls: [{ index: 0, function: { arguments: "{}" } }] },
      { reasoning: "because" },
      { function_call: { arguments: "{" } },
      { role: "assistant", content: "" },
    ];
    const chunks = parts.map((delta) => ({ choices: [{ index: 0, delta }] }));
    expect(readAll(openAiUsage(), chunks)?.output).to.equal(4);
  });

  it("SM6 counts no signature, citation or empty part as output", () => {
    const deltas = [
      { type: "text_delta", text: "a" },
      { type: "text_delta", text: "" },
      { type: "signature_delta", signature: "x" },
      { type: "citations_delta", citation: {} },
      { type: "thinking_delta", thinking: "b" },
    ];
    const events = deltas.map((delta) => ({ type: "content_block_delta", delta }));
    expect(readAll(anthropicUsage(), events)?.output).to.equal(2);
    const responses = ["a", ""].map((delta) => ({ type: "response.output_text.delta", delta }));
    expect(readAll(openAiUsage(), responses)?.output).to.equal(1);
  });

  it("SM6 reads input that is said later to be cached once", () => {
    const reader = openAiUsage();
    reader({ usage: { prompt_tokens: 1_000 } });
    const cached = { prompt_tokens: 1_000, prompt_tokens_details: { cached_tokens: 900 } };
    expect(reader({ usage: cached })).to.include({ input: 100, cachedInput: 900 });
  });

  it("SM9 says whether it was stated, is made of chunks, or cannot be read", () => {
    const text = (word: string) => ({ type: "content_block_delta", delta: { type: "text_delta", text: word } });
    const role = { choices: [{ index: 0, delta: { role: "assistant", content: "" } }] };
    const stated = { choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } };
    const start = { type: "message_start", message: { usage: { input_tokens: 9, output_tokens: 1 } } };
    const basisOf = (reader: UsageReader, chunks: readonly unknown[]) => readAll(reader, chunks)?.basis;
    for (const chunks of [[role], [role, delta("a"), "[DONE]"], [{ choices: [{ text: "legacy" }] }]]) {
      expect(basisOf(openAiUsage(), chunks)).to.equal("chunks");
    }
    expect(basisOf(openAiUsage(), [role, stated, "[DONE]"])).to.equal("stated");
    expect(basisOf(anthropicUsage(), [start, text("a")]), "the output is not final").to.equal("chunks");
    expect(
      basisOf(anthropicUsage(), [start, text("a"), { type: "message_delta", usage: { output_tokens: 3 } }]),
    ).to.equal("stated");
    for (const chunk of ["text", {}, { object: "chat.completion" }, start]) {
      expect(basisOf(openAiUsage(), [chunk])).to.equal("unreadable");
    }
    expect(basisOf(anthropicUsage(), [delta("a")]), "another form").to.equal("unreadable");
    for (const lie of ["1000", 1.5, 2 ** 53, 1e21, -1]) {
      expect(basisOf(openAiUsage(), [delta("a"), { usage: { prompt_tokens: lie } }])).to.equal("unreadable");
      const cached = { prompt_tokens: 5, prompt_tokens_details: { cached_tokens: lie } };
      expect(basisOf(openAiUsage(), [{ usage: cached }])).to.equal("unreadable");
      expect(basisOf(anthropicUsage(), [{ type: "message", usage: { output_tokens: lie } }])).to.equal("unreadable");
    }
    expect(readAll(openAiUsage(), [{ choices: [{ text: "a" }] }])?.output, "legacy text").to.equal(1);
  });

  it("SM4 is never less than it was, and never made of what is no count", () => {
    const reader = openAiUsage();
    reader({ usage: { prompt_tokens: 10, completion_tokens: 5 } });
    const lies = [-3, 1.5, "7", Number.NaN, Number.POSITIVE_INFINITY, null, {}, [9]];
    for (const lie of lies) reader({ usage: { prompt_tokens: lie, completion_tokens: lie } });
    for (const chunk of [undefined, null, 1, "text", [], { usage: "all" }, { choices: [null, 1] }]) reader(chunk);
    expect(reader({ usage: { prompt_tokens: 2 } })).to.deep.equal({
      input: 10,
      cachedInput: 0,
      cacheWrite: 0,
      output: 5,
      basis: "stated",
    });
    const more = { prompt_tokens: 4, prompt_tokens_details: { cached_tokens: 9 } };
    expect(openAiUsage()({ usage: more }), "cached tokens are part of the input").to.include({
      input: 0,
      cachedInput: 4,
    });
  });
});

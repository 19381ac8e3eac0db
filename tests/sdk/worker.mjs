// Runs jobs with the official JavaScript SDKs: one line of JSON in, one line out, as tests/sdk/javascript.py says.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const find = createRequire(`${process.env.SDK_MODULES}/`);
const load = (name) => import(pathToFileURL(find.resolve(name)).href);
const { default: OpenAI } = await load("openai");
const { default: Anthropic } = await load("@anthropic-ai/sdk");
const { GoogleGenAI } = await load("@google/genai");

const tests = (job) => ({ "x-polar-session": job.session });
const openai = (job) => new OpenAI({ apiKey: "k", maxRetries: 0, defaultHeaders: tests(job) });
const sum = (list) => list.join("");

const chat = {
  body: (job) => ({
    model: "gpt-9",
    messages: [{ role: "user", content: job.prompt }],
    max_completion_tokens: job.max_tokens,
    ...(job.tools && { tools: [{ type: "function", function: { name: "ls", parameters: job.parameters } }] }),
    ...(job.structured && {
      response_format: { type: "json_schema", json_schema: { name: "answer", schema: job.schema, strict: true } },
    }),
    ...(job.stop.length && { stop: job.stop }),
  }),
  async ask(job, signal) {
    const completions = openai(job).chat.completions;
    if (!job.streams) return this.told(await completions.create(this.body(job), { signal }));
    const stream = completions.stream({ ...this.body(job), stream_options: { include_usage: true } }, { signal });
    // This SDK's accumulator knows no reasoning fields, so they are read off the chunks.
    let thinking = "";
    stream.on("chunk", (chunk) => (thinking += chunk.choices[0]?.delta.reasoning_content ?? ""));
    return { ...this.told(await stream.finalChatCompletion()), thinking };
  },
  told(answer) {
    const [{ message, finish_reason }] = answer.choices;
    const calls = message.tool_calls ?? [];
    const { usage } = answer;
    return {
      text: message.content ?? "",
      thinking: message.reasoning_content ?? "",
      calls: calls.map((call) => [call.function.name, call.function.arguments]),
      stop: finish_reason,
      usage: [
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.prompt_tokens_details.cached_tokens,
        usage.completion_tokens_details.reasoning_tokens,
      ],
      ids: [answer.id, ...calls.map((call) => call.id)],
      call_ids: calls.map((call) => call.id),
    };
  },
};

const responses = {
  body: (job) => ({
    model: "gpt-9",
    input: job.prompt,
    max_output_tokens: job.max_tokens,
    include: ["reasoning.encrypted_content"],
    ...(job.tools && { tools: [{ type: "function", name: "ls", parameters: job.parameters, strict: false }] }),
    ...(job.structured && {
      text: { format: { type: "json_schema", name: "answer", schema: job.schema, strict: true } },
    }),
    ...(job.stop.length && { stop: job.stop }),
  }),
  async ask(job, signal) {
    const api = openai(job).responses;
    if (!job.streams) return this.told(await api.create(this.body(job), { signal }));
    const stream = api.stream(this.body(job), { signal });
    let last;
    for await (const event of stream) {
      if (["response.completed", "response.incomplete", "response.failed"].includes(event.type)) last = event.response;
    }
    if (last.status === "completed") last = await stream.finalResponse();
    if (last.error) throw Object.assign(new Error(last.error.message), { name: "ResponseFailed", code: last.error.code });
    return this.told(last);
  },
  told(answer) {
    const of = (type) => answer.output.filter((item) => item.type === type);
    const calls = of("function_call");
    const { usage } = answer;
    const texts = of("message").flatMap((item) => item.content.map((part) => part.text));
    return {
      text: sum(texts),
      thinking: sum(of("reasoning").flatMap((item) => item.summary.map((part) => part.text))),
      calls: calls.map((call) => [call.name, call.arguments]),
      stop: answer.status,
      usage: [
        usage.input_tokens,
        usage.output_tokens,
        usage.input_tokens_details.cached_tokens,
        usage.output_tokens_details.reasoning_tokens,
      ],
      ids: [answer.id, ...answer.output.map((item) => item.id), ...calls.map((call) => call.call_id)],
      call_ids: calls.map((call) => call.call_id),
    };
  },
};

const messages = {
  body: (job) => ({
    model: "claude-9",
    messages: [{ role: "user", content: job.prompt }],
    max_tokens: job.max_tokens,
    thinking: { type: "adaptive" },
    ...(job.tools && { tools: [{ name: "ls", input_schema: job.parameters }] }),
    ...(job.structured && { output_config: { format: { type: "json_schema", schema: job.schema } } }),
    ...(job.stop.length && { stop_sequences: job.stop }),
  }),
  async ask(job, signal) {
    const client = new Anthropic({ apiKey: "k", maxRetries: 0, timeout: 60_000, defaultHeaders: tests(job) });
    if (!job.streams) return this.told(await client.messages.create(this.body(job), { signal }));
    return this.told(await client.messages.stream(this.body(job), { signal }).finalMessage());
  },
  told(answer) {
    const of = (type) => answer.content.filter((block) => block.type === type);
    const calls = of("tool_use");
    const { usage } = answer;
    const cached = usage.cache_read_input_tokens ?? 0;
    return {
      text: sum(of("text").map((block) => block.text)),
      thinking: sum(of("thinking").map((block) => block.thinking)),
      calls: calls.map((call) => [call.name, call.input]),
      stop: answer.stop_reason,
      stop_sequence: answer.stop_sequence,
      usage: [
        usage.input_tokens + cached + (usage.cache_creation_input_tokens ?? 0),
        usage.output_tokens,
        cached,
        usage.output_tokens_details?.thinking_tokens ?? 0,
      ],
      ids: [answer.id, ...calls.map((call) => call.id)],
      call_ids: calls.map((call) => call.id),
    };
  },
};

const google = {
  body: (job, signal) => ({
    model: "gemini-9",
    contents: job.prompt,
    config: {
      maxOutputTokens: job.max_tokens,
      thinkingConfig: { includeThoughts: true },
      abortSignal: signal,
      ...(job.tools && { tools: [{ functionDeclarations: [{ name: "ls", parametersJsonSchema: job.parameters }] }] }),
      ...(job.structured && { responseMimeType: "application/json", responseJsonSchema: job.schema }),
      ...(job.stop.length && { stopSequences: job.stop }),
    },
  }),
  async ask(job, signal) {
    const { models } = new GoogleGenAI({ apiKey: "k", httpOptions: { headers: tests(job) } });
    if (!job.streams) return this.told([await models.generateContent(this.body(job, signal))]);
    const chunks = [];
    for await (const chunk of await models.generateContentStream(this.body(job, signal))) chunks.push(chunk);
    return this.told(chunks);
  },
  told(answers) {
    const last = answers.at(-1);
    const candidates = answers.flatMap((answer) => answer.candidates ?? []);
    const parts = candidates.flatMap((candidate) => candidate.content?.parts ?? []);
    const calls = parts.filter((part) => part.functionCall).map((part) => part.functionCall);
    const { usageMetadata: usage } = last;
    const thoughts = usage.thoughtsTokenCount ?? 0;
    return {
      text: sum(parts.filter((part) => !part.thought).map((part) => part.text ?? "")),
      thinking: sum(parts.filter((part) => part.thought).map((part) => part.text ?? "")),
      calls: calls.map((call) => [call.name, call.args]),
      stop: candidates.at(-1).finishReason,
      usage: [
        usage.promptTokenCount,
        usage.candidatesTokenCount + thoughts,
        usage.cachedContentTokenCount ?? 0,
        thoughts,
      ],
      ids: [last.responseId, ...calls.map((call) => call.id)],
      call_ids: calls.map((call) => call.id),
    };
  },
};

// A whole conversation over the SDK's own WebSocket: each of job.inputs continues the answer before.
async function socket(job) {
  const { ResponsesWS } = await load("openai/resources/responses/ws");
  const { HttpsProxyAgent } = await load("https-proxy-agent");
  const agent = new HttpsProxyAgent(process.env.HTTPS_PROXY);
  const connection = new ResponsesWS(openai(job), { agent, headers: tests(job) });
  const answers = [];
  try {
    for (const input of job.inputs) {
      const previous = answers.at(-1)?.id;
      connection.send({ type: "response.create", model: "gpt-9", input, ...(previous && { previous_response_id: previous }) });
      answers.push(await ending(connection));
    }
  } finally {
    connection.close();
  }
  return { answers: answers.map((answer) => ({ id: answer.id, ...responses.told(answer) })) };
}

function ending(connection) {
  return new Promise((resolve, reject) => {
    connection.once("response.completed", (event) => resolve(event.response));
    connection.once("response.failed", (event) => reject(new Error(event.response.error.message)));
    connection.once("error", reject);
  });
}

const apis = { chat, responses, messages, google };

async function run(job) {
  if (job.job === "socket") return socket(job);
  const signal = job.leaves_after ? AbortSignal.timeout(job.leaves_after) : undefined;
  try {
    return await apis[job.api].ask(job, signal);
  } catch (error) {
    const { name, status, code, type, message } = error;
    return { error: { name: error.constructor === Error ? name : error.constructor.name, status, code, type, message } };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  run(job)
    .catch((error) => ({ broken: String(error.stack) }))
    .then((result) => process.stdout.write(`${JSON.stringify({ ...result, number: job.number })}\n`));
}

// The table of everything recorded: which protocol each folder speaks and in whose dialect, what a recording says when it
// is put together by other code than our parsers', and what of it is known not to be read.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ChatEvent } from '../../src/conversation/event.ts'
import type { JsonObject } from '../../src/conversation/request.ts'
import { frameDecoder } from '../../src/protocols/framing/decoder.ts'
import { type Frame, maxFrameCharacters } from '../../src/protocols/framing/sse.ts'
import type { Outbound, ProtocolId, Target } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { providerById } from '../../src/providers/registry.ts'
import { type Case, cases, parseFrames } from '../support/recordings.ts'

/** How the counters of a chat-completions host become canonical; written down again so that the code is not its own witness. */
type Counting =
  'as-is' | 'reasoning-beside' | 'reasoning-beside-if-larger' | 'prompt-from-total' | 'completion-from-total'

export interface RecordedHost {
  /** The folder of the recordings. */
  readonly folder: string
  readonly protocol: ProtocolId
  /** What deviates from the protocol's own defaults. */
  readonly quirks: Readonly<Record<string, unknown>>
  readonly counting: Counting
}

interface Row {
  readonly folder: string
  /** The provider whose row says what is special about it. */
  readonly row?: string
  /** What an operator would set for a server without a row. */
  readonly quirks?: Readonly<Record<string, unknown>>
  readonly counting?: Counting
}

const rows: Readonly<Partial<Record<ProtocolId, readonly Row[]>>> = {
  'openai-chat': [
    { folder: 'openai-chat', row: 'openai' },
    { folder: 'azure-chat', row: 'azure' },
    { folder: 'groq', row: 'groq' },
    { folder: 'deepseek', row: 'deepseek' },
    { folder: 'mistral', row: 'mistral', counting: 'prompt-from-total' },
    { folder: 'xai-chat', row: 'xai', counting: 'reasoning-beside' },
    { folder: 'together', row: 'together' },
    { folder: 'fireworks', row: 'fireworks' },
    { folder: 'cerebras', row: 'cerebras' },
    { folder: 'openrouter', row: 'openrouter' },
    { folder: 'perplexity', row: 'perplexity' },
    // The row of Ollama speaks its own protocol; this is its other endpoint.
    { folder: 'ollama-openai', quirks: { reasoningEcho: 'reasoning', thinkTags: true, fileParts: 'none' } },
    { folder: 'llamacpp', row: 'llamacpp' },
    { folder: 'vllm', row: 'vllm' },
    { folder: 'zai', row: 'zai' },
    { folder: 'alibaba', row: 'alibaba' },
    { folder: 'huggingface-router', row: 'huggingface' },
    { folder: 'gpustack', row: 'gpustack' },
    { folder: 'cohere-openai-compat' },
    {
      folder: 'gemini-openai-compat',
      quirks: { thoughtSignatures: true },
      counting: 'completion-from-total',
    },
    { folder: 'bedrock-mantle-chat' },
    { folder: 'vercel-gateway', row: 'vercel', counting: 'reasoning-beside-if-larger' },
  ],
  'openai-responses': [
    { folder: 'openai-responses', row: 'openai' },
    { folder: 'azure-responses', row: 'azure' },
    { folder: 'xai-responses', row: 'xai' },
    { folder: 'deepseek-responses', quirks: { reasoningFormat: 'unknown', encryptedReasoning: false } },
    { folder: 'openrouter-responses', quirks: { reasoningFormat: 'unknown', reportedCost: 'usage.cost' } },
    { folder: 'bedrock-mantle-responses' },
    { folder: 'lmstudio-responses', quirks: { reasoningFormat: 'unknown', encryptedReasoning: false } },
  ],
  'anthropic-messages': [
    { folder: 'anthropic', row: 'anthropic' },
    { folder: 'vertex-anthropic', row: 'vertexclaude' },
    { folder: 'bedrock-invoke-anthropic', row: 'bedrockclaude' },
  ],
  gemini: [
    { folder: 'gemini', row: 'gemini' },
    { folder: 'vertex-gemini', row: 'vertex' },
  ],
  'bedrock-converse': [{ folder: 'bedrock-converse', row: 'bedrock' }],
  cohere: [{ folder: 'cohere-v2', row: 'cohere' }],
  ollama: [{ folder: 'ollama-native', row: 'ollama' }],
}

/** What a provider's row says of its protocol, or of the other one that it speaks to some models. */
function quirksIn(id: string, protocol: ProtocolId): Readonly<Record<string, unknown>> {
  const row = providerById(id)
  const spoken = row && [row, ...(row.dialects ?? [])].find((each) => each.protocol === protocol)
  if (spoken === undefined) throw new Error(`no row ${id} speaks ${protocol}`)
  return spoken.quirks as Readonly<Record<string, unknown>>
}

export const recordedHosts: readonly RecordedHost[] = Object.entries(rows).flatMap(([name, all]) =>
  all.map(({ folder, row, quirks = {}, counting = 'as-is' }) => {
    const protocol = name as ProtocolId
    return {
      folder,
      protocol,
      quirks: row === undefined ? quirks : quirksIn(row, protocol),
      counting,
    }
  }),
)

export const hostsOf = (protocol: ProtocolId) => recordedHosts.filter((host) => host.protocol === protocol)

/** The protocol of a host, and a target for the model of a recording. */
export function spokenBy(
  host: Pick<RecordedHost, 'protocol' | 'quirks'>,
  recorded: Pick<Case, 'meta'>,
): { outbound: Outbound; target: Target } {
  const outbound = outbounds[host.protocol]
  if (!outbound) throw new Error(`${host.protocol} is not built`)
  const target: Target = {
    model: recorded.meta.model ?? 'some-model',
    provider: 'some-provider',
    quirks: { ...(outbound.defaultQuirks as object), ...host.quirks },
    maxOutputTokens: undefined,
    reasoning: true,
    rememberedSignature: () => undefined,
  }
  return { outbound, target }
}

// ---- the answers ------------------------------------------------------------------------------------------

export interface Answer {
  /** The recording's name; numbered where its file holds several responses, one after the other. */
  readonly name: string
  readonly host: RecordedHost
  readonly recorded: Case
  /** Of a stream. */
  readonly frames: readonly Frame[] | undefined
  /** The JSON that came: of each frame, or of the one body. None of a refusal. */
  readonly chunks: readonly JsonObject[]
  readonly events: readonly ChatEvent[]
}

/** The frames of a recorded stream whose bytes arrive in these pieces. */
export function framesIn(host: RecordedHost, recorded: Case, pieces: Iterable<Uint8Array>): Frame[] {
  const { outbound, target } = spokenBy(host, recorded)
  const decoder = frameDecoder(outbound.framingFor?.(target) ?? outbound.framing, maxFrameCharacters)
  const frames: Frame[] = []
  for (const piece of pieces) frames.push(...decoder.push(piece))
  return [...frames, ...decoder.end()]
}

/** Gemini that is not asked for events streams one array. */
export function isArray(bytes: Uint8Array): boolean {
  return bytes[0] === '['.charCodeAt(0)
}

/** The answers of a recording as events: one, unless its file holds several responses. */
export function answersOf(host: RecordedHost, recorded: Case): readonly (readonly ChatEvent[])[] {
  return answersIn(host, recorded).map(({ events }) => events)
}

/** Every recorded answer that ended well, by its name. */
export function endedAnswers(): readonly (readonly [string, readonly ChatEvent[]])[] {
  return recordedHosts.flatMap((host) =>
    cases(host.folder).flatMap((recorded) =>
      answersOf(host, recorded)
        .filter((events) => events.at(-1)?.kind === 'finish')
        .map((events, at) => [`${host.folder}/${recorded.id} ${at}`, events] as const),
    ),
  )
}

function answersIn(host: RecordedHost, recorded: Case): Answer[] {
  const { outbound, target } = spokenBy(host, recorded)
  const one = { name: `${host.folder}/${recorded.id}`, host, recorded, frames: undefined }
  if (!recorded.streamed && recorded.status >= 400) {
    const fault = outbound.fault(recorded.status, recorded.headers, recorded.responseText(), target)
    return [{ ...one, chunks: [], events: [{ kind: 'error', fault }] }]
  }
  const bytes = recorded.streamed ? recorded.stream() : undefined
  if (bytes === undefined || isArray(bytes)) {
    const body = bytes === undefined ? recorded.response() : JSON.parse(new TextDecoder().decode(bytes))
    return [{ ...one, chunks: [body].flat(), events: outbound.whole(body, target) }]
  }
  const turns = turnsOf(framesIn(host, recorded, [bytes]))
  return turns.map((frames, at) => ({
    ...one,
    name: turns.length === 1 ? one.name : `${one.name} #${at + 1}`,
    frames,
    chunks: frames.flatMap(({ data }) => (data.trim() === '[DONE]' ? [] : [chunkIn(data)])),
    events: parseFrames(outbound.parser(target), frames),
  }))
}

/** Bedrock wraps the events of others. */
function chunkIn(data: string): JsonObject {
  const chunk = JSON.parse(data) as JsonObject
  if (typeof chunk['bytes'] !== 'string') return chunk
  return JSON.parse(Buffer.from(chunk['bytes'], 'base64').toString()) as JsonObject
}

/** A response of the Responses protocol begins with an event of its own: what comes before belongs to another. */
function turnsOf(frames: readonly Frame[]): Frame[][] {
  const turns: Frame[][] = []
  for (const frame of frames) {
    if (turns.length === 0 || frame.data.startsWith('{"type":"response.created"')) turns.push([])
    turns.at(-1)!.push(frame)
  }
  return turns.length === 0 ? [[]] : turns
}

const known = new Map<string, readonly Answer[]>()

/** Every recorded answer of these folders; each is read once. */
export function recordedAnswers(hosts: readonly RecordedHost[] = recordedHosts): readonly Answer[] {
  return hosts.flatMap((host) => {
    const all = known.get(host.folder) ?? cases(host.folder).flatMap((recorded) => answersIn(host, recorded))
    known.set(host.folder, all)
    return all
  })
}

// ---- what a recording says --------------------------------------------------------------------------------

/** What is left out is not compared. */
export interface Said {
  readonly id?: string
  readonly text?: string
  readonly thoughts?: string
  /** The signatures and the opaque data of its reasoning, in order. */
  readonly seals?: readonly (string | undefined)[]
  readonly calls?: readonly { id?: string; name?: string; input: unknown; signature?: string | undefined }[]
  /** The reason for its end in the provider's words. */
  readonly end?: string
  /** Null where nothing was counted. */
  readonly counted?: Counted | null
}

export interface Counted {
  readonly prompt: number
  readonly completion: number
  readonly cached?: number
  readonly written?: number
  readonly writtenForAnHour?: number
  readonly reasoning?: number
  readonly searches?: number
  /** In dollars, where the host tells it. */
  readonly cost?: string
}

/** What the provider said, if it gave an answer. */
export function saidBy({ host, ...answer }: Answer): Said | undefined {
  const refused = [...answer.recorded.features].some((name) => failure.test(name))
  if (refused || misplaced.test(answer.name)) return undefined
  return readers[host.protocol]?.({ host, ...answer })
}

/** A chat completion that a host of the Responses protocol answered. */
const misplaced = /json-reasoning--deepseek-v4-pro--vaif46773/

/** A feature of the recordings that are errors, however they began. */
export const failure = /^(error:.*|midstream_error|fin:(ERROR|MALFORMED_FUNCTION_CALL|UNEXPECTED_TOOL_CALL))$/

type Numbers = Readonly<Record<string, number>>
const readers: Readonly<Partial<Record<ProtocolId, (answer: Answer) => Said>>> = {
  'openai-chat': chatSaid,
  'openai-responses': responseSaid,
  'anthropic-messages': claudeSaid,
  gemini: geminiSaid,
  'bedrock-converse': converseSaid,
  cohere: cohereSaid,
  ollama: ollamaSaid,
}

interface ChatUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
  readonly prompt_tokens_details?: { cached_tokens?: number }
  readonly completion_tokens_details?: { reasoning_tokens?: number }
  readonly cached_tokens?: number
  readonly num_cached_tokens?: number
}

/** Its counters alone: the texts of 22 dialects are in the golden summaries. */
function chatSaid({ chunks, host }: Answer): Said {
  const usages = (chunks as readonly { usage?: ChatUsage | null; x_groq?: { usage?: ChatUsage } }[]).map(
    (chunk) => chunk.usage ?? chunk.x_groq?.usage,
  )
  const raw = usages.findLast((usage) => usage != null)
  if (raw == null) return { counted: null }
  const reasoning = raw.completion_tokens_details?.reasoning_tokens ?? 0
  const beside =
    host.counting === 'reasoning-beside' ||
    (host.counting === 'reasoning-beside-if-larger' && reasoning > raw.completion_tokens)
  const prompt =
    host.counting === 'prompt-from-total' ? raw.total_tokens - raw.completion_tokens : raw.prompt_tokens
  const completion =
    host.counting === 'completion-from-total'
      ? raw.total_tokens - raw.prompt_tokens
      : raw.completion_tokens + (beside ? reasoning : 0)
  const cached = raw.prompt_tokens_details?.cached_tokens ?? raw.cached_tokens ?? raw.num_cached_tokens ?? 0
  return { counted: { prompt, completion, cached: Math.min(cached, prompt) } }
}

export interface ResponsesBody extends JsonObject {
  readonly id: string
  readonly status: string
  readonly output: JsonObject[]
}

/** The response as the provider ended it. */
export function responseIn({ frames, chunks }: Answer): ResponsesBody {
  const ended = frames === undefined ? chunks[0] : chunks.findLast(({ response }) => response)?.['response']
  const body = ended as ResponsesBody
  return { ...body, output: body.output ?? [] }
}

function responseSaid(answer: Answer): Said {
  const { id, output, usage } = responseIn(answer)
  const {
    input_tokens,
    output_tokens,
    input_tokens_details,
    output_tokens_details,
    cost,
    cost_in_usd_ticks: ticks,
  } = usage as {
    input_tokens: number
    output_tokens: number
    input_tokens_details?: Numbers
    output_tokens_details?: Numbers
    cost?: number
    cost_in_usd_ticks?: number
  }
  const told = cost ?? (ticks === undefined ? undefined : ticks / 1e10)
  const parts = output.flatMap(({ type, content }) => (type === 'message' ? (content as JsonObject[]) : []))
  return {
    id,
    text: parts.map(({ type, text }) => (type === 'output_text' ? text : '')).join(''),
    calls: output.flatMap(({ type, call_id, name, arguments: json, input, action }) => {
      const id = String(call_id)
      if (type === 'function_call') return [{ id, name: String(name), input: JSON.parse(String(json)) }]
      if (type === 'custom_tool_call') return [{ id, name: String(name), input: { input } }]
      const { type: _, ...run } = (action ?? {}) as JsonObject
      return type === 'local_shell_call' || type === 'shell_call'
        ? [{ id, name: type.replace('_call', ''), input: run }]
        : []
    }),
    counted: {
      prompt: input_tokens,
      completion: output_tokens,
      cached: input_tokens_details?.['cached_tokens'] ?? 0,
      written: input_tokens_details?.['cache_write_tokens'] ?? 0,
      reasoning: output_tokens_details?.['reasoning_tokens'] ?? 0,
      ...(told === undefined ? {} : { cost: told.toFixed(10) }),
    },
  }
}

interface ClaudeBlock extends JsonObject {
  type: string
}

interface ClaudeEvent {
  readonly type?: string
  readonly index: number
  readonly message: { usage: JsonObject }
  readonly usage?: JsonObject
  readonly content_block: ClaudeBlock
  readonly delta: Readonly<Record<string, string>>
}

/** The content blocks of one of Claude's answers, its usage and why it stopped. */
export function claudeMessage({ frames, chunks }: Answer) {
  if (frames === undefined) {
    const { content, usage, stop_reason: stop } = chunks[0]!
    return { content: content as ClaudeBlock[], usage: usage as JsonObject, stop: String(stop) }
  }
  const content: ClaudeBlock[] = []
  const usage: JsonObject = {}
  let stop = ''
  for (const event of chunks as unknown as ClaudeEvent[]) {
    const { type, index, delta } = event
    if (type === 'message_start') Object.assign(usage, event.message.usage)
    if (type === 'content_block_start') content[index] = { ...event.content_block, json: '' }
    if (type === 'message_delta') {
      Object.assign(usage, event.usage)
      stop = delta['stop_reason']!
    }
    if (type !== 'content_block_delta') continue
    const block = content[index]!
    if (delta['type'] === 'text_delta') block['text'] += delta['text']!
    if (delta['type'] === 'thinking_delta') block['thinking'] += delta['thinking']!
    if (delta['type'] === 'signature_delta') block['signature'] = delta['signature']!
    if (delta['type'] === 'input_json_delta') block['json'] += delta['partial_json']!
  }
  for (const block of content) if (block['json']) block['input'] = JSON.parse(String(block['json']))
  return { content, usage, stop }
}

function claudeSaid(answer: Answer): Said {
  // Claude 2 on Bedrock completes texts, in the protocol before this one.
  if (answer.chunks.some((chunk) => 'completion' in chunk)) {
    const text = answer.chunks.map(({ completion }) => completion).join('')
    return { text, end: String(answer.chunks.at(-1)!['stop_reason']) }
  }
  const { content, usage, stop } = claudeMessage(answer)
  const ofType = (type: RegExp) => content.filter((block) => type.test(block.type))
  const thoughts = ofType(/thinking$/)
  // Rounds of a compaction or of an advisor are counted one by one; the top level leaves them out.
  const rounds = (usage['iterations'] ?? [usage]) as Numbers[]
  const sum = (...fields: string[]) =>
    rounds.reduce((total, round) => fields.reduce((all, field) => all + (round[field] ?? 0), total), 0)
  const inside = (field: string, name: string) => (usage[field] as Numbers | undefined | null)?.[name] ?? 0
  return {
    text: ofType(/^text$/)
      .map(({ text }) => text)
      .join(''),
    thoughts: thoughts.map(({ thinking }) => thinking ?? '').join(''),
    seals: thoughts.map(({ signature, data }) => String(signature ?? data)),
    calls: ofType(/^tool_use$/).map(({ id, name, input }) => ({
      id: String(id),
      name: String(name),
      input,
    })),
    end: stop,
    counted: {
      prompt: sum('input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens'),
      completion: sum('output_tokens'),
      cached: sum('cache_read_input_tokens'),
      writtenForAnHour: inside('cache_creation', 'ephemeral_1h_input_tokens'),
      reasoning: inside('output_tokens_details', 'thinking_tokens'),
      searches: inside('server_tool_use', 'web_search_requests'),
    },
  }
}

interface GeminiChunk {
  readonly candidates?: {
    readonly content?: {
      readonly parts?: {
        text?: string
        thought?: boolean
        thoughtSignature?: string
        functionCall?: { name: string; args?: object }
      }[]
    }
  }[]
  readonly usageMetadata?: Numbers
}

function geminiSaid({ chunks }: Answer): Said {
  const raw = chunks as unknown as GeminiChunk[]
  const parts = raw.flatMap(({ candidates }) => candidates?.[0]?.content?.parts ?? [])
  const joined = (thoughts: boolean) =>
    parts.map(({ text = '', thought = false }) => (thought === thoughts ? text : '')).join('')
  const usages = raw.map(({ usageMetadata }) => usageMetadata)
  const usage = usages.findLast((each) => each?.['totalTokenCount'] !== undefined)
  const count = (...names: string[]) => names.reduce((sum, name) => sum + (usage?.[name] ?? 0), 0)
  return {
    text: joined(false),
    thoughts: joined(true),
    calls: parts.flatMap(({ functionCall: call, thoughtSignature: signature }) =>
      call === undefined ? [] : [{ name: call.name, input: call.args ?? {}, signature }],
    ),
    counted:
      usage === undefined
        ? null
        : {
            prompt: count('promptTokenCount', 'toolUsePromptTokenCount'),
            completion: count('totalTokenCount') - count('promptTokenCount', 'toolUsePromptTokenCount'),
            cached: count('cachedContentTokenCount'),
            reasoning: count('thoughtsTokenCount'),
          },
  }
}

interface ConverseBlock {
  text?: string
  toolUse?: { toolUseId: string; name: string; input?: unknown; type?: string; json?: string }
  reasoningContent?: { reasoningText?: { text?: string; signature?: string }; redactedContent?: string }
  citationsContent?: { content: { text: string }[] }
}

/** The events that lie decoded beside a stream of Bedrock's. */
export function decodedEvents({ dir }: Case) {
  const lines = readFileSync(join(dir, 'stream.events.jsonl'), 'utf8').trim().split('\n')
  return lines.map((line) => {
    const { headers, payload } = JSON.parse(line)
    return { event: String(headers[':event-type']), payload: payload as JsonObject }
  })
}

function converseMessage({ frames, chunks, recorded }: Answer) {
  const blocks: ConverseBlock[] = []
  if (frames === undefined) {
    const { output, stopReason, usage } = chunks[0] as unknown as {
      output: { message: { content: ConverseBlock[] } }
      stopReason: string
      usage: Numbers
    }
    return { blocks: output.message.content, stop: stopReason, usage }
  }
  let stop = ''
  let usage: Numbers = {}
  for (const { event, payload } of decodedEvents(recorded)) {
    const {
      contentBlockIndex,
      start,
      delta,
      stopReason,
      usage: counted,
    } = JSON.parse(JSON.stringify(payload))
    const block: ConverseBlock = (blocks[contentBlockIndex ?? 999] ??= {})
    if (event === 'contentBlockStart') block.toolUse = { ...start.toolUse, json: '' }
    const { text, toolUse, reasoningContent: thought } = delta ?? {}
    if (text !== undefined) block.text = (block.text ?? '') + text
    if (toolUse) block.toolUse!.json += toolUse.input
    if (thought?.redactedContent)
      block.reasoningContent = { ...block.reasoningContent, redactedContent: thought.redactedContent }
    else if (thought) {
      const { text: before, ...known } = block.reasoningContent?.reasoningText ?? {}
      block.reasoningContent = {
        reasoningText: { ...known, ...thought, text: (before ?? '') + (thought.text ?? '') },
      }
    }
    stop = stopReason ?? stop
    usage = counted ?? usage
  }
  return { blocks: blocks.filter(Boolean), stop, usage }
}

function converseSaid(answer: Answer): Said {
  const { blocks, stop, usage } = converseMessage(answer)
  const thoughts = blocks.flatMap(({ reasoningContent }) => reasoningContent ?? [])
  const { cacheReadInputTokens: read = 0, cacheWriteInputTokens: written = 0 } = usage
  return {
    text: blocks
      .flatMap(({ text = '', citationsContent: cited }) => [
        text,
        ...(cited?.content ?? []).map((c) => c.text),
      ])
      .join(''),
    thoughts: thoughts.map(({ reasoningText }) => reasoningText?.text ?? '').join(''),
    // Bedrock writes what is encrypted in base64 once more.
    seals: thoughts.map(({ reasoningText, redactedContent }) =>
      redactedContent ? Buffer.from(redactedContent, 'base64').toString() : reasoningText?.signature,
    ),
    calls: blocks.flatMap(({ toolUse: use }) =>
      use?.name && use.type !== 'server_tool_use'
        ? [
            {
              id: use.toolUseId,
              name: use.name,
              input: use.json === undefined ? use.input : JSON.parse(use.json || '{}'),
            },
          ]
        : [],
    ),
    end: stop,
    counted: {
      prompt: usage['inputTokens']! + read + written,
      completion: usage['totalTokens']! - usage['inputTokens']! - read - written,
      cached: read,
      written,
    },
  }
}

interface CohereCall {
  readonly id: string
  readonly function: { readonly name: string; readonly arguments: string }
}

interface CohereMessage {
  readonly tool_plan?: string
  readonly content?: { text?: string; thinking?: string }[]
  readonly tool_calls?: CohereCall[]
}

interface CohereUsage {
  readonly tokens: Numbers
  readonly billed_units: Numbers
  readonly cached_tokens?: number
}

/** What an answer of Cohere ends with. */
export function cohereEnd({ frames, chunks }: Answer) {
  const end = frames === undefined ? chunks[0] : chunks.find(({ type }) => type === 'message-end')?.['delta']
  return end as unknown as { finish_reason: string; usage: CohereUsage }
}

function cohereSaid(answer: Answer): Said {
  const { finish_reason: end, usage } = cohereEnd(answer)
  let [text, thoughts] = ['', '']
  const calls: { id: string; name: string; json: string }[] = []
  for (const { type = '', message, delta } of answer.chunks as unknown as {
    type?: string
    message?: CohereMessage
    delta?: { message?: unknown }
  }[]) {
    // Of a stream: each piece of content and each call is one by itself, where it is a list in a whole answer.
    const said = (message ?? delta?.message ?? {}) as CohereMessage
    const called = [said.tool_calls ?? []].flat()
    if (message !== undefined || type.endsWith('-delta')) text += said.tool_plan ?? ''
    if (message !== undefined || type === 'content-delta') {
      for (const block of [said.content ?? []].flat()) {
        text += block.text ?? ''
        thoughts += block.thinking ?? ''
      }
    }
    if (type === 'tool-call-delta') calls.at(-1)!.json += called[0]!.function.arguments
    else if (type !== 'tool-call-end')
      for (const { id, function: made } of called)
        calls.push({ id, name: made.name, json: type === '' ? made.arguments : '' })
  }
  return {
    text,
    thoughts,
    calls: calls.map(({ id, name, json }) => ({ id, name, input: JSON.parse(json || '{}') ?? {} })),
    end,
    counted: {
      prompt: usage.tokens['input_tokens']!,
      completion: usage.tokens['output_tokens']!,
      cached: usage.cached_tokens ?? 0,
      reasoning: usage.tokens['reasoning_tokens'] ?? 0,
    },
  }
}

interface OllamaLine {
  readonly message: {
    content: string
    thinking?: string
    tool_calls?: { id?: string; function: { name: string; arguments: unknown } }[]
  }
  readonly done_reason: string
  readonly prompt_eval_count: number
  readonly eval_count: number
}

function ollamaSaid({ chunks }: Answer): Said {
  const lines = chunks as unknown as OllamaLine[]
  const last = lines.at(-1)!
  return {
    text: lines.map(({ message }) => message.content).join(''),
    thoughts: lines.map(({ message }) => message.thinking ?? '').join(''),
    calls: lines.flatMap(({ message }) =>
      (message.tool_calls ?? []).map(({ id, function: { name, arguments: input } }) => ({
        id: id!,
        name,
        input,
      })),
    ),
    end: last.done_reason,
    counted: { prompt: last.prompt_eval_count, completion: last.eval_count },
  }
}

// ---- what is not read -------------------------------------------------------------------------------------

export type Feature =
  | 'text'
  | 'tool'
  | 'parallel'
  | 'reasoning'
  | 'signature'
  | 'structured'
  | 'image'
  | 'document'
  | 'audio'
  | 'citations'
  | 'error'
  | 'usage'

/** What a recording is known to hold and is not read, with the reason. */
export const excuses: readonly {
  readonly why: string
  readonly feature: Feature
  readonly cases: readonly string[]
}[] = [
  {
    why: 'its reasoning items have no words and nothing encrypted: there is nothing to show or to send back',
    feature: 'reasoning',
    cases: [
      'azure-responses/json-tool-reasoning--gpt-5-mini--fanb07d92',
      'azure-responses/json-tool-reasoning--o4-mini--fan4b751d',
      'azure-responses/json-tool-result-reasoning--o4-mini--fanf8020f',
      'azure-responses/stream-server-tool-reasoning--gpt-5-mini--vai7aeb37',
      'azure-responses/stream-tool-reasoning--gpt-5-mini--fana3f0cf',
      'azure-responses/stream-tool-result-reasoning--gpt-5-mini--fanbe43bf',
      'openai-responses/json-cache-write-reasoning--gpt-5.6-sol--ddtf1634e',
      'openai-responses/json-image-reasoning--o4-mini-2025-04-16--ddt20b1fe',
      'openai-responses/json-reasoning--gpt-5--ddtfb04de',
      'openai-responses/json-reasoning--gpt-5-codex--vaibe11f5',
      'openai-responses/json-reasoning--o3-mini--pai341921',
      'openai-responses/stream-parallel-tools-reasoning--gpt-5--fan1208a0',
    ],
  },
  {
    why: 'a flag on the message says that it thought; no words of it came',
    feature: 'reasoning',
    cases: [
      'gemini-openai-compat/json-tool-reasoning--gemini-2.5-pro-preview-05-06--pai80376a',
      'gemini-openai-compat/json-tool-result-reasoning--gemini-2.5-pro-preview-05-06--paib8ff2a',
    ],
  },
  {
    why: 'a chat completion that a host of another protocol answered: refused as not the protocol',
    feature: 'text',
    cases: ['azure-responses/json-reasoning--deepseek-v4-pro--vaif46773'],
  },
  {
    why: 'a chat completion that a host of another protocol answered: refused as not the protocol',
    feature: 'reasoning',
    cases: ['azure-responses/json-reasoning--deepseek-v4-pro--vaif46773'],
  },
  {
    why: 'nothing but reasoning came: its only text is there',
    feature: 'text',
    cases: [
      'bedrock-converse/json-reasoning--qwen.qwen3-32b-v1-0--pai9020cf',
      'bedrock-converse/json-tool-reasoning--moonshot.kimi-k2-thinking--paid44df5',
      'together/json-max-tokens--deepseek-r1--pai006da6',
    ],
  },
  {
    why: 'one of the calls is of a tool that the provider ran itself: it is not the client who answers it',
    feature: 'parallel',
    cases: [
      'bedrock-converse/json-parallel-tools--us.amazon.nova-2-lite-v1-0--pai9c9342',
      'bedrock-converse/json-parallel-tools--us.amazon.nova-2-lite-v1-0--paia543f2',
      'bedrock-converse/stream-parallel-tools--us.amazon.nova-2-lite-v1-0--pai70f682',
    ],
  },
  {
    why: 'four responses in one recording, with one call each',
    feature: 'parallel',
    cases: ['azure-responses/stream-parallel-tools-reasoning-sig--gpt-5.1-codex-max--vai7d2e2d'],
  },
  {
    why: 'cites a document or a tool, which has no address: annotations are of addresses alone',
    feature: 'citations',
    cases: [
      'anthropic/stream-citations--claude-haiku-4-5-20251001--rubb36136',
      'bedrock-converse/json-citations--us.anthropic.claude-haiku-4-5-2025--rub8a630a',
      'cohere-v2/json-citations--command-r--lcc567bf3',
      'cohere-v2/stream-citations--command-a-03-2025--rub698c15',
      'cohere-v2/stream-citations-reasoning--command-a-plus-05-2026--rub3c5392',
    ],
  },
  {
    why: 'lists what was searched, or where text may come from, and cites none of it for any of the answer',
    feature: 'citations',
    cases: [
      'gemini/json-citations--gemini-2.5-flash--btjb48110',
      'groq/json-citations-reasoning--compound-beta--pai92dae7',
      'groq/stream-citations-reasoning--compound-beta--pai2ad769',
      'vertex-gemini/json-citations--gemini-2.5-flash--rubdd09d7',
    ],
  },
  {
    why: 'answered in prose: no format was asked for, its field was null or the transcript is plain text',
    feature: 'structured',
    cases: [
      'gemini/json-audio--gemini-2.5-flash--rub6f9788',
      'openai-chat/json-structured--gpt-4o--oin3af150',
      'together/json-structured--mixtral-8x7b-instruct-v0.1--olm7cb8a5',
      'vertex-gemini/json-audio--gemini-2.5-flash--rub10c0d1',
      'vertex-gemini/json-audio--gemini-2.5-flash--rub8d2961',
    ],
  },
  {
    why: 'refused to answer, and a refusal is prose',
    feature: 'structured',
    cases: ['openai-chat/json-refusal--gpt-4o--olmba5f53'],
  },
]

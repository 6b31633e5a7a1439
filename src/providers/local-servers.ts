// Local inference servers: whether they answer, their models and facts about them.

import type { JsonObject } from '../conversation/request.ts'
import { isObject, nonEmpty } from '../protocols/lenient.ts'
import { fetchBounded } from '../transport/bounded-body.ts'
import type { ProtocolId } from '../protocols/protocol.ts'
import type { Provider } from './provider.ts'

/** A model as its server lists it. */
interface LocalModel {
  /** Its name at the server. */
  readonly name: string
  /** Tokens of prompt and output together, if the server says. */
  readonly contextLength?: number | undefined
  /** Whether it only makes embeddings. */
  readonly embeds: boolean
}

export interface LocalServer {
  readonly id: string
  readonly baseUrl: string
  readonly models: readonly LocalModel[]
}

/** The result of listing a server's models. */
export type Listed =
  | { readonly kind: 'models'; readonly models: readonly LocalModel[] }
  /** No server listens there, or another kind of server. */
  | { readonly kind: 'absent' }
  /** A server listens but did not answer in time or is not ready, which may happen under load. */
  | { readonly kind: 'busy' }

/** Facts of single models, cached so that they need not be requested again. */
export type KnownFacts = Map<string, Omit<LocalModel, 'name'>>

type Askable = Pick<Provider, 'baseUrl' | 'protocol' | 'headers' | 'modelList'> & {
  readonly keys?: readonly (string | undefined)[]
}

/** Lists of models are short; a longer answer is from another kind of server. */
const maxListBytes = 1_000_000
/** Facts are requested only for this many models of a server. */
const maxFacts = 64

/** Lists a server's models, waiting at most `timeoutMs` per request. `known` facts of unchanged models are reused. */
export async function modelsOf(
  provider: Askable,
  timeoutMs: number,
  known: KnownFacts = new Map(),
): Promise<Listed> {
  const ask = (path: string, body?: object) => answerOf(provider, path, timeoutMs, body)
  const list = listings[provider.protocol] ?? usualList
  return list(provider, ask, known)
}

type Ask = (path: string, body?: object) => Promise<unknown>
type List = (provider: Askable, ask: Ask, known: KnownFacts) => Promise<Listed>

const absent: Listed = { kind: 'absent' }
/** The result of `ask` if a server listens but did not answer in time. */
const busy = Symbol('busy')

/** `GET /models`, as OpenAI lists them; servers add their own facts to each entry. */
const usualList: List = async ({ baseUrl, modelList }, ask) => {
  const detailed = modelList === undefined ? undefined : await ask(new URL(modelList, baseUrl).href)
  const answer = isObject(detailed) ? detailed : await ask(`${baseUrl}/models`)
  if (answer === busy) return { kind: 'busy' }
  if (!isObject(answer) || !Array.isArray(answer['data'])) return absent
  const entries = answer['data'].filter(isObject)
  // llama.cpp lists the context that the model was trained for; the configured one is in another answer.
  const props = entries.some((entry) => entry['owned_by'] === 'llamacpp')
    ? await ask(new URL('/props', baseUrl).href)
    : undefined
  const started = isObject(props) ? intIn(props['default_generation_settings'], ['n_ctx']) : undefined
  return {
    kind: 'models',
    models: entries.flatMap((entry) => {
      const name = nonEmpty(entry['id'])
      const contextLength = started ?? intIn(entry, contextNames) ?? intIn(entry['meta'], contextNames)
      return name === undefined ? [] : [{ name, contextLength, embeds: embeds(name, entry) }]
    }),
  }
}

/**
 * `GET /api/tags`, then `POST /api/show` for each model.
 * Source: Ollama's API reference, "List local models" and "Show model information".
 */
const ollamaList: List = async ({ baseUrl }, ask, known) => {
  const answer = await ask(`${baseUrl}/api/tags`)
  if (answer === busy) return { kind: 'busy' }
  if (!isObject(answer) || !Array.isArray(answer['models'])) return absent
  const tags = answer['models'].filter(isObject).flatMap((tag) => {
    const name = nonEmpty(tag['name'])
    return name === undefined ? [] : [{ name, tag, version: `${baseUrl} ${name} ${nonEmpty(tag['digest'])}` }]
  })
  const unknown = tags.filter(({ version }) => !known.has(version)).slice(0, maxFacts)
  await Promise.all(
    unknown.map(async ({ name, version }) => {
      const shown = await ask(`${baseUrl}/api/show`, { model: name })
      if (isObject(shown)) known.set(version, ollamaFacts(name, shown))
    }),
  )
  const models = tags.map(({ name, tag, version }) => ({
    name,
    ...(known.get(version) ?? { embeds: embeds(name, tag) }),
  }))
  return { kind: 'models', models }
}

const listings: Readonly<Partial<Record<ProtocolId, List>>> = { ollama: ollamaList }

function ollamaFacts(name: string, shown: JsonObject): Omit<LocalModel, 'name'> {
  const info = isObject(shown['model_info']) ? shown['model_info'] : {}
  const trained = Object.keys(info).filter((key) => key.endsWith('.context_length'))
  // The model file may set a smaller context than the model was trained for.
  const asked = /^num_ctx\s+(\d+)$/m.exec(nonEmpty(shown['parameters']) ?? '')?.[1]
  return {
    contextLength: asked === undefined ? intIn(info, trained) : Number(asked),
    embeds: embeds(name, shown),
  }
}

/** Fields with the context length: vLLM, SGLang, LM Studio (loaded before maximum), llama.cpp's `meta`. */
const contextNames = [
  'max_model_len',
  'loaded_context_length',
  'max_context_length',
  'context_length',
  'context_window',
  'n_ctx',
  'n_ctx_train',
]

const embeddingNames = /(^|[^a-z])(embed(ding)?s?|bge|gte|e5|minilm|arctic-embed)([^a-z]|$)/i
const otherNames = /rerank/i

/** Whether the server says that it is an embedding model; otherwise by its name. */
function embeds(name: string, entry: JsonObject): boolean {
  const capabilities = entry['capabilities']
  if (Array.isArray(capabilities))
    return capabilities.includes('embedding') && !capabilities.includes('completion')
  const type = entry['type']
  if (typeof type === 'string') return /^embeddings?$/.test(type)
  return embeddingNames.test(name) && !otherNames.test(name)
}

/** The JSON of a server's answer; `busy` if it does not answer in time, undefined if there is no usable answer. */
async function answerOf(
  { headers, keys }: Askable,
  url: string,
  timeoutMs: number,
  body: object | undefined,
): Promise<unknown> {
  const key = keys?.[0]
  try {
    const response = await fetchBounded(
      url,
      {
        signal: AbortSignal.timeout(timeoutMs),
        redirect: 'manual',
        headers: {
          ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      },
      // Whatever listens at the port may send without end.
      maxListBytes,
    )
    if (response.ok) return await response.json()
    await response.body?.cancel()
    return response.status === 503 ? busy : undefined
  } catch (thrown) {
    return thrown instanceof DOMException && thrown.name === 'TimeoutError' ? busy : undefined
  }
}

/** The first of these that is a positive whole number. */
function intIn(from: unknown, keys: readonly string[]): number | undefined {
  if (!isObject(from)) return undefined
  return keys
    .map((key) => from[key])
    .find((value): value is number => typeof value === 'number' && Number.isSafeInteger(value) && value > 0)
}

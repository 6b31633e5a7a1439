// A gateway in front of mock providers, for journeys: its configuration in a few words, and what its clients can see.

import { type RunningWeir, startWeir, type WeirOptions } from '../support/run-weir.ts'

type Settings = Readonly<Record<string, unknown>>

export interface LabSettings {
  /** By provider id: its base URL, or everything configuration may say of it. */
  readonly providers: Readonly<Record<string, string | Settings>>
  /** By model id: who serves it, as `provider/upstream`; reasoning where the settings say so. */
  readonly models: Readonly<Record<string, readonly string[] | Settings>>
  readonly settings?: Settings
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly requestId: string
  readonly ms: number
}

export interface Lab {
  readonly weir: RunningWeir
  /** Posts a chat request; the response is read to its end. */
  ask(model: string | undefined, more?: Settings, signal?: AbortSignal): Promise<Answer>
  /** Posts a chat request and leaves the reading to the caller. */
  open(model: string | undefined, more?: Settings, signal?: AbortSignal): Promise<Response>
  get(path: string): Promise<Record<string, unknown>>
  /** Polls until the answer is so; gives the last one, or throws with it when it never is. */
  held(): Promise<string>
  used(): Promise<number>
}

/** One US dollar per million tokens of input, two of output: a mock's usual 12 + 6 tokens are 24 microdollars. */
const price = { input: '1', output: '2' }

export async function startLab(
  { providers, models, settings = {} }: LabSettings,
  options: WeirOptions = {},
): Promise<Lab> {
  const config = {
    ...settings,
    local_servers: { discover: false },
    providers: Object.fromEntries(
      Object.entries(providers).map(([id, said]) => [
        id,
        {
          protocol: 'openai-chat',
          api_key: 'key',
          ...(typeof said === 'string' ? { base_url: said } : said),
        },
      ]),
    ),
    models: Object.entries(models).map(([id, said]) => ({
      id,
      ...('route' in said ? {} : { price, max_output_tokens: 4096 }),
      ...(isList(said) ? { offers: said.map(offer) } : said),
    })),
  }
  // JSON is YAML.
  const weir = await startWeir({ ...options, config: JSON.stringify(config) })
  const headers = { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' }
  const open = (model: string | undefined, more: Settings = {}, signal?: AbortSignal) =>
    fetch(`${weir.baseUrl}/chat/completions`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Where does it run?' }], ...more }),
      ...(signal ? { signal } : {}),
    })
  const get = async (path: string) =>
    (await (await fetch(weir.origin + path, { headers })).json()) as Record<string, unknown>
  const credits = async () => (await get('/v1/credits'))['data'] as Record<'held' | 'total_used', string>
  return {
    weir,
    open,
    get,
    async ask(model, more, signal) {
      const began = performance.now()
      const response = await open(model, more, signal)
      const text = await response.text()
      const requestId = response.headers.get('x-request-id') ?? ''
      return {
        status: response.status,
        headers: response.headers,
        text,
        requestId,
        ms: performance.now() - began,
      }
    },
    held: async () => (await credits()).held,
    used: async () => Number((await credits()).total_used),
  }
}

function isList(said: readonly string[] | Settings): said is readonly string[] {
  return Array.isArray(said)
}

function offer(written: string): Settings {
  const at = written.indexOf('/')
  return { provider: written.slice(0, at), upstream: written.slice(at + 1), price }
}

/** Asks until it holds, for at most `ms`; throws when it never does. */
export async function until(holds: () => boolean, ms?: number): Promise<boolean>
/** Asks until it is so, for at most `ms`; throws with the last answer when it never is. */
export async function until<T>(
  ask: () => T | Promise<T>,
  isSo: (answer: T) => boolean,
  ms?: number,
): Promise<T>
export async function until<T>(
  ask: () => T | Promise<T>,
  given: number | ((answer: T) => boolean) = Boolean,
  limit = 20_000,
): Promise<T> {
  const [isSo, ms] = typeof given === 'number' ? [Boolean, given] : [given, limit]
  const deadline = performance.now() + ms
  for (;;) {
    const answer = await ask()
    if (isSo(answer)) return answer
    if (performance.now() > deadline) throw new Error(`it stayed ${JSON.stringify(answer)}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** The error code of an answer, in its body or inside its stream. */
export function codeIn(text: string): string | undefined {
  return /"code":"([a-z_]+)"/.exec(text)?.[1]
}

/** The text that a streamed answer carried. */
export function wordsIn(text: string): string {
  return [...text.matchAll(/"content":"([^"]*)"/g)].map(([, word]) => word).join('')
}

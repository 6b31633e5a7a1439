// Calls a running gateway as a client without a library does, and reads all of what came back.

import { expect } from 'bun:test'
import type { Receipt } from '../../src/credits/ledger/receipt.ts'
import type { ServedWeir } from './run-weir.ts'

/** One answer, whole. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly requestId: string
  /** The data of each event of a streamed answer, `[DONE]` included. */
  readonly events: readonly string[]
  /** The text of the first choice, streamed or whole. */
  readonly content: string
  /** Finish reasons of the first choice, in the order they came. */
  readonly finishes: readonly string[]
  /** The error, of a body or inside a stream. */
  readonly error: WireError | undefined
  /** Whether the connection broke instead of ending. */
  readonly broken: boolean
}

export interface WireError {
  readonly message: string
  readonly type: string
  readonly param: string | null
  readonly code: string
  readonly metadata: Readonly<Record<string, unknown>>
}

export interface Credits {
  readonly available: string
  readonly held: string
  readonly debt: string
  readonly total_used: string
}

interface Piece {
  readonly choices?: readonly {
    readonly index: number
    readonly delta?: { readonly content?: string | null }
    readonly message?: { readonly content?: string | null }
    readonly finish_reason?: string | null
  }[]
  readonly error?: WireError
}

type Init = Omit<RequestInit, 'headers'> & { readonly headers?: Readonly<Record<string, string>> }

export interface CallOptions {
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly path?: string
  readonly method?: string
  /** Told all of the text so far, whenever more has come. */
  readonly onText?: (text: string) => void
}

/** Posts a chat request (an object, or the text of a body) and reads the answer to its end. */
export async function post(weir: ServedWeir, body: unknown, options: CallOptions = {}): Promise<Answer> {
  const {
    key = weir.key,
    headers = {},
    path = '/chat/completions',
    method = 'POST',
    onText = () => undefined,
  } = options
  const response = await fetch(`${weir.baseUrl}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body:
      body instanceof Uint8Array
        ? Uint8Array.from(body)
        : typeof body === 'string'
          ? body
          : JSON.stringify(body),
  })
  let text = ''
  let broken = false
  try {
    const decoder = new TextDecoder()
    for await (const bytes of response.body ?? []) {
      text += decoder.decode(bytes, { stream: true })
      onText(text)
    }
  } catch {
    broken = true
  }
  return { status: response.status, headers: response.headers, text, broken, ...readingOf(response, text) }
}

/** Posts JSON as the holder of this key, and leaves the reading to the caller. */
export function postAs(
  url: string,
  key: string,
  body: unknown,
  { headers = {}, ...more }: Init = {},
): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    ...more,
  })
}

/** Gets it as the holder of this key. */
export function getAs(url: string, key: string, { headers = {}, ...more }: Init = {}): Promise<Response> {
  return fetch(url, { headers: { authorization: `Bearer ${key}`, ...headers }, ...more })
}

function readingOf(response: Response, text: string) {
  const streamed = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false
  const events = streamed
    ? text.split('\n').flatMap((line) => (line.startsWith('data: ') ? [line.slice('data: '.length)] : []))
    : []
  const pieces = (streamed ? events.filter((data) => data !== '[DONE]') : [text]).flatMap((json): Piece[] =>
    json.startsWith('{') ? [JSON.parse(json) as Piece] : [],
  )
  const choices = pieces.flatMap((piece) => piece.choices ?? []).filter(({ index }) => index === 0)
  return {
    requestId: response.headers.get('x-request-id') ?? '',
    events,
    content: choices.map(({ delta, message }) => delta?.content ?? message?.content ?? '').join(''),
    finishes: choices.flatMap(({ finish_reason }) => finish_reason ?? []),
    error: pieces.find((piece) => piece.error !== undefined)?.error,
  }
}

export async function creditsOf(weir: ServedWeir, key = weir.key): Promise<Credits> {
  const response = await getAs(`${weir.baseUrl}/credits`, key)
  expect(response.status).toBe(200)
  return ((await response.json()) as { data: Credits }).data
}

/** Asks again until it is so and gives that answer. Throws what it was told last when it is not so within `ms`. */
export async function eventually<T>(
  ask: () => Promise<T>,
  isSo: (answer: T) => boolean,
  ms = 20_000,
): Promise<T> {
  const deadline = performance.now() + ms
  for (;;) {
    const answer = await ask()
    if (isSo(answer)) return answer
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms; at last: ${Bun.inspect(answer)}`)
    await Bun.sleep(5)
  }
}

/** The log is written a few milliseconds after what it tells of. */
export async function expectPrinted(weir: ServedWeir, text: string): Promise<void> {
  const printed = await eventually(
    async () => weir.output(),
    (output) => output.includes(text),
  )
  expect(printed).toContain(text)
}

/** The credits once no call holds any. */
export function restingCredits(weir: ServedWeir, key = weir.key): Promise<Credits> {
  return eventually(
    () => creditsOf(weir, key),
    ({ held }) => held === '0',
  )
}

/** The receipt of a call; undefined where there is none. */
export async function receiptOf(weir: ServedWeir, id: string, key = weir.key): Promise<Receipt | undefined> {
  const response = await getAs(`${weir.baseUrl}/generation?id=${id}`, key)
  const body = (await response.json()) as { data: Receipt }
  return response.status === 200 ? body.data : undefined
}

/** An account with what is granted to it and a key with these rights, made on the command line beside the gateway. */
export async function accountWith(
  weir: ServedWeir,
  email: string,
  grants: Readonly<Record<string, string>>,
  ...rights: string[]
): Promise<{ key: string; keyId: string }> {
  await runJson(weir, 'accounts', 'create', '--email', email)
  for (const [pool, usd] of Object.entries(grants))
    await runJson(weir, 'credits', 'grant', '--account', email, '--pool', pool, '--usd', usd)
  return keyFor(weir, email, ...rights)
}

export async function keyFor(
  weir: ServedWeir,
  email: string,
  ...rights: string[]
): Promise<{ key: string; keyId: string }> {
  const made = await runJson(weir, 'keys', 'create', '--account', email, ...rights)
  return { key: String(made['key']), keyId: String(made['id']) }
}

/** What a call throws; undefined where it does not. Promises of clients are of a kind that `expect().rejects` cannot read. */
export function failure(call: PromiseLike<unknown>): Promise<unknown> {
  return Promise.resolve(call).then(
    () => undefined,
    (error: unknown) => error,
  )
}

/** What a command prints as JSON, run beside the gateway; it must succeed. */
export async function runJson<T = Readonly<Record<string, unknown>>>(
  weir: Pick<ServedWeir, 'command'>,
  ...args: string[]
): Promise<T> {
  const { code, stdout, stderr } = await weir.command(...args, '--json')
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout) as T
}

/** The ledger proves itself; on a failure the assertion shows what it said. */
export async function expectAudited(weir: ServedWeir): Promise<void> {
  const audit = await weir.command('ledger', 'audit', '--json')
  expect({ code: audit.code, said: audit.code === 0 ? '' : audit.stdout + audit.stderr }).toEqual({
    code: 0,
    said: '',
  })
}

/** The parts of a cost that are exact: texts. Beside them stand numbers for clients of OpenRouter. */
export function exactParts(parts: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.values(parts).filter((part) => typeof part === 'string')
}

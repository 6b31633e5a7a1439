// A chat-completions provider with a mind of its own: it fails as it is told to, and writes its own bill.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { JsonObject } from '../../src/conversation/request.ts'

/** The moments of an answer at which the connection can fail. */
export type Moment = 'before-headers' | 'mid-stream' | 'before-usage'

export type Fault =
  /** An error status, with the body a provider, a proxy or nobody would send. */
  | {
      readonly kind: 'status'
      readonly status: number
      readonly body?: 'json' | 'html' | 'empty'
      readonly headers?: Readonly<Record<string, string>>
    }
  /** 200, and then a web page, text that is not JSON, or nothing. */
  | { readonly kind: 'html' | 'invalid-json' | 'empty-body' }
  /** The body ends there, as if it were complete. */
  | { readonly kind: 'truncate'; readonly at: 'mid-stream' | 'before-usage' }
  /** The connection is reset there. */
  | { readonly kind: 'reset'; readonly at: Moment }
  /** Nothing more comes from there on, until the caller leaves. */
  | { readonly kind: 'hang'; readonly at: Moment }
  /** 200, and an error object where an answer should be, before or after the first words. */
  | { readonly kind: 'error-after-200'; readonly at: 'first-frame' | 'mid-stream' }
  /** The answer is well, its counters are not. */
  | { readonly kind: 'usage'; readonly usage: JsonObject | undefined }
  /** The answer is well, its framing is unusual. */
  | { readonly kind: 'crlf' | 'one-byte-at-a-time' | 'no-done' }

/** One call as the provider booked it: what it will ask to be paid for. */
export interface BillLine {
  /** Counts from 0. */
  readonly call: number
  readonly model: string
  readonly streamed: boolean
  readonly authorization: string | undefined
  readonly body: JsonObject
  readonly fault: Fault | undefined
  /** What the call consumed; undefined where the provider made nothing. */
  readonly billed: { readonly prompt: number; readonly completion: number } | undefined
  /** `done`: all was sent. `left`: the caller closed the connection first. `faulted`: the fault ended it. */
  readonly ending: 'open' | 'done' | 'left' | 'faulted'
}

export interface MockOptions {
  /** The words of each answer; one frame each. */
  readonly words?: readonly string[]
  readonly usage?: { readonly prompt: number; readonly completion: number }
  /** What goes wrong with a call; nothing by default. */
  readonly fault?: (call: number, body: JsonObject) => Fault | undefined
}

export interface MockProvider {
  /** The base URL to configure, version segment included. */
  readonly url: string
  readonly port: number
  readonly bill: readonly BillLine[]
  /** Connections that are open now. */
  readonly connections: number
  /** Resolves with the line of a call once it has come to its end. */
  ended(call: number): Promise<BillLine>
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** Starts the provider on a free port of the loopback address. */
export async function startMockProvider(options: MockOptions = {}): Promise<MockProvider> {
  const bill: BillLine[] = []
  const waiting = new Map<number, ((line: BillLine) => void)[]>()
  const words = options.words ?? ['The ', 'river ', 'runs ', 'to ', 'the ', 'sea.']
  const usage = options.usage ?? { prompt: 12, completion: words.length }
  let connections = 0

  const server = createServer((request, response) => {
    void readBody(request).then((text) => {
      const body = JSON.parse(text) as JsonObject
      const call = bill.length
      const fault = options.fault?.(call, body)
      bill.push({
        call,
        model: String(body['model']),
        streamed: body['stream'] === true,
        authorization: request.headers.authorization,
        body,
        fault,
        billed: undefined,
        ending: 'open',
      })
      const book = (change: Partial<BillLine>) => {
        // The first ending holds: a connection closes after every one of them.
        if (bill[call]!.ending !== 'open') return
        bill[call] = { ...bill[call]!, ...change }
        if (bill[call].ending === 'open') return
        for (const tell of waiting.get(call) ?? []) tell(bill[call])
        waiting.delete(call)
      }
      response.on('close', () => book({ ending: response.writableFinished ? 'done' : 'left' }))
      new Answer(request, response, fault, words, usage, book).send(body)
    })
  })
  server.on('connection', (socket) => {
    connections += 1
    socket.on('close', () => (connections -= 1))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  const { port } = server.address() as AddressInfo
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  return {
    url: `http://127.0.0.1:${port}/v1`,
    port,
    bill,
    get connections() {
      return connections
    },
    ended(call) {
      const line = bill[call]
      if (line && line.ending !== 'open') return Promise.resolve(line)
      return new Promise((resolve) => waiting.set(call, [...(waiting.get(call) ?? []), resolve]))
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

/** Writes one answer, up to where its fault lets it. */
class Answer {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #fault: Fault | undefined
  readonly #words: readonly string[]
  readonly #usage: { readonly prompt: number; readonly completion: number }
  readonly #book: (change: Partial<BillLine>) => void

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    fault: Fault | undefined,
    words: readonly string[],
    usage: { readonly prompt: number; readonly completion: number },
    book: (change: Partial<BillLine>) => void,
  ) {
    this.#request = request
    this.#response = response
    this.#fault = fault
    this.#words = words
    this.#usage = usage
    this.#book = book
  }

  send(body: JsonObject): void {
    const fault = this.#fault
    if (fault?.kind === 'status') return this.#refuse(fault)
    if (this.#failsAt('before-headers')) return
    if (fault?.kind === 'html') return this.#end(200, 'text/html', '<html><body>It works!</body></html>')
    if (fault?.kind === 'invalid-json') return this.#end(200, 'application/json', '{"choices": [{]')
    if (fault?.kind === 'empty-body') return this.#end(200, 'application/json', '')
    if (fault?.kind === 'error-after-200' && fault.at === 'first-frame') return this.#errorInside(body)
    if (body['stream'] === true) this.#stream(body)
    else this.#whole(body)
  }

  #refuse(fault: Extract<Fault, { kind: 'status' }>): void {
    const bodies = {
      json: ['application/json', JSON.stringify(errorBody)],
      html: ['text/html', `<html><h1>${fault.status}</h1></html>`],
      empty: ['text/plain', ''],
    } as const
    const [type, text] = bodies[fault.body ?? 'json']
    this.#end(fault.status, type, text, fault.headers)
  }

  #end(status: number, type: string, text: string, headers: Readonly<Record<string, string>> = {}): void {
    this.#response.on('finish', () => this.#book({ ending: this.#fault ? 'faulted' : 'done' }))
    this.#response.writeHead(status, { 'content-type': type, ...headers })
    this.#response.end(text)
  }

  #errorInside(body: JsonObject): void {
    if (body['stream'] === true) this.#end(200, 'text/event-stream', `data: ${JSON.stringify(errorBody)}\n\n`)
    else this.#end(200, 'application/json', JSON.stringify(errorBody))
  }

  #whole(body: JsonObject): void {
    this.#book({ billed: this.#usage })
    const text = JSON.stringify({
      id: 'chatcmpl-mock',
      object: 'chat.completion',
      created: 1_767_225_600,
      model: body['model'],
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: this.#words.join(''), refusal: null, annotations: [] },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      ...this.#usageField(),
    })
    const half = Math.floor(text.length / 2)
    if (this.#fault?.kind === 'truncate') return this.#end(200, 'application/json', text.slice(0, half))
    if (this.#fault?.kind === 'error-after-200') return this.#errorInside(body)
    if (this.#fault?.kind === 'one-byte-at-a-time') return void this.#slice(text, 'application/json')
    this.#response.setHeader('content-type', 'application/json')
    if (this.#fault?.kind === 'reset' || this.#fault?.kind === 'hang') {
      // Reset and hang after the headers have the same two moments in a whole body: its middle.
      this.#response.write(text.slice(0, half), () => this.#failsAt((this.#fault as { at: Moment }).at))
      return
    }
    this.#end(200, 'application/json', text)
  }

  #stream(body: JsonObject): void {
    const chunk = (fields: JsonObject) =>
      `data: ${JSON.stringify({ id: 'chatcmpl-mock', object: 'chat.completion.chunk', created: 1_767_225_600, model: body['model'] ?? null, ...fields })}\n\n`
    const delta = (content: JsonObject, finish: string | null) =>
      chunk({ choices: [{ index: 0, delta: content, logprobs: null, finish_reason: finish }] })
    const words = this.#words.map((word) => delta({ content: word }, null))
    const half = Math.ceil(words.length / 2)
    const asked = (body['stream_options'] as JsonObject | undefined)?.['include_usage'] === true
    const usage = this.#usageField()['usage']
    const parts = {
      start: delta({ role: 'assistant', content: '' }, null) + words.slice(0, half).join(''),
      rest: words.slice(half).join('') + delta({}, 'stop'),
      usage: asked && usage !== undefined ? chunk({ choices: [], usage }) : '',
      done: this.#fault?.kind === 'no-done' ? '' : 'data: [DONE]\n\n',
    }

    if (this.#fault?.kind === 'one-byte-at-a-time' || this.#fault?.kind === 'crlf') {
      this.#book({ billed: this.#usage })
      const text = Object.values(parts).join('')
      const framed = this.#fault.kind === 'crlf' ? text.replaceAll('\n', '\r\n') : text
      return void this.#slice(framed, 'text/event-stream', this.#fault.kind === 'crlf' ? 4096 : 1)
    }
    this.#response.setHeader('content-type', 'text/event-stream')
    this.#book({ billed: { prompt: this.#usage.prompt, completion: half } })
    this.#response.write(parts.start, () => {
      if (this.#failsAt('mid-stream')) return
      if (this.#fault?.kind === 'error-after-200') {
        return this.#finish(`data: ${JSON.stringify(errorBody)}\n\n`)
      }
      this.#book({ billed: this.#usage })
      this.#response.write(parts.rest, () => {
        if (this.#failsAt('before-usage')) return
        this.#finish(parts.usage + parts.done)
      })
    })
  }

  #finish(text: string): void {
    const ending = this.#fault?.kind === 'error-after-200' ? 'faulted' : 'done'
    this.#response.on('finish', () => this.#book({ ending }))
    this.#response.end(text)
  }

  /** Whether the fault strikes at this moment; if so, it has. */
  #failsAt(moment: Moment): boolean {
    const fault = this.#fault
    if (fault === undefined || !('at' in fault) || fault.at !== moment) return false
    if (fault.kind === 'error-after-200') return false
    if (fault.kind === 'hang') return true
    this.#book({ ending: 'faulted' })
    if (fault.kind === 'reset') this.#request.socket.destroy()
    else this.#response.end()
    return true
  }

  #usageField(): JsonObject {
    if (this.#fault?.kind === 'usage')
      return this.#fault.usage === undefined ? {} : { usage: this.#fault.usage }
    const { prompt, completion } = this.#usage
    return {
      usage: {
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens: prompt + completion,
        prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0 },
      },
    }
  }

  async #slice(text: string, type: string, size = 1): Promise<void> {
    const bytes = Buffer.from(text)
    this.#response.setHeader('content-type', type)
    for (let at = 0; at < bytes.length; at += size) {
      await new Promise((resolve) => this.#response.write(bytes.subarray(at, at + size), resolve))
    }
    this.#response.on('finish', () => this.#book({ ending: 'done' }))
    this.#response.end()
  }
}

const errorBody = {
  error: { message: 'The mock was told to fail.', type: 'server_error', param: null, code: 'mock_fault' },
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  return Buffer.concat(parts).toString('utf8')
}

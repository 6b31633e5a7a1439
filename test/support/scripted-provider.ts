// A provider that answers byte by byte as a script says: what no HTTP server would send, sent on purpose.

import { createServer, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import type { JsonObject } from '../../src/conversation/request.ts'

/** The connection as a script uses it. */
export interface Wire {
  /** The parsed body of the request. */
  readonly body: JsonObject
  /** Resolves when the bytes are taken; false once the gateway has closed the connection. */
  write(bytes: string | Uint8Array): Promise<boolean>
  /** Closes after what has been written. */
  end(): void
  /** Breaks the connection off, as a crash does. */
  reset(): void
  /** Resolves when the connection is closed, by whichever side. */
  readonly closed: Promise<void>
}

/** Answers one request; a script that returns without `end` or `reset` leaves the connection hanging. */
export type Script = (wire: Wire) => void | Promise<void>

/** A request as it came over the wire. */
export interface Arrival {
  readonly path: string
  readonly headers: Headers
  readonly body: JsonObject
}

export interface ScriptedProvider {
  /** The base URL to configure, version segment included. */
  readonly url: string
  readonly port: number
  /** Every request so far. Bare connections, which send nothing, are not among them. */
  readonly arrivals: readonly Arrival[]
  /** Connections so far, bare ones included. */
  readonly connections: number
  stop(): Promise<void>
}

/**
 * Starts it on a free port of the loopback address. The `model` of a request names the script that answers it,
 * unless `choose` goes by something else of the body, or by the path.
 */
export async function startScriptedProvider(
  scripts: Readonly<Record<string, Script>>,
  choose = (body: JsonObject, _path: string): Script | undefined => scripts[String(body['model'])],
): Promise<ScriptedProvider> {
  const arrivals: Arrival[] = []
  const open = new Set<Socket>()
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    open.add(socket)
    // One listener for all requests of a kept-alive connection, however many there are.
    const closing = new Closing()
    socket.on('close', () => {
      open.delete(socket)
      closing.happened()
    })
    // A gateway that hangs up is part of the play.
    socket.on('error', () => undefined)
    let received = Buffer.alloc(0)
    socket.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes])
      const arrival = arrivalIn(received)
      if (!arrival) return
      received = Buffer.alloc(0)
      arrivals.push(arrival)
      const script = choose(arrival.body, arrival.path)
      if (!script) return void socket.end(plain(500, 'text/plain', 'no script of this name'))
      void script(wireOf(socket, closing, arrival.body))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1`,
    port,
    arrivals,
    get connections() {
      return connections
    },
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        for (const socket of open) socket.destroy()
      }),
  }
}

/** The end of a connection, and what waits for it. */
class Closing {
  readonly #waiting = new Set<() => void>()

  happened(): void {
    for (const resolve of this.#waiting) resolve()
  }

  /** Calls back when the connection has closed, unless the function returned was called before. */
  onClose(act: () => void): () => void {
    this.#waiting.add(act)
    return () => void this.#waiting.delete(act)
  }
}

function wireOf(socket: Socket, closing: Closing, body: JsonObject): Wire {
  return {
    body,
    write: (bytes) =>
      new Promise((resolve) => {
        if (socket.destroyed) return resolve(false)
        const forget = closing.onClose(() => resolve(false))
        socket.write(bytes, () => {
          forget()
          resolve(!socket.destroyed)
        })
      }),
    end: () => void socket.end(),
    reset: () => void socket.resetAndDestroy(),
    closed: new Promise((resolve) => void closing.onClose(resolve)),
  }
}

function arrivalIn(bytes: Buffer): Arrival | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [first = '', ...lines] = bytes.subarray(0, end).toString('latin1').split('\r\n')
  const headers = new Headers()
  for (const line of lines)
    headers.append(line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1))
  const body = bytes.subarray(end + 4)
  if (body.length < Number(headers.get('content-length') ?? 0)) return undefined
  const text = body.toString('utf8')
  return {
    path: first.split(' ')[1] ?? '',
    headers,
    body: text === '' ? {} : (JSON.parse(text) as JsonObject),
  }
}

// ---- what scripts write -----------------------------------------------------------------------------------

/** A whole HTTP answer with its length. */
export function plain(
  status: number,
  type: string,
  body: string | Uint8Array,
  headers: Readonly<Record<string, string>> = {},
): Buffer {
  const bytes = Buffer.from(body)
  const head = headOf(status, { 'content-type': type, 'content-length': String(bytes.length), ...headers })
  return Buffer.concat([Buffer.from(head), bytes])
}

/** The head of an answer whose body ends where the connection does. */
export function headOf(status: number, headers: Readonly<Record<string, string>>): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} X\r\n${lines.join('')}\r\n`
}

/** The head of a stream in chunks. */
export const streamHead = headOf(200, {
  'content-type': 'text/event-stream',
  'transfer-encoding': 'chunked',
})

/** One chunk of a body in chunks, and what ends such a body. */
export function chunk(text: string | Uint8Array): Buffer {
  const bytes = Buffer.from(text)
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
}
export const lastChunk = '0\r\n\r\n'

/** One event with JSON data. */
export function event(data: unknown): string {
  return `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
}

const chunkFields = {
  id: 'chatcmpl-scripted',
  object: 'chat.completion.chunk',
  created: 1_767_225_600,
  model: 'scripted',
}

/** One event of a chat-completions stream: a piece of the first choice. */
export function delta(content: JsonObject, finish: string | null = null, index = 0): string {
  return event({
    ...chunkFields,
    choices: [{ index, delta: content, logprobs: null, finish_reason: finish }],
  })
}

/** The event that carries usage alone. */
export function usageEvent(usage: unknown): string {
  return event({ ...chunkFields, choices: [], usage })
}

/** A whole chat completion. */
export function completion(content: string, usage: unknown): string {
  return JSON.stringify({
    id: 'chatcmpl-scripted',
    object: 'chat.completion',
    created: 1_767_225_600,
    model: 'scripted',
    choices: [{ index: 0, message: { role: 'assistant', content }, logprobs: null, finish_reason: 'stop' }],
    ...(usage === undefined ? {} : { usage }),
  })
}

export const someUsage = { prompt_tokens: 12, completion_tokens: 4, total_tokens: 16 }
export const done = 'data: [DONE]\n\n'
/** A stream as a provider of good manners sends it, in its parts. */
export const manners = {
  start: delta({ role: 'assistant', content: '' }),
  words: delta({ content: 'The river ' }) + delta({ content: 'runs.' }),
  finish: delta({}, 'stop'),
  usage: usageEvent(someUsage),
  done,
}
export const wholeStream = Object.values(manners).join('')

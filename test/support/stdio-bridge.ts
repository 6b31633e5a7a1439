// An MCP server that speaks by standard input and output, behind Streamable HTTP: one process for each session.

import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'

interface Message {
  readonly id?: number | string
  readonly method?: string
}

class Session {
  readonly #child: Bun.Subprocess<'pipe', 'pipe', 'ignore'>
  readonly #waiting = new Map<unknown, (message: Message) => void>()

  constructor(command: readonly string[], env: Record<string, string>) {
    this.#child = Bun.spawn([...command], {
      env: { PATH: process.env['PATH'] ?? '', ...env },
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'ignore',
    })
    const lines = createInterface({ input: Readable.fromWeb(this.#child.stdout as never) })
    lines.on('line', (line) => {
      const message = JSON.parse(line) as Message
      if (message.method === undefined) this.#waiting.get(message.id)?.(message)
    })
  }

  /** The answer to a request; undefined for a notification. */
  async send(message: Message): Promise<Message | undefined> {
    const { promise, resolve } = Promise.withResolvers<Message>()
    if (message.id !== undefined) this.#waiting.set(message.id, resolve)
    void this.#child.stdin.write(`${JSON.stringify(message)}\n`)
    await this.#child.stdin.flush()
    return message.id === undefined ? undefined : promise
  }

  end(): void {
    this.#child.kill()
  }
}

export interface StdioBridge {
  readonly url: string
  /** Sessions that have been begun and not ended. */
  readonly open: () => number
  stop(): Promise<void>
}

export function bridgeTo(command: readonly string[], env: Record<string, string> = {}): StdioBridge {
  const sessions = new Map<string, Session>()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const id = request.headers.get('mcp-session-id') ?? ''
      if (request.method === 'DELETE') {
        sessions.get(id)?.end()
        return new Response(null, { status: sessions.delete(id) ? 200 : 404 })
      }
      if (request.method !== 'POST') return new Response(null, { status: 405 })
      const message = (await request.json()) as Message
      const isFirst = message.method === 'initialize'
      const key = isFirst ? crypto.randomUUID() : id
      if (isFirst) sessions.set(key, new Session(command, env))
      const session = sessions.get(key)
      if (!session) return Response.json({ error: 'no such session' }, { status: id === '' ? 400 : 404 })
      const answer = await session.send(message)
      const headers = { 'mcp-session-id': key }
      return answer === undefined
        ? new Response(null, { status: 202, headers })
        : Response.json(answer, { headers })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/mcp`,
    open: () => sessions.size,
    stop: async () => {
      for (const session of sessions.values()) session.end()
      await server.stop(true)
    },
  }
}

// The program of an account that is told of its top-ups: it verifies every message, fails now and then, and remembers.

import { requireSigned } from '../../src/payments/processor.ts'

export class Listener {
  /** The ids under which each top-up was told of, and how often it was. */
  readonly told = new Map<string, { readonly ids: Set<string>; times: number }>()
  readonly broken: string[] = []
  secret = ''
  readonly #server: ReturnType<typeof Bun.serve>

  constructor() {
    this.#server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: (request) => this.#take(request) })
  }

  get address(): string {
    return `127.0.0.1:${this.#server.port}`
  }

  async stop(): Promise<void> {
    await this.#server.stop(true)
  }

  async #take(request: Request): Promise<Response> {
    const raw = await request.bytes()
    try {
      requireSigned(raw, request.headers, [this.secret], Date.now())
    } catch (error) {
      this.broken.push(`a message with a bad signature came: ${String(error)}`)
    }
    const { type, data } = JSON.parse(new TextDecoder().decode(raw)) as {
      type: string
      data: { top_up: string }
    }
    if (type !== 'top_up.credited') this.broken.push(`a message of the type ${type} came`)
    const known = this.told.get(data.top_up) ?? { ids: new Set(), times: 0 }
    known.ids.add(request.headers.get('webhook-id') ?? '')
    known.times++
    this.told.set(data.top_up, known)
    return new Response(null, { status: 204 })
  }
}

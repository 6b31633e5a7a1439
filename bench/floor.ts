// The least a proxy can do that sets money aside before a call and books it after: the bare one, with two rows in SQLite
// that are on disk before it goes on. No keys, no prices, no journal, nothing is parsed: what no gateway with a durable
// hold and settle on this runtime and this disk can be faster than. Runs as a process:
// `bun bench/floor.ts <upstream origin> <database file>`; prints its port.

import { Database } from 'bun:sqlite'

const [upstream, file] = process.argv.slice(2)
if (upstream === undefined || file === undefined) throw new Error('usage: bun bench/floor.ts <origin> <file>')

const database = new Database(file, { create: true })
database.run('PRAGMA journal_mode = WAL')
database.run('PRAGMA synchronous = FULL')
database.run('CREATE TABLE hold (id INTEGER PRIMARY KEY, facts TEXT)')
database.run('CREATE TABLE call (id INTEGER PRIMARY KEY, facts TEXT)')
const begin = database.prepare('BEGIN IMMEDIATE')
const commit = database.prepare('COMMIT')
const insertHold = database.prepare('INSERT INTO hold VALUES (?, ?)')
const deleteHold = database.prepare('DELETE FROM hold WHERE id = ?')
const insertCall = database.prepare('INSERT INTO call VALUES (?, ?)')
/** About what a receipt holds. */
const facts = 'x'.repeat(300)

interface Command {
  readonly run: (id: number) => void
  readonly id: number
  readonly done: () => void
}

const hold = (id: number) => void insertHold.run(id, facts)
const settle = (id: number) => {
  deleteHold.run(id)
  insertCall.run(id, facts)
}

/** What comes in one turn of the event loop shares one commit. */
let group: Command[] = []

function durable(run: Command['run'], id: number): Promise<void> {
  return new Promise((done) => {
    if (group.length === 0) setImmediate(flush)
    group.push({ run, id, done })
  })
}

function flush(): void {
  const commands = group
  group = []
  begin.run()
  for (const { run, id } of commands) run(id)
  commit.run()
  for (const { done } of commands) done()
}

let calls = 0

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const { pathname } = new URL(request.url)
    const body = await request.text()
    const id = ++calls
    await durable(hold, id)
    const answer = await fetch(upstream + pathname, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'accept-encoding': 'identity' },
      body,
      signal: request.signal,
    })
    const type = answer.headers.get('content-type') ?? 'application/json'
    const headers = { 'content-type': type }
    if (answer.body && type.startsWith('text/event-stream')) {
      return new Response(settledAtEnd(answer.body, id), { headers })
    }
    const text = await answer.text()
    await durable(settle, id)
    return new Response(text, { status: answer.status, headers })
  },
})
console.log(`port ${server.port}`)

function settledAtEnd(body: ReadableStream<Uint8Array>, id: number): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read()
      if (!done) return controller.enqueue(value)
      await durable(settle, id)
      controller.close()
    },
  })
}

import { expect, test } from 'bun:test'
import { heapSize } from 'bun:jsc'
import { candidatesFor } from '../../../src/chat/routing/candidates.ts'
import { openStream } from '../../../src/chat/upstream/fetch.ts'
import { openStore } from '../../../src/store/open.ts'
import { delta } from '../../support/scripted-provider.ts'
import { tempDir } from '../../support/tmp.ts'
import { callOf, partsOf } from '../parts.ts'
import { providerOf } from '../support.ts'

test('open streams do not keep the texts of their requests', async () => {
  using dir = tempDir()
  const store = await openStore(dir.path, { clock: Date.now })
  // One that keeps nothing of a request itself, as it is in the same heap.
  const upstream = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      await request.arrayBuffer()
      const started = delta({ role: 'assistant', content: 'All of them.' })
      const body = new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from(started)) })
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    },
  })
  const parts = partsOf(store, [providerOf('a', { baseUrl: `http://127.0.0.1:${upstream.port}/v1` })])
  const content = 'Which rivers run to the sea? '.repeat(50_000)
  const rounds = Array.from({ length: 8 }, () => {
    const call = callOf({ model: 'a/m', stream: true, messages: [{ role: 'user', content }] })
    const { routing } = call.request.envelope
    const candidates = candidatesFor([parts.catalog.resolve('a/m')], parts.providers, routing, '', 1)
    return { call, candidates, warnings: [] }
  })
  const before = await alive()
  const opened = []
  for (const round of rounds)
    opened.push(
      await openStream(
        parts,
        { outputBound: () => undefined, warningsFor: () => [] },
        round.candidates[0]!,
        round,
      ),
    )
  // The collector takes whatever looks like an address on the stack for one: a text or two may outlive their requests.
  expect((await alive()) - before).toBeLessThan((opened.length / 2) * content.length)
  for (const stream of opened) stream.abort()
  await upstream.stop(true)
  await store.close()
})

/** Bytes of the heap after a collection. */
async function alive(): Promise<number> {
  await new Promise((resolve) => setImmediate(resolve))
  Bun.gc(true)
  return heapSize()
}

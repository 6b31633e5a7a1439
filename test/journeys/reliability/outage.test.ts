// The database server is away while a gateway serves: nobody is told that a key or credit is wrong, streams that run go on to
// their end, and what they cost is charged when it is back.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { SQL } from 'bun'
import { type Provider, startPacedProvider } from '../../chat/paced-provider.ts'
import {
  creditsOf,
  eventually,
  expectAudited,
  getAs,
  keyFor,
  postAs,
  restingCredits,
} from '../../support/call-gateway.ts'
import { CutProxy } from '../../support/cut-proxy.ts'
import { describeOnPostgres, emptyDatabase } from '../../support/postgres.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { tempDir } from '../../support/tmp.ts'

setDefaultTimeout(30_000)

const words = 40
const streams = 4
/** Their time to be settled in, and one more try. */
const stopMs = 15_000
const price = { input: '1', output: '2' }
/** What all streams of a test cost by what their provider counts, US dollars. */
const cost = (streams * (12 + 2 * words)) / 1_000_000

describeOnPostgres('a database server that is away', () => {
  const home = tempDir('weir-outage-')
  let paced: Provider
  let url: URL
  let between: CutProxy
  let weir: ServedWeir
  beforeAll(async () => {
    paced = startPacedProvider(
      Array.from({ length: words }, () => 'word '),
      30,
    )
    url = new URL(await emptyDatabase('outage'))
    between = new CutProxy(Number(url.port))
    weir = await serve()
  })
  afterAll(async () => {
    between.carriage = 'pass'
    await weir?.stop()
    between.stop()
    paced.stop()
    home.remove()
  })

  function serve(): Promise<ServedWeir> {
    const through = new URL(url)
    through.port = String(between.port)
    return serveWeir({
      dataDir: home.path,
      config: JSON.stringify({
        store: { url: through.href },
        ledger: { sweep_ms: 100 },
        stream: { checkpoint_ms: 50 },
        local_servers: { discover: false },
        providers: { paced: { protocol: 'openai-chat', api_key: 'key', base_url: paced.url } },
        models: [
          { id: 'paced/m', price, max_output_tokens: 4096, offers: [{ provider: 'paced', upstream: 'm' }] },
        ],
      }),
    })
  }

  const ask = (key = weir.key) =>
    postAs(`${weir.baseUrl}/chat/completions`, key, {
      model: 'paced/m',
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: 'user', content: 'Where does it run?' }],
    })

  /** Begins streams, of which each has delivered its first words. */
  const begin = () =>
    Promise.all(
      Array.from({ length: streams }, async () => {
        const reader = (await ask()).body!.getReader()
        return { reader, text: new TextDecoder().decode((await reader.read()).value) }
      }),
    )

  async function endOf({ reader, text }: Awaited<ReturnType<typeof begin>>[number]): Promise<string> {
    const decoder = new TextDecoder()
    let all = text
    for (let next = await reader.read(); !next.done; next = await reader.read())
      all += decoder.decode(next.value, { stream: true })
    return all
  }

  const wordsIn = (text: string) => text.split('"content":"word "').length - 1
  /** A connection that is being opened while the server is away is given up after five seconds, and opened again. */
  const back = () =>
    eventually(
      async () => (await getAs(`${weir.baseUrl}/credits`, weir.key)).status,
      (status) => status === 200,
      10_000,
    )
  const ready = async () => (await fetch(`${weir.origin}/readyz`)).status

  function goAway(): void {
    between.carriage = 'refuse'
    between.cut()
  }

  /** How each of these calls ended, by the ledger. */
  async function endings(): Promise<readonly string[]> {
    const admin = new SQL({ url: url.href, max: 1 })
    const rows: { ending: string }[] = await admin.unsafe('SELECT ending FROM call ORDER BY seq')
    await admin.close()
    return rows.map(({ ending }) => ending)
  }

  test('refuses with 503 alone; streams go on to their end and are charged when it is back', async () => {
    const { total_used: before } = await creditsOf(weir)
    // The gateway has not been asked with this one yet.
    const { key: unknown } = await keyFor(weir, 'owner@localhost')
    const begun = await begin()
    goAway()
    for (const key of [weir.key, unknown]) {
      for (let n = 0; n < 5; n++) {
        const response = await ask(key)
        expect([response.status, Number(response.headers.get('retry-after'))]).toEqual([
          503,
          expect.any(Number),
        ])
        expect(await response.json()).toMatchObject({ error: { code: 'store_unavailable' } })
      }
    }
    expect(await eventually(ready, (status) => status === 503)).toBe(503)
    const ended = Promise.all(begun.map(endOf))
    await eventually(
      async () => paced.calls.filter(({ ending }) => ending === 'done'),
      (done) => done.length === streams,
    )
    between.carriage = 'pass'
    const texts = await ended
    for (const text of texts) expect([wordsIn(text), text.includes('data: [DONE]')]).toEqual([words, true])
    expect(await back()).toBe(200)
    const after = await restingCredits(weir)
    expect(Number(after.total_used) - Number(before)).toBeCloseTo(cost, 12)
    expect(new Set(await endings())).toEqual(new Set(['finished']))
    expect(await eventually(ready, (status) => status === 200, 10_000)).toBe(200)
    await expectAudited(weir)
  })

  test('a gateway that is stopped meanwhile: its next process charges what was not booked', async () => {
    const { total_used: before } = await creditsOf(weir)
    const already = (await endings()).length
    const { key } = weir
    const begun = await begin()
    goAway()
    const texts = Promise.all(begun.map(endOf))
    const since = performance.now()
    await weir.stop().catch(() => undefined)
    expect(performance.now() - since).toBeLessThan(stopMs)
    await texts.catch(() => undefined)
    between.carriage = 'pass'
    weir = await serve()
    Object.assign(weir, { key })
    await eventually(endings, (all) => all.length === already + streams)
    const { total_used: after } = await restingCredits(weir)
    expect((await endings()).slice(already)).toEqual(Array.from({ length: streams }, () => 'finished'))
    expect(Number(after) - Number(before)).toBeCloseTo(cost, 12)
    await expectAudited(weir)
  })
})

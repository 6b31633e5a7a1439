// A response in the background that another gateway makes: followed, cancelled and deleted from here.

import { expect, test } from 'bun:test'
import { cancelInBackground, eventStream, shownInBackground } from '../../src/http/v1/responses.ts'
import { type BackgroundRecord, BackgroundResponses, Running } from '../../src/responses/background.ts'
import { day, noon } from '../credits/support.ts'
import { describeOnBoth } from '../support/both-databases.ts'

const limits = { perAccount: 5, eventBytes: 1_000_000, retentionMs: day }
const keepaliveMs = 60_000
const eventOf = (sequence: number) =>
  JSON.stringify({ type: 'response.output_text.delta', sequence_number: sequence, delta: 'x' })

describeOnBoth('a response that another gateway makes', (open, database) => {
  /** One that is begun by a gateway, and as another one finds it. */
  async function begun() {
    const store = await open(() => noon)
    const there = new BackgroundResponses(store.background, limits)
    const here = new BackgroundResponses((await store.beside()).background, limits)
    const record: BackgroundRecord = {
      id: 'resp_1',
      account: 'anna',
      key: null,
      idempotency: null,
      bodyHash: '',
      status: 'running',
      expiresAt: noon + day,
      response: { id: 'resp_1', status: 'queued' },
    }
    const running = new Running(record.id, record.account, there)
    await there.store.begin(record)
    await there.add(running)
    const aborted = new Promise((resolve) => running.signal.addEventListener('abort', resolve))
    return { running, here: { background: here, record }, aborted }
  }

  test('is followed to its end', async () => {
    const { running, here } = await begun()
    running.onEvent(eventOf(0))
    const reader = eventStream(here, -1, keepaliveMs).body!.pipeThrough(new TextDecoderStream()).getReader()
    expect((await reader.read()).value).toContain(eventOf(0))
    for (let sequence = 1; sequence < 5; sequence++) running.onEvent(eventOf(sequence))
    await running.onEnd()
    let rest = ''
    for (let read = await reader.read(); !read.done; read = await reader.read()) rest += read.value
    const sequences = [...rest.matchAll(/"sequence_number":(\d)/g)].map(([, sequence]) => sequence)
    expect(sequences).toEqual(['1', '2', '3', '4'])
  })

  // Of SQLite there is one gateway.
  if (database === 'PostgreSQL')
    test('counts where an account has as many as it may have', async () => {
      const { running, here } = await begun()
      const { store } = here.background
      const full = new BackgroundResponses(store, { ...limits, perAccount: 1 })
      const another = (account: string) => new Running('resp_2', account, full)
      await expect(full.add(another('anna'))).rejects.toMatchObject({ code: 'rate_limit_exceeded' })
      await full.add(another('bert'))
      await running.onEnd()
      await full.add(another('anna'))
    })

  test('is cancelled, and shown so', async () => {
    const { running, here, aborted } = await begun()
    await cancelInBackground(here)
    await aborted
    expect(running.isUnwanted).toBe(false)
    await running.onEnd()
    const record = (await here.background.store.find(
      { account: 'anna', line: undefined, mode: undefined },
      'resp_1',
    ))!
    expect(await shownInBackground({ ...here, record })).toMatchObject({ status: 'cancelled' })
  })

  test('is ended when it is deleted, and not stored after that', async () => {
    const { running, here, aborted } = await begun()
    await here.background.store.delete('resp_1')
    await aborted
    expect(running.isUnwanted).toBe(true)
    await running.onEnd()
    expect(await here.background.store.events('resp_1', -1)).toEqual([])
  })
})

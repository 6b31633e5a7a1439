// Providers that bring much at once are asked one after the other; nobody else has to wait.

import { describe, expect, test } from 'bun:test'
import { type Arrival, Arrivals } from '../../../src/chat/upstream/arrivals.ts'

const kB = 1024
const stream = new Response(null, { headers: { 'content-type': 'text/event-stream' } })

function setUp(mostBytes = 1_024 * kB) {
  const clock = { ms: 0 }
  const arrivals = new Arrivals(mostBytes, () => clock.ms)
  /** An answer of so many bytes in one go, from the request to its end. */
  const answer = async (offer: string, bytes: number) => {
    const arrival = await arrivals.permit(offer, 'a')
    arrival.onResponse(stream)
    if (bytes > 4 * kB) arrival.grows(bytes)
    arrival.end()
  }
  return { clock, arrivals, answer }
}

describe('answers that come faster than they are worked through', () => {
  test('are asked for in turn once it is known how large they are', async () => {
    const { arrivals, answer } = setUp()
    for (let n = 0; n < 20; n++) await answer('bursting', 200 * kB)
    const asked = Array.from({ length: 10 }, () => arrivals.permit('bursting', 'a'))
    expect(asked.filter((turn) => turn instanceof Promise)).toHaveLength(7)
    expect(arrivals.bytes).toBeLessThan(700 * kB)
    const order: number[] = []
    const waiting = asked.slice(3).map(async (turn, at) => {
      const arrival = await turn
      order.push(at)
      arrival.end()
    })
    for (const turn of asked.slice(0, 3)) (turn as Arrival).end()
    await Promise.all(waiting)
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6])
  })

  test('of one account leave room for those of another, and take turns with them', async () => {
    const { arrivals, answer } = setUp(1_000 * kB)
    for (let n = 0; n < 40; n++) await answer('bursting', 200 * kB)
    const greedy = Array.from({ length: 20 }, () => arrivals.permit('bursting', 'greedy'))
    expect(greedy.filter((turn) => turn instanceof Promise).length).toBeGreaterThan(15)
    // Whoever comes next waits for nothing.
    const late = arrivals.permit('bursting', 'late')
    expect(late).not.toBeInstanceOf(Promise)
    const order: string[] = []
    const waiting = [
      ...greedy.filter((turn) => turn instanceof Promise),
      ...Array.from({ length: 4 }, () => arrivals.permit('bursting', 'late')).filter(
        (turn) => turn instanceof Promise,
      ),
    ].map(async (turn) => {
      const arrival = await turn
      order.push(arrival.account)
      arrival.end()
    })
    for (const turn of [...greedy, late]) if (!(turn instanceof Promise)) turn.end()
    await Promise.all(waiting)
    expect(order.indexOf('late')).toBeLessThan(3)
  })

  test('keep nobody waiting of whom little is expected', async () => {
    const { arrivals, answer } = setUp()
    for (let n = 0; n < 20; n++) {
      await answer('bursting', 200 * kB)
      await answer('steady', 500)
    }
    while (!(arrivals.permit('bursting', 'a') instanceof Promise));
    for (let n = 0; n < 1_000; n++) expect(arrivals.permit('steady', 'a')).not.toBeInstanceOf(Promise)
    expect(arrivals.permit('never asked before', 'a')).not.toBeInstanceOf(Promise)
  })

  test('are not all asked for before the first has shown how large they are', async () => {
    const { arrivals } = setUp(8_192 * kB)
    const asked = Array.from({ length: 2_000 }, () => arrivals.permit('new', 'a'))
    expect(asked.filter((turn) => turn instanceof Promise).length).toBe(2_000 - 128)
    // They are small: nobody waits any longer than for the answers that are on their way.
    for (const turn of asked) {
      const arrival = await turn
      arrival.onResponse(stream)
      arrival.end()
    }
    expect(arrivals.bytes).toBeCloseTo(0)
    const again = Array.from({ length: 2_000 }, () => arrivals.permit('new', 'a'))
    expect(again.some((turn) => turn instanceof Promise)).toBe(false)
  })

  test('teach at once that an offer brings much, and slowly that it does not', async () => {
    const { arrivals, answer } = setUp()
    const atOnce = () => {
      let asked = 0
      for (
        let turn = arrivals.permit('m', 'a');
        !(turn instanceof Promise);
        turn = arrivals.permit('m', 'a')
      ) {
        if (++asked === 100) break
      }
      return asked
    }
    await answer('m', 500)
    await answer('m', 500)
    await answer('m', 500)
    await answer('m', 400 * kB)
    expect(atOnce()).toBeLessThan(10)
  })

  test('count while some of them lies there, and no longer', async () => {
    const { arrivals } = setUp()
    const arrival = await arrivals.permit('m', 'a')
    expect(arrivals.bytes).toBe(128 * kB)
    arrival.onResponse(stream)
    expect(arrivals.bytes).toBe(256 * kB)
    arrival.end()
    arrival.end()
    expect(arrivals.bytes).toBe(0)
    arrival.grows(64 * kB)
    expect(arrivals.bytes).toBe(256 * kB)
    arrival.end()
    expect(arrivals.bytes).toBe(0)
    const whole = await arrivals.permit('m', 'a')
    whole.onResponse(new Response(null, { headers: { 'content-length': '700000' } }))
    expect(arrivals.bytes).toBe(700_000)
    whole.end()
    expect(arrivals.bytes).toBe(0)
  })

  test('that never come, or of which no more comes, are not waited for', async () => {
    const { arrivals, answer, clock } = setUp()
    for (let n = 0; n < 20; n++) await answer('bursting', 200 * kB)
    while (!(arrivals.permit('bursting', 'a') instanceof Promise));
    clock.ms += 250
    const after = await arrivals.permit('bursting', 'a')
    after.onResponse(stream)
    after.grows(200 * kB)
    after.awaits()
    clock.ms += 100
    while (!(arrivals.permit('bursting', 'a') instanceof Promise));
    expect(arrivals.bytes).toBeLessThan(1_300 * kB)
  })
})

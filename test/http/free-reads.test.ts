// What costs nothing is bounded for each who reads it: strangers must not slow the calls that are paid for.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { FreeReads } from '../../src/http/intake/paid/limits.ts'
import { accountWith, post } from '../support/call-gateway.ts'
import type { ServedWeir } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { stillClock } from '../chat/support.ts'

const kB = 1024

describe('what one may read in a minute', () => {
  test('is bounded by what was made and sent, and comes back evenly', () => {
    const clock = stillClock(0)
    const reads = new FreeReads(600 * kB, clock)
    reads.require('a')
    reads.count('a', 900 * kB)
    expect(() => reads.require('a')).toThrow('More than 614400 bytes')
    reads.require('b')
    // 300 kB of debt, and as much as the least answer counts.
    clock.pass(30_000)
    expect(() => reads.require('a')).toThrow()
    clock.pass(1_601)
    reads.require('a')
  })

  test('counts something for every answer, however small', () => {
    const reads = new FreeReads(160 * kB, stillClock(0))
    for (let times = 0; times < 10; times++) {
      reads.require('a')
      reads.count('a', 0)
    }
    expect(() => reads.require('a')).toThrow()
  })

  test('is not bounded where the setting is 0', () => {
    const reads = new FreeReads(0, stillClock(0))
    for (let times = 0; times < 10; times++) {
      reads.require('a')
      reads.count('a', 1e12)
    }
  })
})

describe('lists and pages of a gateway', () => {
  let weir: ServedWeir
  beforeAll(async () => {
    weir = await serveWeir({
      config: `
server: { trusted_proxies: [127.0.0.1] }
rate_limits: { free_bytes_per_minute: 2000000 }
`,
    })
  })
  afterAll(() => weir.stop())

  let network = 0
  /** The statuses of so many requests that come from one network of their own. */
  async function statuses(path: string, times: number, headers: Record<string, string> = {}) {
    const from = `203.0.${network++}.7`
    const found = new Set<number>()
    for (let at = 0; at < times; at++) {
      const address = weir.origin + path.replace('#', String(at))
      const answer = await fetch(address, { headers: { ...headers, 'x-forwarded-for': from } })
      await answer.arrayBuffer()
      found.add(answer.status)
      if (answer.status === 429) expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    return [...found]
  }

  test.each([
    ['/v1/models?q=#', 200],
    ['/v1/models?max_price=#', 200],
    ['/v1/models', 200],
    ['/v1/models/sim/ehco#', 404],
    ['/v1beta/models?pageSize=1000', 200],
    ['/docs/json', 200],
    ['/docs/site.js', 200],
  ])(
    'a network that reads %s without end is refused after a while, and nobody else',
    async (path, status) => {
      expect(await statuses(path, 200)).toEqual([status, 429])
      expect(await statuses(path, 1)).toEqual([status])
    },
  )

  test('who has a key reads from the share of the account, whatever its network has read', async () => {
    const { key } = await accountWith(weir, 'reader@example.org', {})
    const from = { 'x-forwarded-for': '198.51.100.7' }
    const ask = (headers: Record<string, string>) =>
      fetch(`${weir.origin}/v1/models/sim/echo`, { headers: { ...from, ...headers } })
    while ((await ask({})).status !== 429);
    const named = { authorization: `Bearer ${key}` }
    expect([(await ask(named)).status, (await ask({ authorization: 'Bearer none' })).status]).toEqual([
      200, 429,
    ])
    while ((await ask(named)).status !== 429);
    expect((await ask({ authorization: `Bearer ${weir.key}` })).status).toBe(200)
    // Its calls are limited by what it pays for, not by what it reads.
    const call = { model: 'sim/echo', messages: [{ role: 'user', content: 'Is it open?' }] }
    expect((await post(weir, call, { headers: from })).status).toBe(200)
  })

  test('a list is the same text however often it is asked for, and follows its filter', async () => {
    const read = async (query: string) => {
      const answer = await fetch(`${weir.origin}/v1/models${query}`, {
        headers: { authorization: `Bearer ${weir.key}` },
      })
      return { etag: answer.headers.get('etag'), body: await answer.text() }
    }
    const [all, again, some] = [await read(''), await read(''), await read('?provider=sim')]
    expect(again).toEqual(all)
    const models = (JSON.parse(all.body) as { data: { id: string }[] }).data
    const ofSim = (JSON.parse(some.body) as { data: { id: string }[] }).data
    expect(ofSim).toEqual(models.filter(({ id }) => id.startsWith('sim/')))
    expect(JSON.stringify(JSON.parse(all.body))).toBe(all.body)
  })
})

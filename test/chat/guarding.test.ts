// Tools of the gateway behind guards: what they are sent and what they bring back, and what is owed for it.

import { describe, expect, test } from 'bun:test'
import { guardedRun } from '../../src/chat/guarding.ts'
import type { ToolResult } from '../../src/conversation/gateway-tools.ts'
import { CallGuard, type Hook } from '../../src/guards/guards.ts'
import { atOnce } from '../../src/json/json.ts'

const found: ToolResult = {
  text: 'ada@example.com',
  output: 'ada@example.com, word by word',
  cost: 5n,
  searches: 1,
  sources: [{ url: 'https://a.b/c', title: 'About ada@example.com' }],
}

/** Guards that mask addresses, and a hook that decides by the texts that it is shown. */
function guardOf(decide: (text: string) => object): CallGuard {
  const hook: Hook = {
    name: 'hook',
    on: ['request'],
    fail: 'closed',
    ask: (question) => Promise.resolve(decide(JSON.stringify(question))),
  }
  const masks = [{ name: 'email', find: 'email', replacement: '[email]' }] as const
  const call = { requestId: 'req_1', account: 'a', key: null, model: 'm' }
  const rim = {
    run: <T>(steps: Generator<void, T, void>) => Promise.resolve(atOnce(steps)),
    asks: () => () => undefined,
  }
  return new CallGuard({ masks: { request: masks, response: [] }, hooks: [hook] }, call, rim)
}

async function run(decide: (text: string) => object) {
  const sent: string[] = []
  const guard = guardOf(decide)
  const result = await guardedRun(guard, 'find', '{"who":"ada@example.com"}', (json) => {
    sent.push(json)
    return Promise.resolve(found)
  })
  return { sent, result, guard }
}

const allow = { decision: 'allow' }
const deny = { decision: 'deny', message: 'Not here.' }

describe('a tool', () => {
  test('is sent what the guards leave of its arguments, and so is the model of its result', async () => {
    const { sent, result, guard } = await run(() => allow)
    expect(sent).toEqual(['{"who":"[email]"}'])
    expect(result).toEqual({
      ...found,
      text: '[email]',
      output: '[email], word by word',
      sources: [{ url: 'https://a.b/c', title: 'About [email]' }],
    })
    expect(guard.decisions).toContainEqual({ guard: 'email', on: 'request', decision: 'replace', times: 4 })
  })

  test('does not run where its arguments are denied, or the hook answers nonsense, and costs nothing', async () => {
    for (const [answer, code] of [
      [deny, 'guardrail_denied'],
      [{}, 'guardrail_failed'],
    ] as const) {
      const { sent, result } = await run(() => answer)
      expect([sent, result.failure?.code, result.cost]).toEqual([[], code, 0n])
    }
  })

  test('whose result is denied has run: it is paid for, and nobody sees what it found', async () => {
    const { sent, result } = await run((text) => (text.includes('word by word') ? deny : allow))
    expect(sent).toHaveLength(1)
    expect(result).toEqual({ text: 'The result is withheld: Not here.', cost: 5n, searches: 1 })
  })
})

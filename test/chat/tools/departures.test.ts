// A client that disconnects, a provider that fails, a gateway that stops: in every phase of a round, everything ends and
// what has been used is charged once.

import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/errors/errors.ts'
import { chunk, delta, streamHead } from '../../support/scripted-provider.ts'
import { answer, look, ran, toolLab, toolOf } from './tool-lab.ts'

/** A tool that begins and does not end until it is left. */
function waiting() {
  const begun = Promise.withResolvers<void>()
  const left = Promise.withResolvers<void>()
  const tool = toolOf((_, { signal }) => {
    begun.resolve()
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        left.resolve()
        reject(signal.reason as Error)
      })
    })
  })
  return { tool, begun: begun.promise, left: left.promise }
}

const cases = [
  ['whole', {}],
  ['streamed', { stream: true }],
] as const

describe.each(cases)('a %s answer', (_, how) => {
  test('whose client disconnects while a tool runs: the tool is left, the round is charged', async () => {
    const { tool, begun, left } = waiting()
    await using lab = await toolLab({ turns: [look, answer], tools: [tool] })
    const client = new AbortController()
    const ended = lab.ended()
    const response = lab.open(how, client.signal).catch((error: unknown) => error)
    await begun
    client.abort()
    await left
    expect(await ended).toMatchObject({ ending: 'client-gone', promptTokens: 12, cost: 20_000_000n })
    // A disconnection is not logged as a fault of the gateway.
    expect(await response).not.toMatchObject({ code: 'internal_error' })
    expect(await lab.receipt()).toMatchObject({ state: 'settled', ending: 'client-gone', charged: '0.00002' })
    expect([await lab.pinned(), lab.closed, lab.upstream.arrivals.length]).toEqual([0n, 1, 1])
  })

  test('whose client disconnects while the next round is awaited: what was used is charged, its prompt too', async () => {
    const asked = Promise.withResolvers<void>()
    const hangs = { script: () => asked.resolve() }
    const tool = toolOf(() => Promise.resolve(ran('A river.', { cost: 7n })), { mostCost: 7n })
    await using lab = await toolLab({ turns: [look, hangs], tools: [tool] })
    const client = new AbortController()
    const ended = lab.ended()
    const response = lab.open(how, client.signal).catch((error: unknown) => error)
    await asked.promise
    client.abort()
    const { ending, promptTokens } = await ended
    await response
    const { lines, charged, attempts } = await lab.receipt()
    expect(ending).toBe('client-gone')
    expect(lines.map(({ item, round }) => [item, round])).toEqual([
      ['input', 1],
      ['output', 1],
      ['call:web_search', 1],
      ['input', 2],
    ])
    // The second prompt by our own count: the first, the call and its result.
    expect(promptTokens - 12).toBeWithin(10, 100)
    expect(Number(charged)).toBeCloseTo(20.000007e-6 + (promptTokens - 12) * 1e-6, 12)
    expect(attempts.map(({ outcome, code }) => [outcome, code])).toEqual([
      ['served', null],
      ['failed', 'client_gone'],
    ])
    expect([await lab.pinned(), lab.closed]).toEqual([0n, 1])
  })

  test('whose client disconnects while its tools are opened: nothing was asked, and nothing is charged', async () => {
    await using lab = await toolLab({ turns: [answer] })
    const client = new AbortController()
    lab.parts.toolSources = {
      ...lab.parts.toolSources,
      'web-search': (_, __, { signal }) => ({
        open: () => {
          client.abort()
          return Promise.reject(signal.reason)
        },
        close: () => Promise.resolve(),
      }),
    }
    expect(await lab.open(how, client.signal).catch((error: unknown) => error)).toMatchObject({
      code: 'client_gone',
    })
    expect([await lab.pinned(), lab.upstream.arrivals.length]).toEqual([0n, 0])
  })

  test('whose gateway stops while a tool runs', async () => {
    const { tool, begun, left } = waiting()
    await using lab = await toolLab({ turns: [look, answer], tools: [tool] })
    const stopping = new AbortController()
    const ended = lab.ended()
    const response = lab.open(how, undefined, stopping.signal).then(
      (given) => given.text(),
      (error: unknown) => error,
    )
    await begun
    stopping.abort()
    await left
    await ended
    expect(JSON.stringify(await response)).toContain('overloaded')
    expect([await lab.pinned(), lab.closed]).toEqual([0n, 1])
  })

  test('whose caller may call no longer: the tool is left, nothing more is asked, the round is charged', async () => {
    const { tool, begun, left } = waiting()
    await using lab = await toolLab({ turns: [look, answer], tools: [tool] })
    const access = new AbortController()
    const ended = lab.ended()
    const response = lab.open(how, undefined, access.signal).then(
      (given) => given.text(),
      (error: unknown) => error,
    )
    await begun
    access.abort(new GatewayError('api_key_revoked'))
    await left
    expect(await ended).toMatchObject({ ending: 'stopped', code: 'api_key_revoked', cost: 20_000_000n })
    expect(JSON.stringify(await response)).toContain('api_key_revoked')
    expect(await lab.receipt()).toMatchObject({ state: 'settled', ending: 'stopped', charged: '0.00002' })
    expect([await lab.pinned(), lab.closed, lab.upstream.arrivals.length]).toEqual([0n, 1, 1])
  })

  test('whose caller may call no longer while the next round is awaited: what was used is charged', async () => {
    const asked = Promise.withResolvers<void>()
    const hangs = { script: () => asked.resolve() }
    const tool = toolOf(() => Promise.resolve(ran('A river.', { cost: 7n })), { mostCost: 7n })
    await using lab = await toolLab({ turns: [look, hangs], tools: [tool] })
    const access = new AbortController()
    const ended = lab.ended()
    const response = lab.open(how, undefined, access.signal).then(
      (given) => given.text(),
      (error: unknown) => error,
    )
    await asked.promise
    access.abort(new GatewayError('account_suspended'))
    expect(await ended).toMatchObject({ ending: 'stopped', code: 'account_suspended' })
    expect(JSON.stringify(await response)).toContain('account_suspended')
    const { lines, charged } = await lab.receipt()
    expect(lines.map(({ item }) => item)).toContain('call:web_search')
    expect(Number(charged)).toBeGreaterThanOrEqual(0.000020000007)
    expect([await lab.pinned(), lab.closed]).toEqual([0n, 1])
  })

  test('whose tool would take longer than the whole call may: it is left in time', async () => {
    const { tool, left } = waiting()
    const limits = { totalMs: 300, toolMs: 60_000 }
    await using lab = await toolLab({ turns: [look, answer], tools: [tool], limits })
    const before = performance.now()
    await lab.open(how).then(
      (given) => given.text(),
      (error: unknown) => error,
    )
    await left
    expect(performance.now() - before).toBeLessThan(5_000)
    expect([await lab.pinned(), lab.closed]).toEqual([0n, 1])
  })
})

test('a stream whose client disconnects within a later round is charged for all rounds up to there', async () => {
  const writes = {
    script: async (wire: { write(bytes: string | Uint8Array): Promise<boolean> }) => {
      await wire.write(streamHead)
      await wire.write(chunk(delta({ role: 'assistant', content: 'The river runs on' })))
    },
  }
  await using lab = await toolLab({ turns: [look, writes] })
  const client = new AbortController()
  const ended = lab.ended()
  const { body } = await lab.open({ stream: true }, client.signal)
  let read = ''
  for await (const bytes of body!) {
    read += new TextDecoder().decode(bytes)
    if (read.includes('runs on')) break
  }
  client.abort()
  expect((await ended).ending).toBe('client-gone')
  const { lines, total, usage } = await lab.receipt()
  expect(lines.map(({ item, round }) => [item, round])).toEqual([
    ['input', 1],
    ['output', 1],
    ['call:web_search', 1],
    ['input', 2],
    ['output', 2],
  ])
  expect(usage).toMatchObject({ estimated: true })
  expect(Number(total)).toBeGreaterThan(0.00002)
})

test('a stream is read to its end for its usage where the provider bills on, and no tool runs then', async () => {
  let runs = 0
  const tool = toolOf(() => Promise.resolve(ran(`Run ${++runs}.`)))
  const begun = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const slow = {
    script: async (wire: { write(bytes: string | Uint8Array): Promise<boolean> }) => {
      await wire.write(streamHead)
      await wire.write(chunk(delta({ role: 'assistant', content: 'Let me look.' })))
      begun.resolve()
      await go.promise
      const call = {
        index: 0,
        id: 'call_x',
        type: 'function',
        function: { name: 'web_search', arguments: '{}' },
      }
      const usage = { prompt_tokens: 12, completion_tokens: 9, total_tokens: 21 }
      await wire.write(
        chunk(
          delta({ tool_calls: [call] }) +
            delta({}, 'tool_calls') +
            `data: ${JSON.stringify({ id: 'x', choices: [], usage })}\n\ndata: [DONE]\n\n`,
        ),
      )
      await wire.write('0\r\n\r\n')
    },
  }
  await using lab = await toolLab({ turns: [slow, answer], tools: [tool] })
  const client = new AbortController()
  const ended = lab.ended()
  await lab.open({ stream: true, on_disconnect: 'finish' }, client.signal)
  await begun.promise
  client.abort()
  go.resolve()
  expect(await ended).toMatchObject({ ending: 'client-gone', completionTokens: 9 })
  expect([runs, lab.upstream.arrivals.length]).toEqual([0, 1])
  expect(await lab.receipt()).toMatchObject({ charged: '0.00003' })
})

describe('a provider that fails in a later round', () => {
  test('makes a whole answer an error that costs nothing', async () => {
    await using lab = await toolLab({ turns: [look, { status: 500 }] })
    const error: unknown = await lab.ask({}).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ name: 'GatewayError', code: 'upstream_error' })
    expect(await lab.receipt()).toMatchObject({ state: 'voided', charged: '0' })
    expect([await lab.pinned(), lab.closed]).toEqual([0n, 1])
  })

  test('is paid for what was used where the request is at fault: nobody searches for nothing', async () => {
    const tool = toolOf(() => Promise.resolve(ran('A river.', { cost: 7n })), { mostCost: 7n })
    await using lab = await toolLab({ turns: [look, { status: 400 }], tools: [tool] })
    const error: unknown = await lab.ask({}).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ name: 'GatewayError', status: 400 })
    const { attempts, ...receipt } = await lab.receipt()
    expect(receipt).toMatchObject({ state: 'settled', ending: 'stopped', charged: '0.000020000007' })
    expect(attempts.map(({ outcome }) => outcome)).toEqual(['served', 'failed'])
    expect(lab.parts.ended).toMatchObject([{ status: 400 }])
    expect([await lab.pinned(), lab.closed]).toEqual([0n, 1])
  })

  test('ends a stream with an error, and what was used is charged', async () => {
    await using lab = await toolLab({ turns: [{ ...look, text: 'Let me look. ' }, { status: 400 }] })
    const { content, finishes, error } = await lab.ask({ stream: true })
    expect([content, finishes]).toEqual(['Let me look. ', ['error']])
    expect(error).toMatchObject({ type: expect.any(String), message: expect.any(String) })
    const { attempts, ...receipt } = await lab.receipt()
    expect(receipt).toMatchObject({ state: 'settled', ending: 'provider-cut', charged: '0.00002' })
    expect(attempts.map(({ outcome }) => outcome)).toEqual(['served', 'failed'])
    expect(lab.parts.ended[0]).toMatchObject({ code: error!['code'] })
    expect([await lab.pinned(), lab.closed]).toEqual([0n, 1])
  })

  test('ends a stream with an error where it breaks off', async () => {
    const seen = Promise.withResolvers<void>()
    const breaks = {
      script: async (wire: { write(bytes: string | Uint8Array): Promise<boolean>; reset(): void }) => {
        await wire.write(streamHead)
        await wire.write(chunk(delta({ role: 'assistant', content: 'The river' })))
        await seen.promise
        wire.reset()
      },
    }
    await using lab = await toolLab({ turns: [look, breaks] })
    const { body } = await lab.open({ stream: true })
    let read = ''
    for await (const bytes of body!) {
      read += new TextDecoder().decode(bytes)
      if (read.includes('The river')) seen.resolve()
    }
    expect(read).toContain('"finish_reason":"error"')
    expect(read).toContain('"code":"upstream_error"')
    expect(await lab.receipt()).toMatchObject({ state: 'settled', ending: 'provider-cut' })
  })
})

// One call's money from its hold to its end, on a real ledger.

import { beforeAll, describe, expect, test } from 'bun:test'
import { openHold, EarlierRounds } from '../../../src/chat/billing/hold.ts'
import { StreamWatch } from '../../../src/chat/billing/stream-watch.ts'
import { type Outcome, outcomeOf, unservedOutcome } from '../../../src/chat/call.ts'
import type { Candidate } from '../../../src/chat/routing/candidates.ts'
import { Delivered, type Progress } from '../../../src/conversation/delivered.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { noUsage, addedUsage } from '../../../src/conversation/usage.ts'
import type { Model } from '../../../src/catalog/row.ts'
import type { Attempt } from '../../../src/credits/ledger/ledger.ts'
import type { ConfiguredProvider } from '../../../src/providers/provider.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { openStore } from '../../../src/store/open.ts'
import { grantOf } from '../../credits/support.ts'
import { tempDir } from '../../support/tmp.ts'
import { callOf, counter, partsOf } from '../parts.ts'
import { until } from '../lab.ts'
import { candidateOf, modelOf, providerOf } from '../support.ts'
import { type Charge, noCharge } from '../../../src/chat/billing/charge.ts'

/** An account with so many picodollars, and a hold of its call. */
async function held(credit: bigint, body: JsonObject = {}, candidate: Candidate = candidateOf('a')) {
  const dir = tempDir()
  const store = await openStore(dir.path, { clock: () => Date.now() })
  await store.ledger.grant(grantOf('g', credit))
  const parts = partsOf(store, [candidate.provider], { checkpointTokens: 10 })
  const call = callOf({ model: 'a/m', ...body })
  const balance = await store.ledger.balance('anna')
  const open = () => openHold(parts, call, [candidate], balance, ['purchased'])
  let closing: Promise<void> | undefined
  const close = () => (closing ??= store.close())
  return {
    close,
    parts,
    call,
    store: Object.assign(store, { dataDir: dir.path }),
    open,
    state: async () => (await store.ledger.call('anna', 'call_1'))?.state,
    left: async () => (await store.ledger.balance('anna')).lots.reduce((sum, lot) => sum + lot.remaining, 0n),
    pinned: async () => (await store.ledger.balance('anna')).lots.reduce((sum, lot) => sum + lot.pinned, 0n),
    async [Symbol.asyncDispose]() {
      await close()
      dir[Symbol.dispose]()
    },
  }
}

// Accounts with little credit have their prompts counted, and the vocabulary takes its time to load.
beforeAll(() => counter.of('anna').count(['Hello']), 30_000)

/** A picodollar amount that pays for so many output tokens of the test's model. */
const output = (tokens: number) => BigInt(tokens) * 2_000_000n
const rich = output(1_000_000)

function saying(text: string, more: Partial<Progress> = {}): Progress {
  const delivered = new Delivered()
  delivered.add(0, 'output', text)
  return {
    started: true,
    finished: false,
    fault: undefined,
    usage: undefined,
    delivered,
    finishReason: undefined,
    upstreamId: 'up_1',
    ...more,
  }
}

const usage = { ...noUsage, input: 10, output: 5 }
const whole: Outcome = outcomeOf({
  usage,
  delivered: saying('Hello.').delivered,
  finishReason: 'stop',
  upstreamId: 'up_1',
})

describe('a hold', () => {
  test('sets aside what the call may cost, and no call is in flight without one', async () => {
    await using lab = await held(rich, { max_tokens: 10 })
    expect(lab.parts.inFlight.size).toBe(0)
    const hold = await lab.open()
    expect(await lab.pinned()).toBe(hold.amount)
    expect(hold.amount).toBeGreaterThan(output(10))
    expect(hold.warningsFor(candidateOf('a'))).toEqual([])
    expect(lab.parts.inFlight.size).toBe(1)
  })

  test.each([
    ['is charged what the reseller reports', '0.000123', 123_000_000n],
    ['is charged by the catalog where what is reported cannot be', '9000000', output(10)],
  ])('of a call to a reseller %s', async (_, reportedCost, charged) => {
    await using lab = await held(
      rich,
      {},
      { ...candidateOf('a'), provider: providerOf('a', { costFrom: 'reported' }) },
    )
    const hold = await lab.open()
    const before = await lab.left()
    await hold.settle({ ...whole, usage: { ...usage, reportedCost } }, () => undefined)
    expect(before - (await lab.left())).toBe(charged)
  })

  test('of an account that cannot pay for one token is refused and nothing is set aside', async () => {
    await using lab = await held(1n)
    const refusal: unknown = await lab.open().catch((error: unknown) => error)
    expect(refusal).toMatchObject({ code: 'insufficient_credits' })
    expect(await lab.pinned()).toBe(0n)
    expect(lab.parts.inFlight.size).toBe(0)
    // Whoever refuses a call logs it: it has not begun, and so it has not ended.
    expect(lab.parts.ended).toEqual([])
    // The prompt is counted, so the vocabulary is loaded first.
  }, 30_000)

  test('of an account that cannot pay for all of it bounds the answer and says so', async () => {
    await using lab = await held(output(1_000), { max_tokens: 4_000 })
    const hold = await lab.open()
    const bound = hold.outputBound(candidateOf('a'))!
    expect(bound).toBeWithin(1, 1_000)
    expect(hold.warningsFor(candidateOf('a'))).toEqual([
      { param: 'max_tokens', message: `The output is limited to ${bound} tokens by the credit available.` },
    ])
  })

  test('of a whole answer sets aside what its provider may write: calls at once do not spend one credit each', async () => {
    const candidate = { ...candidateOf('a'), model: modelOf('a/m', { maxOutputTokens: 100_000 }) }
    await using lab = await held(output(64_000), {}, candidate)
    const another = async (requestId: string, body: JsonObject = {}, of: Candidate = candidate) => {
      const balance = await lab.store.ledger.balance('anna')
      const call = { ...callOf({ model: 'a/m', ...body }), requestId }
      return openHold(lab.parts, call, [of], balance, ['purchased'])
    }
    // Of the 64,000 tokens that the credit pays for each may have a quarter of what is free beyond all that is held,
    // and its prompt takes a few of them.
    const first = await lab.open()
    const bounds = [first.outputBound(candidate)!]
    expect(bounds[0]).toBeWithin(15_800, 16_001)
    expect(first.amount).toBe(output(16_000))
    const second = await another('call_2')
    bounds.push(second.outputBound(candidate)!)
    expect(bounds[1]).toBeWithin(7_800, 8_001)
    expect(second.warningsFor(candidate)).toEqual([
      { param: 'max_tokens', message: expect.stringMatching(/limited to [\d,]+ tokens by the credit/) },
    ])
    const stoppable = await another('call_3', { stream: true })
    expect(stoppable.outputBound(candidate)).toBeUndefined()
    expect(stoppable.warningsFor(candidate)).toEqual([])
    expect(stoppable.amount).toBeLessThan(output(300))
    const billsOn = { ...candidate, provider: providerOf('a', { onDisconnect: 'drain' }) }
    bounds.push((await another('call_4', { stream: true }, billsOn)).outputBound(billsOn)!)
    const thinks = { ...candidate, model: modelOf('a/m', { maxOutputTokens: 100_000, reasoning: true }) }
    bounds.push((await another('call_5', { stream: true }, thinks)).outputBound(thinks)!)
    expect(bounds[2]).toBeWithin(3_600, 4_001)
    expect(bounds[3]).toBeWithin(1_700, 2_001)
    expect((await another('call_6', { max_tokens: 500 })).outputBound(candidate)).toBe(500)
    // All that may be written is set aside, and half of the credit is left.
    const pinned = await lab.pinned()
    expect(pinned).toBeGreaterThan(output(bounds.reduce((sum, bound) => sum + bound, 500)))
    expect(Number(pinned / output(1))).toBeWithin(30_000, 33_000)
    // What is given back another may have.
    await first.release(new GatewayError('upstream_error'), [])
    expect((await another('call_7')).outputBound(candidate)).toBeWithin(8_400, 8_900)
    // It is the credit that ends an answer of this length, and the client is told so.
    await second.settle({ ...whole, finishReason: 'length' }, ({ stoppedBy }) => {
      expect(stoppedBy).toBe('credits')
    })
  })

  test('of many calls in two processes grants no more than there is, of the account or of a key', async () => {
    const candidate = { ...candidateOf('a'), model: modelOf('a/m', { maxOutputTokens: 100_000 }) }
    await using lab = await held(output(60_000), {}, candidate)
    const elsewhere = await openStore(lab.store.dataDir, { clock: () => Date.now() })
    try {
      const ledgers = [lab.store.ledger, elsewhere.ledger]
      let granted = 0
      let refused = 0
      for (let at = 0; at < 700; at++) {
        const ledger = ledgers[at % 2]!
        const call = { ...callOf({ model: 'a/m', stream: at % 3 === 0 }), requestId: `call_${at}` }
        const thinks = { ...candidate, model: modelOf('a/m', { maxOutputTokens: 50_000, reasoning: true }) }
        const opening = openHold({ ...lab.parts, ledger }, call, [thinks], await ledger.balance('anna'), [
          'purchased',
        ])
        const hold = await opening.catch((error: GatewayError) => error.code)
        if (typeof hold !== 'string') granted += hold.outputBound(thinks)!
        else if (hold === 'credits_reserved') refused += 1
      }
      expect(granted).toBeWithin(30_000, 60_000)
      expect(refused).toBeGreaterThan(300)
    } finally {
      await elsewhere.close()
    }
  }, 30_000)

  test('of a document whose size nobody knows sets a full context aside, so that calls at once do not share one credit', async () => {
    const context = 100_000n * 1_000_000n
    const pdf = { type: 'file', file: { file_url: 'https://example.com/report.pdf' } }
    const body = { max_tokens: 10, messages: [{ role: 'user', content: [pdf] }] }
    const candidate = { ...candidateOf('a'), model: modelOf('a/m', { contextLength: 100_000 }) }
    await using lab = await held((context * 3n) / 2n, body, candidate)
    const another = async (requestId: string) => {
      const balance = await lab.store.ledger.balance('anna')
      return openHold(lab.parts, { ...lab.call, requestId }, [candidate], balance, ['purchased'])
    }
    const first = await lab.open()
    expect(first.amount).toBeGreaterThanOrEqual(context)
    // What is left is enough for the request as far as it is known, and its output is as long as it asks for.
    const second = await another('call_2')
    expect(second.amount).toBeLessThan(context)
    expect(second.outputBound(candidate)).toBe(10)
    expect(second.warningsFor(candidate)).toEqual([])
    await expect(another('call_3')).rejects.toHaveProperty('code', 'credits_reserved')
    await first.settle(whole, () => undefined)
    expect(await lab.left()).toBe((context * 3n) / 2n - 20_000_000n)
    await another('call_3')
  })

  test('is settled at the cost of what the provider counted; the rest goes back', async () => {
    await using lab = await held(rich, { max_tokens: 100 })
    const hold = await lab.open()
    const seen: unknown[] = []
    await hold.settle(whole, ({ bill, usage: shown }) => {
      seen.push(bill.cost, shown.output)
    })
    expect(seen).toEqual(['0.00002', 5])
    expect([await lab.state(), await lab.left(), await lab.pinned()]).toEqual([
      'settled',
      rich - 20_000_000n,
      0n,
    ])
    expect(lab.parts.ended).toMatchObject([{ ending: 'finished', status: 200, cost: 20_000_000n }])
    expect(lab.parts.inFlight.size).toBe(0)
  })

  test('is given back whole by a release, and an ended one is released no more', async () => {
    await using lab = await held(rich)
    const hold = await lab.open()
    await hold.release(new GatewayError('upstream_error'), [])
    await hold.release(new GatewayError('internal_error'), [])
    expect([await lab.state(), await lab.left(), await lab.pinned()]).toEqual(['voided', rich, 0n])
    expect(lab.parts.ended).toMatchObject([{ code: 'upstream_error', cost: 0n }])
    expect(lab.parts.inFlight.size).toBe(0)
  })

  test.each<[string, Partial<Outcome>, 'cancel' | 'free', 'settled' | 'voided']>([
    ['is charged for what it was served', {}, 'cancel', 'settled'],
    ['was served nothing and owes nothing', { delivered: new Delivered() }, 'cancel', 'voided'],
    ['owes nothing where the provider bills nothing then', {}, 'free', 'voided'],
  ])('a client that disconnects %s', async (_, more, onDisconnect, state) => {
    await using lab = await held(rich, { stream: true }, candidateOf('a', { onDisconnect }))
    const hold = await lab.open()
    const ending = { ...whole, usage: undefined, ending: 'client-gone' } as const
    await hold.settle({ ...ending, ...more }, () => undefined)
    expect(await lab.state()).toBe(state)
    expect(await lab.pinned()).toBe(0n)
  })

  test.each([false, true])(
    'whose end the store does not take is in the log all the same, with the error (streamed: %p)',
    async (stream) => {
      await using lab = await held(rich, { stream })
      const hold = await lab.open()
      await lab.close()
      await expect(hold.settle(whole, () => undefined)).rejects.toHaveProperty('code', 'store_unavailable')
      expect(lab.parts.ended).toMatchObject([{ status: 503, code: 'store_unavailable', promptTokens: 10 }])
      expect(lab.parts.inFlight.size).toBe(0)
    },
  )

  test('of a stream whose last frames cannot be made is settled, and in the log', async () => {
    await using lab = await held(rich, { stream: true })
    const hold = await lab.open()
    const broken = hold.settle(whole, () => {
      throw new TypeError('a fault of ours')
    })
    await expect(broken).rejects.toHaveProperty('code', 'internal_error')
    expect(await lab.state()).toBe('settled')
    expect(lab.parts.ended).toMatchObject([{ code: 'internal_error', ending: 'finished' }])
  })

  test('whose last round tools follow warns once of a count that cannot be', async () => {
    await using lab = await held(rich, { max_tokens: 100 })
    const warnings: string[] = []
    Object.assign(lab.parts.log, { warn: (message: string) => void warnings.push(message) })
    const hold = await lab.open()
    const doubted = { ...whole, usage: { ...usage, output: 9_000_000 } }
    await hold.endLastRound(doubted)
    await hold.settle(doubted, () => undefined)
    expect(warnings).toEqual([expect.stringContaining('it is estimated')])
    expect([await lab.state(), await lab.pinned()]).toEqual(['settled', 0n])
  })

  test.each(['cancel', 'free'] as const)(
    'whose last round was complete charges it, though the client left the tools that followed (%s)',
    async (onDisconnect) => {
      await using lab = await held(rich, {}, candidateOf('a', { onDisconnect }))
      const hold = await lab.open()
      await hold.endLastRound(whole)
      expect([hold.spent, hold.owes]).toEqual([0n, true])
      await hold.settle(unservedOutcome('client-gone', undefined), () => undefined)
      expect([await lab.state(), await lab.left()]).toEqual(['settled', rich - 20_000_000n])
    },
  )

  test('an estimate never exceeds what is held for it', async () => {
    await using lab = await held(rich, { max_tokens: 5, stream: true })
    const hold = await lab.open()
    const long = saying('The river runs on and on. '.repeat(100)).delivered
    await hold.settle({ ...whole, usage: undefined, delivered: long }, () => undefined)
    expect(await lab.left()).toBe(rich - hold.amount)
  })
})

describe('the watch of a stream', () => {
  test('lets the hold grow before it is used up', async () => {
    await using lab = await held(rich, { stream: true })
    const hold = await lab.open()
    const before = hold.amount
    const watch = new StreamWatch(lab.parts, lab.call, hold)
    expect(watch.look(saying('word '.repeat(5)))).toBeUndefined()
    expect(hold.amount).toBe(before)
    expect(watch.look(saying('word '.repeat(95)))).toBeUndefined()
    await until(
      () => hold.amount,
      (amount) => amount > before,
    )
    expect(await lab.pinned()).toBe(hold.amount)
  })

  test('stops the stream when the credit has come to its end', async () => {
    await using lab = await held(output(150), { stream: true })
    const hold = await lab.open()
    const watch = new StreamWatch(lab.parts, lab.call, hold)
    const long = saying('word '.repeat(400))
    // Nothing more is read before it is known whether more is there.
    expect(await watch.look(long)).toBe('credits')
    expect(hold.amount).toBeLessThanOrEqual(output(150))
  })

  test.each([
    ['max_tokens that its provider does not keep to', { max_tokens: 3 }, 'max_tokens'],
    ['max_cost', { max_cost: '0.0003' }, 'max_cost'],
  ])('stops the stream at %s', async (_, body, reason) => {
    await using lab = await held(rich, { stream: true, ...body })
    const watch = new StreamWatch(lab.parts, lab.call, await lab.open())
    expect(watch.look(saying('a'))).toBeUndefined()
    expect(await watch.look(saying('word '.repeat(2_000)))).toBe(reason as 'max_cost')
  })

  test('writes checkpoints, by which a call that dies is charged', async () => {
    await using lab = await held(rich, { stream: true })
    const watch = new StreamWatch(lab.parts, lab.call, await lab.open())
    void watch.look(saying('word '.repeat(60)))
    // Commands are committed in the order in which they were given.
    await lab.store.ledger.grant(grantOf('later', 1n))
    await lab.store.ledger.recover(Date.now() + 1_000_000)
    expect(await lab.state()).toBe('settled')
    expect(await lab.left()).toBeLessThan(rich - output(50))
  })
})

describe('a call that is ended before its answer begins', () => {
  const gone = () => new GatewayError('client_gone')
  const attempts: readonly Attempt[] = []

  test.each<[string, Partial<ConfiguredProvider>, Partial<Model>, number, readonly [number, number]]>([
    ['owes its prompt', {}, {}, 60_000, [5, 40]],
    ['owes nothing where the provider bills nothing for it', { onDisconnect: 'free' }, {}, 60_000, [0, 1]],
    ['owes an estimate of what the model has thought', {}, { reasoning: true }, 4_000, [85, 130]],
    ['owes no thoughts of the first moments', {}, { reasoning: true }, 1_000, [5, 40]],
    // 100 tokens of output were held, and what bounds the prompt.
    ['owes no more than was held', {}, { reasoning: true }, 3_600_000, [100, 350]],
  ])('%s', async (_, provider, model, askedMs, [least, most]) => {
    const candidate = candidateOf('a', provider)
    await using lab = await held(
      rich,
      { max_tokens: 100 },
      { ...candidate, model: { ...candidate.model, ...model } },
    )
    const hold = await lab.open()
    const { amount, candidate: asked } = hold
    await hold.fail({ error: gone(), attempts, abandoned: { candidate: asked, askedMs, usage: undefined } })
    const charged = rich - (await lab.left())
    expect(Number(charged / 1_000_000n)).toBeWithin(least, most)
    expect(charged).toBeLessThanOrEqual(amount)
    expect(await lab.pinned()).toBe(0n)
    expect(lab.parts.ended).toMatchObject([{ status: 499, code: 'client_gone' }])
    // Whoever hands the error on ends nothing again.
    await hold.fail({ error: gone(), attempts, abandoned: undefined })
    expect(lab.parts.ended).toHaveLength(1)
    expect(rich - (await lab.left())).toBe(charged)
  })

  test('is returned whole where no provider was asked', async () => {
    await using lab = await held(rich)
    const hold = await lab.open()
    await hold.fail({ error: gone(), attempts, abandoned: undefined })
    expect([await lab.state(), await lab.left()]).toEqual(['voided', rich])
  })
})

// The charge of a call that asks a provider several times, and what one client's calls never see of another's.

function chargeOf(input: number, more: Partial<Charge> = {}): Charge {
  const amount = BigInt(input) * 2n
  return {
    usage: { ...noUsage, input },
    cost: { lines: [{ item: 'input', quantity: input, rate: 2n, amount }], total: amount, unpriced: [] },
    estimated: false,
    ...more,
  }
}

describe('the charge of several rounds', () => {
  test('is the very charge of its round where there is but one', () => {
    const only = chargeOf(5)
    expect(new EarlierRounds().with(only)).toBe(only)
    expect(new EarlierRounds().with(noCharge)).toBe(noCharge)
  })

  test('adds rounds and tools up, each in lines of its own', () => {
    const rounds = new EarlierRounds()
    rounds.addRound(chargeOf(5))
    rounds.addTool({ name: 'web_search', cost: 7n, searches: 1 }, 1)
    rounds.addTool({ name: 'open_page', cost: 0n, searches: 0 }, 1)
    const { cost, usage, estimated } = rounds.with(chargeOf(6, { estimated: true }))
    expect(cost.lines.map(({ item, amount, round }) => [item, amount, round])).toEqual([
      ['input', 10n, 1],
      ['call:web_search', 7n, 1],
      ['call:open_page', 0n, 1],
      ['input', 12n, 2],
    ])
    expect([cost.total, rounds.cost]).toEqual([29n, 17n])
    expect(cost.lines.reduce((sum, { amount }) => sum + amount, 0n)).toBe(cost.total)
    expect([usage.input, usage.toolCalls, estimated]).toEqual([11, { web_search: 1 }, true])
  })
})

test('sums of usage keep every bucket, tool call and gap of a count', () => {
  const a = {
    ...noUsage,
    input: 1,
    cacheRead: 2,
    reasoning: 3,
    toolCalls: { web_search: 1 },
    serviceTier: 'flex',
  }
  const b = { ...noUsage, output: 4, toolCalls: { web_search: 2, x: 1 }, uncounted: ['prompt'] as const }
  expect(addedUsage(a, b)).toEqual({
    ...noUsage,
    input: 1,
    cacheRead: 2,
    reasoning: 3,
    output: 4,
    toolCalls: { web_search: 3, x: 1 },
    serviceTier: 'flex',
    uncounted: ['prompt'],
  })
})

// Which offer is tried when, how often, and what all their failures amount to.

import { describe, expect, test } from 'bun:test'
import { type AfterFilter, AttemptFailed, AttemptTooSlow } from '../../../src/chat/routing/fault-error.ts'
import { dispatch, DispatchFailed, RetryBudget } from '../../../src/chat/routing/dispatch.ts'
import { faultsToOpen, Health, noAnswers, probeEveryMs } from '../../../src/chat/routing/health.ts'
import type { Candidate } from '../../../src/chat/routing/candidates.ts'
import type { Fault } from '../../../src/conversation/event.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { candidateOf, faultOf, modelOf, stillClock } from '../support.ts'

type Script = Record<string, readonly (Fault | GatewayError | 'ok')[]>

/** Offers of one model, one at each provider. */
function offersOfOne(providers: readonly string[]): Candidate[] {
  const model = modelOf('x/m')
  return providers.map((id) => ({ ...candidateOf(id), model }))
}

/** A gateway's memory of its providers, and calls that are answered by a script; the last answer goes on for ever. */
function house(script: Script, candidates = offersOfOne(Object.keys(script))) {
  const clock = stillClock()
  const health = new Health(clock)
  const budget = new RetryBudget(clock)
  const tried: string[] = []
  const waits: number[] = []
  const client = new AbortController()
  const attempt = async ({ provider }: Candidate) => {
    tried.push(provider.id)
    const answers = script[provider.id]!
    const told = answers[Math.min(tried.filter((id) => id === provider.id).length, answers.length) - 1]!
    if (told === 'ok') return provider.id
    throw told instanceof GatewayError ? told : new AttemptFailed(told)
  }
  const pause = async (ms: number) => {
    waits.push(ms)
    clock.pass(ms)
  }
  const failed = () => undefined
  const served = () => undefined
  const call = (limit = 3, afterFilter: AfterFilter = 'end') =>
    dispatch(
      {
        candidates,
        limit,
        health,
        account: 'acct',
        afterFilter,
        budget,
        disconnect: client.signal,
        onFailed: failed,
        onServed: served,
        pause,
      },
      attempt,
    ).then(
      ({ answer }) => answer,
      (error: unknown) => (error as DispatchFailed).error.code,
    )
  return { call, tried, waits, clock, health, client, candidates }
}

const down = faultOf('broken')

describe('one call', () => {
  test.each<[string, Script, string, string[]]>([
    // what happens, the script, the outcome, who was tried
    ['the first answers', { a: ['ok'], b: ['ok'] }, 'a', ['a']],
    ['the first is down', { a: [down], b: ['ok'] }, 'b', ['a', 'b']],
    ['the first refuses our key', { a: [faultOf('credentials')], b: ['ok'] }, 'b', ['a', 'b']],
    ['the first has run out of money', { a: [faultOf('quota')], b: ['ok'] }, 'b', ['a', 'b']],
    ['the first does not know the model', { a: [faultOf('not-found')], b: ['ok'] }, 'b', ['a', 'b']],
    ['the request is wrong', { a: [faultOf('invalid-request')], b: ['ok'] }, 'invalid_request', ['a']],
    [
      'the first cannot honour a parameter',
      { a: [new GatewayError('unsupported_parameter')], b: ['ok'] },
      'b',
      ['a', 'b'],
    ],
    [
      'none can honour a parameter',
      { a: [new GatewayError('unsupported_parameter')], b: [new GatewayError('unsupported_parameter')] },
      'unsupported_parameter',
      ['a', 'b'],
    ],
    [
      'who could honour a parameter is down',
      { a: [new GatewayError('unsupported_parameter')], b: [faultOf('timeout')] },
      'upstream_timeout',
      ['a', 'b'],
    ],
    [
      'the request asks for an address that is not allowed',
      { a: [new GatewayError('url_not_allowed')], b: ['ok'] },
      'url_not_allowed',
      ['a'],
    ],
    ['a lone offer was down for a moment', { a: [down, 'ok'] }, 'a', ['a', 'a']],
    ['a lone offer stays down', { a: [down] }, 'upstream_error', ['a', 'a', 'a']],
    ['a lone offer timed out', { a: [faultOf('timeout')] }, 'upstream_timeout', ['a']],
    [
      'a lone offer limits us, without a time',
      { a: [faultOf('rate-limited')] },
      'upstream_rate_limited',
      ['a'],
    ],
    [
      'a lone offer limits us for a moment',
      { a: [faultOf('rate-limited', { retryAfterMs: 900 }), 'ok'] },
      'a',
      ['a', 'a'],
    ],
    [
      'a lone offer limits us for long',
      { a: [faultOf('rate-limited', { retryAfterMs: 2_001 })] },
      'upstream_rate_limited',
      ['a'],
    ],
    ['all are down', { a: [down], b: [down], c: [down], d: ['ok'] }, 'upstream_error', ['a', 'b', 'c']],
  ])('%s', async (_, script, outcome, tried) => {
    const the = house(script)
    expect(await the.call()).toBe(outcome)
    expect(the.tried).toEqual(tried)
  })

  describe('of which another model is the fallback', () => {
    const limited = faultOf('rate-limited')
    const prefill = faultOf('invalid-request', { status: 400, message: 'assistant prefill is not supported' })
    test.each<[string, Script, string, string[]]>([
      ['down for a moment: it is asked again', { a: [down, 'ok'], b: ['ok'] }, 'a', ['a', 'a']],
      ['down for good: once again, then the other', { a: [down], b: ['ok'] }, 'b', ['a', 'a', 'b']],
      ['limited for a moment', { a: [limited, 'ok'], b: ['ok'] }, 'a', ['a', 'a']],
      ['limited for good', { a: [limited], b: ['ok'] }, 'b', ['a', 'a', 'b']],
      [
        'limited for long, as it says',
        { a: [faultOf('rate-limited', { retryAfterMs: 2_001 })], b: ['ok'] },
        'b',
        ['a', 'b'],
      ],
      ['too slow', { a: [faultOf('timeout')], b: ['ok'] }, 'b', ['a', 'b']],
      ['our key refused', { a: [faultOf('credentials')], b: ['ok'] }, 'b', ['a', 'b']],
      ['the prompt too long for it', { a: [faultOf('context-length')], b: ['ok'] }, 'b', ['a', 'b']],
      ['the prompt filtered', { a: [faultOf('content-filter')], b: ['ok'] }, 'content_filtered', ['a']],
      ['an answer begun that it does not go on with', { a: [prefill], b: ['ok'] }, 'b', ['a', 'b']],
      [
        'an answer begun that nobody goes on with',
        { a: [prefill], b: [prefill] },
        'invalid_request',
        ['a', 'b'],
      ],
      [
        'both down: the last attempt is the other’s',
        { a: [down], b: [down] },
        'upstream_error',
        ['a', 'a', 'b'],
      ],
    ])('%s', async (_, script, outcome, tried) => {
      const the = house(
        script,
        Object.keys(script).map((id) => candidateOf(id)),
      )
      expect(await the.call()).toBe(outcome)
      expect(the.tried).toEqual(tried)
    })

    test('another offer of the same model goes first, and counts as the second try', async () => {
      const candidates = [...offersOfOne(['a', 'b']), candidateOf('c')]
      const the = house({ a: [down], b: [down], c: ['ok'] }, candidates)
      expect(await the.call()).toBe('c')
      expect(the.tried).toEqual(['a', 'b', 'c'])
    })

    test('two attempts are one for each', async () => {
      const the = house(
        { a: [down], b: ['ok'] },
        ['a', 'b'].map((id) => candidateOf(id)),
      )
      expect(await the.call(2)).toBe('b')
      expect(the.tried).toEqual(['a', 'b'])
    })

    test('a filtered prompt goes to it where the caller says so', async () => {
      const the = house(
        { a: [faultOf('content-filter')], b: ['ok'] },
        ['a', 'b'].map((id) => candidateOf(id)),
      )
      expect(await the.call(3, 'fallback')).toBe('b')
    })

    test('a prompt too long for one goes to the larger ones first', async () => {
      const sized = (id: string, contextLength: number | undefined) => {
        const candidate = candidateOf(id)
        return { ...candidate, model: { ...candidate.model, contextLength } }
      }
      const candidates = [sized('a', 100), sized('b', 50), sized('c', undefined), sized('d', 200)]
      const tooLong = [faultOf('context-length')]
      const the = house({ a: tooLong, b: tooLong, c: tooLong, d: tooLong }, candidates)
      expect(await the.call(9)).toBe('context_length_exceeded')
      expect(the.tried).toEqual(['a', 'd', 'b', 'c'])
    })
  })

  test('an attempt is told whether another candidate waits', async () => {
    const told: string[] = []
    const ask = (the: ReturnType<typeof house>, limit: number) =>
      dispatch(
        {
          ...the,
          limit,
          account: 'acct',
          afterFilter: 'end',
          budget: new RetryBudget(the.clock),
          disconnect: the.client.signal,
          onFailed: () => undefined,
          onServed: () => undefined,
          pause: async () => undefined,
        },
        async ({ provider }, waiting) => {
          told.push(`${provider.id} ${waiting}`)
          throw new AttemptFailed(faultOf('timeout'))
        },
      ).catch(() => undefined)
    await ask(house({ a: [], b: [] }), 3)
    await ask(house({ a: [], b: [] }), 1)
    const first = candidateOf('a')
    await ask(house({ a: [] }, [first, { ...first, key: 'second' }]), 3)
    expect(told).toEqual(['a another', 'b none', 'a none', 'a none', 'a none'])
  })

  test('an offer too slow while another waits is asked last for a while, and opens no breaker', async () => {
    const the = house({ a: [], b: [] })
    for (let at = 0; at < 2 * faultsToOpen; at++) the.health.onSlow(the.candidates[0]!, 10_000)
    const [first] = the.candidates
    expect(the.health.standing(first!, 'acct')).toBe('cooling')
    the.clock.pass(10_001)
    expect(the.health.isDue(first!, 'acct')).toBe(true)
    the.health.onAnswer(first!, 1)
    expect(the.health.standing(first!, 'acct')).toBe('healthy')
  })

  test('an attempt that is too slow is nobody’s failure', async () => {
    const the = house({ a: [], b: [] })
    for (let at = 0; at < faultsToOpen; at++)
      await dispatch(
        {
          ...the,
          candidates: [the.candidates[0]!],
          limit: 1,
          account: 'acct',
          afterFilter: 'end',
          budget: new RetryBudget(the.clock),
          disconnect: the.client.signal,
          onFailed: () => undefined,
          onServed: () => undefined,
          pause: async () => undefined,
        },
        async () => {
          throw new AttemptTooSlow()
        },
      ).catch(() => undefined)
    expect(the.health.standing(the.candidates[0]!, 'acct')).toBe('cooling')
  })

  test('waits as long as it was asked to, and a little longer each time it was not', async () => {
    const asked = house({ a: [faultOf('overloaded', { retryAfterMs: 1_500 }), 'ok'] })
    await asked.call()
    expect(asked.waits).toEqual([1_500])
    const free = house({ a: [down] })
    await free.call()
    expect(free.waits[0]).toBeWithin(50, 151)
    expect(free.waits[1]).toBeWithin(100, 301)
  })

  test('tells the shortest of all waits', async () => {
    const limited = (retryAfterMs: number) => [faultOf('rate-limited', { retryAfterMs })]
    const the = house({ a: limited(9_000), b: limited(4_000) })
    const { candidates, health, client } = the
    const failed = () => undefined
    const served = () => undefined
    const search = {
      candidates,
      limit: 3,
      health,
      account: 'acct',
      afterFilter: 'end' as const,
      disconnect: client.signal,
      onFailed: failed,
      onServed: served,
    }
    const budget = new RetryBudget(the.clock)
    const error = await dispatch({ ...search, budget, pause: async () => {} }, async ({ provider }) => {
      throw new AttemptFailed(limited(provider.id === 'a' ? 9_000 : 4_000)[0]!)
    }).catch((thrown: DispatchFailed) => thrown.error)
    expect((error as GatewayError).details.retryAfterMs).toBe(4_000)
  })

  test('ends when the client has left, and does not blame the provider', async () => {
    const the = house({ a: [down], b: ['ok'] })
    the.client.abort()
    expect(await the.call()).toBe('client_gone')
    expect(the.tried).toEqual([])
    expect(the.health.report(the.candidates[0]!.provider, 'acct').hour).toEqual(noAnswers)
  })

  test('offers that cannot honour a parameter count for no try, and their other keys are spared', async () => {
    const unable = new GatewayError('unsupported_parameter')
    const first = candidateOf('a')
    const candidates = [first, { ...first, key: 'second' }, candidateOf('b'), candidateOf('c')]
    const the = house({ a: [unable], b: [unable], c: ['ok'] }, candidates)
    expect(await the.call(1)).toBe('c')
    expect(the.tried).toEqual(['a', 'b', 'c'])
  })

  test('a prompt too long for a model spares its other offers', async () => {
    const model = modelOf('x/m')
    const candidates = ['a', 'b'].map((id) => ({ ...candidateOf(id), model }))
    const the = house({ a: [faultOf('context-length')], b: ['ok'] }, candidates)
    expect(await the.call()).toBe('context_length_exceeded')
    expect(the.tried).toEqual(['a'])
  })
})

describe('many calls', () => {
  test('G12: of a provider that is down cost 1.1 tries each at most, then none but a probe a second', async () => {
    const the = house({ a: [down] })
    for (let at = 0; at < 1_000; at++) {
      await the.call()
      the.clock.pass(1)
    }
    expect(the.tried.length).toBeLessThanOrEqual(10 + faultsToOpen)
    const before = the.tried.length
    for (let second = 0; second < 10; second++) {
      for (let at = 0; at < 100; at++) await the.call()
      the.clock.pass(probeEveryMs)
    }
    expect(the.tried.length - before).toBeLessThanOrEqual(11)
    expect(await the.call()).toBe('upstream_error')
    expect(await the.call()).toBe('no_provider_available')
  })

  test('go to the healthy first, and to what cools down when nothing else is left', async () => {
    const limited = faultOf('rate-limited', { retryAfterMs: 60_000 })
    const the = house({ a: [limited, limited, 'ok'], b: ['ok', 'ok', down] })
    expect(await the.call()).toBe('b')
    expect(await the.call()).toBe('b')
    expect(the.tried).toEqual(['a', 'b', 'b'])
    // Now b fails: a is tried although it cools down, for there is nobody else.
    await the.call()
    expect(the.tried.slice(3, 5)).toEqual(['b', 'a'])
  })

  test('one answer brings a provider back', async () => {
    const the = house({ a: [...Array(faultsToOpen).fill(down), 'ok'] })
    for (let at = 0; at < faultsToOpen; at++) await the.call(1)
    expect(await the.call(1)).toBe('no_provider_available')
    the.clock.pass(probeEveryMs)
    expect(await the.call(1)).toBe('a')
    expect(await the.call(1)).toBe('a')
    expect(the.health.report(the.candidates[0]!.provider, 'acct')).toMatchObject({
      state: 'healthy',
      troubles: [],
    })
  })

  describe('of which another candidate answers while the first is open', () => {
    /** The first was down for so long that its breaker is open; the second answers all the time. */
    async function opened(script: readonly (Fault | 'ok')[], more: Script = {}, candidates?: Candidate[]) {
      // Of two models the first is asked twice in each call, until its breaker opens.
      const tries = candidates === undefined ? faultsToOpen : 2 * faultsToOpen - 1
      const downFirst = [...Array<Fault>(tries).fill(faultOf('overloaded')), ...script]
      const the = house({ cheap: downFirst, dear: ['ok'], ...more }, candidates)
      for (let at = 0; at < faultsToOpen; at++) expect(await the.call()).toBe('dear')
      const from = the.tried.length
      return { ...the, triedSince: () => the.tried.slice(from) }
    }
    const of = (the: { triedSince(): string[] }, id: string) =>
      the.triedSince().filter((each) => each === id).length

    test('one probe a second goes to the first in its rank, at no cost but time', async () => {
      const the = await opened([faultOf('overloaded')])
      const answers: string[] = []
      for (let ms = 0; ms < 10_000; ms += 10) {
        answers.push(await the.call())
        the.clock.pass(10)
      }
      expect(new Set(answers)).toEqual(new Set(['dear']))
      expect(of(the, 'cheap')).toBe(9)
    })

    test.each<[string, Candidate[] | undefined]>([
      ['offers of one model', undefined],
      [
        'models: [a, b]',
        ['cheap', 'dear'].map((id) => ({ ...candidateOf(id), model: modelOf(`models/${id}`) })),
      ],
    ])('the first is back a second after it has recovered (%s)', async (_, candidates) => {
      const the = await opened(['ok'], {}, candidates)
      expect(await the.call()).toBe('dear')
      the.clock.pass(probeEveryMs)
      expect(await the.call()).toBe('cheap')
      expect(await the.call()).toBe('cheap')
      expect(of(the, 'dear')).toBe(1)
    })

    test('a call of a single attempt is not lost to a probe', async () => {
      const the = await opened([faultOf('overloaded')])
      the.clock.pass(probeEveryMs)
      expect(await the.call(1)).toBe('dear')
      expect(the.triedSince()).toEqual(['cheap', 'dear'])
    })

    test('one call probes one candidate only, however many are due', async () => {
      const script = { a: [down], b: [down], c: [down], d: ['ok'] } satisfies Script
      const the = house(script)
      for (let at = 0; at < faultsToOpen * 3; at++) await the.call(4)
      the.clock.pass(probeEveryMs)
      the.tried.length = 0
      expect(await the.call(3)).toBe('d')
      expect(await the.call(3)).toBe('d')
      expect(the.tried).toEqual(['a', 'd', 'b', 'd'])
    })

    test('a probe that hangs delays one call, not one in each second', async () => {
      const the = await opened([])
      const answering = Promise.withResolvers<void>()
      const asked: string[] = []
      const call = () =>
        dispatch(
          {
            candidates: the.candidates,
            limit: 3,
            health: the.health,
            account: 'acct',
            afterFilter: 'end',
            budget: new RetryBudget(the.clock),
            disconnect: the.client.signal,
            onFailed: () => undefined,
            onServed: () => undefined,
            pause: async () => undefined,
          },
          async ({ provider }) => {
            asked.push(provider.id)
            if (provider.id === 'cheap') await answering.promise
            return provider.id
          },
        ).then(({ answer }) => answer)
      the.clock.pass(probeEveryMs)
      const hanging = call()
      for (let second = 0; second < 30; second++) {
        the.clock.pass(probeEveryMs)
        expect(await call()).toBe('dear')
      }
      expect(asked.filter((id) => id === 'cheap')).toHaveLength(1)
      answering.resolve()
      expect(await hanging).toBe('cheap')
      expect(await call()).toBe('cheap')
    })
  })

  describe('of which another candidate answers while the first cools down', () => {
    const limited = faultOf('rate-limited', { retryAfterMs: 5_000 })

    test('one probe a second asks whether it is back, and only when the time is over', async () => {
      const the = house({ a: [limited], b: ['ok'] })
      for (let ms = 0; ms < 30_000; ms += 100) {
        expect(await the.call()).toBe('b')
        the.clock.pass(100)
      }
      // At once, and whenever it has named another five seconds.
      expect(the.tried.filter((id) => id === 'a')).toHaveLength(6)
    })

    test('many calls at the end of the time are one probe', async () => {
      const answering = Promise.withResolvers<void>()
      const the = house({ a: [limited, 'ok'], b: ['ok'] })
      expect(await the.call()).toBe('b')
      the.clock.pass(5_000)
      const asked: string[] = []
      const call = () =>
        dispatch(
          {
            ...the,
            limit: 3,
            account: 'acct',
            afterFilter: 'end',
            budget: new RetryBudget(the.clock),
            disconnect: the.client.signal,
            onFailed: () => undefined,
            onServed: () => undefined,
            pause: async () => undefined,
          },
          async ({ provider }) => {
            asked.push(provider.id)
            if (provider.id === 'a') await answering.promise
            return provider.id
          },
        ).then(({ answer }) => answer)
      const calls = Array.from({ length: 20 }, call)
      const others = await Promise.all(calls.slice(1))
      expect(new Set(others)).toEqual(new Set(['b']))
      answering.resolve()
      expect(await calls[0]).toBe('a')
      expect(asked.filter((id) => id === 'a')).toHaveLength(1)
      // It is back for all.
      expect(await call()).toBe('a')
    })

    test('an empty key is asked again for every model, by one probe', async () => {
      const first = candidateOf('a', { keys: ['one', 'two'] })
      const candidates = [first, { ...first, key: 'two' }]
      const the = house({ a: [faultOf('quota', { retryAfterMs: 5_000 }), 'ok'] }, candidates)
      expect(await the.call()).toBe('a')
      expect(the.health.standing(first, 'acct')).toBe('cooling')
      the.clock.pass(5_000)
      expect(the.health.standing(first, 'acct')).toBe('cooling')
      expect(the.health.isDue(first, 'acct')).toBe(true)
      await the.call()
      expect(the.health.standing(first, 'acct')).toBe('healthy')
    })

    test('a lone offer is asked as soon as its time is over, and before it where nothing else is left', async () => {
      const the = house({ a: [limited, limited, 'ok'] })
      expect(await the.call()).toBe('upstream_rate_limited')
      expect(await the.call()).toBe('upstream_rate_limited')
      the.clock.pass(5_000)
      expect(await the.call()).toBe('a')
    })
  })

  test('that tried thrice count once each: two of them do not close the way for the third', async () => {
    const the = house({ a: [...Array(6).fill(down), 'ok'] })
    expect([await the.call(), await the.call()]).toEqual(['upstream_error', 'upstream_error'])
    expect(the.tried).toHaveLength(6)
    expect(await the.call()).toBe('a')
  })

  test('of what runs inside this process never open a breaker', async () => {
    const the = house({ sim: [down] }, [candidateOf('sim', { transport: 'builtin' })])
    for (let at = 0; at < 20; at++) expect(await the.call()).toBe('upstream_error')
    expect(the.tried).toHaveLength(20)
  })
})

// The guards of an answer, on its events: what the client is given, however the provider cuts what it says.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type ChatEvent, collect } from '../../src/conversation/event.ts'
import type { ContentEvent } from '../../src/conversation/delivered.ts'
import type { ReasoningDetail } from '../../src/conversation/request.ts'
import {
  AnswerGuard,
  CallGuard,
  type GuardSet,
  type Hook,
  windowCharacters,
} from '../../src/guards/guards.ts'
import type { Mask } from '../../src/guards/masks.ts'

const masks: readonly Mask[] = [
  { name: 'email', find: 'email', replacement: '[email]' },
  { name: 'card', find: 'card', replacement: '[card]' },
]

interface Asked {
  readonly document: {
    readonly parts: readonly { readonly id: string; readonly text: string; readonly before?: string }[]
    readonly last?: boolean
  }
}

function hook(decide: (asked: Asked['document']) => object): Hook {
  return {
    name: 'hook',
    on: ['request', 'response'],
    fail: 'closed',
    ask: (question) => Promise.resolve(decide((question as Asked).document)),
  }
}

/** Replaces a word, as a hook of somebody would. */
const withoutHeron = hook(({ parts }) => ({
  decision: 'replace',
  document: { parts: parts.map(({ id, text }) => ({ id, text: text.replaceAll('heron', 'bird') })) },
}))

function guardOf(hooks: readonly Hook[] = [], on: readonly Mask[] = masks): CallGuard {
  const set: GuardSet = { masks: { request: on, response: on }, hooks }
  const run = <Result>(steps: Generator<void, Result, void>): Promise<Result> => {
    for (;;) {
      const step = steps.next()
      if (step.done === true) return Promise.resolve(step.value)
    }
  }
  const call = { requestId: 'req_1', account: 'a', key: null, model: 'm' }
  return new CallGuard(set, call, { run, asks: () => () => undefined })
}

async function through(
  events: readonly ContentEvent[],
  { guard = guardOf(), isDocument = false, at = 'each' as 'each' | 'once' } = {},
): Promise<ContentEvent[]> {
  const out: ContentEvent[] = []
  const answer = new AnswerGuard(guard, isDocument)
  const emit = (event: ContentEvent) => void out.push(event)
  for (const event of events) {
    answer.take(event)
    if (at === 'each') await answer.release(emit)
  }
  await answer.end(emit)
  return out
}

const text = (said: string, choice = 0): ContentEvent => ({ kind: 'text-delta', choice, text: said })
const thought = (detail: Partial<ReasoningDetail>, choice = 0): ContentEvent => ({
  kind: 'reasoning-delta',
  choice,
  detail: { type: 'reasoning.text', format: null, index: 0, ...detail },
})
const finish = (choice = 0): ContentEvent => ({
  kind: 'choice-finish',
  choice,
  reason: 'stop',
  native: 'stop',
})
const signedBy = { format: 'anthropic-claude-v1' as const }
const choiceOf = (events: readonly ChatEvent[], index = 0) => collect(events).choices[index]!

describe('texts', () => {
  test('go on without what is masked, cut anywhere, each choice by itself', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 30 }), async (sizes) => {
        const said = 'Write to ada@example.com, pay 4111 1111 1111 1111, and rest. '
        const events: ContentEvent[] = []
        let at = 0
        for (const size of sizes) {
          const piece = said.slice(at, (at += size))
          if (piece !== '') for (const choice of [0, 1]) events.push(text(piece, choice))
        }
        for (const choice of [0, 1]) events.push(text(said.slice(at), choice), finish(choice))
        const out = await through(events)
        for (const choice of [0, 1])
          expect(choiceOf(out, choice)).toMatchObject({
            text: 'Write to [email], pay [card], and rest. ',
            finish: 'stop',
          })
      }),
      { numRuns: 25 },
    )
  })

  test('are out as soon as they are decided', async () => {
    const answer = new AnswerGuard(guardOf(), false)
    const out: ContentEvent[] = []
    answer.take(text('The river runs to the se'))
    await answer.release((event) => void out.push(event))
    expect(choiceOf(out).text).toBe('The river runs to the ')
  })

  test('and the places of their sources are those of what the client reads', async () => {
    const said = 'By ada@example.com: the river is long.'
    const start = said.indexOf('the river')
    const annotation = {
      kind: 'url-citation',
      url: 'https://a.b/',
      title: 'Of ada@example.com',
      start,
      end: start + 9,
    } as const
    const out = await through([
      text(said.slice(0, 12)),
      text(said.slice(12)),
      { kind: 'annotation', choice: 0, annotation },
      finish(),
    ])
    const { text: read, annotations } = choiceOf(out)
    expect(annotations).toHaveLength(1)
    expect(read!.slice(annotations[0]!.start, annotations[0]!.end)).toBe('the river')
    expect(annotations[0]!.title).toBe('Of [email]')
  })

  test('say nothing by their log probabilities', async () => {
    const out = await through([
      text('ada@example.com'),
      { kind: 'logprobs', choice: 0, content: [{ token: 'ada@' }], refusal: [] },
      finish(),
    ])
    expect(out.some(({ kind }) => kind === 'logprobs')).toBe(false)
  })
})

describe('documents in JSON', () => {
  test('stay it', async () => {
    const json = '{"card":4111111111111111,"to":"\\nada\\u0040example.com","n":[1,2]}'
    const out = await through([...[...json].map((each) => text(each)), finish()], { isDocument: true })
    expect(JSON.parse(choiceOf(out).text!)).toEqual({ card: '[card]', to: '\n[email]', n: [1, 2] })
  })
})

describe('thoughts', () => {
  test('that nobody signs are masked as texts are', async () => {
    const out = await through([
      thought({ text: 'It is ada@exam' }),
      thought({ text: 'ple.com.' }),
      text('Yes'),
      finish(),
    ])
    expect(choiceOf(out)).toMatchObject({ reasoning: [{ text: 'It is [email].' }], text: 'Yes' })
  })

  test('that are signed go on as they are, or not at all', async () => {
    const [clean, not] = ['The river runs.', 'It is ada@example.com.'].map((said) => [
      thought({ ...signedBy, text: said.slice(0, 9) }),
      thought({ ...signedBy, text: said.slice(9) }),
      thought({ ...signedBy, signature: 'c2lnbmVk' }),
    ])
    const out = await through([...clean!, text('Yes'), finish()])
    expect(out.slice(0, 3)).toEqual(clean!)
    const withheld = await through([
      ...not!,
      thought({ ...signedBy, index: 1, data: 'sealed' }),
      text('Yes'),
      finish(),
    ])
    expect(choiceOf(withheld)).toMatchObject({ reasoning: [{ index: 1, data: 'sealed' }], text: 'Yes' })
  })

  test('and so do those that a hook would change', async () => {
    const guard = guardOf([withoutHeron], [])
    const said = [thought({ ...signedBy, text: 'A heron.', signature: 'x' }), text('A heron.'), finish()]
    expect(choiceOf(await through(said, { guard }))).toMatchObject({ reasoning: [], text: 'A bird.' })
  })
})

describe('calls of tools', () => {
  const called = (json: string, at: number): ContentEvent[] => [
    { kind: 'tool-call-start', choice: 0, call: at, id: `c${at}`, name: 'send', thoughtSignature: 'x' },
    ...[...json].map((each): ContentEvent => ({
      kind: 'tool-call-delta',
      choice: 0,
      call: at,
      arguments: each,
    })),
  ]

  test('come whole, in order, as JSON', async () => {
    const [a, b] = [called('{"to":"ada@example.com"}', 0), called('{"card":4111111111111111}', 1)]
    // Two calls may be written at once.
    const events = [text('Now. '), ...a.slice(0, 5), ...b, ...a.slice(5), finish()]
    const { toolCalls } = choiceOf(await through(events))
    expect(toolCalls.map(({ arguments: json }) => JSON.parse(json) as object)).toEqual([
      { to: '[email]' },
      { card: '[card]' },
    ])
  })

  test('that are no JSON are masked as they are', async () => {
    const { toolCalls } = choiceOf(await through([...called('{"to": ada@example.com', 0), finish()]))
    expect(toolCalls[0]!.arguments).toBe('{"to": [email]')
  })
})

describe('windows', () => {
  test('a word that lies across two of them is found, wherever it stands', async () => {
    for (const edge of [windowCharacters, windowCharacters + 200])
      for (let before = edge - 5; before <= edge; before++) {
        const said = `${'x'.repeat(before)}heron${'y'.repeat(1_900)}heron`
        const guard = guardOf([withoutHeron], [])
        const out = await through([...[...said].map((each) => text(each)), finish()], { guard })
        expect(choiceOf(out).text).toBe(said.replaceAll('heron', 'bird'))
      }
  })

  test('nothing of a window is out before it was looked at, and each is shown what went before', async () => {
    const seen: Asked['document'][] = []
    let sent = ''
    const watching = hook((document) => {
      seen.push(document)
      expect(sent.endsWith(document.parts[0]!.before ?? '')).toBe(true)
      return { decision: 'allow' }
    })
    const answer = new AnswerGuard(guardOf([watching], []), false)
    const emit = (event: ContentEvent) => {
      if (event.kind !== 'text-delta') return
      sent += event.text
      const looked = seen.at(-1)!.parts[0]!
      expect(looked.text.startsWith(event.text)).toBe(true)
    }
    const said = Array.from({ length: 400 }, (_, at) => `word${at} `)
    for (const word of said) {
      answer.take(text(word))
      await answer.release(emit)
    }
    await answer.end(emit)
    expect(sent).toBe(said.join(''))
    expect(seen.map(({ last }) => last)).toEqual([false, false, true])
  })

  test('a denial ends it, with what was looked at before', async () => {
    const denying = hook(({ parts }) =>
      parts[0]!.text.includes('heron') ? { decision: 'deny', message: 'No birds.' } : { decision: 'allow' },
    )
    const out: ContentEvent[] = []
    const answer = new AnswerGuard(guardOf([denying], []), false)
    const emit = (event: ContentEvent) => void out.push(event)
    answer.take(text('x'.repeat(1_300)))
    await answer.release(emit)
    answer.take(text(`heron${'y'.repeat(1_300)}`))
    expect(await answer.release(emit).catch((error: Error) => error.message)).toBe('No birds.')
    expect(choiceOf(out).text).toMatch(/^x+$/)
  })
})

describe('what tools of the gateway did', () => {
  test('is shown without what is masked, where it was', async () => {
    const call = {
      id: '1',
      origin: { kind: 'mcp', serverLabel: 's', tool: 't' },
      name: 't',
      arguments: '{"q":"ada@example.com"}',
    } as const
    const result = { text: 'ada@example.com', cost: 0n, searches: 0, structured: { a: ['ada@example.com'] } }
    const out = await through([
      text('By ada@example.com. '),
      { kind: 'gateway-call', choice: 0, call },
      { kind: 'gateway-run', choice: 0, run: { call, result, after: { text: 20, reasoning: 0 }, round: 1 } },
      finish(),
    ])
    const [run] = choiceOf(out).runs!
    expect(run).toMatchObject({
      call: { arguments: '{"q":"[email]"}', origin: call.origin },
      result: { text: '[email]', structured: { a: ['[email]'] } },
      after: { text: 'By [email]. '.length },
    })
    expect(JSON.stringify(out, (_, value: unknown) => (typeof value === 'bigint' ? 0 : value))).not.toContain(
      'ada@',
    )
  })
})

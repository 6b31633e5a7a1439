// Rounds of one call follow each other inside one hold and make one answer.

import { expect, test } from 'bun:test'
import { atOnce } from '../../src/json/json.ts'
import { openHold } from '../../src/chat/billing/hold.ts'
import { outcomeOf } from '../../src/chat/call.ts'
import { playRound } from '../../src/chat/paid-call.ts'
import { candidatesFor } from '../../src/chat/routing/candidates.ts'
import { AnswerSink } from '../../src/chat/streaming/translate.ts'
import type { OpenedStream } from '../../src/chat/upstream/fetch.ts'
import { type ContentEvent, Delivered } from '../../src/conversation/delivered.ts'
import { noUsage } from '../../src/conversation/usage.ts'
import { usd } from '../../src/credits/money.ts'
import type { AnswerContext } from '../../src/protocols/protocol.ts'
import { openStore } from '../../src/store/open.ts'
import { grantOf } from '../credits/support.ts'
import {
  chunk,
  completion,
  delta,
  done,
  lastChunk,
  plain,
  type Script,
  someUsage,
  startScriptedProvider,
  streamHead,
  usageEvent,
  wholeStream,
} from '../support/scripted-provider.ts'
import { tempDir } from '../support/tmp.ts'
import { callOf, partsOf } from './parts.ts'
import { providerOf } from './support.ts'

const toolCall = { index: 0, id: 'call_a', type: 'function', function: { name: 'look', arguments: '{}' } }
const asksForTool =
  delta({ role: 'assistant', content: 'Let me look. ' }) +
  delta({ tool_calls: [toolCall] }) +
  delta({}, 'tool_calls') +
  usageEvent(someUsage) +
  done

const streamed =
  (events: string): Script =>
  async (wire) => {
    await wire.write(streamHead)
    await wire.write(chunk(events))
    await wire.write(lastChunk)
  }

/** A hold for a call, with a provider that asks for a tool until a tool has answered. */
async function inOneHold(body: object) {
  const dir = tempDir()
  const store = await openStore(dir.path, { clock: () => Date.now() })
  await store.ledger.grant(grantOf('g', usd(10)))
  const upstream = await startScriptedProvider({}, ({ messages, stream }) => {
    if (stream !== true)
      return (wire) => void wire.write(plain(200, 'application/json', completion('Whole.', someUsage)))
    return streamed(JSON.stringify(messages).includes('"tool"') ? wholeStream : asksForTool)
  })
  const parts = partsOf(store, [providerOf('a', { baseUrl: upstream.url })])
  const call = callOf({ model: 'a/m', ...body })
  const { routing } = call.request.envelope
  const candidates = candidatesFor([parts.catalog.resolve('a/m')], parts.providers, routing, '', 1)
  const balance = await store.ledger.balance('anna')
  const hold = await openHold(parts, call, candidates, balance, ['purchased'])
  return {
    parts,
    call,
    candidates,
    hold,
    store,
    upstream,
    async [Symbol.asyncDispose]() {
      await upstream.stop()
      await store.close()
      dir[Symbol.dispose]()
    },
  }
}

/** Reads a stream to its end, as a relay would. */
async function readToEnd({ channel, reader, ended, abort, read }: OpenedStream) {
  for (let over = ended; !over;) {
    const { done: isDone, value } = await reader.readMany()
    for (const bytes of value ?? []) expect(atOnce(channel.push(bytes))).toEqual([])
    if (isDone) {
      read()
      channel.end()
    }
    over = isDone
  }
  abort()
  return channel.progress
}

test('two streamed rounds make one answer, which is settled once', async () => {
  await using lab = await inOneHold({ stream: true })
  const { parts, call, candidates, hold, store, upstream } = lab
  const context: AnswerContext = {
    id: call.requestId,
    model: 'a/m',
    created: 1,
    includeUsage: true,
    warnings: [],
    extra: {},
  }
  const sink = new AnswerSink(call.inbound.encoder(context), context.extra)
  const calls: ContentEvent[] = []
  // What the gateway answers itself is not for the client; neither is the end of a round that another follows.
  const emit = (event: ContentEvent) => {
    if (event.kind.startsWith('tool-call')) calls.push(event)
    else if (event.kind !== 'choice-finish' || event.reason !== 'tool_calls') sink.event(event)
  }

  const first = await playRound(parts, hold, { call, candidates, warnings: [], emit })
  const asked = await readToEnd(first.answer as OpenedStream)
  expect(calls.find(({ kind }) => kind === 'tool-call-start')).toMatchObject({ id: 'call_a', name: 'look' })
  expect(asked).toMatchObject({ finished: true, finishReason: 'tool_calls' })

  const answer = { role: 'tool', tool_call_id: 'call_a', content: 'A river.' }
  const said = {
    role: 'assistant',
    content: 'Let me look. ',
    tool_calls: [{ ...toolCall, index: undefined }],
  }
  const next = callOf({
    model: 'a/m',
    stream: true,
    messages: [{ role: 'user', content: 'Hello' }, JSON.parse(JSON.stringify(said)), answer],
  })
  const second = await playRound(parts, hold, { call: next, candidates, warnings: [], emit })
  const { delivered, upstreamId, finishReason } = await readToEnd(second.answer as OpenedStream)

  const usage = { ...noUsage, input: 24, output: 8 }
  await hold.settle(outcomeOf({ usage, delivered, upstreamId, finishReason }), (figures) =>
    sink.finish(figures.usage, figures.bill, figures.stoppedBy),
  )
  const text = Buffer.concat(atOnce(sink.takeWritten())).toString('utf8')
  expect(text.match(/"role":"assistant"/g)).toHaveLength(1)
  expect(text.match(/"finish_reason":"[a-z_]+"/g)).toEqual(['"finish_reason":"stop"'])
  expect(text).toContain('Let me look. ')
  expect(text).toContain('runs.')
  expect(text).not.toContain('call_a')
  expect(text.match(/data: \[DONE\]/g)).toHaveLength(1)

  expect(upstream.arrivals).toHaveLength(2)
  expect(await store.ledger.call('anna', 'call_1')).toMatchObject({ state: 'settled' })
  expect(parts.ended).toHaveLength(1)
  expect(parts.ended[0]).toMatchObject({ promptTokens: 24, completionTokens: 8, status: 200 })
  const { lots } = await store.ledger.balance('anna')
  expect(lots.map(({ pinned }) => pinned)).toEqual([0n])
  expect(lots[0]!.remaining).toBe(usd(10) - 24n * 1_000_000n - 8n * 2_000_000n)
})

test('a whole round gives what the provider answered, to go on from', async () => {
  await using lab = await inOneHold({})
  const { parts, call, candidates, hold } = lab
  const { answer, candidate } = await playRound(parts, hold, { call, candidates, warnings: [] })
  expect(candidate.provider.id).toBe('a')
  expect(answer).toMatchObject({
    kind: 'whole',
    result: { choices: [{ text: 'Whole.' }] },
    outcome: { ending: 'finished' },
  })
  await hold.settle(outcomeOf({ ...noOutcome, delivered: new Delivered() }), () => undefined)
  expect(parts.inFlight.size).toBe(0)
})

const noOutcome = { usage: { ...noUsage, input: 1 }, finishReason: 'stop', upstreamId: undefined }

test('a round that nobody answers leaves the hold to be released', async () => {
  await using lab = await inOneHold({})
  const { parts, call, candidates, hold, store, upstream } = lab
  await upstream.stop()
  const failure: unknown = await playRound(parts, hold, { call, candidates, warnings: [] }).catch(
    (error: unknown) => error,
  )
  expect(failure).toMatchObject({ error: { code: 'upstream_error' } })
  await hold.release((failure as { error: never }).error, [])
  expect(await store.ledger.call('anna', 'call_1')).toMatchObject({ state: 'voided' })
})

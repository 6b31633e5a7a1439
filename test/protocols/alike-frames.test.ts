// A frame that is read by comparing it to the one before means what the parser makes of it. Where each frame is spaced
// in a way of its own, none is like the one before, and every one is parsed.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { frameDecoder } from '../../src/chat/frames.ts'
import type { ChatEvent } from '../../src/conversation/event.ts'
import type { Outbound, ProtocolId, Target } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { type Frame, maxFrameCharacters } from '../../src/protocols/sse.ts'
import { cases, parseFrames } from '../support/recordings.ts'
import { recordedHosts, spokenBy } from './recorded-hosts.ts'

function spaced(frames: readonly Frame[]): Frame[] {
  return frames.map((frame, at) => ({ ...frame, data: frame.data.replace(/^\{/, `{${' '.repeat(at + 1)}`) }))
}

/** The events of the frames as they are, and as they are when every one is parsed. */
function bothWays(outbound: Outbound, target: Target, frames: readonly Frame[]): (readonly ChatEvent[])[] {
  const parser = outbound.parser(target)
  return [frames, spaced(frames)].map((each) => parseFrames(parser, each))
}

describe.each(
  recordedHosts.filter(({ protocol }) => protocol === 'gemini' || protocol === 'openai-responses'),
)('the recordings of $folder', (host) => {
  const streams = cases(host.folder).filter(({ streamed, status }) => streamed && status === 200)
  test.each(streams.map((each) => [each.id, each] as const))('%s reads the same', (_, recorded) => {
    const { outbound, target } = spokenBy(host, recorded)
    const decoder = frameDecoder(outbound.framing, maxFrameCharacters)
    const [fast, full] = bothWays(outbound, target, [...decoder.push(recorded.stream()), ...decoder.end()])
    expect(fast!).toEqual(full!)
  })
})

// ---- made up ----------------------------------------------------------------------------------------------

const targetOf = (outbound: Outbound): Target => ({
  model: 'gemini-3-pro',
  provider: 'p',
  quirks: outbound.defaultQuirks,
  maxOutputTokens: undefined,
  reasoning: true,
  rememberedSignature: () => undefined,
})

const oneOf = (...values: unknown[]) => fc.constantFrom(...values)
const mostly = (usual: fc.Arbitrary<unknown>, seldom: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 6, arbitrary: usual }, { weight: 1, arbitrary: seldom })
const absent = fc.constant(undefined)
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 8 }),
  oneOf('"}],"role":"model"},"index":0}]', '","logprobs":[]}', '\\', '\n', '\ud83d', '\u2028', '[DONE]'),
)
/** Numbers as no honest provider counts, among those that one would. What JSON.stringify cannot write is put in after. */
const count = mostly(fc.nat(99), oneOf(-1, 0.5, '7', null, undefined, 2 ** 53, 'endless', 1e21))
const written = (value: unknown): Frame => ({
  event: undefined,
  data: JSON.stringify(value).replaceAll('"endless"', '1e999'),
})

/** Frames of one shape, in which what may change does. */
const run = <Shape, Change>(shape: fc.Arbitrary<Shape>, change: fc.Arbitrary<Change>) =>
  fc.tuple(shape, fc.array(change, { minLength: 1, maxLength: 4 }))

interface GeminiChange {
  readonly text: unknown
  readonly candidatesTokenCount: unknown
  readonly totalTokenCount: unknown
}

const geminiShape = fc.record({
  /** Beside the text in its part. */
  part: mostly(
    oneOf({}),
    oneOf(
      { thought: true },
      { thoughtSignature: 's' },
      { unknown: 1 },
      { functionCall: { name: 'f', args: {} } },
      { functionCall: { name: 'g', willContinue: true } },
      { functionCall: { willContinue: true } },
      { inlineData: { mimeType: 'audio/pcm', data: 'AA==' } },
      { executableCode: { code: '1' } },
    ),
  ),
  parts: mostly(oneOf(1), oneOf(0, 2)),
  candidates: mostly(oneOf(1), oneOf(0, 2)),
  candidate: mostly(
    oneOf({ index: 0 }),
    oneOf(
      { index: 1 },
      { index: -1 },
      {},
      { finishReason: 'STOP' },
      { finishReason: 'MALFORMED_FUNCTION_CALL' },
      { safetyRatings: [{ probability: 'LOW' }] },
      { groundingMetadata: { webSearchQueries: ['q'], groundingChunks: [{ web: { uri: 'https://x' } }] } },
      {
        groundingMetadata: { groundingSupports: [{ groundingChunkIndices: [0], segment: { endIndex: 1 } }] },
      },
      { citationMetadata: { citations: [{ uri: 'https://x', startIndex: 0, endIndex: 1 }] } },
      { logprobsResult: { chosenCandidates: [{ token: 'x', logProbability: -1 }] } },
    ),
  ),
  usage: mostly(
    oneOf({ promptTokenCount: 9 }),
    oneOf(
      { promptTokensDetails: [{ modality: 'AUDIO', tokenCount: 5 }] },
      { promptTokenCount: 8 },
      { promptTokenCount: 'endless' },
      { candidatesTokenCount: 3 },
      { totalTokenCount: undefined },
    ),
  ),
  uncounted: mostly(oneOf([]), oneOf(['candidatesTokenCount'], ['usageMetadata'])),
  chunk: mostly(
    oneOf({}),
    oneOf(
      { error: { message: 'no' } },
      { promptFeedback: { blockReason: 'OTHER' } },
      { text: 'x' },
      { candidatesTokenCount: 4 },
    ),
  ),
})

const geminiRun = run(
  geminiShape,
  fc.record<GeminiChange>({ text, candidatesTokenCount: count, totalTokenCount: count }),
).map(([shape, changes]) =>
  changes.map(({ text, ...counts }) => {
    const part = { text, ...(shape.part as object) }
    const content = { parts: [part, part].slice(0, shape.parts as number), role: 'model' }
    const candidate = { content, ...(shape.candidate as object) }
    const usage = { ...counts, ...(shape.usage as object) }
    const uncounted = shape.uncounted as readonly string[]
    const kept = Object.entries(usage).filter(([name]) => !uncounted.includes(name))
    return written({
      candidates: [candidate, { ...candidate, index: 1 }].slice(0, shape.candidates as number),
      usageMetadata: uncounted.includes('usageMetadata') ? undefined : Object.fromEntries(kept),
      responseId: 'r1',
      ...(shape.chunk as object),
    })
  }),
)

const annotation = { type: 'url_citation', url: 'https://x', title: 't', start_index: 0, end_index: 1 }
const responsesRun = run(
  fc.record({
    type: mostly(
      oneOf('response.output_text.delta'),
      oneOf(
        'response.output_text.done',
        'response.output_text.annotation.added',
        'response.refusal.delta',
        'response.reasoning_text.delta',
        'error',
        'new',
        undefined,
      ),
    ),
    item_id: mostly(oneOf('msg_1'), oneOf('msg_2', undefined)),
    output_index: mostly(oneOf(0), oneOf(1, undefined)),
    content_index: mostly(oneOf(0), oneOf(1, undefined)),
    logprobs: mostly(oneOf([]), oneOf(undefined, null, [{ token: 'x', logprob: -1 }])),
  }),
  fc.record({
    delta: mostly(text, oneOf(null, undefined, 1)),
    obfuscation: mostly(fc.string({ maxLength: 5 }), oneOf(undefined, null, 1)),
    sequence_number: count,
    name: mostly(absent, oneOf('error', 'x', 'response.output_text.delta', 'response.refusal.delta')),
  }),
).map(([shape, changes]) =>
  changes.map(({ name, ...change }) => ({
    ...written({ ...shape, annotation, text: 'whole', ...change }),
    event: name as string | undefined,
  })),
)

/** An end that tells how much of the text has been counted. */
const endings: Readonly<Partial<Record<ProtocolId, Frame[]>>> = {
  gemini: [
    {
      candidates: [
        {
          index: 0,
          finishReason: 'STOP',
          citationMetadata: { citations: [{ uri: 'https://x', startIndex: 0, endIndex: 20 }] },
        },
      ],
    },
  ].map(written),
  'openai-responses': [
    { type: 'response.output_text.annotation.added', item_id: 'msg_2', output_index: 1, annotation },
    { type: 'response.output_text.done', item_id: 'msg_1', output_index: 0, text: 'w'.repeat(40) },
    { type: 'response.completed', response: { id: 'resp_1', status: 'completed', output: [] } },
  ].map(written),
}

test.each([
  ['gemini', geminiRun],
  ['openai-responses', responsesRun],
] as const)('%s: any stream reads the same, and so does one that breaks off', (protocol, run) => {
  const outbound = outbounds[protocol]!
  fc.assert(
    fc.property(fc.array(run, { maxLength: 6 }), fc.boolean(), (runs, ends) => {
      const frames = [...runs.flat(), ...(ends ? endings[protocol]! : [])]
      const [fast, full] = bothWays(outbound, targetOf(outbound), frames)
      expect(fast!).toEqual(full!)
    }),
    { numRuns: 3_000 },
  )
})

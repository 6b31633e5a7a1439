// A chunk that is read without the schema is one that the schema would have left as it is.

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { isPlainChunk } from '../../../src/protocols/gemini/plain-chunk.ts'
import { chunkSchema } from '../../../src/protocols/gemini/schema.ts'

const odd = fc.constantFrom<unknown>(
  null,
  '',
  'x',
  0,
  -1,
  1.5,
  Number.POSITIVE_INFINITY,
  true,
  [],
  {},
  [null],
  [{}],
)

/** Mostly what it should be, sometimes something else, sometimes absent. */
const mostly = (usual: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 30, arbitrary: usual }, { weight: 1, arbitrary: odd })
const shape = (fields: Record<string, fc.Arbitrary<unknown>>) =>
  fc.record(Object.fromEntries(Object.entries(fields).map(([key, usual]) => [key, mostly(usual)])), {
    requiredKeys: [],
  })
const listOf = (item: fc.Arbitrary<unknown>) => fc.array(mostly(item), { maxLength: 2 })

const text = fc.string({ maxLength: 3 })
const details = listOf(shape({ modality: text, tokenCount: fc.nat() }))
const part = shape({
  text,
  thought: fc.boolean(),
  thoughtSignature: text,
  functionCall: shape({ id: text, name: text, args: fc.constant({ a: 1 }), willContinue: fc.boolean() }),
  inlineData: shape({ mimeType: text, data: text }),
  executableCode: fc.constant({ code: '1' }),
})
const chunk = shape({
  responseId: text,
  modelVersion: text,
  candidates: listOf(
    shape({
      index: fc.nat(3),
      content: shape({ parts: listOf(part) }),
      finishReason: text,
      finishMessage: text,
    }),
  ),
  usageMetadata: shape({
    promptTokenCount: fc.nat(),
    candidatesTokenCount: fc.nat(),
    thoughtsTokenCount: fc.nat(),
    toolUsePromptTokenCount: fc.nat(),
    cachedContentTokenCount: fc.nat(),
    totalTokenCount: fc.nat(),
    promptTokensDetails: details,
    cacheTokensDetails: details,
    candidatesTokensDetails: details,
    toolUsePromptTokensDetails: details,
  }),
})

test('what passes for plain, the schema leaves as it is', () => {
  let plain = 0
  fc.assert(
    fc.property(chunk, (value) => {
      if (!isPlainChunk(value)) return
      plain++
      expect(chunkSchema.parse(value)).toStrictEqual(value)
    }),
    { numRuns: 1_000 },
  )
  expect(plain).toBeGreaterThan(100)
})

// The simulator's decisions: always the same for the same input, and probabilities that add up to one.

import { z } from 'zod'
import { Refusal, textTokens as tokensOf } from './request.ts'

const text = z.string()
const body = z.object({
  model: text.min(1),
  input: z.unknown(),
  questions: z
    .array(
      z.object({
        type: z.enum(['predicate', 'choice', 'score']),
        name: text.optional(),
        instructions: z.unknown(),
        choices: z.array(z.object({ value: z.union([text, z.boolean()]) })).optional(),
        levels: z.array(z.object({ label: text })).optional(),
      }),
    )
    .min(1),
})

type Question = z.infer<typeof body>['questions'][number]

/** The answer to a request for decisions, given as JSON text. Throws Refusal for a bad one. */
export function decide(given: string): object {
  const { data } = body.safeParse(parseJson(given))
  if (data === undefined) throw new Refusal('The body is no request for decisions.', null, 'invalid_request')
  const input = JSON.stringify(data.input ?? '')
  const tokens = tokensOf(input) + tokensOf(JSON.stringify(data.questions))
  return {
    model: data.model,
    answers: data.questions.map((question) => answerOf(question, input)),
    usage: {
      input_tokens: tokens,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: 0,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: tokens,
    },
  }
}

function answerOf(
  { type, name: named, instructions, choices = [], levels = [] }: Question,
  input: string,
): object {
  const name = named ?? null
  const seed = input + JSON.stringify(instructions)
  if (type === 'predicate') return { type, name, probability: fractionOf(seed) }
  const options =
    type === 'choice' ? choices.map(({ value }) => String(value)) : levels.map(({ label }) => label)
  const odds = options.map(
    (option) => 0.05 + fractionOf(seed + option) / 2 + (input.includes(option) ? 8 : 0),
  )
  const sum = odds.reduce((all, each) => all + each, 0)
  const shares = odds.map((each) => each / sum)
  const confidence = Math.max(...shares)
  const best = shares.indexOf(confidence)
  if (type === 'choice') {
    const probabilities = choices.map(({ value }, at) => ({ value, probability: shares[at]! }))
    return { type, name, choice: choices[best]!.value, confidence, probabilities }
  }
  const probabilities = levels.map(({ label }, value) => ({ label, value, probability: shares[value]! }))
  const score = probabilities.reduce((all, { value, probability }) => all + value * probability, 0)
  return { type, name, score, confidence, probabilities }
}

function parseJson(given: string): unknown {
  try {
    return JSON.parse(given)
  } catch {
    return undefined
  }
}

/** From zero to one, by the text alone. */
function fractionOf(seed: string): number {
  return Number(Bun.hash.xxHash32(seed)) / 2 ** 32
}

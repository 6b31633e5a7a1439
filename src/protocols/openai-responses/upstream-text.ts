// Deltas of text, which are nearly all of a long answer: where one differs from the event before in its text, its
// number and its padding alone, it is read without being parsed.

import type { JsonObject } from '../../conversation/request.ts'
import type { FrameTemplate } from '../frame-template.ts'
import type { OutputState } from './upstream-items.ts'

const changing = { text: 'delta', numbers: [], ignored: ['sequence_number', 'obfuscation'] }

/** The template for the event after this one: like no other where this is more than a delta of text. */
export function templateAfter(before: FrameTemplate, data: string, event: JsonObject): FrameTemplate {
  const { type, delta, logprobs } = event
  const plain = logprobs === undefined || (Array.isArray(logprobs) && logprobs.length === 0)
  // A type that its frame's name tells instead could be another in the next.
  if (type !== 'response.output_text.delta' || typeof delta !== 'string' || !plain) return before.forget()
  return before.learn(data, changing, delta)
}

/** The output after a delta of text like the last event. */
export function withText(output: OutputState, text: string): OutputState {
  const { latest, textLength } = output
  if (latest === undefined) return output
  const { key, part } = latest
  return {
    ...output,
    latest: { key, part: { ...part, told: part.told + text.length } },
    textLength: textLength + text.length,
  }
}

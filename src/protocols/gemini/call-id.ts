// Ids for function calls that Gemini did not give one: stable for an answer, different between answers.

import { createHash } from 'node:crypto'

const prefix = 'weir_'

/** The id of the `call`th call of a choice. `answer`: the provider's id of the answer, or a random one. */
export function mintCallId(answer: string, choice: number, call: number): string {
  const digest = createHash('sha256').update(`${answer}\n${choice}\n${call}`).digest('hex')
  return prefix + digest.slice(0, 24)
}

/** Whether we generated the id, so that Gemini does not know it. */
export function isMinted(id: string): boolean {
  return /^weir_[0-9a-f]{24}$/.test(id)
}

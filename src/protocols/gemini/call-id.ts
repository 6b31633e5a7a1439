// Ids for function calls that Gemini did not name: the same for the same answer, different for different answers.

import { createHash } from 'node:crypto'

const prefix = 'weir_'

/** The id of call number `call` of a choice. `answer` is the provider's id of the answer, or a random one. */
export function mintCallId(answer: string, choice: number, call: number): string {
  const digest = createHash('sha256').update(`${answer}\n${choice}\n${call}`).digest('hex')
  return prefix + digest.slice(0, 24)
}

/** Whether an id was minted here, so that Gemini does not know it. */
export function isMinted(id: string): boolean {
  return /^weir_[0-9a-f]{24}$/.test(id)
}

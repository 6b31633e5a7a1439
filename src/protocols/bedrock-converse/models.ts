// A table of what model families on Bedrock accept beyond the common parameters.

import type { JsonObject } from '../../conversation/request.ts'
import { threeEfforts } from '../lowering.ts'

export interface Family {
  /** How `top_k` is sent, where it can be. */
  readonly topK: ((k: number) => JsonObject) | undefined
  /** How an effort is sent, if it can be (`undefined` is the model's default); `none` turns thinking off. */
  readonly effort: ((effort: string | undefined) => JsonObject | undefined) | undefined
  /** Whether cache marks are understood. */
  readonly caches: boolean
  /** What the model can be forced to call: a named tool, any tool, or neither. */
  readonly forces: 'named' | 'any' | 'nothing'
}

const wordFor = (effort: string | undefined) => threeEfforts[effort ?? 'medium'] ?? 'medium'

// For unknown models the API's documentation applies.
const others: Family = { topK: undefined, effort: undefined, caches: false, forces: 'named' }

const nova: Family = { ...others, topK: (topK) => ({ inferenceConfig: { topK } }), caches: true }

/** The first row whose pattern matches the model's id. Claude's thinking has rules of its own. */
const families: readonly (readonly [RegExp, Family])[] = [
  [/claude/i, { ...others, topK: (top_k) => ({ top_k }), caches: true }],
  [
    /nova-2/i,
    {
      ...nova,
      effort: (effort): JsonObject => {
        if (effort === 'none') return { reasoningConfig: { type: 'disabled' } }
        return { reasoningConfig: { type: 'enabled', maxReasoningEffort: wordFor(effort) } }
      },
    },
  ],
  [/nova/i, nova],
  [
    /gpt-oss/i,
    { ...others, effort: (effort) => ({ reasoning_effort: wordFor(effort === 'none' ? 'low' : effort) }) },
  ],
  [
    /qwen/i,
    {
      ...others,
      effort: (effort) => (effort === 'none' ? undefined : { reasoning_config: wordFor(effort) }),
    },
  ],
  [/mistral|pixtral|magistral|devstral/i, { ...others, topK: (top_k) => ({ top_k }), forces: 'any' }],
  // "This model doesn't support the toolConfig.toolChoice.any field", says the API.
  [/llama|titan|cohere/i, { ...others, forces: 'nothing' }],
]

export function familyOf(model: string): Family {
  return families.find(([pattern]) => pattern.test(model))?.[1] ?? others
}

// What the registry must know of the simulated provider; the rest is loaded with the first call to it.

import type { OptionalField } from '../../protocols/openai/parameters.ts'

/** The efforts that it knows, weakest first. */
export const simulatedEfforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

/**
 * Parameters that have no effect here, unlike at a real model; the answer has a warning for each. Sampling parameters
 * are honoured in that every token has probability 1: the answer is the same at every temperature and seed.
 */
export const simulatorIgnores = [
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'logit_bias',
  'audio',
  'prediction',
  'user',
  'safety_identifier',
  'prompt_cache_retention',
  'prompt_cache_options',
  'service_tier',
  'metadata',
  'store',
  'verbosity',
] as const satisfies readonly OptionalField[]

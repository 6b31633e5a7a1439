// The entries of `models:`: a model the operator adds to the catalog, or facts that override a bundled one.

import { z } from 'zod'

const usdPerMillion = z
  .string()
  .regex(/^\d{1,9}(\.\d{1,12})?$/, 'must be a decimal string, US dollars per million tokens')
const tokens = z.int().min(1).max(1_000_000_000)

export const modelSettings = z.strictObject({
  id: z.string().regex(/^[^/\s]+\/\S+$/, 'must be provider/model_name'),
  upstream: z.string().min(1).optional(),
  name: z.string().optional(),
  description: z.string().optional(),
  price: z
    .union([
      z.literal('free'),
      z.record(z.string(), z.union([usdPerMillion, z.record(z.string(), usdPerMillion)])),
    ])
    .optional(),
  context_length: tokens.optional(),
  max_output_tokens: tokens.optional(),
  reasoning: z.boolean().optional(),
  premium: z.boolean().optional(),
})

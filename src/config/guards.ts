// Settings of what looks at the texts of calls: masks, and hooks.

import { z } from 'zod'
import { ExpressionFault, readExpression } from '../guards/expression.ts'
import { guardEvents } from '../guards/guards.ts'
import { type MaskShape, shapes } from '../guards/masks.ts'
import { baseUrl, note, wholeBetween } from './fields.ts'

const on = z
  .array(z.enum(guardEvents))
  .min(1)
  .refine((events) => new Set(events).size === events.length, 'names one twice')
  .default([...guardEvents])

const hookSchema = z.strictObject({
  url: baseUrl,
  on,
  timeout_ms: wholeBetween(1, 30_000).default(5_000),
  fail: z.enum(['closed', 'open']).default('closed'),
  secret: z
    .string()
    .refine(
      (text) => (text.startsWith('whsec_') ? Buffer.from(text.slice(6), 'base64').length : text.length) >= 16,
      'must be whsec_ and base64 of at least 16 bytes, or 16 characters of text',
    ),
})

export const hookSettings = note(
  z.array(hookSchema).max(10).default([]),
  'Addresses that are asked before a request goes to a provider or a tool (`request`), and before an answer goes to its ' +
    'client (`response`), in this order: each with `url`, `secret` (they are signed by Standard Webhooks), `on`, ' +
    '`timeout_ms` (5000) and `fail` (`closed`: what is not answered does not go on; `open`: it does)',
  { secret: true },
)

const maskSchema = z
  .strictObject({
    find: z.string().regex(/^[a-z][a-z0-9_-]{0,39}$/, 'must be a name in small letters'),
    expression: z.string().optional(),
    with: z.string().min(1).max(100).optional(),
    on,
  })
  .superRefine(({ find, expression }, { addIssue }) => {
    const isShape = shapes.includes(find as MaskShape)
    if (expression === undefined && !isShape)
      addIssue({
        code: 'custom',
        path: ['find'],
        message: `must be one of ${shapes.join(', ')}, or have an expression`,
      })
    if (expression !== undefined && isShape)
      addIssue({
        code: 'custom',
        path: ['find'],
        message: 'is a shape that is known: name the expression otherwise',
      })
    const fault = expression === undefined ? undefined : faultOf(expression)
    if (fault !== undefined) addIssue({ code: 'custom', path: ['expression'], message: fault })
  })

function faultOf(expression: string): string | undefined {
  try {
    readExpression(expression)
    return undefined
  } catch (error) {
    if (error instanceof ExpressionFault) return error.message
    throw error
  }
}

export const maskSettings = note(
  z.array(maskSchema).max(50).default([]),
  `What is taken out of requests and answers: each with \`find\` (${shapes.join(', ')}, or a name of your own with an ` +
    '`expression`), `on` (`request`, `response`; both) and `with`, what stands in its place (`[email]`)',
)

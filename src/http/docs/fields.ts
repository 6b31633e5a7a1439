// Kinds of fields that many answers have.

import { z } from 'zod'

export const usd = z.string().describe('US dollars, an exact decimal string.')
export const time = z.string().describe('ISO 8601, UTC.')
export const count = z.int().min(0)
export const milliseconds = z.number().describe('Milliseconds.')

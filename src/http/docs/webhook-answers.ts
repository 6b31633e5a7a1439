// The answers about webhooks, in the console's API and the admin API.

import { z } from 'zod'
import { eventTypes } from '../../notify/webhook.ts'
import { type Answers, data } from './answers.ts'
import { time } from './fields.ts'

const webhook = z.strictObject({
  id: z.string(),
  url: z.string(),
  events: z.array(z.enum(eventTypes)),
  created_at: time,
})
const attempt = z.strictObject({
  at: time,
  status: z.int().nullable().describe('Of the answer; null where none came.'),
  error: z.string().nullable().describe('Null where it was taken.'),
  ms: z.int(),
})
const delivery = z.strictObject({
  id: z.string().describe('`webhook-id` of every attempt.'),
  type: z.string(),
  at: time,
  state: z.enum(['waiting', 'delivered', 'given_up']),
  next_at: time.nullable().describe('When it is tried next.'),
  attempts: z.array(attempt),
})

export const webhookAnswers: Answers = {
  'GET webhooks': data(z.array(webhook)),
  'POST webhooks': webhook.extend({ secret: z.string().describe('The secret itself, this once.') }),
  'DELETE webhooks/:id': z.strictObject({ id: z.string(), removed: z.literal(true) }),
  'POST webhooks/:id/test': attempt.extend({ ok: z.boolean() }),
  'GET webhooks/:id/deliveries': data(z.array(delivery)),
}

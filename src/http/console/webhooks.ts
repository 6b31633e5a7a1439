// The webhooks of an account: add, test, remove, and list deliveries. A secret is shown once.

import { z } from 'zod'
import { GatewayError } from '../../errors/errors.ts'
import { eventTypes } from '../../notify/events.ts'
import type { Delivery, DeliveryAttempt, WebhookRow } from '../../notify/webhook.ts'
import type { AttemptView, DeliveryView, NewWebhookView, WebhookView } from './answers.ts'
import type { HttpParts } from '../parts.ts'
import {
  type AccountRoute,
  accountRoute,
  type Acting,
  type ConsoleRoute,
  iso,
  isoOrNull,
  ofOwner,
  recordAct,
} from './route.ts'
import { requestId } from './bodies.ts'

const addBody = z.strictObject({
  url: z.string().min(1).max(2_048),
  events: z.array(z.enum(eventTypes)).min(1).max(eventTypes.length),
  id: requestId.describe(
    'An id of yours for the request: the same one again adds no second webhook, and is refused until the first is removed.',
  ),
})

const mostDeliveries = 100

export const webhookActs: readonly AccountRoute[] = [
  accountRoute(
    'GET webhooks',
    {
      operators: { id: 'listAccountWebhooks' },
      summary: 'The addresses that are told what happens to the account',
    },
    async ({ parts, account }) => ({ data: (await parts.webhooks.list(account.id)).map(webhookView) }),
  ),
  accountRoute(
    'POST webhooks',
    {
      // The answer holds a secret of the account, and what happens to it is told to an address that the request names.
      operators: { id: 'addAccountWebhook', elevated: true },
      summary: 'Add a webhook; the secret that its messages are signed with is shown this once',
      status: 201,
      errors: ['idempotency_conflict', 'unsupported_parameter'],
      body: addBody,
    },
    (asked) => addWebhook(asked, asked.account.id, asked.body),
  ),
  accountRoute(
    'DELETE webhooks/:id',
    { operators: { id: 'removeAccountWebhook' }, summary: 'Remove a webhook, and what waits for it' },
    (asked) => removeWebhook(asked, asked.account.id, asked.params['id'] ?? ''),
  ),
  accountRoute(
    'POST webhooks/:id/test',
    {
      operators: { id: 'testAccountWebhook' },
      summary: 'Send a message of the type webhook.test now, and say what came of it',
      body: z.strictObject({}),
    },
    async ({ parts, account, params }) => {
      const attempt = await parts.testWebhook(await parts.webhooks.find(account.id, params['id'] ?? ''))
      return { ok: attempt.error === null, ...attemptView(attempt) }
    },
  ),
  accountRoute(
    'GET webhooks/:id/deliveries',
    {
      operators: { id: 'listAccountWebhookDeliveries' },
      summary: 'The latest messages to a webhook with every attempt, the newest first',
    },
    async ({ parts, account, params }) => {
      const deliveries = await parts.webhooks.deliveries(account.id, params['id'] ?? '', mostDeliveries)
      return { data: deliveries.map(deliveryView) }
    },
  ),
]

export const webhookRoutes: readonly ConsoleRoute[] = webhookActs.map(ofOwner)

// What changes a webhook: for the routes, and for the commands.

type WebhookActing = Acting<Pick<HttpParts, 'webhooks'>>

/** Adds a webhook, and answers its secret this once. Throws what `Webhooks.add` throws. */
export async function addWebhook(
  acting: WebhookActing,
  account: string,
  { id, ...wanted }: z.infer<typeof addBody>,
): Promise<NewWebhookView> {
  const { webhook, secret } = await acting.parts.webhooks.add(account, wanted, id)
  await recordAct(acting, 'webhook.add', account, null, webhookView(webhook))
  return { ...webhookView(webhook), secret }
}

/** Removes a webhook, and what waits for it. Throws `not_found`. */
export async function removeWebhook(acting: WebhookActing, account: string, id: string) {
  if (!(await acting.parts.webhooks.remove(account, id)))
    throw new GatewayError('not_found', { message: 'The account has no such webhook.' })
  await recordAct(acting, 'webhook.remove', account, null, { id })
  return { id, removed: true as const }
}

export function webhookView({ id, url, events, createdAt }: WebhookRow): WebhookView {
  return { id, url, events, created_at: iso(createdAt) }
}

function deliveryView({ id, type, at, state, nextAt, attempts }: Delivery): DeliveryView {
  return { id, type, at: iso(at), state, next_at: isoOrNull(nextAt), attempts: attempts.map(attemptView) }
}

export function attemptView({ at, status, error, ms }: DeliveryAttempt): AttemptView {
  return { at: iso(at), status, error, ms }
}

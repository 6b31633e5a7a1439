// `weir webhooks add | list | test | remove`: the webhooks of an account.

import * as acts from '../../http/console/webhooks.ts'
import { type EventType, eventTypes } from '../../notify/events.ts'
import { webhooksOf } from '../../serve/gateway/webhooks.ts'
import type { Store } from '../../store/store.ts'
import { CommandFailure, type Context, type Invocation, print, table, usageFault } from '../context.ts'
import { actingOn, withAccount } from '../with-store.ts'

export async function addWebhook(context: Context, invocation: Invocation): Promise<void> {
  const [url = ''] = invocation.args
  const events = eventsOf(invocation.options('event'))
  const added = await ofAccount(context, invocation, ({ acting, account }) =>
    acts.addWebhook(acting, account, { url, events: [...events] }),
  )
  if (!context.json) context.io.err('The secret is shown once; it verifies the messages.\n')
  print(context, { json: added, text: `${added.id} ${added.secret}` })
}

export async function listWebhooks(context: Context, invocation: Invocation): Promise<void> {
  const webhooks = await ofAccount(context, invocation, ({ acting, account }) =>
    acting.parts.webhooks.list(account),
  )
  const rows = webhooks.map(({ id, url, events }) => [id, url, events.join(', ')])
  const text = rows.length === 0 ? 'no webhooks' : table(['WEBHOOK', 'ADDRESS', 'EVENTS'], rows)
  print(context, { json: webhooks.map(acts.webhookView), text })
}

export async function testWebhook(context: Context, invocation: Invocation): Promise<void> {
  const [id = ''] = invocation.args
  const attempt = await ofAccount(context, invocation, async ({ acting, sender, account }) =>
    sender.test(await acting.parts.webhooks.find(account, id)),
  )
  const { status, error, ms } = attempt
  const text = error ?? `answered ${String(status)} in ${ms} ms`
  print(context, { json: { id, ok: error === null, ...acts.attemptView(attempt) }, text })
  if (error !== null) throw new CommandFailure(`${id}: ${error}`)
}

export async function removeWebhook(context: Context, invocation: Invocation): Promise<void> {
  const [id = ''] = invocation.args
  const json = await ofAccount(context, invocation, ({ acting, account }) =>
    acts.removeWebhook(acting, account, id),
  )
  print(context, { json, text: `removed ${id}` })
}

function ofAccount<Result>(
  context: Context,
  invocation: Invocation,
  work: (of: ReturnType<typeof partsOf>) => Promise<Result>,
): Promise<Result> {
  return withAccount(context, invocation, (store, { id }) => work(partsOf(context, store, id)))
}

/** `account` is its id. */
function partsOf(context: Context, store: Store, account: string) {
  const { webhooks, sender } = webhooksOf(context.config, store, context.io.clock)
  return { sender, account, acting: actingOn(context, store, { webhooks }) }
}

function eventsOf(named: readonly string[]): readonly EventType[] {
  if (named.length === 0) return eventTypes
  const isKnown = (name: string): name is EventType => eventTypes.some((type) => type === name)
  return named.map((name) => {
    if (isKnown(name)) return name
    throw usageFault(`--event takes ${eventTypes.join(', ')}`)
  })
}

// `weir webhooks add | list | test | remove`: the webhooks of an account.

import { attemptView, webhookView } from '../../http/console/webhooks.ts'
import { type EventType, eventTypes } from '../../notify/webhook.ts'
import { webhooksOf } from '../../serve/gateway/webhooks.ts'
import type { Store } from '../../store/store.ts'
import { CommandFailure, type Context, type Invocation, print, table, usageFault } from '../context.ts'
import { recordAct, withAccount } from '../with-store.ts'

export async function addWebhook(context: Context, invocation: Invocation): Promise<void> {
  const [url = ''] = invocation.args
  const events = eventsOf(invocation.options('event'))
  const { webhook, secret } = await ofAccount(context, invocation, async ({ webhooks, account, store }) => {
    const made = await webhooks.add(account, { url, events })
    await recordAct(context, store, 'webhook.add', account, null, { url, events })
    return made
  })
  if (!context.json) context.io.err('The secret is shown once; it verifies the messages.\n')
  print(context, { json: { ...webhookView(webhook), secret }, text: `${webhook.id} ${secret}` })
}

export async function listWebhooks(context: Context, invocation: Invocation): Promise<void> {
  const webhooks = await ofAccount(context, invocation, (of) => of.webhooks.list(of.account))
  const rows = webhooks.map(({ id, url, events }) => [id, url, events.join(', ')])
  const text = rows.length === 0 ? 'no webhooks' : table(['WEBHOOK', 'ADDRESS', 'EVENTS'], rows)
  print(context, { json: webhooks.map(webhookView), text })
}

export async function testWebhook(context: Context, invocation: Invocation): Promise<void> {
  const [id = ''] = invocation.args
  const attempt = await ofAccount(context, invocation, async ({ webhooks, sender, account }) =>
    sender.test(await webhooks.find(account, id)),
  )
  const { status, error, ms } = attempt
  const text = error ?? `answered ${String(status)} in ${ms} ms`
  print(context, { json: { id, ok: error === null, ...attemptView(attempt) }, text })
  if (error !== null) throw new CommandFailure(`${id}: ${error}`)
}

export async function removeWebhook(context: Context, invocation: Invocation): Promise<void> {
  const [id = ''] = invocation.args
  await ofAccount(context, invocation, async ({ webhooks, account, store }) => {
    if (!(await webhooks.remove(account, id)))
      throw new CommandFailure(`there is no webhook ${JSON.stringify(id)} (weir webhooks list)`)
    await recordAct(context, store, 'webhook.remove', account, null, { id })
  })
  print(context, { json: { id, removed: true }, text: `removed ${id}` })
}

type OfAccount = ReturnType<typeof webhooksOf> & {
  /** The account's id. */
  readonly account: string
  readonly store: Pick<Store, 'acts'>
}

function ofAccount<Result>(
  context: Context,
  invocation: Invocation,
  work: (of: OfAccount) => Promise<Result>,
): Promise<Result> {
  return withAccount(context, invocation, async (store, { id: account }) => {
    return work({ ...webhooksOf(context.config, store, context.io.clock), account, store })
  })
}

function eventsOf(named: readonly string[]): readonly EventType[] {
  if (named.length === 0) return eventTypes
  const isKnown = (name: string): name is EventType => eventTypes.some((type) => type === name)
  return named.map((name) => {
    if (isKnown(name)) return name
    throw usageFault(`--event takes ${eventTypes.join(', ')}`)
  })
}

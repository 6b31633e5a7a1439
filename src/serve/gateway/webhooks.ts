// Webhooks from configuration: encryption of secrets, delivery, and watching accounts.

import { repeat } from '../../async/async.ts'
import { sealer } from '../../accounts/account.ts'
import type { Config } from '../../config/config.ts'
import { usd } from '../../credits/money.ts'
import { grantMonthly, MonthlyCredit } from '../../credits/calendar.ts'
import { dial } from '../../egress/egress.ts'
import type { WebhookServices } from '../../http/parts.ts'
import { AccountWatch, type Thresholds } from '../../notify/watch.ts'
import { Webhooks, WebhookSender } from '../../notify/webhook.ts'
import type { Log } from '../../observe/log.ts'
import type { Store } from '../../store/store.ts'

type WebhookConfig = Pick<Config, 'credits' | 'egress' | 'secrets' | 'webhooks'>

export interface Notifications extends WebhookServices {
  readonly sender: WebhookSender
  readonly watch: AccountWatch
}

const dayMs = 86_400_000

export function webhooksOf(
  config: WebhookConfig,
  store: Pick<Store, 'webhooks'>,
  now: () => number,
): { readonly webhooks: Webhooks; readonly sender: WebhookSender } {
  const { master_key: keys } = config.secrets
  const webhooks = new Webhooks(store.webhooks, keys.length === 0 ? undefined : sealer(keys), now)
  const sender = new WebhookSender({
    store: store.webhooks,
    webhooks,
    // Through the egress guard: private hosts only from the operator's list.
    post: (url, { headers, body, signal }) =>
      dial(url, { method: 'POST', headers, body }, { allowHosts: config.egress.allow_hosts, signal }),
    timeoutMs: config.webhooks.timeout_ms,
    now,
  })
  return { webhooks, sender }
}

export function notificationsOf(
  config: WebhookConfig,
  store: Pick<Store, 'webhooks' | 'accounts' | 'groups' | 'ledger' | 'recentCalls'>,
  now: () => number,
): Notifications {
  const { webhooks, sender } = webhooksOf(config, store, now)
  const { low_balance_usd: low, expiring_days: days } = config.credits
  const thresholds: Thresholds = { lowBalance: usd(low), expiringMs: days * dayMs }
  const { accounts, ledger } = store
  const { groups, recentCalls: recent } = store
  const monthly = new MonthlyCredit((account) => grantMonthly(ledger, account), now)
  const watch = new AccountWatch({
    store: store.webhooks,
    accounts,
    groups,
    ledger,
    grantMonthly: (account) => monthly.ensure(account),
    thresholds,
    recent,
    now,
  })
  return {
    webhooks,
    sender,
    watch,
    thresholds,
    testWebhook: (webhook) => sender.test(webhook),
    deliveries: () => sender.attempts,
  }
}

/** Sends due messages every `everyMs`, and checks accounts every `watchMs`, as the one gateway that does. */
export function keepNotifying(
  { sender, watch }: Pick<Notifications, 'sender' | 'watch'>,
  { everyMs, watchMs }: { readonly everyMs: number; readonly watchMs: number },
  { leads, log }: { readonly leads: () => boolean; readonly log: Pick<Log, 'warn'> },
): { stop(): void } {
  const onFailure = (error: unknown) =>
    log.warn('webhooks could not be served; the next round tries again', { error })
  // A hanging address must not block others: a round begins whether or not the last is over, with one message per
  // address at a time.
  const sending = setInterval(() => void sender.sendDue().catch(onFailure), everyMs)
  sending.unref()
  const look = async () => {
    if (!leads()) return
    await watch.look()
    await sender.sweep()
  }
  const watching = repeat(watchMs, look, onFailure)
  return {
    stop: () => {
      clearInterval(sending)
      watching.stop()
    },
  }
}

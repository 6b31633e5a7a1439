// The commands of webhooks: names, options and help.

import type { Command } from 'commander'
import { ready } from '../../action.ts'
import type { Io } from '../../context.ts'

/** Adds `weir webhooks`. */
export function webhookCommands(weir: Command, io: Io): void {
  const group = weir
    .command('webhooks')
    .description('addresses that are told what happens to an account; they need secrets.master_key')
  const account = ['--account <account>', 'id or e-mail address'] as const
  const add = group
    .command('add')
    .description('add a webhook; the secret that its messages are signed with is shown this once')
    .argument('<url>', 'such as https://example.com/hooks/weir')
    .requiredOption(...account)
    .option(
      '--event <event...>',
      'balance.low, lot.expiring, top_up.credited, key.created, key.limit_reached (all of them)',
    )
  ready(add, io, async (...given) => (await import('./webhooks.ts')).addWebhook(...given))
  const list = group
    .command('list')
    .description('list the webhooks of an account')
    .requiredOption(...account)
  ready(list, io, async (...given) => (await import('./webhooks.ts')).listWebhooks(...given))
  const test = group
    .command('test')
    .description('send a message of the type webhook.test now; fails where it is not taken')
    .argument('<id>', 'the id of the webhook')
    .requiredOption(...account)
  ready(test, io, async (...given) => (await import('./webhooks.ts')).testWebhook(...given))
  const remove = group
    .command('remove')
    .description('remove a webhook, and what waits for it')
    .argument('<id>', 'the id of the webhook')
    .requiredOption(...account)
  ready(remove, io, async (...given) => (await import('./webhooks.ts')).removeWebhook(...given))
}

// The commands of vouchers and subscriptions.

import type { Command } from 'commander'
import { ready } from '../../action.ts'
import type { Io } from '../../context.ts'

export function paymentCommands(weir: Command, io: Io): void {
  vouchers(weir, io)
  subscriptions(weir, io)
}

function vouchers(weir: Command, io: Io): void {
  const group = weir.command('vouchers').description('codes that become purchased credit, each once')
  const create = group
    .command('create')
    .description('make vouchers; their codes are shown this once')
    .requiredOption('--usd <amount>', 'the credit of each, US dollars')
    .option('--count <number>', 'how many', '1')
    .option('--expires <date>', 'until when they can be redeemed')
    .option('--note <text>', 'what they are for')
  ready(create, io, async (...given) => (await import('./vouchers.ts')).createVouchers(...given))
  const list = group.command('list').description('list vouchers, the newest first')
  ready(list, io, async (context) => (await import('./vouchers.ts')).listVouchers(context))
  const revoke = group
    .command('revoke')
    .description('make a voucher worthless; one that was redeemed stays credit')
    .argument('<id>', 'the id of the voucher')
  ready(revoke, io, async (...given) => (await import('./vouchers.ts')).revokeVoucher(...given))
}

function subscriptions(weir: Command, io: Io): void {
  const group = weir.command('subscriptions').description('premium subscriptions, sold elsewhere')
  const grant = group
    .command('grant')
    .description('add a period of a product, as the hook of its seller does')
    .requiredOption('--account <account>', 'id or e-mail address')
    .requiredOption('--product <id>', 'one of subscriptions.products')
    .option('--subscription <id>', 'the subscription that the period belongs to; a new one without it')
    .option('--source <name>', 'who sells it', 'manual')
    .option('--from <date>', 'when the period begins (today)')
    .option('--to <date>', 'when it ends, if sooner than the product says')
  ready(grant, io, async (...given) => (await import('./subscriptions.ts')).grantSubscription(...given))
  const end = group
    .command('end')
    .description('end a subscription; its credit lasts until its period is over')
    .argument('<subscription>', 'its id')
    .option('--source <name>', 'who sells it', 'manual')
    .option('--refund', 'take back what is left of its credit')
  ready(end, io, async (...given) => (await import('./subscriptions.ts')).endSubscription(...given))
  const list = group
    .command('list')
    .description('list periods, the latest first')
    .option('--account <account>', 'only those of this account')
  ready(list, io, async (...given) => (await import('./subscriptions.ts')).listSubscriptions(...given))
}

// The commands of credit, calls and the ledger: names, options and help.

import type { Command } from 'commander'
import type { Io } from '../../context.ts'
import { ready } from '../../action.ts'

/** Adds `weir credits`, `weir requests`, `weir usage` and `weir ledger`. */
export function ledgerCommands(weir: Command, io: Io): void {
  credits(weir, io)
  requests(weir, io)
  proof(weir, io)
}

function credits(weir: Command, io: Io): void {
  const group = weir.command('credits').description('grant credit and show balances')
  const grant = group
    .command('grant')
    .description('grant credit to an account')
    .requiredOption('--account <account>', 'id or e-mail address')
    .requiredOption('--pool <pool>', 'purchased, welcome, daily or subscription')
    .requiredOption('--usd <amount>', 'how much, in US dollars')
    .option(
      '--expires <date>',
      'when it ends, such as 2027-01-31, or never; without it purchased credit lives 12 months, daily credit until midnight UTC',
    )
    .option('--id <id>', 'an id of yours: the same id never grants twice')
  ready(grant, io, async (...given) => (await import('./credits.ts')).grantCredit(...given))
  const show = group
    .command('show')
    .description('show the balance of an account')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--history', 'every line of its journal as well')
    .option('--csv', 'those lines alone, as CSV')
  ready(show, io, async (...given) => (await import('./credits.ts')).showCredit(...given))
  const statement = group
    .command('statement')
    .description('show what a month has brought and used')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--month <month>', 'such as 2026-11 (this month)')
    .option('--csv', 'its lines as CSV')
    .option('--html', 'a page to print')
  ready(statement, io, async (...given) => (await import('./statement.ts')).monthlyStatement(...given))
  corrections(group, io)
}

function corrections(group: Command, io: Io): void {
  const refund = group
    .command('refund')
    .description('take a payment back from its lot; what was spent of it becomes debt')
    .requiredOption('--account <account>', 'id or e-mail address')
    .requiredOption('--lot <lot>', 'the lot that the payment bought (weir credits show)')
    .requiredOption('--usd <amount>', 'how much, in US dollars')
    .requiredOption('--id <id>', 'an id of yours: the same id never refunds twice')
  ready(refund, io, async (...given) => (await import('./corrections.ts')).refundCredit(...given))
  const adjust = group
    .command('adjust')
    .description('correct a pool: add credit, or take free credit away')
    .requiredOption('--account <account>', 'id or e-mail address')
    .requiredOption('--pool <pool>', 'purchased, welcome, daily or subscription')
    .requiredOption('--usd <amount>', 'how much, in US dollars; negative takes away')
    .requiredOption('--id <id>', 'an id of yours: the same id never adjusts twice')
  ready(adjust, io, async (...given) => (await import('./corrections.ts')).adjustCredit(...given))
  const expire = group
    .command('expire')
    .description('book the expiry of credit whose time is over; a running server does it by itself')
  ready(expire, io, async (context) => (await import('./corrections.ts')).expireCredit(context))
  const debts = group.command('debts').description('list the accounts that owe something')
  ready(debts, io, async (context) => (await import('./corrections.ts')).listDebts(context))
}

function requests(weir: Command, io: Io): void {
  const group = weir.command('requests').description('read the request log: what became of every call')
  const withFilters = (command: Command) =>
    command
      .option('--account <account>', 'only calls of this account: its id or e-mail address')
      .option('--key <id>', 'only calls with the key of this id')
      .option('--model <model>', 'only calls that asked for this model')
      .option('--code <code>', 'only calls that ended with this error code')
  const list = withFilters(group.command('list').description('list calls, the newest first'))
    .option('--since <date>', 'only calls that ended at or after it')
    .option('--until <date>', 'only calls that ended before it')
    .option('--limit <number>', 'how many to list (50)')
    .option('--cursor <cursor>', 'go on behind the page before')
  ready(list, io, async (...given) => (await import('./requests.ts')).listRequests(...given))
  const show = group
    .command('show')
    .description('show one call with its receipt: every attempt, and why it failed')
    .argument('<id>', 'the request id that its answer, its error or the log named')
  ready(show, io, async (...given) => (await import('./requests.ts')).showRequest(...given))
  const tail = withFilters(group.command('tail').description('print calls as they end, until interrupted'))
  ready(tail, io, async (...given) => (await import('./requests.ts')).tailRequests(...given))
  const usage = weir
    .command('usage')
    .description('what calls came to, by UTC day: calls, tokens and cost')
    .option('--account <account>', 'only of this account: its id or e-mail address')
    .option('--key <id>', 'only calls with the key of this id')
    .option('--model <model>', 'only calls of this model')
    .option('--by <what>', 'divide each day by model, key, channel or account')
    .option('--from <date>', 'the first day (30 days up to the last)')
    .option('--to <date>', 'the last day (today)')
    .option('--csv', 'print CSV')
  ready(usage, io, async (...given) => (await import('./usage.ts')).showUsage(...given))
}

const reconcileHelp = `
FILE is the provider's usage export: CSV with a heading, a JSON list (or an object with one in "data"), or an object
a line. Lines are matched to calls by the provider's id of its answer; lines with the same id are added up.

--map names the columns, with commas: upstream_id=COLUMN,cost=COLUMN. In JSON a column inside another is usage.cost.
  upstream_id  the provider's id; without --map upstream_id, id, generation_id, response_id or request_id
  cost         US dollars, as 0.0125 or 1.25e-2; without --map cost, cost_usd, total_cost, amount or usage

Ids found on one side only are normal at the edges of the export's period: --since and --until bound the calls.
Whatever is found, the exit code is 0; "ok" in the JSON tells whether both sides agree.`

const acceptHelp = `
The head of the ledger is written beside the database (ledger.anchors) and to the log, so that the audit finds a
history that was cut short: a write-ahead log thrown away, an older copy in the place of the file. weir restore says by
itself that it has replaced the history. This is for a copy that was put back by hand, once it is known what is missing.
`

const auditHelp = `
An audit of a day takes as long as the day was busy, however large the journal: 10,000 calls a tenth of a second. It
starts from the hash before the day's first entry and says what only the whole audit can check. The day's entries are
found by their time; a clock that was set back by up to an hour hides none of them.

Exit code 1 when something does not hold.`

function proof(weir: Command, io: Io): void {
  const ledger = weir.command('ledger').description('prove the ledger')
  const audit = ledger
    .command('audit')
    .description('replay every entry and check every invariant')
    .option(
      '--day <date>',
      'only what was booked on this UTC day: a date such as 2027-01-31, today or yesterday',
    )
    .addHelpText('after', auditHelp)
  ready(audit, io, async (...given) => (await import('./ledger.ts')).audit(...given))
  const accept = ledger
    .command('accept')
    .description('go on with the history the database has, where an anchored one was cut short or replaced')
    .requiredOption('--reason <text>', 'why: it is kept, and the audit tells it')
    .addHelpText('after', acceptHelp)
  ready(accept, io, async (...given) => (await import('./ledger.ts')).accept(...given))
  const reconciling = ledger
    .command('reconcile')
    .description("compare a provider's usage export with the ledger, call by call")
    .argument('<file>', 'the export: CSV, JSON or JSON Lines')
    .requiredOption('--provider <provider>', 'the id of the provider that bills')
    .option('--map <columns>', 'upstream_id=COLUMN,cost=COLUMN')
    .option('--since <date>', 'only calls that ended at or after it')
    .option('--until <date>', 'only calls that ended before it')
    .addHelpText('after', reconcileHelp)
  ready(reconciling, io, async (...given) => (await import('./reconcile.ts')).reconcileLedger(...given))
}

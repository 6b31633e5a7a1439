// The command line. Groups of commands are in commands/*/commands.ts; a command is loaded when it is called.

import { Command, CommanderError } from 'commander'
import { eventTypes } from '../notify/webhook.ts'
import {
  CommandFailure,
  type Context,
  contextFor,
  exitCodes,
  type Invocation,
  type Io,
  visible,
} from './context.ts'

/** Runs one command line (without the program's name) and returns its exit code. Never throws. */
export async function runCli(argv: readonly string[], io: Io): Promise<number> {
  try {
    await program(argv, io).parseAsync(argv[0] === '--version' || argv[0] === '-V' ? ['version'] : argv, {
      from: 'user',
    })
    return exitCodes.ok
  } catch (thrown) {
    // Commander has printed help, the version or the fault. A group without a command is a usage fault.
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? exitCodes.ok : exitCodes.usage
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    io.err(`weir: ${visible(message)}\n`)
    return thrown instanceof CommandFailure ? thrown.exitCode : exitCodes.failed
  }
}

function program(argv: readonly string[], io: Io): Command {
  const weir = new Command('weir')
    .description(
      'A gateway for language models: one API in front of every provider, every call charged exactly, once.',
    )
    // Accepted before and after the command's name.
    .option('--config <file>', 'the configuration file (weir.yaml)')
    .option('--data-dir <folder>', 'where the database lives (./weir-data)')
    .option('--json', 'print JSON for machines')
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ writeOut: io.out, writeErr: io.err })
    .showSuggestionAfterError()
    .showHelpAfterError('(weir --help tells more)')
  // Adding the other hundred commands would take a tenth of the time until the gateway answers.
  if (argv[0] === 'serve') {
    serveCommand(weir, io)
    return weir
  }
  serviceCommands(weir, io)
  accountCommands(weir, io)
  ledgerCommands(weir, io)
  modelCommands(weir, io)
  mcpCommands(weir, io)
  paymentCommands(weir, io)
  webhookCommands(weir, io)
  return weir
}

// Calls a command's action from commander, with the loaded configuration and the command line's options.

type Action = (context: Context, invocation: Invocation) => Promise<void>

/** Gives a command an action that gets the loaded configuration. */
function ready(command: Command, io: Io, action: Action): void {
  command.action(async (...given: unknown[]) => {
    const invocation = invocationOf(given)
    await runAction(await contextFor(io, invocation), invocation, action)
  })
}

/** The same for an action that calls a gateway: its configuration is the user's, and not that of the working directory. */
function readyForClient(command: Command, io: Io, action: Action): void {
  command.action(async (...given: unknown[]) => {
    const { clientContextFor } = await import('./gateway-address.ts')
    const invocation = invocationOf(given)
    await runAction(await clientContextFor(io, invocation), invocation, action)
  })
}

async function runAction(context: Context, invocation: Invocation, action: Action): Promise<void> {
  for (const { name, problem } of context.loaded.warnings) context.io.err(`warning: ${name} ${problem}\n`)
  await action(context, invocation)
}

/** Commander passes the arguments, then the options, then the command. */
function invocationOf(given: readonly unknown[]): Invocation {
  const command = given.at(-1)
  const options: Record<string, unknown> = command instanceof Command ? command.optsWithGlobals() : {}
  return {
    args: given
      .slice(0, -2)
      .flatMap((arg) => (Array.isArray(arg) ? arg.map(String) : typeof arg === 'string' ? [arg] : [])),
    option(name) {
      const value = options[name]
      return typeof value === 'string' ? value : undefined
    },
    flag: (name) => options[name] === true,
    options: (name) => [options[name] ?? []].flat().map(String),
  }
}

// The commands of accounts, keys and sessions: names, options and help.

/** Adds `weir accounts` and `weir keys`. */
function accountCommands(weir: Command, io: Io): void {
  accounts(weir, io)
  keys(weir, io)
}

function accounts(weir: Command, io: Io): void {
  const group = weir.command('accounts').description('create and look up accounts')
  const create = group
    .command('create')
    .description('create an account')
    .requiredOption('--email <address>', 'its e-mail address')
  ready(create, io, async (...given) =>
    (await import('./commands/accounts/accounts.ts')).createAccount(...given),
  )
  const list = group.command('list').description('list all accounts')
  ready(list, io, async (context) => (await import('./commands/accounts/accounts.ts')).listAccounts(context))
  const show = group
    .command('show')
    .description('show one account with its credit and keys')
    .argument('<account>', 'its id or e-mail address')
  ready(show, io, async (...given) => (await import('./commands/accounts/accounts.ts')).showAccount(...given))
  const suspend = group
    .command('suspend')
    .description('refuse the calls of an account; its credit stays')
    .argument('<account>', 'its id or e-mail address')
  ready(suspend, io, async (...given) =>
    (await import('./commands/accounts/accounts.ts')).suspendAccount(...given),
  )
  const resume = group
    .command('resume')
    .description('serve the calls of a suspended account again')
    .argument('<account>', 'its id or e-mail address')
  ready(resume, io, async (...given) =>
    (await import('./commands/accounts/accounts.ts')).resumeAccount(...given),
  )
  const set = group
    .command('set')
    .description('say how much an account may owe; what it owes is paid by its next credit')
    .argument('[account]', 'its id or e-mail address')
    .option('--account <account>', 'the same')
    .requiredOption('--credit-line <usd>', 'US dollars such as 500, unlimited, or none')
  ready(set, io, async (...given) => (await import('./commands/accounts/accounts.ts')).setAccount(...given))
  const link = group
    .command('link')
    .description('print a link that signs in to an account, once, within 15 minutes')
    .requiredOption('--account <account>', 'id or e-mail address')
  ready(link, io, async (...given) => (await import('./commands/accounts/access.ts')).signInLink(...given))
  const invite = group
    .command('invite')
    .description('open an account and print the link that signs in to it for the first time')
    .requiredOption('--email <address>', 'its e-mail address')
    .option('--role <role>', 'user or operator', 'user')
  ready(invite, io, async (...given) => (await import('./commands/accounts/access.ts')).invite(...given))
  const role = group
    .command('role')
    .description('make an account an operator, or a user again')
    .argument('<account>', 'its id or e-mail address')
    .argument('<role>', 'user or operator')
  ready(role, io, async (...given) => (await import('./commands/accounts/access.ts')).setRole(...given))
  sessions(group, io)
}

function sessions(group: Command, io: Io): void {
  const create = group
    .command('session')
    .description('create a token for the app of an account; it is shown this once')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--ttl <time>', 'how long it is valid, such as 30d or 12h', '30d')
  ready(create, io, async (...given) =>
    (await import('./commands/accounts/access.ts')).createSession(...given),
  )
  const list = group
    .command('sessions')
    .description('list the sessions of an account')
    .requiredOption('--account <account>', 'id or e-mail address')
  ready(list, io, async (...given) => (await import('./commands/accounts/access.ts')).listSessions(...given))
  const end = group
    .command('end-session')
    .description('end a session at once')
    .argument('<id>', 'the id of the session')
  ready(end, io, async (...given) => (await import('./commands/accounts/access.ts')).endSession(...given))
}

function keys(weir: Command, io: Io): void {
  const group = weir.command('keys').description('create, list, limit, revoke and rotate API keys')
  const create = group
    .command('create')
    .description('create an API key; it is shown this once')
    .requiredOption('--account <account>', 'id or e-mail address of the account it spends from')
    .option('--name <name>', 'what to call it')
    .option('--test', 'a key of the test mode: it costs nothing and reaches the simulator only')
    .option(
      '--sees <own|all>',
      'whose calls and responses it may read: its own and those of the keys it replaces (the default), or all of the ' +
        'account, for a test key all of test keys',
    )
    .option('--management', 'a key of the admin API, for an operator: it administers, and makes no calls')
  limitOptions(create)
  ready(create, io, async (...given) => (await import('./commands/accounts/keys.ts')).createKey(...given))
  const list = group
    .command('list')
    .description('list API keys')
    .option('--account <account>', 'only those of this account')
    .option('--management', 'those of the admin API')
  ready(list, io, async (...given) => (await import('./commands/accounts/keys.ts')).listKeys(...given))
  const limit = group
    .command('limit')
    .description('change the limits of an API key; `none` lifts one, what is not named stays')
    .argument('<id>', 'the id of the key')
    .option('--name <name>', 'what to call it')
  limitOptions(limit)
  ready(limit, io, async (...given) => (await import('./commands/accounts/keys.ts')).limitKey(...given))
  const revoke = group
    .command('revoke')
    .description('revoke a key at once')
    .argument('<id>', 'the id of the key')
  ready(revoke, io, async (...given) => (await import('./commands/accounts/keys.ts')).revokeKey(...given))
  const rotate = group
    .command('rotate')
    .description('create a successor with the same rights; the old key ends now or after the overlap')
    .argument('<id>', 'the id of the key')
    .option('--overlap <time>', 'how long both work, such as 24h, 30m or 7d', '0')
  ready(rotate, io, async (...given) => (await import('./commands/accounts/keys.ts')).rotateKey(...given))
}

function limitOptions(command: Command): void {
  command
    .option('--expires <date>', 'when it ends, such as 2027-01-31')
    .option('--limit-usd <amount>', 'the most it may spend in one window')
    .option('--limit-window <window>', 'day, week, month or total')
    .option('--models <list>', 'the models it may use, with commas: ids or provider/*')
    .option('--requests-per-minute <number>', 'the most requests it may make in a minute')
    .option('--tokens-per-minute <number>', 'the most tokens it may use in a minute')
    .option('--networks <list>', 'the addresses it may be used from, with commas: such as 10.0.0.0/8')
}

// The commands of credit, calls and the ledger: names, options and help.

/** Adds `weir credits`, `weir requests`, `weir usage` and `weir ledger`. */
function ledgerCommands(weir: Command, io: Io): void {
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
  ready(grant, io, async (...given) => (await import('./commands/ledger/credits.ts')).grantCredit(...given))
  const show = group
    .command('show')
    .description('show the balance of an account')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--history', 'every line of its journal as well')
    .option('--csv', 'those lines alone, as CSV')
  ready(show, io, async (...given) => (await import('./commands/ledger/credits.ts')).showCredit(...given))
  const statement = group
    .command('statement')
    .description('show what a month has brought and used')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--month <month>', 'such as 2026-11 (this month)')
    .option('--csv', 'its lines as CSV')
    .option('--html', 'a page to print')
  ready(statement, io, async (...given) =>
    (await import('./commands/ledger/statement.ts')).monthlyStatement(...given),
  )
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
  ready(refund, io, async (...given) => (await import('./commands/ledger/credits.ts')).refundCredit(...given))
  const adjust = group
    .command('adjust')
    .description('correct a pool: add credit, or take free credit away')
    .requiredOption('--account <account>', 'id or e-mail address')
    .requiredOption('--pool <pool>', 'purchased, welcome, daily or subscription')
    .requiredOption('--usd <amount>', 'how much, in US dollars; negative takes away')
    .requiredOption('--id <id>', 'an id of yours: the same id never adjusts twice')
  ready(adjust, io, async (...given) => (await import('./commands/ledger/credits.ts')).adjustCredit(...given))
  const expire = group
    .command('expire')
    .description('book the expiry of credit whose time is over; a running server does it by itself')
  ready(expire, io, async (context) => (await import('./commands/ledger/credits.ts')).expireCredit(context))
  const debts = group.command('debts').description('list the accounts that owe something')
  ready(debts, io, async (context) => (await import('./commands/ledger/credits.ts')).listDebts(context))
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
  ready(list, io, async (...given) => (await import('./commands/ledger/requests.ts')).listRequests(...given))
  const show = group
    .command('show')
    .description('show one call with its receipt: every attempt, and why it failed')
    .argument('<id>', 'the request id that its answer, its error or the log named')
  ready(show, io, async (...given) => (await import('./commands/ledger/requests.ts')).showRequest(...given))
  const tail = withFilters(group.command('tail').description('print calls as they end, until interrupted'))
  ready(tail, io, async (...given) => (await import('./commands/ledger/requests.ts')).tailRequests(...given))
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
  ready(usage, io, async (...given) => (await import('./commands/ledger/usage.ts')).showUsage(...given))
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
  ready(audit, io, async (...given) => (await import('./commands/ledger/ledger.ts')).audit(...given))
  const accept = ledger
    .command('accept')
    .description('go on with the history the database has, where an anchored one was cut short or replaced')
    .requiredOption('--reason <text>', 'why: it is kept, and the audit tells it')
    .addHelpText('after', acceptHelp)
  ready(accept, io, async (...given) => (await import('./commands/ledger/ledger.ts')).accept(...given))
  const reconciling = ledger
    .command('reconcile')
    .description("compare a provider's usage export with the ledger, call by call")
    .argument('<file>', 'the export: CSV, JSON or JSON Lines')
    .requiredOption('--provider <provider>', 'the id of the provider that bills')
    .option('--map <columns>', 'upstream_id=COLUMN,cost=COLUMN')
    .option('--since <date>', 'only calls that ended at or after it')
    .option('--until <date>', 'only calls that ended before it')
    .addHelpText('after', reconcileHelp)
  ready(reconciling, io, async (...given) =>
    (await import('./commands/ledger/ledger.ts')).reconcileLedger(...given),
  )
}

// The commands of MCP: names, options and help.

/** Adds `weir mcp`. */
function mcpCommands(weir: Command, io: Io): void {
  const group = weir
    .command('mcp')
    .description('MCP servers that an account registers, and the gateway as one')
  const serve = group
    .command('serve')
    .description('speak MCP on standard input and output, for desktop programs; a gateway must be running')
    .option('--key <key>', 'the API key (or WEIR_API_KEY)')
    .option(
      '--url <address>',
      'the base URL of the gateway (WEIR_URL, else that of your own ~/.config/weir/weir.yaml, else this machine)',
    )
  readyForClient(serve, io, async (...given) => (await import('./commands/mcp.ts')).serveMcp(...given))
  servers(group, io)
}

function servers(group: Command, io: Io): void {
  const account = ['--account <account>', 'id or e-mail address'] as const
  const add = group
    .command('add')
    .description(
      'register an MCP server under a name, or change it; needs secrets.master_key where it is sent secrets',
    )
    .argument('<name>', 'how calls name it')
    .argument('<url>', 'such as https://mcp.example.com/mcp')
    .requiredOption(...account)
    .option('--token <token>', 'what it is sent as Authorization: Bearer; - reads standard input')
    .option('--header <header...>', 'more that it is sent: "Name: value"')
    .option('--client-id <id>', 'the OAuth client that is registered at its authorisation server')
    .option('--client-secret <secret>', 'of that client; - reads standard input')
  ready(add, io, async (...given) => (await import('./commands/mcp.ts')).addServer(...given))
  const list = group
    .command('list')
    .description('list the MCP servers of an account')
    .requiredOption(...account)
  ready(list, io, async (...given) => (await import('./commands/mcp.ts')).listServers(...given))
  const test = group
    .command('test')
    .description('connect to a registered MCP server and list its tools')
    .argument('<name>', 'its name')
    .requiredOption(...account)
  ready(test, io, async (...given) => (await import('./commands/mcp.ts')).testServer(...given))
  const remove = group
    .command('remove')
    .description('forget an MCP server and its secrets')
    .argument('<name>', 'its name')
    .requiredOption(...account)
  ready(remove, io, async (...given) => (await import('./commands/mcp.ts')).removeServer(...given))
}

// The commands of models and the catalog: names, options and help.

/** Adds `weir models`, `weir chat` and `weir catalog`. */
function modelCommands(weir: Command, io: Io): void {
  models(weir, io)
  catalog(weir, io)
}

function models(weir: Command, io: Io): void {
  const list = weir
    .command('models')
    .description('list the models of the catalog')
    .argument('[text]', 'only ids that contain this')
    .option('--available', 'only what can be called now: of providers with a key, and of servers that run')
    .option('--all', 'the whole catalog; in a terminal what can be called now is shown first')
  ready(list, io, async (...given) => (await import('./commands/models/models.ts')).listModels(...given))
  const chat = weir
    .command('chat')
    .description('ask a running gateway; the reply is streamed, its receipt follows')
    .argument('<model>', 'such as openai/gpt-5')
    .argument('<message...>', 'what to say; - reads it from standard input')
    .option('--key <key>', 'the API key (or WEIR_API_KEY)')
    .option(
      '--url <address>',
      'the base URL of the gateway (WEIR_URL, else that of your own ~/.config/weir/weir.yaml, else this machine)',
    )
  readyForClient(chat, io, async (...given) => (await import('./commands/models/chat.ts')).chat(...given))
}

function catalog(weir: Command, io: Io): void {
  const group = weir.command('catalog').description('compare, replace and export the catalog')
  const diff = group
    .command('diff')
    .description('how a catalog file differs from the catalog in use')
    .argument('<file>', 'a catalog file')
  ready(diff, io, async (...given) => (await import('./commands/models/models.ts')).diffCatalog(...given))
  const importing = group
    .command('import')
    .description('put a catalog file to use from the next start on')
    .argument('<file>', 'a catalog file')
  ready(importing, io, async (...given) =>
    (await import('./commands/models/models.ts')).importCatalog(...given),
  )
  const exporting = group
    .command('export')
    .description('write the catalog in use to a file')
    .argument('<file>', 'where to; - is standard output')
  ready(exporting, io, async (...given) =>
    (await import('./commands/models/models.ts')).exportCatalog(...given),
  )
}

// The commands of vouchers and subscriptions.

function paymentCommands(weir: Command, io: Io): void {
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
  ready(create, io, async (...given) => (await import('./commands/payments.ts')).createVouchers(...given))
  const list = group.command('list').description('list vouchers, the newest first')
  ready(list, io, async (context) => (await import('./commands/payments.ts')).listVouchers(context))
  const revoke = group
    .command('revoke')
    .description('make a voucher worthless; one that was redeemed stays credit')
    .argument('<id>', 'the id of the voucher')
  ready(revoke, io, async (...given) => (await import('./commands/payments.ts')).revokeVoucher(...given))
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
  ready(grant, io, async (...given) => (await import('./commands/payments.ts')).grantSubscription(...given))
  const end = group
    .command('end')
    .description('end a subscription; its credit lasts until its period is over')
    .argument('<subscription>', 'its id')
    .option('--source <name>', 'who sells it', 'manual')
    .option('--refund', 'take back what is left of its credit')
  ready(end, io, async (...given) => (await import('./commands/payments.ts')).endSubscription(...given))
  const list = group
    .command('list')
    .description('list periods, the latest first')
    .option('--account <account>', 'only those of this account')
  ready(list, io, async (...given) => (await import('./commands/payments.ts')).listSubscriptions(...given))
}

// The commands that run and maintain the gateway: names, options and help.

/** Adds `weir serve`, `weir backup`, `weir doctor` and the like. */
function serviceCommands(weir: Command, io: Io): void {
  serveCommand(weir, io)
  working(weir, io)
  upkeep(weir, io)
  deployment(weir, io)
}

/** Adds `weir serve`. */
function serveCommand(weir: Command, io: Io): void {
  const serve = weir
    .command('serve')
    .description('run the gateway')
    .option('--host <address>', 'the address to listen on (127.0.0.1)')
    .option('--port <number>', 'the port to listen on (8787); 0 takes a free one')
    .option(
      '--workers <number>',
      'processes that serve calls (1); auto is one for each core but one, at most 4',
    )
  serve.action(async (...given: unknown[]) =>
    (await import('./commands/service/serve.ts')).serve(io, invocationOf(given)),
  )
}

/** Only started by `serve`, with whose connection it works. */
function working(weir: Command, io: Io): void {
  weir
    .command('worker', { hidden: true })
    .action(async () => (await import('../serve/workers/worker.ts')).runWorker(io.clock))
}

function upkeep(weir: Command, io: Io): void {
  const backup = weir
    .command('backup')
    .description('copy the database to a new file, also beside a running server')
    .argument('<file>', 'where to; a file that exists is never overwritten')
  ready(backup, io, async (...given) => (await import('./commands/service/service.ts')).backUpTo(...given))
  const restoring = weir
    .command('restore')
    .description(
      'put a backup into the data directory, once its ledger is proven; the server must be stopped',
    )
    .argument('<file>', 'what weir backup wrote')
    .option('--force', 'also where there is a database; it is moved aside, not deleted')
  ready(restoring, io, async (...given) =>
    (await import('./commands/service/service.ts')).restoreFrom(...given),
  )
  const config = weir.command('config').description('check and show the configuration')
  const check = config.command('check').description('check the configuration; all faults are listed')
  check.action(async (...given: unknown[]) =>
    (await import('./commands/service/service.ts')).checkConfig(io, invocationOf(given)),
  )
  const show = config.command('show').description('show every setting, its value and where it came from')
  ready(show, io, async (context) => (await import('./commands/service/service.ts')).showConfig(context))
  const connect = weir
    .command('connect')
    .description('what points a client at this gateway; without a name, the list of clients')
    .argument('[client]', 'such as codex or opencode')
    .option('--key <key>', 'the API key (or WEIR_API_KEY)')
    .option(
      '--url <address>',
      'the base URL of the gateway (WEIR_URL, else that of your own ~/.config/weir/weir.yaml, else this machine)',
    )
    .option('--model <id>', 'the model it calls, such as openai/gpt-5', 'sim/echo')
    .option('--write', 'write it into the configuration of the client; what is there stays')
  readyForClient(connect, io, async (...given) =>
    (await import('./commands/service/connect.ts')).connect(...given),
  )
  const doctor = weir
    .command('doctor')
    .description('look for what keeps the gateway from working')
    .option('--provider <id>', 'make one cheap call to this provider, and say what is wrong')
  ready(doctor, io, async (context, invocation) => {
    const provider = invocation.option('provider')
    if (provider === undefined) return (await import('./commands/service/doctor.ts')).doctor(context)
    return (await import('./commands/models/probe.ts')).probe(context, provider)
  })
  const version = weir.command('version').description('print the version')
  version.action(async (...given: unknown[]) =>
    (await import('./commands/service/service.ts')).version(io, invocationOf(given)),
  )
}

function deployment(weir: Command, io: Io): void {
  const service = weir.command('service').description('run the gateway as a system service')
  const printing = service
    .command('print')
    .description('print a systemd unit for this executable; nothing is installed')
    .option('--user <name>', 'the system user it runs as', 'weir')
    .option('--exec <path>', 'the executable (this one)')
  ready(printing, io, async (...given) =>
    (await import('./commands/service/service.ts')).printService(...given),
  )
  const health = weir
    .command('healthcheck')
    .description('exit with 0 when the running gateway is ready, with 1 otherwise')
    .option(
      '--url <address>',
      'the base URL of the gateway (that of the server of the data directory, or the configured address)',
    )
  ready(health, io, async (...given) => (await import('./commands/service/serve.ts')).healthcheck(...given))
  weir
    .command('completions')
    .description('print a script that completes commands in bash, zsh or fish')
    .argument('<shell>', 'bash, zsh or fish')
    .action(async (shell: string) =>
      io.out((await import('./commands/service/service.ts')).completionScript(shell, weir)),
    )
}

// The commands of webhooks: names, options and help.

/** Adds `weir webhooks`. */
function webhookCommands(weir: Command, io: Io): void {
  const group = weir
    .command('webhooks')
    .description('addresses that are told what happens to an account; they need secrets.master_key')
  const account = ['--account <account>', 'id or e-mail address'] as const
  const add = group
    .command('add')
    .description('add a webhook; the secret that its messages are signed with is shown this once')
    .argument('<url>', 'such as https://example.com/hooks/weir')
    .requiredOption(...account)
    .option('--event <event...>', `${eventTypes.join(', ')} (all of them)`)
  ready(add, io, async (...given) => (await import('./commands/webhooks.ts')).addWebhook(...given))
  const list = group
    .command('list')
    .description('list the webhooks of an account')
    .requiredOption(...account)
  ready(list, io, async (...given) => (await import('./commands/webhooks.ts')).listWebhooks(...given))
  const test = group
    .command('test')
    .description('send a message of the type webhook.test now; fails where it is not taken')
    .argument('<id>', 'the id of the webhook')
    .requiredOption(...account)
  ready(test, io, async (...given) => (await import('./commands/webhooks.ts')).testWebhook(...given))
  const remove = group
    .command('remove')
    .description('remove a webhook, and what waits for it')
    .argument('<id>', 'the id of the webhook')
    .requiredOption(...account)
  ready(remove, io, async (...given) => (await import('./commands/webhooks.ts')).removeWebhook(...given))
}

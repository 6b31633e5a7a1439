// The command line: names, options and help of all commands. What a command does is in commands/, loaded when it is
// called.

import { Command, CommanderError, Option } from 'commander'
import { actionsOf, command, CommandFailure, exitCodes, invocationOf, type Io, visible } from './context.ts'
import { pools } from '../credits/pool.ts'
import { eventTypes } from '../notify/events.ts'
import { accountCommands, groupCommands, keyCommands } from './people-commands.ts'

/** Runs one command line (without the program's name) and returns its exit code. Never throws. */
export async function runCli(argv: readonly string[], io: Io): Promise<number> {
  try {
    await program(argv, io).parseAsync(await commandLineOf(argv, io), { from: 'user' })
    return exitCodes.ok
  } catch (thrown) {
    // Commander has printed help, the version or the fault. A group without a command is a usage fault.
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? exitCodes.ok : exitCodes.usage
    // A CommandFailure, or what the domain refuses: its message is for people.
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    io.err(`weir: ${visible(message)}\n`)
    return thrown instanceof CommandFailure ? thrown.exitCode : exitCodes.failed
  }
}

/** The actions of commands that call a gateway: their configuration is the user's, and not that of the working directory. */
function clientActionsOf<File>(io: Io, load: () => Promise<File>) {
  return actionsOf(io, load, async (...asked) =>
    (await import('./gateway-address.ts')).clientContextFor(...asked),
  )
}

/** What is meant by no command at all, by `--version`, and by `help` with the name of a page of the guide. */
async function commandLineOf(argv: readonly string[], io: Io): Promise<readonly string[]> {
  const [first, second] = argv
  if (hasNoCommand(argv)) return [...argv, 'welcome']
  if (first === '--version' || first === '-V') return ['version']
  if (first !== 'help' || second === undefined) return argv
  if (program([], io).commands.some((command) => command.name() === second)) return argv
  const { guidePage } = await import('../guide/pages.ts')
  return guidePage(second) === undefined ? argv : ['guide', second]
}

/** Whether nothing but options of every command are given. */
function hasNoCommand(argv: readonly string[]): boolean {
  const rest = [...argv]
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--config' || word === '--data-dir') rest.shift()
    else if (word !== '--json' && !/^--(config|data-dir)=/.test(word)) return false
  }
  return true
}

/** Every command, its options and its help; for `weir serve` that one alone. */
export function program(argv: readonly string[], io: Io): Command {
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
  serveCommand(weir, io)
  upkeepCommands(weir, io)
  deploymentCommands(weir, io)
  upgradeCommand(weir, io)
  guideCommand(weir, io)
  accountCommands(weir, io)
  keyCommands(weir, io)
  groupCommands(weir, io)
  creditCommands(weir, io)
  requestCommands(weir, io)
  ledgerCommands(weir, io)
  modelCommands(weir, io)
  catalogCommands(weir, io)
  mcpCommands(weir, io)
  voucherCommands(weir, io)
  planCommands(weir, io)
  subscriptionCommands(weir, io)
  webhookCommands(weir, io)
  alarmCommands(weir, io)
  return weir
}

function creditCommands(weir: Command, io: Io): void {
  const credits = actionsOf(io, () => import('./commands/credits.ts'))
  const group = command(weir, 'credits', 'grant credit and show balances')
  command(group, 'grant', 'grant credit to an account')
    .requiredOption('--account <account>', 'id or e-mail address')
    .requiredOption('--pool <pool>', pools.join(', '))
    .requiredOption('--usd <amount>', 'how much, in US dollars')
    .option(
      '--expires <date>',
      'when it ends, such as 2027-01-31, or never; without it purchased credit lives 12 months, daily credit until midnight UTC',
    )
    .option('--id <id>', 'an id of yours: the same id never grants twice')
    .action(credits('grantCredit'))
  command(group, 'show', 'show the balance of an account')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--history', 'every line of its journal as well')
    .option('--csv', 'those lines alone, as CSV')
    .action(credits('showCredit'))
  command(group, 'statement', 'show what a month has brought and used')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--month <month>', 'such as 2026-11 (this month)')
    .option('--csv', 'its lines as CSV')
    .option('--html', 'a page to print')
    .action(credits('monthlyStatement'))
  correctionCommands(group, io)
}

function correctionCommands(group: Command, io: Io): void {
  const credits = actionsOf(io, () => import('./commands/credits.ts'))
  command(group, 'refund', 'take a payment back from its lot; what was spent of it becomes debt')
    .requiredOption('--account <account>', 'id or e-mail address')
    .requiredOption('--lot <lot>', 'the lot that the payment bought (weir credits show)')
    .requiredOption('--usd <amount>', 'how much, in US dollars')
    .requiredOption('--id <id>', 'an id of yours: the same id never refunds twice')
    .action(credits('refundCredit'))
  command(group, 'adjust', 'correct a pool: add credit, or take free credit away')
    .requiredOption('--account <account>', 'id or e-mail address')
    .requiredOption('--pool <pool>', pools.join(', '))
    .requiredOption('--usd <amount>', 'how much, in US dollars; negative takes away')
    .requiredOption('--id <id>', 'an id of yours: the same id never adjusts twice')
    .action(credits('adjustCredit'))
  command(
    group,
    'expire',
    'book the expiry of credit whose time is over; a running server does it by itself',
  ).action(credits('expireCredit'))
  command(group, 'debts', 'list the accounts that owe something').action(credits('listDebts'))
}

function requestCommands(weir: Command, io: Io): void {
  const requests = actionsOf(io, () => import('./commands/requests.ts'))
  const group = command(weir, 'requests', 'read the request log: what became of every call')
  const withFilters = (command: Command) =>
    command
      .option('--account <account>', 'only calls of this account: its id or e-mail address')
      .option('--key <id>', 'only calls with the key of this id')
      .option('--model <model>', 'only calls that asked for this model')
      .option('--code <code>', 'only calls that ended with this error code')
      .option('--provider <id>', 'only calls of which this provider was asked last')
      .option('--outcome <what>', 'only calls that were served, failed or refused')
      .option('--tag <name=value>', 'only calls with this tag')
  withFilters(command(group, 'list', 'list calls, the newest first'))
    .option('--since <date>', 'only calls that ended at or after it')
    .option('--until <date>', 'only calls that ended before it')
    .option('--limit <number>', 'how many to list (50)')
    .option('--cursor <cursor>', 'go on behind the page before')
    .action(requests('listRequests'))
  command(group, 'show', 'show one call with its receipt: every attempt, and why it failed')
    .argument('<id>', 'the request id that its answer, its error or the log named')
    .action(requests('showRequest'))
  withFilters(command(group, 'tail', 'print calls as they end, until interrupted')).action(
    requests('tailRequests'),
  )
  command(weir, 'usage', 'what calls came to, by UTC day or month: calls, tokens and cost')
    .option('--account <account>', 'only of this account: its id or e-mail address')
    .option('--key <id>', 'only calls with the key of this id')
    .option('--model <model>', 'only calls of this model')
    .option('--tag <name=value>', 'only calls with this tag')
    .option(
      '--by <what>',
      'divide each day by model, key, channel, account, group, user, or a tag (tag:feature)',
    )
    .option('--per <what>', 'sum up by day or by month (day)')
    .option('--from <date>', 'the first day (30 days up to the last)')
    .option('--to <date>', 'the last day (today)')
    .option('--csv', 'print CSV')
    .action(requests('showUsage'))
}

const reconcileHelp = `
FILE is the provider's usage export: CSV with a heading, a JSON list (or an object with one in "data"), or an object
a line. Lines are matched to calls by the provider's id of its answer; lines with the same id are added up.

--map names the columns, with commas: upstream_id=COLUMN,cost=COLUMN. In JSON a column inside another is usage.cost.
  upstream_id  the provider's id; without --map upstream_id, id, generation_id, response_id or request_id
  cost         US dollars, as 0.0125 or 1.25e-2; without --map cost, cost_usd, total_cost, amount, amount.value or usage

An export with a day and a model and without an id is an invoice by model and day: its sums are held against those of the
ledger, by UTC day and the provider's name of the model, without the date of a snapshot. --model "Fancy Name=gpt-5" names
one that is not found. Where they differ it is said why that may be: rounding, days that begin at another hour, calls that
are missing on one side, failed attempts, a service tier, a price. Without --since and --until the days are those of FILE.
  day  2026-11-28, a time, or seconds since 1970; without --map day, date, usage_date, usage_date_utc, start_time or timestamp
  model  without --map model, model_name, model_version, snapshot_id, line_item or sku
  input_tokens  where there are some: then tokens and prices are told apart; input_tokens, prompt_tokens or tokens_prompt
  output_tokens  the same; output_tokens, completion_tokens or tokens_completion

Ids found on one side only are normal at the edges of the export's period: --since and --until bound the calls.
Whatever is found, the exit code is 0; "ok" in the JSON tells whether both sides agree.`

const acceptHelp = `
The head of the ledger is written beside the database (ledger.anchors) and to the log, so that the audit finds a
history that was cut short: a write-ahead log thrown away, an older copy in the place of the file. weir restore says by
itself that it has replaced the history. This is for a copy that was put back by hand, once it is known what is missing.
`

const moveHelp = `
All tables are copied in one transaction or not at all. The journal becomes a closed hash chain there, line by line the
same, and the ledger is proven on both sides before the copy is kept. The data directory stays as it was. Then set
store.url, and start weir serve: what was open is ended there. Nobody may serve from the SQLite again.`

const auditHelp = `
An audit of a day takes as long as the day was busy, however large the journal: 10,000 calls a tenth of a second. It
starts from the hash before the day's first entry and says what only the whole audit can check. The day's entries are
found by their time; a clock that was set back by up to an hour hides none of them.

Exit code 1 when something does not hold.`

const statusHelp = `
Exit code 0 when a server runs, is ready, and what was booked today holds; 1 otherwise. --json has the same for monitors.
Whoever may read the data directory may ask: as a service, that is its user (sudo -u weir weir status --data-dir
/var/lib/weir).`

function ledgerCommands(weir: Command, io: Io): void {
  const ledger = actionsOf(io, () => import('./commands/ledger.ts'))
  const group = command(weir, 'ledger', 'prove the ledger')
  command(group, 'audit', 'replay every entry and check every invariant')
    .option(
      '--day <date>',
      'only what was booked on this UTC day: a date such as 2027-01-31, today or yesterday',
    )
    .addHelpText('after', auditHelp)
    .action(ledger('audit'))
  command(
    group,
    'accept',
    'go on with the history the database has, where an anchored one was cut short or replaced',
  )
    .requiredOption('--reason <text>', 'why: it is kept, and the audit tells it')
    .addHelpText('after', acceptHelp)
    .action(ledger('accept'))
  command(group, 'move', 'copy an installation on SQLite that is not being served into an empty PostgreSQL')
    .requiredOption(
      '--to <url>',
      'the database, such as postgres://weir@db.example.org/weir, or file:/path with it',
    )
    .option('--ca <file>', 'the certificates of the authority that has signed the one of the server')
    .addHelpText('after', moveHelp)
    .action(ledger('move'))
  command(
    group,
    'reconcile',
    "compare a provider's usage export, or its invoice by model and day, with the ledger",
  )
    .argument('<file>', 'the export: CSV, JSON or JSON Lines')
    .requiredOption('--provider <provider>', 'the id of the provider that bills')
    .option(
      '--map <columns>',
      'upstream_id=COLUMN,cost=COLUMN, or day, model, cost, input_tokens, output_tokens',
    )
    .option('--model <name=ours...>', 'what a model of an invoice by model and day is called here')
    .option('--since <date>', 'only calls that ended at or after it')
    .option('--until <date>', 'only calls that ended before it')
    .addHelpText('after', reconcileHelp)
    .action(ledger('reconcileLedger'))
}

/** Of the commands that call a gateway. */
const gatewayUrl = [
  '--url <address>',
  'the base URL of the gateway (WEIR_URL, else that of your own ~/.config/weir/weir.yaml, else this machine)',
] as const

function mcpCommands(weir: Command, io: Io): void {
  const asClient = clientActionsOf(io, () => import('./commands/mcp.ts'))
  const group = command(weir, 'mcp', 'MCP servers that an account registers, and the gateway as one')
  command(
    group,
    'serve',
    'speak MCP on standard input and output, for desktop programs; a gateway must be running',
  )
    .option('--key <key>', 'the API key (or WEIR_API_KEY)')
    .option(...gatewayUrl)
    .action(asClient('serveMcp'))
  mcpServerCommands(group, io)
}

function mcpServerCommands(group: Command, io: Io): void {
  const mcp = actionsOf(io, () => import('./commands/mcp.ts'))
  const account = ['--account <account>', 'id or e-mail address'] as const
  command(
    group,
    'add',
    'register an MCP server under a name, or change it; needs secrets.master_key where it is sent secrets',
  )
    .argument('<name>', 'how calls name it')
    .argument('<url>', 'such as https://mcp.example.com/mcp')
    .requiredOption(...account)
    .option('--token <token>', 'what it is sent as Authorization: Bearer; - reads standard input')
    .option('--header <header...>', 'more that it is sent: "Name: value"')
    .option('--client-id <id>', 'the OAuth client that is registered at its authorisation server')
    .option('--client-secret <secret>', 'of that client; - reads standard input')
    .action(mcp('addServer'))
  command(group, 'list', 'list the MCP servers of an account')
    .requiredOption(...account)
    .action(mcp('listServers'))
  command(group, 'test', 'connect to a registered MCP server and list its tools')
    .argument('<name>', 'its name')
    .requiredOption(...account)
    .action(mcp('testServer'))
  command(group, 'remove', 'forget an MCP server and its secrets')
    .argument('<name>', 'its name')
    .requiredOption(...account)
    .action(mcp('removeServer'))
}

function modelCommands(weir: Command, io: Io): void {
  const models = actionsOf(io, () => import('./commands/models.ts'))
  const chat = clientActionsOf(io, () => import('./commands/chat.ts'))
  command(weir, 'models', 'list the models of the catalog')
    .argument('[text]', 'only ids that contain this')
    .option('--available', 'only what can be called now: of providers with a key, and of servers that run')
    .option('--all', 'the whole catalog; in a terminal what can be called now is shown first')
    .action(models('listModels'))
  command(weir, 'chat', 'ask a running gateway; the reply is streamed, its receipt follows')
    .argument('<model>', 'such as openai/gpt-5')
    .argument('<message...>', 'what to say; - reads it from standard input')
    .option('--key <key>', 'the API key (or WEIR_API_KEY)')
    .option(...gatewayUrl)
    .action(chat('chat'))
  command(weir, 'route', 'names that lead to several models')
    .command('explain')
    .description('who would be asked for a model now, and why; a gateway must be running')
    .argument('<model>', 'a route, an alias or a model')
    .option('--key <key>', 'the API key that would call (or WEIR_API_KEY)')
    .option(...gatewayUrl)
    .action(chat('explainRoute'))
}

function catalogCommands(weir: Command, io: Io): void {
  const models = actionsOf(io, () => import('./commands/models.ts'))
  const group = command(weir, 'catalog', 'compare, replace and export the catalog')
  command(group, 'diff', 'how a catalog file differs from the catalog in use')
    .argument('<file>', 'a catalog file')
    .action(models('diffCatalog'))
  command(
    group,
    'import',
    'put a catalog file to use: from the next start on, or with store.url at every gateway at once',
  )
    .argument('[file]', 'a catalog file')
    .option('--bundled', 'the catalog that came with the program again')
    .action(models('importCatalog'))
  command(group, 'export', 'write the catalog in use to a file')
    .argument('<file>', 'where to; - is standard output')
    .action(models('exportCatalog'))
}

function voucherCommands(weir: Command, io: Io): void {
  const payments = actionsOf(io, () => import('./commands/payments.ts'))
  const group = command(weir, 'vouchers', 'codes that become purchased credit, each once')
  command(group, 'create', 'make vouchers; their codes are shown this once')
    .requiredOption('--usd <amount>', 'the credit of each, US dollars')
    .option('--count <number>', 'how many', '1')
    .option('--expires <date>', 'until when they can be redeemed')
    .option('--note <text>', 'what they are for')
    .action(payments('createVouchers'))
  command(group, 'list', 'list vouchers, the newest first').action(payments('listVouchers'))
  command(group, 'revoke', 'make a voucher worthless; one that was redeemed stays credit')
    .argument('<id>', 'the id of the voucher')
    .action(payments('revokeVoucher'))
}

function planCommands(weir: Command, io: Io): void {
  const plans = actionsOf(io, () => import('./commands/plans.ts'))
  const group = command(weir, 'plans', 'plans: subscription credit and models for a price')
  command(group, 'list', 'list what is sold').action(plans('listPlans'))
  command(group, 'subscribers', 'list who has a plan, or has paid for a period that is to come')
    .option('--plan <id>', 'only those of this plan')
    .option('--account <account>', 'only those of this account')
    .action(plans('listSubscribers'))
  command(group, 'grant', 'give an account a period of a plan without a payment')
    .requiredOption('--account <account>', 'id or e-mail address')
    .requiredOption('--plan <id>', 'one of payments.plans')
    .option('--id <id>', 'an id of yours: the same one again grants nothing more')
    .action(plans('grantPlanByHand'))
}

function subscriptionCommands(weir: Command, io: Io): void {
  const payments = actionsOf(io, () => import('./commands/payments.ts'))
  const group = command(weir, 'subscriptions', 'premium subscriptions, sold elsewhere')
  command(group, 'grant', 'add a period of a product, as the hook of its seller does')
    .requiredOption('--account <account>', 'id or e-mail address')
    .requiredOption('--product <id>', 'one of subscriptions.products')
    .option('--subscription <id>', 'the subscription that the period belongs to; a new one without it')
    .option('--source <name>', 'who sells it', 'manual')
    .option('--from <date>', 'when the period begins (today)')
    .option('--to <date>', 'when it ends, if sooner than the product says')
    .action(payments('grantSubscription'))
  command(group, 'end', 'end a subscription; its credit lasts until its period is over')
    .argument('<subscription>', 'its id')
    .option('--source <name>', 'who sells it', 'manual')
    .option('--refund', 'take back what is left of its credit')
    .action(payments('endSubscription'))
  command(group, 'list', 'list periods, the latest first')
    .option('--account <account>', 'only those of this account')
    .action(payments('listSubscriptions'))
}

function serveCommand(weir: Command, io: Io): void {
  command(weir, 'serve', 'run the gateway')
    .option('--host <address>', 'the address to listen on (127.0.0.1)')
    .option('--port <number>', 'the port to listen on (8787); 0 takes a free one')
    .option('--processes <number>', 'equal gateways on one port (1); more than one needs store.url')
    // Which of them this one is, said by the process that starts them.
    .addOption(new Option('--process <number>').hideHelp())
    // Earlier versions had it.
    .addOption(new Option('--workers <number>').hideHelp())
    .action(async (...given: unknown[]) =>
      (await import('./commands/serve.ts')).serve(io, invocationOf(given)),
    )
}

function upkeepCommands(weir: Command, io: Io): void {
  const service = actionsOf(io, () => import('./commands/service.ts'))
  const connect = clientActionsOf(io, () => import('./commands/connect.ts'))
  const conformance = clientActionsOf(io, () => import('./commands/conformance.ts'))
  const doctor = actionsOf(io, () => import('./commands/doctor.ts'))
  command(weir, 'backup', 'copy the database to a new file, also beside a running server')
    .argument('<file>', 'where to; a file that exists is never overwritten')
    .action(service('backUpTo'))
  command(
    weir,
    'restore',
    'put a backup into the data directory, once its ledger is proven; the server must be stopped',
  )
    .argument('<file>', 'what weir backup wrote')
    .option('--force', 'also where there is a database; it is moved aside, not deleted')
    .action(service('restoreFrom'))
  const config = command(weir, 'config', 'check and show the configuration')
  command(config, 'check', 'check the configuration; all faults are listed').action(
    async (...given: unknown[]) =>
      (await import('./commands/service.ts')).checkConfig(io, invocationOf(given)),
  )
  command(config, 'show', 'show every setting, its value and where it came from').action(
    service('showConfig'),
  )
  command(
    config,
    'explain',
    'say what a setting means, its default, its environment variable, and its value here',
  )
    .argument('<key>', 'its name, such as timeouts.first_byte_ms, or a part of names')
    .action(service('explainSetting'))
  command(
    config,
    'reload',
    'have the running server read its configuration again; what needs a restart is named',
  )
    .option('--dry-run', 'only say what would change')
    .action(service('reloadConfig'))
  command(config, 'undo', 'take back the latest change that was made by the API or in the console').action(
    service('undoConfig'),
  )
  command(weir, 'connect', 'what points a client at this gateway; without a name, the list of clients')
    .argument('[client]', 'such as codex or opencode')
    .option('--key <key>', 'the API key (or WEIR_API_KEY)')
    .option(...gatewayUrl)
    .option('--model <id>', 'the model it calls, such as openai/gpt-5', 'sim/echo')
    .option('--write', 'write it into the configuration of the client; what is there stays')
    .action(connect('connect'))
  command(
    weir,
    'conformance',
    'try what clients may rely on, at this gateway or at any other server, and report what holds',
  )
    .argument('[address]', 'the base URL, such as https://host/v1 (this gateway)')
    .option('--key <key>', 'the API key (or WEIR_API_KEY)')
    .option(
      '--model <id>',
      'a model that calls functions and keeps to a JSON schema (sim/tools of a gateway of this kind)',
    )
    .option('--protocol <list>', 'only these, with commas: models, chat, responses, messages, gemini')
    .option('--timeout <seconds>', 'how long one answer may take', '60')
    .option('--html <file>', 'write the report as a page')
    .action(conformance('conformance'))
  command(weir, 'doctor', 'look for what keeps the gateway from working')
    .option('--provider <id>', 'make one cheap call to this provider, and say what is wrong')
    .action(doctor('doctor'))
  command(weir, 'version', 'print the version').action(async (...given: unknown[]) =>
    (await import('./commands/service.ts')).version(io, invocationOf(given)),
  )
}

const upgradeHelp = `
--from is the folder of a release, its address, or one of its files. SHA256SUMS must be signed (SHA256SUMS.minisig) with
the key that this program was released with, or with that of --key: a text or a file, as minisign writes public keys.

Before anything is replaced, the database is copied beside itself, and the new program has said its version. The former
program stays as weir.previous; --rollback puts it back, unless the database has become too new for it. A running server
goes on with what it began with: restart it.

Exit code 0 when done, or when there is nothing newer; 1 otherwise.`

function upgradeCommand(weir: Command, io: Io): void {
  const upgrade = actionsOf(io, () => import('./commands/upgrade.ts'))
  command(weir, 'upgrade', 'replace this program by that of a signed release')
    .option('--from <place>', 'the folder or address of a release')
    .option('--key <key>', 'the public key of whoever released it (the one built in)')
    .option('--check', 'only say what is there')
    .option('--downgrade', 'also to an older version')
    .option('--rollback', 'put the former program back')
    .option('--force', 'also in a container, and where a package manager put the program')
    .addHelpText('after', upgradeHelp)
    .action(upgrade('upgrade'))
}

function deploymentCommands(weir: Command, io: Io): void {
  const status = actionsOf(io, () => import('./commands/status.ts'))
  const service = actionsOf(io, () => import('./commands/service.ts'))
  const serve = actionsOf(io, () => import('./commands/serve.ts'))
  command(
    weir,
    'init',
    'write a small weir.yaml with the providers that are found here; a file that is there stays',
  )
    .option('--yes', 'ask nothing: take what is found and the defaults')
    .option('--host <address>', 'the address to listen on (127.0.0.1)')
    .option('--port <number>', 'the port to listen on (8787)')
    .option('--public-url <url>', 'the address that clients use, where a proxy stands in front')
    .option('--print', 'print the file instead of writing it')
    .action(async (...given: unknown[]) => (await import('./commands/init.ts')).init(io, invocationOf(given)))
  command(weir, 'status', 'one screen: is it running, its providers, credit, today, the audit of today')
    .addHelpText('after', statusHelp)
    .action(status('status'))
  weir
    .command('welcome', { hidden: true })
    .description('what weir does without a command')
    .action(status('welcome'))
  const group = command(weir, 'service', 'run the gateway as a system service')
  command(group, 'print', 'print a systemd unit for this executable; nothing is installed')
    .option('--user <name>', 'the system user it runs as', 'weir')
    .option('--exec <path>', 'the executable (this one)')
    .action(service('printService'))
  command(weir, 'healthcheck', 'exit with 0 when the running gateway is ready, with 1 otherwise')
    .option(
      '--url <address>',
      'the base URL of the gateway (that of the server of the data directory, or the configured address)',
    )
    .action(serve('healthcheck'))
  command(weir, 'completions', 'print a script that completes commands in bash, zsh or fish')
    .argument('<shell>', 'bash, zsh or fish')
    .action(async (shell: string) =>
      io.out((await import('./commands/service.ts')).completionScript(shell, weir)),
    )
}

function guideCommand(weir: Command, io: Io): void {
  command(weir, 'guide', 'list the pages of the guide, or print one; a running gateway shows them at /docs')
    .argument('[page]', 'its name, such as start, or that of a file, such as grafana')
    .action(async (...given: unknown[]) =>
      (await import('./commands/service.ts')).printGuide(io, invocationOf(given)),
    )
}

function alarmCommands(weir: Command, io: Io): void {
  const alarms = actionsOf(io, () => import('./commands/alarms.ts'))
  const group = command(weir, 'alarms', 'what operators are told of: see alarms in the settings')
  command(group, 'list', 'what they were told of and is not over').action(alarms('listAlarms'))
  command(
    group,
    'test',
    'tell everybody whom the configuration names, now; fails where somebody is not reached',
  ).action(alarms('testAlarms'))
}

function webhookCommands(weir: Command, io: Io): void {
  const webhooks = actionsOf(io, () => import('./commands/webhooks.ts'))
  const group = command(
    weir,
    'webhooks',
    'addresses that are told what happens to an account; they need secrets.master_key',
  )
  const account = ['--account <account>', 'id or e-mail address'] as const
  command(group, 'add', 'add a webhook; the secret that its messages are signed with is shown this once')
    .argument('<url>', 'such as https://example.com/hooks/weir')
    .requiredOption(...account)
    .option('--event <event...>', `${eventTypes.join(', ')} (all of them)`)
    .action(webhooks('addWebhook'))
  command(group, 'list', 'list the webhooks of an account')
    .requiredOption(...account)
    .action(webhooks('listWebhooks'))
  command(group, 'test', 'send a message of the type webhook.test now; fails where it is not taken')
    .argument('<id>', 'the id of the webhook')
    .requiredOption(...account)
    .action(webhooks('testWebhook'))
  command(group, 'remove', 'remove a webhook, and what waits for it')
    .argument('<id>', 'the id of the webhook')
    .requiredOption(...account)
    .action(webhooks('removeWebhook'))
}

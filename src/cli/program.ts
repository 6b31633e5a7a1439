// The command line: every command's name, options and help. What a command does is loaded when it is called.

import { Command, CommanderError } from 'commander'
import { CommandFailure, type Context, contextFor, exitCodes, type Invocation, type Io } from './context.ts'

type Action = (context: Context, invocation: Invocation) => Promise<void>

/** Runs one command line (without the program's own name) and gives its exit code. Never throws. */
export async function runCli(argv: readonly string[], io: Io): Promise<number> {
  try {
    await program(io).parseAsync(argv[0] === '--version' || argv[0] === '-V' ? ['version'] : argv, {
      from: 'user',
    })
    return exitCodes.ok
  } catch (thrown) {
    // Commander has printed help, the version or the fault itself. A group without a command is a usage fault.
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? exitCodes.ok : exitCodes.usage
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    io.err(`weir: ${message}\n`)
    return thrown instanceof CommandFailure ? thrown.exitCode : exitCodes.failed
  }
}

function program(io: Io): Command {
  const weir = new Command('weir')
    .description(
      'A gateway for language models: one API in front of every provider, every call charged exactly, once.',
    )
    // Taken before and after the command's name alike.
    .option('--config <file>', 'the configuration file (weir.yaml)')
    .option('--data-dir <folder>', 'where the database lives (./weir-data)')
    .option('--json', 'print JSON for machines')
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ writeOut: io.out, writeErr: io.err })
    .showSuggestionAfterError()
    .showHelpAfterError('(weir --help tells more)')
  serving(weir, io)
  accounts(weir, io)
  keys(weir, io)
  credits(weir, io)
  models(weir, io)
  requests(weir, io)
  ledgerAndCatalog(weir, io)
  upkeep(weir, io)
  deployment(weir, io)
  return weir
}

function serving(weir: Command, io: Io): void {
  const serve = weir
    .command('serve')
    .description('run the gateway')
    .option('--host <address>', 'the address to listen on (127.0.0.1)')
    .option('--port <number>', 'the port to listen on (8787); 0 takes a free one')
  serve.action(async (...given: unknown[]) =>
    (await import('./commands/serve.ts')).serve(io, invocationOf(given)),
  )
}

function accounts(weir: Command, io: Io): void {
  const group = weir.command('accounts').description('create and look up accounts')
  const create = group
    .command('create')
    .description('create an account')
    .requiredOption('--email <address>', 'its e-mail address')
  ready(create, io, async (...given) => (await import('./commands/accounts.ts')).createAccount(...given))
  const list = group.command('list').description('list all accounts')
  ready(list, io, async (context) => (await import('./commands/accounts.ts')).listAccounts(context))
  const show = group
    .command('show')
    .description('show one account with its credit and keys')
    .argument('<account>', 'its id or e-mail address')
  ready(show, io, async (...given) => (await import('./commands/accounts.ts')).showAccount(...given))
  const suspend = group
    .command('suspend')
    .description('refuse the calls of an account; its credit stays')
    .argument('<account>', 'its id or e-mail address')
  ready(suspend, io, async (...given) => (await import('./commands/accounts.ts')).suspendAccount(...given))
  const resume = group
    .command('resume')
    .description('serve the calls of a suspended account again')
    .argument('<account>', 'its id or e-mail address')
  ready(resume, io, async (...given) => (await import('./commands/accounts.ts')).resumeAccount(...given))
  const link = group
    .command('link')
    .description('print a link that signs in to an account, once, within 15 minutes')
    .requiredOption('--account <account>', 'id or e-mail address')
  ready(link, io, async (...given) => (await import('./commands/links.ts')).signInLink(...given))
  const invite = group
    .command('invite')
    .description('open an account and print the link that signs in to it for the first time')
    .requiredOption('--email <address>', 'its e-mail address')
    .option('--role <role>', 'user or operator', 'user')
  ready(invite, io, async (...given) => (await import('./commands/links.ts')).invite(...given))
  const role = group
    .command('role')
    .description('make an account an operator, or a user again')
    .argument('<account>', 'its id or e-mail address')
    .argument('<role>', 'user or operator')
  ready(role, io, async (...given) => (await import('./commands/links.ts')).setRole(...given))
  sessions(group, io)
}

function sessions(group: Command, io: Io): void {
  const create = group
    .command('session')
    .description('create a token for the app of an account; it is shown this once')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--ttl <time>', 'how long it is valid, such as 30d or 12h', '30d')
  ready(create, io, async (...given) => (await import('./commands/sessions.ts')).createSession(...given))
  const list = group
    .command('sessions')
    .description('list the sessions of an account')
    .requiredOption('--account <account>', 'id or e-mail address')
  ready(list, io, async (...given) => (await import('./commands/sessions.ts')).listSessions(...given))
  const end = group
    .command('end-session')
    .description('end a session at once')
    .argument('<id>', 'the id of the session')
  ready(end, io, async (...given) => (await import('./commands/sessions.ts')).endSession(...given))
}

function keys(weir: Command, io: Io): void {
  const group = weir.command('keys').description('create, list, limit, revoke and rotate API keys')
  const create = group
    .command('create')
    .description('create an API key; it is shown this once')
    .requiredOption('--account <account>', 'id or e-mail address of the account it spends from')
    .option('--name <name>', 'what to call it')
    .option('--test', 'a key of the test mode: it costs nothing and reaches the simulator only')
    .option('--management', 'a key of the admin API, for an operator: it administers, and makes no calls')
  limitOptions(create)
  ready(create, io, async (...given) => (await import('./commands/keys.ts')).createKey(...given))
  const list = group
    .command('list')
    .description('list API keys')
    .option('--account <account>', 'only those of this account')
    .option('--management', 'those of the admin API')
  ready(list, io, async (...given) => (await import('./commands/keys.ts')).listKeys(...given))
  const limit = group
    .command('limit')
    .description('change the limits of an API key; `none` lifts one, what is not named stays')
    .argument('<id>', 'the id of the key')
    .option('--name <name>', 'what to call it')
  limitOptions(limit)
  ready(limit, io, async (...given) => (await import('./commands/keys.ts')).limitKey(...given))
  const revoke = group
    .command('revoke')
    .description('revoke a key at once')
    .argument('<id>', 'the id of the key')
  ready(revoke, io, async (...given) => (await import('./commands/keys.ts')).revokeKey(...given))
  const rotate = group
    .command('rotate')
    .description('create a successor with the same rights; the old key ends now or after the overlap')
    .argument('<id>', 'the id of the key')
    .option('--overlap <time>', 'how long both work, such as 24h, 30m or 7d', '0')
  ready(rotate, io, async (...given) => (await import('./commands/keys.ts')).rotateKey(...given))
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
      'when it lapses, such as 2027-01-31, or never; otherwise purchased credit lives 12 months',
    )
    .option('--id <id>', 'an id of yours: the same id never grants twice')
  ready(grant, io, async (...given) => (await import('./commands/credits.ts')).grantCredit(...given))
  const show = group
    .command('show')
    .description('show the balance of an account')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--history', 'every line of its journal as well')
    .option('--csv', 'those lines alone, as CSV')
  ready(show, io, async (...given) => (await import('./commands/credits.ts')).showCredit(...given))
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
  ready(refund, io, async (...given) => (await import('./commands/corrections.ts')).refundCredit(...given))
  const adjust = group
    .command('adjust')
    .description('correct a pool: add credit, or take free credit away')
    .requiredOption('--account <account>', 'id or e-mail address')
    .requiredOption('--pool <pool>', 'purchased, welcome, daily or subscription')
    .requiredOption('--usd <amount>', 'how much, in US dollars; negative takes away')
    .requiredOption('--id <id>', 'an id of yours: the same id never adjusts twice')
  ready(adjust, io, async (...given) => (await import('./commands/corrections.ts')).adjustCredit(...given))
  const expire = group
    .command('expire')
    .description('book the expiry of credit whose time is over; a running server does it by itself')
  ready(expire, io, async (context) => (await import('./commands/corrections.ts')).expireCredit(context))
  const debts = group.command('debts').description('list the accounts that owe something')
  ready(debts, io, async (context) => (await import('./commands/corrections.ts')).listDebts(context))
}

function models(weir: Command, io: Io): void {
  const list = weir
    .command('models')
    .description('list the models of the catalog')
    .argument('[text]', 'only ids that contain this')
    .option('--available', 'only what can be called now: of providers with a key, and of servers that run')
    .option('--all', 'the whole catalog; in a terminal what can be called now is shown first')
  ready(list, io, async (...given) => (await import('./commands/models.ts')).listModels(...given))
  const chat = weir
    .command('chat')
    .description('ask a running gateway; the reply is streamed, its receipt follows')
    .argument('<model>', 'such as openai/gpt-5')
    .argument('<message...>', 'what to say; - reads it from standard input')
    .option('--key <key>', 'the API key (or WEIR_API_KEY)')
    .option(
      '--url <address>',
      'the base URL of the gateway (that of the data directory, else the configured address)',
    )
  ready(chat, io, async (...given) => (await import('./commands/chat.ts')).chat(...given))
}

function requests(weir: Command, io: Io): void {
  const group = weir.command('requests').description('read the request log: what became of every call')
  const filtered = (command: Command) =>
    command
      .option('--account <account>', 'only calls of this account: its id or e-mail address')
      .option('--key <id>', 'only calls with the key of this id')
      .option('--model <model>', 'only calls that asked for this model')
      .option('--code <code>', 'only calls that ended with this error code')
  const list = filtered(group.command('list').description('list calls, the newest first'))
    .option('--since <date>', 'only calls that ended at or after it')
    .option('--until <date>', 'only calls that ended before it')
    .option('--limit <number>', 'how many to list (50)')
    .option('--cursor <cursor>', 'go on behind the page before')
  ready(list, io, async (...given) => (await import('./commands/requests.ts')).listRequests(...given))
  const show = group
    .command('show')
    .description('show one call with its receipt: every attempt, and why it failed')
    .argument('<id>', 'the request id that its answer, its error or the log named')
  ready(show, io, async (...given) => (await import('./commands/requests.ts')).showRequest(...given))
  const tail = filtered(group.command('tail').description('print calls as they end, until interrupted'))
  ready(tail, io, async (...given) => (await import('./commands/requests.ts')).tailRequests(...given))
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
  ready(usage, io, async (...given) => (await import('./commands/usage.ts')).showUsage(...given))
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

function ledgerAndCatalog(weir: Command, io: Io): void {
  const ledger = weir.command('ledger').description('prove the ledger')
  const audit = ledger
    .command('audit')
    .description('replay every entry and check every invariant')
    .option(
      '--day <date>',
      'only what was booked on this UTC day: a date such as 2027-01-31, today or yesterday',
    )
    .addHelpText('after', auditHelp)
  ready(audit, io, async (...given) => (await import('./commands/ledger.ts')).audit(...given))
  const accept = ledger
    .command('accept')
    .description('go on with the history the database has, where an anchored one was cut short or replaced')
    .requiredOption('--reason <text>', 'why: it is kept, and the audit tells it')
    .addHelpText('after', acceptHelp)
  ready(accept, io, async (...given) => (await import('./commands/ledger.ts')).accept(...given))
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
    (await import('./commands/reconcile.ts')).reconcileLedger(...given),
  )
  const catalog = weir.command('catalog').description('compare, replace and export the catalog')
  const diff = catalog
    .command('diff')
    .description('how a catalog file differs from the catalog in use')
    .argument('<file>', 'a catalog file')
  ready(diff, io, async (...given) => (await import('./commands/catalog.ts')).diffCatalog(...given))
  const importing = catalog
    .command('import')
    .description('put a catalog file to use from the next start on')
    .argument('<file>', 'a catalog file')
  ready(importing, io, async (...given) => (await import('./commands/catalog.ts')).importCatalog(...given))
  const exporting = catalog
    .command('export')
    .description('write the catalog in use to a file')
    .argument('<file>', 'where to; - is standard output')
  ready(exporting, io, async (...given) => (await import('./commands/catalog.ts')).exportCatalog(...given))
}

function upkeep(weir: Command, io: Io): void {
  const backup = weir
    .command('backup')
    .description('copy the database to a new file, also beside a running server')
    .argument('<file>', 'where to; a file that exists is never overwritten')
  ready(backup, io, async (...given) => (await import('./commands/backup.ts')).backUpTo(...given))
  const restoring = weir
    .command('restore')
    .description(
      'put a backup into the data directory, once its ledger is proven; the server must be stopped',
    )
    .argument('<file>', 'what weir backup wrote')
    .option('--force', 'also where there is a database; it is moved aside, not deleted')
  ready(restoring, io, async (...given) => (await import('./commands/backup.ts')).restoreFrom(...given))
  const config = weir.command('config').description('check and show the configuration')
  const check = config.command('check').description('check the configuration; all faults are listed')
  check.action(async (...given: unknown[]) =>
    (await import('./commands/config.ts')).checkConfig(io, invocationOf(given)),
  )
  const show = config.command('show').description('show every setting, its value and where it came from')
  ready(show, io, async (context) => (await import('./commands/config.ts')).showConfig(context))
  const doctor = weir
    .command('doctor')
    .description('look for what keeps the gateway from working')
    .option('--provider <id>', 'make one cheap call to this provider, and say what is wrong')
  ready(doctor, io, async (context, invocation) => {
    const provider = invocation.option('provider')
    if (provider === undefined) return (await import('./commands/doctor.ts')).doctor(context)
    return (await import('./commands/probe.ts')).probe(context, provider)
  })
  const version = weir.command('version').description('print the version')
  version.action(async (...given: unknown[]) =>
    (await import('./commands/version.ts')).version(io, invocationOf(given)),
  )
}

function deployment(weir: Command, io: Io): void {
  const service = weir.command('service').description('run the gateway as a system service')
  const printing = service
    .command('print')
    .description('print a systemd unit for this executable; nothing is installed')
    .option('--user <name>', 'the system user it runs as', 'weir')
    .option('--exec <path>', 'the executable (this one)')
  ready(printing, io, async (...given) => (await import('./commands/service.ts')).printService(...given))
  const health = weir
    .command('healthcheck')
    .description('exit with 0 when the running gateway is ready, with 1 otherwise')
    .option('--url <address>', 'the base URL of the gateway (the configured address)')
  ready(health, io, async (...given) => (await import('./commands/healthcheck.ts')).healthcheck(...given))
  weir
    .command('completions')
    .description('print a script that completes commands in bash, zsh or fish')
    .argument('<shell>', 'bash, zsh or fish')
    .action(async (shell: string) =>
      io.out((await import('./commands/completions.ts')).completionScript(shell, weir)),
    )
}

/** Gives a command an action that gets the loaded configuration. */
function ready(command: Command, io: Io, action: Action): void {
  command.action(async (...given: unknown[]) => {
    const invocation = invocationOf(given)
    const context = await contextFor(io, invocation)
    for (const { name, problem } of context.loaded.warnings) io.err(`warning: ${name} ${problem}\n`)
    await action(context, invocation)
  })
}

/** Commander hands over the arguments, then the options, then the command itself. */
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
  }
}

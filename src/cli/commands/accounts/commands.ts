// The commands of accounts, keys and sessions: names, options and help.

import type { Command } from 'commander'
import type { Io } from '../../context.ts'
import { ready } from '../../action.ts'

/** Adds `weir accounts` and `weir keys`. */
export function accountCommands(weir: Command, io: Io): void {
  accounts(weir, io)
  keys(weir, io)
}

function accounts(weir: Command, io: Io): void {
  const group = weir.command('accounts').description('create and look up accounts')
  const create = group
    .command('create')
    .description('create an account')
    .requiredOption('--email <address>', 'its e-mail address')
  ready(create, io, async (...given) => (await import('./accounts.ts')).createAccount(...given))
  const list = group.command('list').description('list all accounts')
  ready(list, io, async (context) => (await import('./accounts.ts')).listAccounts(context))
  const show = group
    .command('show')
    .description('show one account with its credit and keys')
    .argument('<account>', 'its id or e-mail address')
  ready(show, io, async (...given) => (await import('./accounts.ts')).showAccount(...given))
  const suspend = group
    .command('suspend')
    .description('refuse the calls of an account; its credit stays')
    .argument('<account>', 'its id or e-mail address')
  ready(suspend, io, async (...given) => (await import('./accounts.ts')).suspendAccount(...given))
  const resume = group
    .command('resume')
    .description('serve the calls of a suspended account again')
    .argument('<account>', 'its id or e-mail address')
  ready(resume, io, async (...given) => (await import('./accounts.ts')).resumeAccount(...given))
  const set = group
    .command('set')
    .description('say how much an account may owe; what it owes is paid by its next credit')
    .argument('[account]', 'its id or e-mail address')
    .option('--account <account>', 'the same')
    .requiredOption('--credit-line <usd>', 'US dollars such as 500, unlimited, or none')
  ready(set, io, async (...given) => (await import('./accounts.ts')).setAccount(...given))
  const link = group
    .command('link')
    .description('print a link that signs in to an account, once, within 15 minutes')
    .requiredOption('--account <account>', 'id or e-mail address')
  ready(link, io, async (...given) => (await import('./links.ts')).signInLink(...given))
  const invite = group
    .command('invite')
    .description('open an account and print the link that signs in to it for the first time')
    .requiredOption('--email <address>', 'its e-mail address')
    .option('--role <role>', 'user or operator', 'user')
  ready(invite, io, async (...given) => (await import('./links.ts')).invite(...given))
  const role = group
    .command('role')
    .description('make an account an operator, or a user again')
    .argument('<account>', 'its id or e-mail address')
    .argument('<role>', 'user or operator')
  ready(role, io, async (...given) => (await import('./links.ts')).setRole(...given))
  sessions(group, io)
}

function sessions(group: Command, io: Io): void {
  const create = group
    .command('session')
    .description('create a token for the app of an account; it is shown this once')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--ttl <time>', 'how long it is valid, such as 30d or 12h', '30d')
  ready(create, io, async (...given) => (await import('./sessions.ts')).createSession(...given))
  const list = group
    .command('sessions')
    .description('list the sessions of an account')
    .requiredOption('--account <account>', 'id or e-mail address')
  ready(list, io, async (...given) => (await import('./sessions.ts')).listSessions(...given))
  const end = group
    .command('end-session')
    .description('end a session at once')
    .argument('<id>', 'the id of the session')
  ready(end, io, async (...given) => (await import('./sessions.ts')).endSession(...given))
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
  ready(create, io, async (...given) => (await import('./keys.ts')).createKey(...given))
  const list = group
    .command('list')
    .description('list API keys')
    .option('--account <account>', 'only those of this account')
    .option('--management', 'those of the admin API')
  ready(list, io, async (...given) => (await import('./keys.ts')).listKeys(...given))
  const limit = group
    .command('limit')
    .description('change the limits of an API key; `none` lifts one, what is not named stays')
    .argument('<id>', 'the id of the key')
    .option('--name <name>', 'what to call it')
  limitOptions(limit)
  ready(limit, io, async (...given) => (await import('./keys.ts')).limitKey(...given))
  const revoke = group
    .command('revoke')
    .description('revoke a key at once')
    .argument('<id>', 'the id of the key')
  ready(revoke, io, async (...given) => (await import('./keys.ts')).revokeKey(...given))
  const rotate = group
    .command('rotate')
    .description('create a successor with the same rights; the old key ends now or after the overlap')
    .argument('<id>', 'the id of the key')
    .option('--overlap <time>', 'how long both work, such as 24h, 30m or 7d', '0')
  ready(rotate, io, async (...given) => (await import('./keys.ts')).rotateKey(...given))
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

// Names, options and help of `weir accounts`, `weir keys` and `weir groups`; what they do is in commands/.

import type { Command } from 'commander'
import type { Context, Invocation } from './context.ts'

type Action = (context: Context, invocation: Invocation) => void | Promise<void>
type Run = (load: (invocation: Invocation) => Promise<Action>) => (...given: unknown[]) => Promise<void>

/** Adds `weir groups`; `run` makes the action of a command from what loads it. */
export function groupCommands(weir: Command, run: Run): void {
  const group = weir
    .command('groups')
    .description('teams, projects and customers: members, budgets and credit of their own')
  const settings = (command: Command) =>
    command
      .option('--parent <group>', 'the group that it stands in')
      .option('--budget-usd <amount>', 'what it, and all groups in it, may spend in one window')
      .option('--budget-window <window>', 'day, week, month or none: when the budgets begin anew (month)')
      .option('--member-budget-usd <amount>', 'what each member may spend in one window')
      .option('--timezone <name>', 'where its windows begin, such as Asia/Kolkata (UTC)')
      .option('--models <list>', 'the models its keys may use, with commas: ids or provider/*')
      .option('--tags <list>', 'what belongs to it, with commas: such as team=search,cost-center=42')
      .option('--warn-at <list>', 'shares of the budget to warn at, with commas: such as 0.8,0.95')
  settings(
    group.command('create').description('make a group').requiredOption('--name <name>', 'what to call it'),
  ).action(run(async () => (await import('./commands/groups.ts')).createGroup))
  group
    .command('list')
    .description('list groups with what they have spent')
    .action(run(async () => (await import('./commands/groups.ts')).listGroups))
  group
    .command('show')
    .description('show a group, its credit and its members')
    .argument('<group>', 'id or name')
    .action(run(async () => (await import('./commands/groups.ts')).showGroup))
  settings(
    group
      .command('set')
      .description('change a group; `none` takes a setting back, what is not named stays')
      .argument('<group>', 'id or name')
      .option('--name <name>', 'what to call it'),
  ).action(run(async () => (await import('./commands/groups.ts')).setGroup))
  group
    .command('delete')
    .description('delete a group: its keys end, and its members leave it')
    .argument('<group>', 'id or name')
    .action(run(async () => (await import('./commands/groups.ts')).deleteGroup))
  group
    .command('add')
    .description('add an account to a group, or change its role and budget in it')
    .argument('<group>', 'id or name')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--role <role>', 'admin or member (member)')
    .option('--budget-usd <amount>', "what it may spend in place of the group's member budget; none for that")
    .action(run(async () => (await import('./commands/groups.ts')).addMember))
  group
    .command('remove')
    .description('remove an account from a group: its keys of the group end, at once')
    .argument('<group>', 'id or name')
    .requiredOption('--account <account>', 'id or e-mail address')
    .action(run(async () => (await import('./commands/groups.ts')).removeMember))
  group
    .command('statement')
    .description(
      'what was spent in a group in a month, by person, key and model, and what came of its credit',
    )
    .argument('<group>', 'id or name')
    .option('--month <month>', 'of UTC, such as 2026-11 (the current one)')
    .action(run(async () => (await import('./commands/groups.ts')).groupStatement))
  group
    .command('grant')
    .description('grant purchased credit to a group, which pays for its keys from then on')
    .argument('<group>', 'id or name')
    .requiredOption('--usd <amount>', 'how much, in US dollars')
    .option('--expires <date>', 'when it ends, such as 2027-01-31, or never; without it after 12 months')
    .option('--id <id>', 'an id of yours: the same id never grants twice')
    .option('--note <text>', 'why')
    .action(run(async () => (await import('./commands/groups.ts')).grantToGroup))
  group
    .command('adjust')
    .description('correct the credit of a group: add to it, or take free credit away')
    .argument('<group>', 'id or name')
    .requiredOption('--usd <amount>', 'US dollars such as 10 or -0.50')
    .requiredOption('--id <id>', 'an id of yours: the same id never adjusts twice')
    .action(run(async () => (await import('./commands/groups.ts')).adjustGroup))
}

/** Adds `weir accounts`. */
export function accountCommands(weir: Command, run: Run): void {
  const group = weir.command('accounts').description('create and look up accounts')
  group
    .command('create')
    .description('create an account')
    .requiredOption('--email <address>', 'its e-mail address')
    .action(run(async () => (await import('./commands/accounts.ts')).createAccount))
  group
    .command('list')
    .description('list all accounts')
    .action(run(async () => (await import('./commands/accounts.ts')).listAccounts))
  group
    .command('show')
    .description('show one account with its credit and keys')
    .argument('<account>', 'its id or e-mail address')
    .action(run(async () => (await import('./commands/accounts.ts')).showAccount))
  group
    .command('suspend')
    .description('refuse the calls of an account; its credit stays')
    .argument('<account>', 'its id or e-mail address')
    .action(run(async () => (await import('./commands/accounts.ts')).suspendAccount))
  group
    .command('resume')
    .description('serve the calls of a suspended account again')
    .argument('<account>', 'its id or e-mail address')
    .action(run(async () => (await import('./commands/accounts.ts')).resumeAccount))
  group
    .command('set')
    .description(
      'say how much an account may owe, and what it has each month; what it owes is paid by its next credit',
    )
    .argument('[account]', 'its id or e-mail address')
    .option('--account <account>', 'the same')
    .option('--credit-line <usd>', 'how much it may owe: US dollars such as 500, unlimited, or none')
    .option(
      '--monthly-usd <usd>',
      'purchased credit that ends with its month: US dollars such as 20, or none',
    )
    .action(run(async () => (await import('./commands/accounts.ts')).setAccount))
  group
    .command('delete')
    .description(
      'delete an account and what it said; its charges stay in the books, what is left of its credit is lost',
    )
    .argument('<account>', 'its id or e-mail address')
    .requiredOption('--confirm <address>', 'its e-mail address once more')
    .action(run(async () => (await import('./commands/accounts.ts')).deleteAccount))
  group
    .command('link')
    .description('print a link that signs in to an account, once, within 15 minutes')
    .requiredOption('--account <account>', 'id or e-mail address')
    .action(run(async () => (await import('./commands/accounts.ts')).signInLink))
  group
    .command('invite')
    .description('open an account and print the link that signs in to it for the first time')
    .option('--email <address>', 'its e-mail address')
    .option(
      '--file <file>',
      'or those of a list (CSV): a heading with address, and name, group, role, allowance where wanted',
    )
    .option('--role <role>', 'user or operator', 'user')
    .action(
      run(async (invocation) =>
        invocation.option('file') === undefined
          ? (await import('./commands/accounts.ts')).invite
          : (await import('./commands/accounts.ts')).inviteList,
      ),
    )
  group
    .command('role')
    .description('make an account an operator, or a user again')
    .argument('<account>', 'its id or e-mail address')
    .argument('<role>', 'user or operator')
    .action(run(async () => (await import('./commands/accounts.ts')).setRole))
  sessionCommands(group, run)
}

function sessionCommands(group: Command, run: Run): void {
  group
    .command('session')
    .description('create a token for the app of an account; it is shown this once')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--ttl <time>', 'how long it is valid, such as 30d or 12h', '30d')
    .action(run(async () => (await import('./commands/accounts.ts')).createSession))
  group
    .command('sessions')
    .description('list the sessions of an account')
    .requiredOption('--account <account>', 'id or e-mail address')
    .action(run(async () => (await import('./commands/accounts.ts')).listSessions))
  group
    .command('end-session')
    .description('end a session at once')
    .argument('<id>', 'the id of the session')
    .action(run(async () => (await import('./commands/accounts.ts')).endSession))
}

/** Adds `weir keys`. */
export function keyCommands(weir: Command, run: Run): void {
  const group = weir.command('keys').description('create, list, limit, pause, revoke and rotate API keys')
  limitOptions(
    group
      .command('create')
      .description('create an API key; it is shown this once')
      .requiredOption('--account <account>', 'id or e-mail address of the account it spends from')
      .option('--name <name>', 'what to call it')
      .option(
        '--group <group>',
        'id or name of a group that the account is a member of: the key spends its budgets',
      )
      .option('--test', 'a key of the test mode: it costs nothing and reaches the simulator only')
      .option(
        '--sees <own|all>',
        'whose calls and responses it may read: its own and those of the keys it replaces (the default), or all of the ' +
          'account, for a test key all of test keys',
      )
      .option('--management', 'a key of the admin API, for an operator: it administers, and makes no calls')
      .option('--scope <scope>', 'of a management key: admin, or scim for provisioning alone (admin)'),
  ).action(run(async () => (await import('./commands/keys.ts')).createKey))
  group
    .command('list')
    .description('list API keys')
    .option('--account <account>', 'only those of this account')
    .option('--management', 'those of the admin API')
    .action(run(async () => (await import('./commands/keys.ts')).listKeys))
  limitOptions(
    group
      .command('limit')
      .description('change the limits of an API key; `none` lifts one, what is not named stays')
      .argument('<id>', 'the id of the key')
      .option('--name <name>', 'what to call it'),
  ).action(run(async () => (await import('./commands/keys.ts')).limitKey))
  group
    .command('pause')
    .description('refuse a key until it is resumed; its limits and its history stay')
    .argument('<id>', 'the id of the key')
    .action(run(async () => (await import('./commands/keys.ts')).pauseKey))
  group
    .command('resume')
    .description('serve a paused key again')
    .argument('<id>', 'the id of the key')
    .action(run(async () => (await import('./commands/keys.ts')).resumeKey))
  group
    .command('revoke')
    .description('revoke a key at once')
    .argument('<id>', 'the id of the key')
    .action(run(async () => (await import('./commands/keys.ts')).revokeKey))
  group
    .command('rotate')
    .description('create a successor with the same rights; the old key ends now or after the overlap')
    .argument('<id>', 'the id of the key')
    .option('--overlap <time>', 'how long both work, such as 24h, 30m or 7d', '0')
    .action(run(async () => (await import('./commands/keys.ts')).rotateKey))
}

function limitOptions(command: Command): Command {
  return command
    .option('--expires <date>', 'when it ends, such as 2027-01-31')
    .option('--limit-usd <amount>', 'the most it may spend in one window')
    .option('--limit-window <window>', 'day, week, month or total')
    .option('--models <list>', 'the models it may use, with commas: ids or provider/*')
    .option('--requests-per-minute <number>', 'the most requests it may make in a minute')
    .option('--tokens-per-minute <number>', 'the most tokens it may use in a minute')
    .option('--networks <list>', 'the addresses it may be used from, with commas: such as 10.0.0.0/8')
    .option('--cache-ttl <seconds>', 'how long an answer is given again, where a request does not say')
}

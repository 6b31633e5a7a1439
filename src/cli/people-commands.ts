// Names, options and help of `weir accounts`, `weir keys` and `weir groups`; what they do is in commands/.

import type { Command } from 'commander'
import { actionsOf, command, type Io } from './context.ts'

/** Adds `weir groups`. */
export function groupCommands(weir: Command, io: Io): void {
  const groups = actionsOf(io, () => import('./commands/groups.ts'))
  const group = command(
    weir,
    'groups',
    'teams, projects and customers: members, budgets and credit of their own',
  )
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
    command(group, 'create', 'make a group').requiredOption('--name <name>', 'what to call it'),
  ).action(groups('createGroup'))
  command(group, 'list', 'list groups with what they have spent').action(groups('listGroups'))
  command(group, 'show', 'show a group, its credit and its members')
    .argument('<group>', 'id or name')
    .action(groups('showGroup'))
  settings(
    command(group, 'set', 'change a group; `none` takes a setting back, what is not named stays')
      .argument('<group>', 'id or name')
      .option('--name <name>', 'what to call it'),
  ).action(groups('setGroup'))
  command(group, 'delete', 'delete a group: its keys end, and its members leave it')
    .argument('<group>', 'id or name')
    .action(groups('deleteGroup'))
  command(group, 'add', 'add an account to a group, or change its role and budget in it')
    .argument('<group>', 'id or name')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--role <role>', 'admin or member (member)')
    .option('--budget-usd <amount>', "what it may spend in place of the group's member budget; none for that")
    .action(groups('addMember'))
  command(group, 'remove', 'remove an account from a group: its keys of the group end, at once')
    .argument('<group>', 'id or name')
    .requiredOption('--account <account>', 'id or e-mail address')
    .action(groups('removeMember'))
  command(
    group,
    'statement',
    'what was spent in a group in a month, by person, key and model, and what came of its credit',
  )
    .argument('<group>', 'id or name')
    .option('--month <month>', 'of UTC, such as 2026-11 (the current one)')
    .action(groups('groupStatement'))
  command(group, 'grant', 'grant purchased credit to a group, which pays for its keys from then on')
    .argument('<group>', 'id or name')
    .requiredOption('--usd <amount>', 'how much, in US dollars')
    .option('--expires <date>', 'when it ends, such as 2027-01-31, or never; without it after 12 months')
    .option('--id <id>', 'an id of yours: the same id never grants twice')
    .option('--note <text>', 'why')
    .action(groups('grantToGroup'))
  command(group, 'adjust', 'correct the credit of a group: add to it, or take free credit away')
    .argument('<group>', 'id or name')
    .requiredOption('--usd <amount>', 'US dollars such as 10 or -0.50')
    .requiredOption('--id <id>', 'an id of yours: the same id never adjusts twice')
    .action(groups('adjustGroup'))
}

/** Adds `weir accounts`. */
export function accountCommands(weir: Command, io: Io): void {
  const accounts = actionsOf(io, () => import('./commands/accounts.ts'))
  const group = command(weir, 'accounts', 'create and look up accounts')
  command(group, 'create', 'create an account')
    .requiredOption('--email <address>', 'its e-mail address')
    .action(accounts('createAccount'))
  command(group, 'list', 'list all accounts').action(accounts('listAccounts'))
  command(group, 'show', 'show one account with its credit and keys')
    .argument('<account>', 'its id or e-mail address')
    .action(accounts('showAccount'))
  command(group, 'suspend', 'refuse the calls of an account; its credit stays')
    .argument('<account>', 'its id or e-mail address')
    .action(accounts('suspendAccount'))
  command(group, 'resume', 'serve the calls of a suspended account again')
    .argument('<account>', 'its id or e-mail address')
    .action(accounts('resumeAccount'))
  command(
    group,
    'set',
    'say how much an account may owe, and what it has each month; what it owes is paid by its next credit',
  )
    .argument('[account]', 'its id or e-mail address')
    .option('--account <account>', 'the same')
    .option('--credit-line <usd>', 'how much it may owe: US dollars such as 500, unlimited, or none')
    .option(
      '--monthly-usd <usd>',
      'purchased credit that ends with its month: US dollars such as 20, or none',
    )
    .action(accounts('setAccount'))
  command(
    group,
    'delete',
    'delete an account and what it said; its charges stay in the books, what is left of its credit is lost',
  )
    .argument('<account>', 'its id or e-mail address')
    .requiredOption('--confirm <address>', 'its e-mail address once more')
    .action(accounts('deleteAccount'))
  command(group, 'link', 'print a link that signs in to an account, once, within 15 minutes')
    .requiredOption('--account <account>', 'id or e-mail address')
    .action(accounts('signInLink'))
  command(group, 'invite', 'open an account and print the link that signs in to it for the first time')
    .option('--email <address>', 'its e-mail address')
    .option(
      '--file <file>',
      'or those of a list (CSV): a heading with address, and name, group, role, allowance where wanted',
    )
    .option('--role <role>', 'user or operator', 'user')
    .action(accounts('invite'))
  command(group, 'role', 'make an account an operator, or a user again')
    .argument('<account>', 'its id or e-mail address')
    .argument('<role>', 'user or operator')
    .action(accounts('setRole'))
  command(group, 'session', 'create a token for the app of an account; it is shown this once')
    .requiredOption('--account <account>', 'id or e-mail address')
    .option('--ttl <time>', 'how long it is valid, such as 30d or 12h', '30d')
    .action(accounts('createSession'))
  command(group, 'sessions', 'list the sessions of an account')
    .requiredOption('--account <account>', 'id or e-mail address')
    .action(accounts('listSessions'))
  command(group, 'end-session', 'end a session at once')
    .argument('<id>', 'the id of the session')
    .action(accounts('endSession'))
}

/** Adds `weir keys`. */
export function keyCommands(weir: Command, io: Io): void {
  const keys = actionsOf(io, () => import('./commands/keys.ts'))
  const group = command(weir, 'keys', 'create, list, limit, pause, revoke and rotate API keys')
  limitOptions(
    command(group, 'create', 'create an API key; it is shown this once')
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
  ).action(keys('createKey'))
  command(group, 'list', 'list API keys')
    .option('--account <account>', 'only those of this account')
    .option('--management', 'those of the admin API')
    .action(keys('listKeys'))
  limitOptions(
    command(group, 'limit', 'change the limits of an API key; `none` lifts one, what is not named stays')
      .argument('<id>', 'the id of the key')
      .option('--name <name>', 'what to call it'),
  ).action(keys('limitKey'))
  command(group, 'pause', 'refuse a key until it is resumed; its limits and its history stay')
    .argument('<id>', 'the id of the key')
    .action(keys('pauseKey'))
  command(group, 'resume', 'serve a paused key again')
    .argument('<id>', 'the id of the key')
    .action(keys('resumeKey'))
  command(group, 'revoke', 'revoke a key at once')
    .argument('<id>', 'the id of the key')
    .action(keys('revokeKey'))
  command(
    group,
    'rotate',
    'create a successor with the same rights; the old key ends now or after the overlap',
  )
    .argument('<id>', 'the id of the key')
    .option('--overlap <time>', 'how long both work, such as 24h, 30m or 7d', '0')
    .action(keys('rotateKey'))
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

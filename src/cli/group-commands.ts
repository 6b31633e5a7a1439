// Names, options and help of `weir groups`; what the commands do is in commands/groups.ts.

import type { Command } from 'commander'
import type { Context, Invocation } from './context.ts'

type Action = (context: Context, invocation: Invocation) => void | Promise<void>
type Run = (load: () => Promise<Action>) => (...given: unknown[]) => Promise<void>

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
    .command('grant')
    .description('grant purchased credit to a group, which pays for its keys from then on')
    .argument('<group>', 'id or name')
    .requiredOption('--usd <amount>', 'how much, in US dollars')
    .option('--expires <date>', 'when it ends, such as 2027-01-31, or never; without it after 12 months')
    .option('--id <id>', 'an id of yours: the same id never grants twice')
    .option('--note <text>', 'why')
    .action(run(async () => (await import('./commands/groups.ts')).grantToGroup))
}

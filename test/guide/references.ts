// The references of the guide that are made from the program: settings, commands and figures.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Argument, Command, Option } from 'commander'
import { program } from '../../src/cli/program.ts'
import { type Setting, settings } from '../../src/config/settings.ts'
import { events } from '../../src/notify/events.ts'
import { externalProcessorIds, externalProcessors } from '../../src/payments/top-up.ts'
import { post } from '../support/call-gateway.ts'
import { serveWeir } from '../support/serve-weir.ts'

/** The text of each page by its file's name. */
export async function makeReferences(): Promise<Readonly<Record<string, string>>> {
  return {
    'settings.md': settingsPage(),
    'commands.md': commandsPage(),
    'metrics.md': await metricsPage(),
    'webhooks.md': webhooksPage(),
    'payments.md': paymentsPage(),
  }
}

const code = (text: string) => `\`${text}\``

/** The page as it is, with the table of today's events. */
function webhooksPage(): string {
  return pageWith('webhooks.md', [
    ['event', 'when', '`data`'],
    ...Object.entries(events).map(([type, { when, data }]) => [code(type), when, data.map(code).join(', ')]),
  ])
}

/** The page as it is, with the addresses of today's processors. */
function paymentsPage(): string {
  return pageWith('payments.md', [
    ['processor', 'address', 'events'],
    ...externalProcessorIds.map((id) => {
      const { name, events: sent } = externalProcessors[id]
      return [name, code(`/hooks/${id}`), sent.map(code).join(', ')]
    }),
  ])
}

/** A page as it is but for its table with these columns. */
function pageWith(file: string, rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  const lineOf = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const head = new RegExp(`^\\| ${rows[0]![0]!} [^]*?(?=\\n\\n)`, 'm')
  const lines = rows.map((row) => lineOf(row.map((cell, column) => cell.padEnd(widths[column]!))))
  const rule = lineOf(widths.map((width) => '-'.repeat(width)))
  const table = [lines[0]!, rule, ...lines.slice(1)].join('\n')
  return readFileSync(join(import.meta.dir, '../../src/guide', file), 'utf8').replace(head, () => table)
}

const oneLine = (text: string) => text.replace(/\s+/g, ' ')

function settingsPage(): string {
  const groups = Map.groupBy(settings(), ({ path }) => path[0]!)
  const sections = [...groups].map(([name, members]) => {
    const lines = members.map((setting) => {
      const fallback = setting.fallback === undefined ? 'not set' : `\`${JSON.stringify(setting.fallback)}\``
      return `- **\`${setting.path.join('.')}\`** (${fallback}): ${oneLine(setting.description)}. ${envOf(setting)}`
    })
    return `## ${name}\n\n${lines.join('\n')}`
  })
  return `# Settings

Flags override the environment, the environment overrides \`weir.yaml\`, and that overrides the defaults. \`weir config show\` prints every setting, its value and where it came from, with secrets masked. \`weir config explain KEY\` prints what is said here of one. \`*\` stands for the id of a provider. In brackets stands the default; after the meaning, the environment variable.

Times are milliseconds; some may be written with a unit, such as \`30d\`. A secret is text, \`\${ENVIRONMENT_NAME}\` or \`file:/path\`.

${sections.join('\n\n')}
`
}

const envOf = ({ env, aliases }: Setting) => [env, ...aliases].map((name) => `\`${name}\``).join(', ')

function commandsPage(): string {
  const unused = () => undefined
  const io = {
    out: unused,
    err: unused,
    cwd: '',
    clock: Date.now,
    environment: async () => ({}),
    input: async () => '',
  }
  const weir = program([], io)
  const all = leavesOf(weir, '')
  const groups = Map.groupBy(all, ({ name }) => name.split(' ')[0]!)
  const sections = [...groups].map(
    ([name, commands]) =>
      `## weir ${name}\n\n${commands.map((one) => commandText(one.name, one.command)).join('\n\n')}`,
  )
  return `# Commands

Every command takes \`--config FILE\`, \`--data-dir FOLDER\` and \`--json\`, which prints for machines, and explains itself with \`--help\`. Exit codes: 0 done, 1 failed, 2 wrongly called, 78 a faulty configuration.

${sections.join('\n\n')}
`
}

function leavesOf(command: Command, path: string): { name: string; command: Command }[] {
  return command.commands.flatMap((child) => {
    const name = `${path} ${child.name()}`.trim()
    return child.commands.length > 0 ? leavesOf(child, name) : [{ name, command: child }]
  })
}

function commandText(name: string, command: Command): string {
  const args = command.registeredArguments.map((argument) => argumentText(argument)).join('')
  const lines = [
    ...command.registeredArguments.map((argument) => `- \`${argument.name()}\`: ${argument.description}`),
    ...command.options.filter(({ hidden }) => !hidden).map((option) => optionText(option)),
  ]
  return `**\`weir ${name}${args}\`**: ${command.description()}.${lines.length === 0 ? '' : `\n\n${lines.join('\n')}`}`
}

function argumentText(argument: Argument): string {
  const name = argument.name().toUpperCase() + (argument.variadic ? ' …' : '')
  return argument.required ? ` ${name}` : ` [${name}]`
}

function optionText({ flags, description, mandatory }: Option): string {
  return `- \`${flags}\`: ${description}${mandatory ? ' (required)' : ''}`
}

async function metricsPage(): Promise<string> {
  // Some figures are there only for what is set; nobody takes these rows.
  const config = `log: { export: { webhook: { url: 'http://127.0.0.1:9/' } } }`
  await using weir = await serveWeir({ config })
  const made = await weir.command('keys', 'create', '--account', 'owner@localhost', '--management', '--json')
  const { key } = JSON.parse(made.stdout) as { key: string }
  await post(weir, { model: 'sim/echo', messages: [{ role: 'user', content: 'Hello' }] })
  // Figures of what never happened have no samples, which would show what they are divided by.
  await post(weir, { model: 'sim/none', messages: [] }).catch(() => undefined)
  await weir.command('ledger', 'audit')
  const answer = await fetch(`${weir.origin}/metrics`, { headers: { authorization: `Bearer ${key}` } })
  const text = await answer.text()
  const figures = [...text.matchAll(/^# HELP (\S+) (.+)\n# TYPE \S+ (\S+)\n(?=(.*)$)/gm)].map(
    ([, name, help, type, sample]) => {
      const labels = [...sample!.matchAll(/[{,](\w+)="/g)]
        .map(([, label]) => label!)
        .filter((one) => one !== 'le')
      const divided = labels.length === 0 ? '' : `, by ${labels.map((label) => `\`${label}\``).join(', ')}`
      return `- **\`${name}\`** (${type}${divided}): ${oneLine(help!)}`
    },
  )
  return `# Metrics

\`GET /metrics\` has these figures in Prometheus' text format, those of each process where there are several. It takes a management key. [Metrics, logs and alerts](monitoring.md) says how to collect them.

${figures.join('\n')}
`
}

// Every page of the guide in its order, by who reads it. Their text is inside the executable: it is served at /docs and
// printed by `weir guide`.

import { type ConnectedClient, connectedClients } from '../connect/clients.ts'
import alarms from './alarms.md' with { type: 'text' }
import alerts from './alerts.yaml' with { type: 'text' }
import backup from './backup.md' with { type: 'text' }
import bounds from './bounds.md' with { type: 'text' }
import changelog from './changelog.md' with { type: 'text' }
import commands from './commands.md' with { type: 'text' }
import connect from './connect.md' with { type: 'text' }
import console from './console.md' with { type: 'text' }
import contributing from './contributing.md' with { type: 'text' }
import costs from './costs.md' with { type: 'text' }
import board from './grafana.json' with { type: 'text' }
import groups from './groups.md' with { type: 'text' }
import guardrails from './guardrails.md' with { type: 'text' }
import libraries from './libraries.md' with { type: 'text' }
import local from './local.md' with { type: 'text' }
import metrics from './metrics.md' with { type: 'text' }
import monitoring from './monitoring.md' with { type: 'text' }
import monthEnd from './month-end.md' with { type: 'text' }
import offboarding from './offboarding.md' with { type: 'text' }
import payments from './payments.md' with { type: 'text' }
import postgresql from './postgresql.md' with { type: 'text' }
import people from './people.md' with { type: 'text' }
import providers from './providers.md' with { type: 'text' }
import proxy from './proxy.md' with { type: 'text' }
import releases from './releases.md' with { type: 'text' }
import scim from './scim.md' with { type: 'text' }
import secrets from './secrets.md' with { type: 'text' }
import security from './security.md' with { type: 'text' }
import selling from './selling.md' with { type: 'text' }
import service from './service.md' with { type: 'text' }
import settings from './settings.md' with { type: 'text' }
import signOn from './sign-on.md' with { type: 'text' }
import sizing from './sizing.md' with { type: 'text' }
import start from './start.md' with { type: 'text' }
import subscriptions from './subscriptions.md' with { type: 'text' }
import support from './support.md' with { type: 'text' }
import tools from './tools.md' with { type: 'text' }
import webhooks from './webhooks.md' with { type: 'text' }
import why from './why.md' with { type: 'text' }

export interface GuidePage {
  /** In its address, and for `weir guide`. */
  readonly name: string
  readonly title: string
  /** Markdown that begins with the title; links to other pages are `name.md`. */
  readonly text: string
}

export interface GuidePart {
  readonly title: string
  /** For whom it is. */
  readonly about: string
  readonly pages: readonly GuidePage[]
}

/** Where the gateway of the guide is; in a browser, examples name the one that the reader is at. */
const origin = 'http://127.0.0.1:8787'

/** What stands for the reader's own in the pages of programs. */
const example = { key: '$WEIR_API_KEY', model: 'sim/echo' }

/** Files that pages link to, by name: for other programs, and not for readers. */
export const guideFiles: Readonly<Record<string, { readonly text: string; readonly type: string }>> = {
  'grafana.json': { text: String(board), type: 'application/json' },
  'alerts.yaml': { text: alerts, type: 'application/yaml' },
}

/** The whole guide. */
export const guideParts: readonly GuidePart[] = [
  {
    title: 'Developer',
    about: 'You write programs, or use some, that call models.',
    pages: pagesOf({ start, libraries, connect, tools, costs, local, console, why }),
  },
  {
    title: 'Programs and agents',
    about: 'What each of them needs to know.',
    pages: connectedClients(origin).map(clientPage),
  },
  {
    title: 'Operator',
    about: 'You run Weir for yourself or for others.',
    pages: pagesOf({
      releases,
      service,
      proxy,
      providers,
      people,
      groups,
      'sign-on': signOn,
      scim,
      backup,
      postgresql,
      monitoring,
      alarms,
      guardrails,
      secrets,
      'month-end': monthEnd,
      offboarding,
      bounds,
      sizing,
    }),
  },
  {
    title: 'Reseller',
    about: 'You sell usage to customers.',
    pages: pagesOf({ selling, payments, subscriptions, webhooks, support }),
  },
  {
    title: 'Reference',
    about: 'Every setting, command and figure; what is stored; how the code is laid out.',
    pages: pagesOf({ settings, commands, metrics, security, contributing, changelog }),
  },
]

/** The page of this name; undefined if there is none. */
export function guidePage(name: string): GuidePage | undefined {
  return guideParts.flatMap(({ pages }) => pages).find((page) => page.name === name)
}

function pagesOf(texts: Readonly<Record<string, string>>): GuidePage[] {
  return Object.entries(texts).map(([name, text]) => ({
    name,
    title: /^# (.+)/.exec(text)?.[1] ?? name,
    text,
  }))
}

/** How a program is set up, with the name of a model to be replaced. */
function clientPage({ id, name, about, files }: ConnectedClient): GuidePage {
  const blocks = files.map(({ path, language, text }) => {
    const filled = text.replaceAll('{{key}}', example.key).replaceAll('{{model}}', example.model)
    const place = path === null ? '' : `In \`${path}\`:\n\n`
    return `${place}\`\`\`${language} shown\n${filled}\n\`\`\``
  })
  const text = `# ${name}

${about}

${blocks.join('\n\n')}

\`${example.key}\` is your key, \`${example.model}\` any model of \`weir models\`. \`weir connect ${id} --model MODEL\` prints this with both filled in; where it is a file, \`--write\` writes it. The console has the same under _Connect_.
`
  return { name: `client-${id}`, title: name, text }
}

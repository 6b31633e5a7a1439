// The commands of models and the catalog: names, options and help.

import type { Command } from 'commander'
import type { Io } from '../../context.ts'
import { ready, readyForClient } from '../../action.ts'

/** Adds `weir models`, `weir chat` and `weir catalog`. */
export function modelCommands(weir: Command, io: Io): void {
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
  ready(list, io, async (...given) => (await import('./models.ts')).listModels(...given))
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
  readyForClient(chat, io, async (...given) => (await import('./chat.ts')).chat(...given))
}

function catalog(weir: Command, io: Io): void {
  const group = weir.command('catalog').description('compare, replace and export the catalog')
  const diff = group
    .command('diff')
    .description('how a catalog file differs from the catalog in use')
    .argument('<file>', 'a catalog file')
  ready(diff, io, async (...given) => (await import('./catalog.ts')).diffCatalog(...given))
  const importing = group
    .command('import')
    .description('put a catalog file to use from the next start on')
    .argument('<file>', 'a catalog file')
  ready(importing, io, async (...given) => (await import('./catalog.ts')).importCatalog(...given))
  const exporting = group
    .command('export')
    .description('write the catalog in use to a file')
    .argument('<file>', 'where to; - is standard output')
  ready(exporting, io, async (...given) => (await import('./catalog.ts')).exportCatalog(...given))
}

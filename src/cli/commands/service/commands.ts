// The commands that run and maintain the gateway: names, options and help.

import type { Command } from 'commander'
import type { Io } from '../../context.ts'
import { invocationOf, ready, readyForClient } from '../../action.ts'

/** Adds `weir serve`, `weir backup`, `weir doctor` and the like. */
export function serviceCommands(weir: Command, io: Io): void {
  serveCommand(weir, io)
  working(weir, io)
  upkeep(weir, io)
  deployment(weir, io)
}

/** Adds `weir serve`. */
export function serveCommand(weir: Command, io: Io): void {
  const serve = weir
    .command('serve')
    .description('run the gateway')
    .option('--host <address>', 'the address to listen on (127.0.0.1)')
    .option('--port <number>', 'the port to listen on (8787); 0 takes a free one')
    .option(
      '--workers <number>',
      'processes that serve calls (1); auto is one for each core but one, at most 4',
    )
  serve.action(async (...given: unknown[]) => (await import('./serve.ts')).serve(io, invocationOf(given)))
}

/** Only started by `serve`, with whose connection it works. */
function working(weir: Command, io: Io): void {
  weir
    .command('worker', { hidden: true })
    .action(async () => (await import('../../../serve/workers/worker.ts')).runWorker(io.clock))
}

function upkeep(weir: Command, io: Io): void {
  const backup = weir
    .command('backup')
    .description('copy the database to a new file, also beside a running server')
    .argument('<file>', 'where to; a file that exists is never overwritten')
  ready(backup, io, async (...given) => (await import('./backup.ts')).backUpTo(...given))
  const restoring = weir
    .command('restore')
    .description(
      'put a backup into the data directory, once its ledger is proven; the server must be stopped',
    )
    .argument('<file>', 'what weir backup wrote')
    .option('--force', 'also where there is a database; it is moved aside, not deleted')
  ready(restoring, io, async (...given) => (await import('./backup.ts')).restoreFrom(...given))
  const config = weir.command('config').description('check and show the configuration')
  const check = config.command('check').description('check the configuration; all faults are listed')
  check.action(async (...given: unknown[]) =>
    (await import('./config.ts')).checkConfig(io, invocationOf(given)),
  )
  const show = config.command('show').description('show every setting, its value and where it came from')
  ready(show, io, async (context) => (await import('./config.ts')).showConfig(context))
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
  readyForClient(connect, io, async (...given) => (await import('./connect.ts')).connect(...given))
  const doctor = weir
    .command('doctor')
    .description('look for what keeps the gateway from working')
    .option('--provider <id>', 'make one cheap call to this provider, and say what is wrong')
  ready(doctor, io, async (context, invocation) => {
    const provider = invocation.option('provider')
    if (provider === undefined) return (await import('./doctor.ts')).doctor(context)
    return (await import('../models/probe.ts')).probe(context, provider)
  })
  const version = weir.command('version').description('print the version')
  version.action(async (...given: unknown[]) =>
    (await import('./version.ts')).version(io, invocationOf(given)),
  )
}

function deployment(weir: Command, io: Io): void {
  const service = weir.command('service').description('run the gateway as a system service')
  const printing = service
    .command('print')
    .description('print a systemd unit for this executable; nothing is installed')
    .option('--user <name>', 'the system user it runs as', 'weir')
    .option('--exec <path>', 'the executable (this one)')
  ready(printing, io, async (...given) => (await import('./service.ts')).printService(...given))
  const health = weir
    .command('healthcheck')
    .description('exit with 0 when the running gateway is ready, with 1 otherwise')
    .option(
      '--url <address>',
      'the base URL of the gateway (that of the server of the data directory, or the configured address)',
    )
  ready(health, io, async (...given) => (await import('./healthcheck.ts')).healthcheck(...given))
  weir
    .command('completions')
    .description('print a script that completes commands in bash, zsh or fish')
    .argument('<shell>', 'bash, zsh or fish')
    .action(async (shell: string) => io.out((await import('./completions.ts')).completionScript(shell, weir)))
}

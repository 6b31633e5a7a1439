// The command line. Groups of commands are in commands/*/commands.ts; a command is loaded when it is called.

import { Command, CommanderError } from 'commander'
import { visible } from './terminal-text.ts'
import { accountCommands } from './commands/accounts/commands.ts'
import { ledgerCommands } from './commands/ledger/commands.ts'
import { mcpCommands } from './commands/mcp/commands.ts'
import { modelCommands } from './commands/models/commands.ts'
import { paymentCommands } from './commands/payments/commands.ts'
import { serveCommand, serviceCommands } from './commands/service/commands.ts'
import { webhookCommands } from './commands/webhooks/commands.ts'
import { CommandFailure, exitCodes, type Io } from './context.ts'

/** Runs one command line (without the program's name) and returns its exit code. Never throws. */
export async function runCli(argv: readonly string[], io: Io): Promise<number> {
  try {
    await program(argv, io).parseAsync(argv[0] === '--version' || argv[0] === '-V' ? ['version'] : argv, {
      from: 'user',
    })
    return exitCodes.ok
  } catch (thrown) {
    // Commander has printed help, the version or the fault. A group without a command is a usage fault.
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? exitCodes.ok : exitCodes.usage
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    io.err(`weir: ${visible(message)}\n`)
    return thrown instanceof CommandFailure ? thrown.exitCode : exitCodes.failed
  }
}

function program(argv: readonly string[], io: Io): Command {
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
  serviceCommands(weir, io)
  accountCommands(weir, io)
  ledgerCommands(weir, io)
  modelCommands(weir, io)
  mcpCommands(weir, io)
  paymentCommands(weir, io)
  webhookCommands(weir, io)
  return weir
}

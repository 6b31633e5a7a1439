// `weir serve`: configuration, log, gateway, banner, shutdown.

import { createLog, type Log, standardErrorSink } from '../../../observe/log.ts'
import { renderBanner, startFactsJson } from '../../../serve/banner.ts'
import { endSoon } from '../../../serve/end-soon.ts'
import { outliveRejections } from '../../../serve/unhandled.ts'
import { type Context, contextFor, type Invocation, type Io } from '../../context.ts'

/** Runs the gateway until a signal stops it. */
export async function serve(io: Io, invocation: Invocation): Promise<void> {
  const context = await contextFor(io, invocation)
  const log = await logOf(context)
  outliveRejections(log)
  // A closed terminal sends SIGHUP, which must not end running calls: only SIGTERM and SIGINT stop the gateway.
  process.on('SIGHUP', () =>
    log.info('SIGHUP changes nothing: SIGTERM stops, a restart reads the configuration again'),
  )
  const { startGateway } = await import('../../../serve/start.ts')
  const { shownSettings } = await import('../../../config.ts')
  const { loaded } = context
  const settings = () => ({ file: loaded.file ?? null, settings: shownSettings(loaded) })
  // Before the start: clients are served as soon as the port is there.
  const stopped = stopSignal(log)
  // Its clients do not depend on whoever reads the banner.
  process.stdout.removeAllListeners('error')
  process.stdout.on('error', (error) =>
    log.warn('the banner could not be written; weir keys create and weir accounts link give what it showed', {
      error,
    }),
  )
  const gateway = await startGateway(context.config, log, settings, context.env)
  const facts = { ...gateway.facts, dataDir: context.config.data_dir, configFile: context.loaded.file }
  io.out(context.json ? `${JSON.stringify(startFactsJson(facts))}\n` : `${renderBanner(facts)}\n`)
  await stopped
  await gateway.stop()
  log.info('stopped')
  endSoon()
}

/** The log of a configuration: on standard error, so that standard output stays free for the banner. */
async function logOf({ config, io, loaded }: Context): Promise<Log> {
  const { secretsOf } = await import('../../../config.ts')
  const log = createLog(config.log, {
    sink: standardErrorSink(),
    clock: io.clock,
    secrets: secretsOf(config),
  })
  for (const { name, problem } of loaded.warnings) log.warn('configuration', { name, problem })
  return log
}

/**
 * Resolves on the first SIGTERM or SIGINT. A second one ends the process at once; at the next start the ledger recovers
 * the calls that were in flight.
 */
function stopSignal(log: Log): Promise<void> {
  return new Promise((resolve) => {
    let asked = false
    const ask = (signal: NodeJS.Signals) => {
      if (asked) process.exit(1)
      asked = true
      log.info('stopping: calls in flight are finished first', { signal })
      resolve()
    }
    process.on('SIGTERM', ask)
    process.on('SIGINT', ask)
  })
}

// `weir serve`: configuration, log, gateway, banner, shutdown.

import { fstatSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { reasonOf } from '../../config/config.ts'
import { createLog, type Log, type ProcessLog, standardErrorSink } from '../../observe/log.ts'
import { baseUrlOf, renderBanner, type StartFacts, startFactsJson } from '../../serve/banner.ts'
import { endSoon, outliveRejections } from '../../serve/listen.ts'
import { runningServer } from '../../serve/running-server.ts'
import type { ServingPlace, RunningGateway } from '../../serve/start.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'
import {
  CommandFailure,
  configFlags,
  type Context,
  contextFor,
  exitCodes,
  type Invocation,
  type Io,
  print,
  usageFault,
} from '../context.ts'
import { isOnThisMachine } from '../gateway-address.ts'

/** Runs the gateway until a signal stops it: in this process, or in several whose parent it is. */
export async function serve(io: Io, invocation: Invocation): Promise<void> {
  if (invocation.option('workers') !== undefined)
    throw usageFault('--workers is gone: several processes are --processes now, with store.url')
  const context = await contextFor(io, invocation)
  const number = invocation.option('process')
  if (number !== undefined) return serveBeside(context, invocation, Number(number))
  const log = await logOf(context)
  outliveRejections(log)
  // A closed terminal sends SIGHUP, which must not end running calls: only SIGTERM and SIGINT stop the gateway.
  const reload = Promise.withResolvers<() => Promise<void>>()
  process.on('SIGHUP', () => void reload.promise.then((act) => act()))
  // Before the start: clients are served as soon as the port is there.
  const stopped = stopSignal(log)
  // Its clients do not depend on whoever reads the banner.
  process.stdout.removeAllListeners('error')
  process.stdout.on('error', (error) =>
    log.warn('the banner could not be written; weir keys create and weir accounts link give what it showed', {
      error,
    }),
  )
  const gateway =
    context.config.server.processes === 1
      ? await startHere(context, invocation, log)
      : await startSeveral(context, log)
  // Start-up garbage would otherwise stay until the first burst of calls.
  Bun.gc(true)
  reload.resolve(() => reloadOnSignal(gateway, log))
  const facts = shownFacts(context, log, {
    ...gateway.facts,
    dataDir: context.config.data_dir,
    configFile: context.loaded.file,
    ownerFile: undefined,
  })
  io.out(context.json ? `${JSON.stringify(startFactsJson(facts))}\n` : `${renderBanner(facts)}\n`)
  const failure = await Promise.race([stopped, ...(gateway.failed ? [gateway.failed] : [])])
  await gateway.stop()
  if (failure !== undefined) throw failure
  log.info('stopped')
  endSoon()
}

async function startHere(context: Context, invocation: Invocation, log: ProcessLog, place?: ServingPlace) {
  const { startGateway } = await import('../../serve/start.ts')
  const { ConfigurationFaulty } = await import('../../serve/gateway/configuration.ts')
  const { rereadConfig } = await import('../../config/config.ts')
  const read = rereadConfig(context.loaded, {
    flags: configFlags(invocation),
    env: context.env,
    cwd: context.io.cwd,
  })
  return startGateway(read, log, context.env, place).catch((error: unknown) => {
    if (!(error instanceof ConfigurationFaulty)) throw error
    throw new CommandFailure(error.message, exitCodes.badConfiguration)
  })
}

async function startSeveral({ config, env, io }: Context, log: Log): Promise<RunningGateway> {
  const { startProcesses, StartFailed } = await import('../../serve/processes.ts')
  return startProcesses(config, { log, env, clock: io.clock }).catch((error: unknown) => {
    if (error instanceof StartFailed && error.exitCode === exitCodes.badConfiguration)
      throw new CommandFailure(error.message, exitCodes.badConfiguration)
    throw error
  })
}

/** Serves as one of several processes, for the parent that has started it. */
async function serveBeside(context: Context, invocation: Invocation, number: number): Promise<void> {
  const { parentOf } = await import('../../serve/processes.ts')
  const parent = await parentOf(number)
  const log = await logOf(context, number)
  outliveRejections(log)
  const gateway = await startHere(context, invocation, log, parent.place).catch((error: unknown) => {
    parent.fail(error, error instanceof CommandFailure ? error.exitCode : undefined)
    throw error
  })
  Bun.gc(true)
  parent.serve(gateway, {
    reload: () => reloadOnSignal(gateway, log),
    figures: gateway.ownFigures,
  })
  log.info('a process serves', { pid: process.pid })
  await parent.stopped
  await gateway.stop()
  log.info('stopped')
  parent.leave()
  endSoon()
}

/** The facts without the owner's key where it belongs into a file: a journal keeps what is printed, and others read it. */
function shownFacts({ config, env }: Context, log: Log, facts: StartFacts): StartFacts {
  const { show } = config.bootstrap
  const { owner } = facts
  if (owner === undefined || show === 'print' || (show === 'auto' && !isJournal(env))) return facts
  const file = join(config.data_dir, 'first-key.txt')
  const text = `The first API key of ${owner.email}:\n${owner.key}\n\nThis link signs in to the console, once:\n${owner.signIn}\n`
  try {
    // One that lies there, if a first run was interrupted, may have other rights.
    rmSync(file, { force: true })
    writeFileSync(file, text, { flag: 'wx', mode: 0o600 })
    log.info('the first API key and sign-in link were written', { file })
    return { ...facts, owner: undefined, ownerFile: file }
  } catch (error) {
    log.warn('the first API key could not be written; weir keys create and weir accounts link make others', {
      file,
      error,
    })
    return { ...facts, owner: undefined }
  }
}

/** Whether standard output or standard error goes to systemd's journal, which says which file that is. */
function isJournal({ JOURNAL_STREAM: stream }: Context['env']): boolean {
  if (!stream) return false
  return [1, 2].some((descriptor) => {
    try {
      const { dev, ino } = fstatSync(descriptor)
      return stream === `${dev}:${ino}`
    } catch {
      return false
    }
  })
}

/** A signal has nobody to tell of a fault but the log. */
async function reloadOnSignal(gateway: { reloadConfig(): Promise<unknown> }, log: Log): Promise<void> {
  try {
    await gateway.reloadConfig()
  } catch (error) {
    log.error('the configuration was not read again; the one in force stays', {
      reason: error instanceof Error ? error.message : String(error),
    })
  }
}

/** The log of a configuration: on standard error, so that standard output stays free for the banner. */
async function logOf({ config, io, loaded }: Context, number?: number): Promise<ProcessLog> {
  const { secretsOf } = await import('../../config/config.ts')
  const log = createLog(config.log, {
    sink: standardErrorSink(),
    clock: io.clock,
    secrets: secretsOf(config),
    ...(number === undefined ? {} : { about: { process: number } }),
  })
  // Of several processes their parent says it.
  if (number === undefined)
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

// `weir healthcheck`: whether the gateway of this configuration is ready, for container health checks without a shell.

/** How long a gateway may take to answer. */
const patienceMs = 3_000

/** Asks `GET /readyz`. Throws CommandFailure (exit code 1) if nobody answers, or the answer is not "ready". */
export async function healthcheck(context: Context, invocation: Invocation): Promise<void> {
  const { data_dir, server } = context.config
  const named = invocation.option('url')
  // A server that was given its port by a flag is at another than the configured address.
  const given = named ?? runningServer(data_dir) ?? baseUrlOf(server.host, server.port)
  // A server listens on this machine: an address elsewhere is not one of the gateway of this folder.
  if (named === undefined && !context.namedFile && !isOnThisMachine(given))
    throw new CommandFailure(`${given} is not on this machine: give it with --url`)
  const origin = URL.parse(given)?.origin
  if (origin === undefined || origin === 'null') throw new CommandFailure(`${given} is no http address`)
  const address = `${origin}/readyz`
  let response: Response
  try {
    const signal = AbortSignal.timeout(patienceMs)
    response = await fetchBounded(address, { redirect: 'manual', signal }, Infinity)
    await response.body?.cancel()
  } catch (cause) {
    throw new CommandFailure(`nothing answers at ${address} (${reasonOf(cause)})`)
  }
  if (!response.ok) throw new CommandFailure(`${address} answers ${response.status}: not ready`)
  print(context, { json: { status: 'ready', url: address }, text: 'ready' })
}

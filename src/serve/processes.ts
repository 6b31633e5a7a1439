// The processes of `server.processes`: equal gateways on one port, and their parent, which starts them, replaces one that
// dies, and stops them. They share nothing but the database. What one asks of the others goes through the parent.

import { existsSync } from 'node:fs'
import { settledWithin } from '../async/async.ts'
import { type Config, reasonOf } from '../config/config.ts'
import type { Environment } from '../config/read/environment.ts'
import type { Siblings } from '../http/parts.ts'
import type { Log } from '../observe/log.ts'
import { lockFor } from '../store/open.ts'
import { listen } from './listen.ts'
import { ownCommand } from './relaunch.ts'
import { announceServer, withdrawServer } from './running-server.ts'
import type { ServingPlace, RunningGateway } from './start.ts'

/** What is asked of every process but the one that asks. */
type Question = 'figures' | 'reload'

interface Answer {
  readonly process: number
  readonly answer: unknown
}

type ToChild =
  | { readonly kind: 'start'; readonly config: Config; readonly succeeds: string | undefined }
  | { readonly kind: 'question'; readonly id: number; readonly question: Question }
  | { readonly kind: 'answers'; readonly id: number; readonly answers: readonly Answer[] }
  | { readonly kind: 'stop' }

type ToParent =
  | ({ readonly kind: 'serving' } & Serving)
  | { readonly kind: 'failed'; readonly reason: string; readonly exitCode: number | undefined }
  | { readonly kind: 'question'; readonly id: number; readonly question: Question }
  | { readonly kind: 'answer'; readonly id: number; readonly answer: unknown }

interface Serving {
  readonly facts: RunningGateway['facts']
  /** Its name in holds. */
  readonly owner: string
}

/** A start that failed; with the exit code of its process, where that says more than that it failed. */
export class StartFailed extends Error {
  readonly exitCode: number | undefined

  constructor(message: string, exitCode?: number) {
    super(message)
    this.exitCode = exitCode
  }
}

/** Milliseconds. After a life shorter than this, the next process starts only after a pause, which doubles each time. */
const shortLifeMs = 5_000
const firstPauseMs = 1_000
const longestPauseMs = 15_000
/** So often in a row one may die at its start, where none serves any more. */
const mostStarts = 5
/** How long processes may take to exit after the time for their calls is over, before they are killed. */
const endMs = 8_000
/** How long a process may take to answer a question. */
const answerMs = 1_000

/** What the parent is given. */
interface ParentParts {
  readonly log: Log
  readonly env: Environment
  /** Milliseconds since 1970. */
  readonly clock: () => number
}

/**
 * Starts `server.processes` gateways: the first one alone, which makes the tables and the owner where there are none, and
 * then the others. Rejects with the reason if one of them cannot serve; then none is left running.
 */
export async function startProcesses(config: Config, parts: ParentParts): Promise<RunningGateway> {
  if (process.platform !== 'linux')
    throw new Error('server.processes: more than one needs Linux, which shares a port among processes fairly')
  const { log, clock } = parts
  const lock = lockFor(config.data_dir, { clock, notice: (message, facts) => log.warn(message, facts) })
  try {
    const port = await freePort(config)
    const processes = new Processes({ ...config, server: { ...config.server, port } }, parts)
    const facts = await processes.start()
    announceServer(config, log, facts.baseUrl)
    return {
      facts,
      failed: processes.failed,
      reloadConfig: () => processes.ask('reload'),
      async stop() {
        withdrawServer(config, log)
        await processes.stop(config.timeouts.shutdown_ms)
        lock.release()
      },
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

/** The configured port, or a free one. Throws if it is in use: the processes would share it with another gateway. */
async function freePort(config: Config): Promise<number> {
  const probe = listen(config, { fetch: () => new Response() }, 'own')
  const port = probe.port!
  await probe.stop(true)
  return port
}

class Processes {
  readonly #config: Config
  readonly #parts: ParentParts
  readonly #children = new Map<number, Child>()
  readonly #running: Promise<void>[] = []
  readonly #stopping = new AbortController()
  readonly #failed = Promise.withResolvers<Error>()

  constructor(config: Config, parts: ParentParts) {
    this.#config = config
    this.#parts = parts
  }

  /** Resolves with the reason when none of them serves any more, and none can be started. */
  get failed(): Promise<Error> {
    return this.#failed.promise
  }

  async start(): Promise<RunningGateway['facts']> {
    const numbers = Array.from({ length: this.#config.server.processes }, (_, at) => at + 1)
    try {
      const facts = await this.#begin(1)
      await Promise.all(numbers.slice(1).map((number) => this.#begin(number)))
      return facts
    } catch (error) {
      await this.stop(0)
      throw error
    }
  }

  /** Lets them finish their calls for at most `withinMs`; resolves when all have exited. */
  async stop(withinMs: number): Promise<void> {
    this.#stopping.abort()
    for (const child of this.#children.values()) child.send({ kind: 'stop' })
    const late = setTimeout(() => {
      for (const child of this.#children.values()) child.kill()
    }, withinMs + endMs)
    await Promise.all(this.#running)
    clearTimeout(late)
  }

  /** The answers of all that serve, but for the one that asks; of those that answer in time. */
  async ask(question: Question, asking?: number): Promise<readonly Answer[]> {
    const answers: Answer[] = []
    const others = [...this.#children].filter(([number, child]) => number !== asking && child.serves)
    const asked = others.map(async ([number, child]) => {
      answers.push({ process: number, answer: await child.ask(question) })
    })
    await settledWithin(answerMs, Promise.allSettled(asked))
    return answers.slice()
  }

  /** Starts a process for the first time, and keeps it running from then on. Rejects if it cannot serve. */
  async #begin(number: number): Promise<RunningGateway['facts']> {
    const first = this.#spawn(number)
    const begun = await first.started.catch(async (error: unknown) => {
      first.kill()
      await first.ended
      throw error
    })
    this.#running.push(this.#keepRunning(number, first))
    return begun
  }

  async #keepRunning(number: number, first: Child): Promise<void> {
    const { log } = this.#parts
    let child = first
    let failures = 0
    let succeeds: string | undefined
    for (;;) {
      const { pid } = child
      const how = await child.ended
      const isShort = performance.now() - child.startedAt < shortLifeMs
      failures = isShort ? failures + 1 : 0
      this.#children.delete(number)
      if (this.#stopping.signal.aborted) return
      log.warn('a process has ended, and another takes its place', { ended: number, pid, how })
      if (failures >= mostStarts && ![...this.#children.values()].some(({ serves }) => serves))
        return this.#failed.resolve(new Error(`no process can be started any more: ${how}`))
      if (isShort) await this.#pause(Math.min(longestPauseMs, firstPauseMs * 2 ** (failures - 1)))
      if (this.#stopping.signal.aborted) return
      // One that never served has left its predecessor's calls where they were.
      succeeds = child.owner ?? succeeds
      child = this.#spawn(number, succeeds)
      // A start that fails ends its process, which is looked at above.
      child.started.catch(() => undefined)
    }
  }

  async #pause(ms: number): Promise<void> {
    const { signal } = this.#stopping
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms)
      signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
    })
  }

  #spawn(number: number, succeeds?: string): Child {
    const child = new Child(number, this.#parts.env, async (question) => this.ask(question, number))
    this.#children.set(number, child)
    child.send({ kind: 'start', config: this.#config, succeeds })
    return child
  }
}

/** One process, from its parent. */
class Child {
  readonly startedAt = performance.now()
  /** Resolves when it serves; rejects with StartFailed. */
  readonly started: Promise<RunningGateway['facts']>
  /** Resolves with why it has ended, when it has. */
  readonly ended: Promise<string>
  #serves = false
  #owner: string | undefined
  #reason: string | undefined
  readonly #process: Bun.Subprocess
  readonly #start = Promise.withResolvers<RunningGateway['facts']>()
  readonly #asked = new Map<number, (answer: unknown) => void>()
  #questions = 0

  constructor(
    number: number,
    env: Environment,
    askOthers: (question: Question) => Promise<readonly Answer[]>,
  ) {
    const [program, ...before] = ownCommand()
    const onMessage = async (message: ToParent) => {
      if (message.kind === 'question')
        this.send({ kind: 'answers', id: message.id, answers: await askOthers(message.question) })
      else this.#onMessage(message)
    }
    this.#process = Bun.spawn(
      [runningProgram() ?? program, ...before, ...process.argv.slice(2), '--process', String(number)],
      {
        // With `--no-orphans` it exits if this process is killed.
        env: { ...env, BUN_OPTIONS: [env['BUN_OPTIONS'], '--no-orphans'].filter(Boolean).join(' ') },
        stdio: ['ignore', 'ignore', 'inherit'],
        serialization: 'advanced',
        ipc: (message: ToParent) => void onMessage(message),
      },
    )
    this.started = this.#start.promise
    this.ended = this.#process.exited.then(() => {
      const { signalCode, exitCode } = this.#process
      this.#serves = false
      const how = this.#reason ?? String(signalCode ?? `exit code ${exitCode}`)
      this.#start.reject(
        new StartFailed(`process ${number} ended while it started (${how}): the log may say why`),
      )
      return how
    })
  }

  get pid(): number {
    return this.#process.pid
  }

  /** Its name in holds, once it has served. */
  get owner(): string | undefined {
    return this.#owner
  }

  get serves(): boolean {
    return this.#serves
  }

  kill(): void {
    this.#process.kill('SIGKILL')
  }

  send(message: ToChild): void {
    try {
      this.#process.send(message)
    } catch {
      // It has ended.
    }
  }

  ask(question: Question): Promise<unknown> {
    const { promise, resolve } = Promise.withResolvers<unknown>()
    const id = ++this.#questions
    this.#asked.set(id, resolve)
    this.send({ kind: 'question', id, question })
    return promise.finally(() => this.#asked.delete(id))
  }

  #onMessage(message: Exclude<ToParent, { kind: 'question' }>): void {
    switch (message.kind) {
      case 'serving':
        this.#serves = true
        this.#owner = message.owner
        return this.#start.resolve(message.facts)
      case 'failed':
        this.#reason = message.reason
        return this.#start.reject(new StartFailed(message.reason, message.exitCode))
      case 'answer':
        return this.#asked.get(message.id)?.(message.answer)
    }
  }
}

/**
 * This program as it runs: its file may have been replaced by that of another version, which begins with the next start of
 * all. Undefined where the system does not show it.
 */
function runningProgram(): string | undefined {
  const running = `/proc/${process.pid}/exe`
  return existsSync(running) ? running : undefined
}

// The same from inside one of them.

/** What one of the processes does for the others and its parent. */
interface Services {
  reload(): Promise<unknown>
  /** What it counts of itself, as text. */
  figures(): Promise<string>
}

/** The parent of this process. */
export interface Parent {
  readonly place: ServingPlace
  /** Resolves when the process is to finish its calls and end. */
  readonly stopped: Promise<void>
  /** Says that the process serves, and answers questions from then on. */
  serve(serving: Serving, services: Services): void
  /** Says why it cannot. */
  fail(error: unknown, exitCode: number | undefined): void
  /** Ends the connection, which keeps the process. */
  leave(): void
}

/** The parent that has started this process as the one of this number. Rejects where none has. */
export async function parentOf(number: number): Promise<Parent> {
  if (process.send === undefined) throw new Error('--process is said by weir serve alone: see --processes')
  const send = (message: ToParent) => process.send!(message)
  const begun = Promise.withResolvers<Pick<ServingPlace, 'started' | 'succeeds'>>()
  const stopped = Promise.withResolvers<void>()
  const asked = new Map<number, (answers: readonly Answer[]) => void>()
  let questions = 0
  let services: Services | undefined
  const onMessage = async (message: ToChild): Promise<void> => {
    switch (message.kind) {
      case 'start':
        return begun.resolve({ started: message.config, succeeds: message.succeeds })
      case 'stop':
        return stopped.resolve()
      case 'answers':
        return asked.get(message.id)?.(message.answers)
      case 'question': {
        // One that does not answer is left out.
        const answer = await services?.[message.question]().catch(() => undefined)
        send({ kind: 'answer', id: message.id, answer })
      }
    }
  }
  process.on('message', (message) => void onMessage(message as ToChild))
  // Without its parent nobody would stop it.
  process.on('disconnect', () => process.exit(1))
  // A terminal sends these to all processes; the parent hands on what they mean.
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined)
  process.on('SIGTERM', () => stopped.resolve())
  const ask = async (question: Question): Promise<readonly Answer[]> => {
    const { promise, resolve } = Promise.withResolvers<readonly Answer[]>()
    const id = ++questions
    asked.set(id, resolve)
    send({ kind: 'question', id, question })
    return promise.finally(() => asked.delete(id))
  }
  const siblings: Siblings = {
    process: number,
    reload: async () => void (await ask('reload')),
    async figures() {
      const answers = await ask('figures')
      return answers.flatMap(({ process: of, answer }) =>
        typeof answer === 'string' ? [{ process: of, text: answer }] : [],
      )
    },
  }
  return {
    place: { ...(await begun.promise), siblings },
    stopped: stopped.promise,
    serve({ facts, owner }, given) {
      services = given
      send({ kind: 'serving', facts, owner })
    },
    fail: (error, exitCode) => void send({ kind: 'failed', reason: reasonOf(error), exitCode }),
    leave() {
      process.removeAllListeners('disconnect')
      process.disconnect!()
    },
  }
}

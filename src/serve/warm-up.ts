// Before a gateway is ready it makes calls of its own: to a second gateway of the same code, whose tables are in memory,
// whose one provider is the simulator, and which ends with the last of them. The compiler learns from them; the gateway's
// own ledger, logs, figures, traces and webhooks see none of it.

import { issueKey, type KeyRights, unlimited } from '../accounts/account.ts'
import { settledWithin } from '../async/async.ts'
import { loadConfig, rereadConfig } from '../config/config.ts'
import { usd } from '../credits/money.ts'
import { createLog, type Log } from '../observe/log.ts'
import { openInMemory } from '../store/open.ts'
import type { Store } from '../store/store.ts'
import { liveOf } from './gateway/catalog.ts'
import { consoleSettingsOf } from './gateway/configuration.ts'
import { createGateway, type Gateway } from './gateway/gateway.ts'

export interface WarmUp {
  /** No call begins, and nothing is waited for, after so many milliseconds. */
  readonly forMs: number
  /** Whether a client waits already: then no more calls are made. */
  readonly isInterrupted: () => boolean
  /** Of the gateway that starts; a warm-up that fails is worth no more than a line of it. */
  readonly log: Pick<Log, 'debug'>
  /** Put together in place of `rehearsalGateway`, by tests. */
  readonly prepare?: () => Promise<Rehearsal>
}

/** A gateway to make calls to, and the key for them. */
export interface Rehearsal extends Pick<Gateway, 'fetch'> {
  readonly key: string
  close(): Promise<void>
}

/** Calls at one time: a group of the ledger has several, and the last ones are soon over. */
const atOnce = 4

/** Makes calls until the time is over or somebody waits. Resolves with how many were answered. Never rejects. */
export async function warmUp({
  forMs,
  isInterrupted,
  log,
  prepare = rehearsalGateway,
}: WarmUp): Promise<number> {
  const until = performance.now() + forMs
  let answered = 0
  const rehearse = async () => {
    const rehearsal = await prepare()
    let begun = 0
    const callOn = async () => {
      while (performance.now() < until && !isInterrupted()) {
        await call(rehearsal, usualCalls[begun++ % usualCalls.length]!)
        answered++
      }
    }
    try {
      await Promise.all(Array.from({ length: atOnce }, callOn))
    } finally {
      await rehearsal.close()
    }
  }
  const done = rehearse().catch((error: unknown) => log.debug('the warm-up has failed', { error }))
  await settledWithin(forMs, done)
  return answered
}

/** What clients ask most, by path. */
const usualCalls: readonly (readonly [path: string, body: object])[] = [false, true].map((stream) => [
  '/v1/chat/completions',
  {
    model: 'sim/echo',
    messages: [{ role: 'user', content: 'Say something about the river, please.' }],
    max_tokens: 128,
    stream,
  },
])

const host = 'localhost'

/** Makes one call and reads the answer to its end. Rejects if it is refused. */
async function call(rehearsal: Rehearsal, [path, body]: (typeof usualCalls)[number]): Promise<void> {
  const response = await rehearsal.fetch(
    new Request(`http://${host}${path}`, {
      method: 'POST',
      headers: { host, authorization: `Bearer ${rehearsal.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  )
  const text = await response.text()
  if (!response.ok) throw new Error(text)
}

const nothing = () => undefined

/** A gateway of the default configuration, with an account that has credit, all of it in memory. */
async function rehearsalGateway(): Promise<Rehearsal> {
  const inputs = { flags: {}, env: {}, cwd: '/' }
  const loaded = loadConfig({ ...inputs, readFile: nothing })
  if (loaded.kind === 'faulty') throw new Error('the default configuration is faulty')
  const { config } = loaded
  const store = openInMemory({ clock: Date.now })
  try {
    const sink = { terminal: false, write: (line: () => string) => void line(), waiting: () => 0 }
    const gateway = createGateway({
      config,
      store,
      // The simulator's models are in every catalog.
      live: liveOf(config, [], { date: '', sources: [], models: [], unpriced: [] }),
      reread: rereadConfig(loaded, inputs),
      kept: consoleSettingsOf(store.settings, config),
      log: createLog(config.log, { sink, clock: Date.now, secrets: [] }),
      clock: Date.now,
      owner: 'warm-up',
      traces: undefined,
      server: nothing,
      warming: () => false,
    })
    const close = async () => {
      gateway.close()
      await store.close()
    }
    return { fetch: gateway.fetch, key: await keyWithCredit(store), close }
  } catch (error) {
    await store.close()
    throw error
  }
}

async function keyWithCredit({ accounts, ledger }: Store): Promise<string> {
  const { id: account } = await accounts.createAccount('warm-up@localhost', { role: 'user' })
  await ledger.grant({
    source: 'warm-up',
    account,
    pool: 'purchased',
    amount: usd('1000'),
    expiresAt: 'never',
    from: 'grant',
  })
  const rights: KeyRights = {
    ...unlimited,
    account,
    name: 'warm-up',
    mode: 'live',
    group: null,
    sees: 'own',
  }
  return (await issueKey(accounts, rights, Date.now())).text
}

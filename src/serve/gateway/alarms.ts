// Looks once a minute at what operators want to be told of, and tells them: by mail and by a webhook, as the configuration
// in force says. While it names nobody, nothing is looked at. One process does it: the one that leads.

import { startOfDay } from '../../credits/calendar.ts'
import { scopeOf, windowAt } from '../../accounts/group.ts'
import type { Mail } from '../../accounts/identity/mail.ts'
import type { Config } from '../../config/config.ts'
import { formatUsd, type Pico } from '../../credits/money.ts'
import type { Awaitable } from '../../async/async.ts'
import type { HttpParts } from '../../http/parts.ts'
import {
  alarmBody,
  type AlarmFinding,
  type AlarmKind,
  alarmMail,
  type Episode,
  Episodes,
  frozenKeys,
  type Look,
  notes,
  type Owed,
  RefusalRate,
  shareReached,
  type SpendOfStretch,
  suddenSpend,
} from '../../notify/alarms.ts'
import type { CallTotals, RecentCalls } from '../../notify/watch.ts'
import type { Log } from '../../observe/log.ts'
import { signatureHeaders } from '../../payments/processor.ts'
import type { Store } from '../../store/store.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'

type AlarmConfig = Config['alarms']

interface AlarmParts {
  readonly settings: () => AlarmConfig
  readonly store: Pick<Store, 'upkeep' | 'figures' | 'spending' | 'groups' | 'ledger' | 'acts'>
  /** The providers that are asked, and how each is. */
  readonly providers: () => ReturnType<HttpParts['chat']['providers']['values']>
  readonly healthOf: HttpParts['healthOf']
  readonly audit: HttpParts['audit']
  readonly logExport: HttpParts['logExport']
  /** Of all calls since some moment, which stays the same. */
  readonly totals: () => Awaitable<CallTotals>
  /** The accounts that have spent something since it was asked last. */
  readonly spenders: () => Awaitable<ReadonlySet<string>>
  readonly send: SendAlarm
  readonly log: Pick<Log, 'info' | 'warn'>
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** Tells one channel of an episode. Rejects with a reason that an operator can read. */
export type SendAlarm = (owed: Owed) => Promise<void>

const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000] as const
/** The messages of one look; the rest follow with the next. */
const mostTold = 20
/** Accounts that one look asks about; those beyond are asked about when they spend again. */
const mostSpenders = 500
const groupsAtOnce = 200
/** Keys frozen within a day that are told of. */
const mostFrozen = 100
/** How long a queue must have been too long, and a log not been sent. */
const stuckMs = 10 * minuteMs
/** When, after midnight UTC, the day before is audited. */
const auditAfterMs = 30 * minuteMs
/** Weeks that spending is held against. */
const weeks = [1, 2, 3, 4] as const

export class Alarms {
  readonly #parts: AlarmParts
  #episodes: Episodes | undefined
  #refusals: RefusalRate | undefined
  /** What each hour since four weeks has cost, US dollars, by the number of hours since 1970. */
  #hours = new Map<number, number>()
  /** What the last look has seen; what was before the first one is of no known hour. */
  #costUsd: number | undefined
  #refusedBefore: ReadonlyMap<string, number> | undefined
  #auditing = false
  #looking: Promise<void> | undefined
  #nextAt = 0
  #isFailing = false
  /** Whether the database knows the episodes as they are; if not, the next look tells it. */
  #isNoted = true

  constructor(parts: AlarmParts) {
    this.#parts = parts
  }

  /** Looks if it is time to, and nobody looks now. Never rejects. */
  look(): Promise<void> {
    const { now, settings, log } = this.#parts
    if (now() < this.#nextAt || channelsOf(settings()).length === 0) return Promise.resolve()
    this.#looking ??= this.#look()
      .catch((error: unknown) =>
        log.warn('alarms could not be looked at; the next look tries again', { error }),
      )
      .finally(() => {
        this.#nextAt = now() + settings().every_ms
        this.#looking = undefined
      })
    return this.#looking
  }

  async #look(): Promise<void> {
    const { store, settings, now } = this.#parts
    const episodes = (this.#episodes ??= new Episodes(await episodesIn(store.upkeep), now()))
    const found = await this.#findings(settings(), now())
    if (episodes.onLook(found, now())) this.#isNoted = false
    if (!this.#isNoted) await this.#note(episodes)
    await this.#tell(episodes)
    this.#auditYesterday(settings(), now()).catch(() => undefined)
  }

  async #note(episodes: Episodes): Promise<void> {
    const { store, now } = this.#parts
    this.#isNoted = false
    await store.upkeep.keepNote({ name: notes.alarms, at: now(), value: { episodes: episodes.all } })
    this.#isNoted = true
  }

  /** Whoever could not be told is told with the next look. */
  async #tell(episodes: Episodes): Promise<void> {
    const { settings, send, log } = this.#parts
    const channels = channelsOf(settings())
    let failure: unknown
    for (const owed of episodes.messagesFor(channels).slice(0, mostTold)) {
      try {
        await send(owed)
        log.info('an alarm was told', {
          alarm: owed.episode.alarm,
          subject: owed.episode.subject,
          what: owed.what,
        })
        episodes.onTold(owed, channels)
        await this.#note(episodes)
      } catch (error) {
        failure = error
      }
    }
    if (failure !== undefined && !this.#isFailing)
      log.warn('an alarm could not be told; it is tried again', { error: failure })
    this.#isFailing = failure !== undefined
  }

  async #findings(settings: AlarmConfig, at: number): Promise<Look> {
    const findings: AlarmFinding[] = []
    const unknown = new Set<AlarmKind>()
    const sources: [AlarmKind, () => Promise<readonly (AlarmFinding | undefined)[]>][] = [
      ['provider_down', () => this.#providers(settings)],
      ['budget_reached', () => this.#budgets(settings, at)],
      ['sudden_spend', () => this.#spending(settings, at)],
      ['refusals_rising', () => this.#risingRefusals(settings, at)],
      ['ledger_not_clean', () => this.#audits(settings)],
      ['key_frozen', () => this.#frozenKeys(at)],
      ['disk_nearly_full', () => this.#disk(settings)],
      ['webhooks_waiting', () => this.#webhooks(settings)],
      ['log_not_sent', () => this.#exports()],
    ]
    for (const [kind, look] of sources) {
      try {
        findings.push(...(await look()).filter((found) => found !== undefined))
      } catch (error) {
        // What cannot be looked at is not over.
        unknown.add(kind)
        this.#parts.log.warn('an alarm could not be looked at', { alarm: kind, error })
      }
    }
    return { findings, unknown }
  }

  async #providers({ provider_down_ms: holdMs }: AlarmConfig): Promise<readonly AlarmFinding[]> {
    if (holdMs === 0) return []
    const { providers, healthOf } = this.#parts
    const seen = await Promise.all(
      [...providers()].map(async (provider) => ({ provider, health: await healthOf(provider, '') })),
    )
    return seen
      .filter(({ health }) => health.state === 'unavailable')
      .map(({ provider: { id, name }, health: { lastError } }) => ({
        alarm: 'provider_down',
        subject: id,
        text: `${name} (${id}) does not answer`,
        data: { provider: id, error: lastError?.code ?? null, reason: lastError?.reason ?? null },
        holdMs,
        until: null,
      }))
  }

  async #budgets(settings: AlarmConfig, at: number): Promise<readonly AlarmFinding[]> {
    const { store, spenders } = this.#parts
    const spent = await spenders()
    const { start, end } = windowAt('month', 'UTC', at)
    const findings: AlarmFinding[] = []
    const { installation_month_usd: ofAll, account_month_usd: ofAccount, shares } = settings
    if (ofAll !== undefined) {
      const usd = await store.spending.ofInstallation(start, at)
      findings.push(
        ...budgetFinding('installation', 'The installation', usd, Number(ofAll), shares, { start, end }),
      )
    }
    if (ofAccount !== undefined) {
      for (const account of [...spent].slice(0, mostSpenders)) {
        const usd = await store.spending.ofAccount(account, start, at)
        const name = `Account ${account}`
        findings.push(...budgetFinding(account, name, usd, Number(ofAccount), shares, { start, end }))
        await nextTurn()
      }
    }
    for await (const group of this.#groups()) {
      if (group.budget === null || group.warnAt.length === 0) continue
      const window = windowAt(group.window, group.timezone, at)
      const [spend] = await store.ledger.budgetSpend([
        { scope: scopeOf(group.id), windowStart: window.start },
      ])
      const [usd, budget] = [usdOf(spend?.spent ?? 0n), usdOf(group.budget)]
      const name = `Group ${group.name} (${group.id})`
      findings.push(...budgetFinding(group.id, name, usd, budget, group.warnAt, window))
    }
    return findings
  }

  async *#groups() {
    for (let after: string | undefined; ;) {
      const page = await this.#parts.store.groups.pageGroups({ limit: groupsAtOnce, after })
      yield* page.groups
      if (page.next === null) return
      after = page.next
      await nextTurn()
    }
  }

  /** Adds what was spent since the last look to its hour, and holds hour and day against the last four weeks. */
  async #spending(
    { sudden_spend_factor: factor, sudden_spend_least_usd: least }: AlarmConfig,
    at: number,
  ): Promise<readonly (AlarmFinding | undefined)[]> {
    const { store, totals } = this.#parts
    if (this.#hours.size === 0) this.#hours = await hoursIn(store.upkeep)
    const hour = Math.floor(at / hourMs)
    const { costUsd } = await totals()
    const added = costUsd - (this.#costUsd ?? costUsd)
    this.#costUsd = costUsd
    this.#hours.set(hour, (this.#hours.get(hour) ?? 0) + added)
    for (const old of this.#hours.keys()) if (old < hour - 7 * 24 * weeks.length) this.#hours.delete(old)
    await store.upkeep.keepNote({
      name: notes.spending,
      at,
      value: { hours: Object.fromEntries(this.#hours) },
    })
    const day = startOfDay(at)
    const sums = await store.spending.ofDays([day, ...weeks.map((week) => day - week * 7 * dayMs)])
    const stretches: SpendOfStretch[] = [
      {
        stretch: 'hour',
        spent: this.#hours.get(hour)!,
        before: weeks.flatMap((week) => this.#hours.get(hour - week * 7 * 24) ?? []),
      },
      {
        stretch: 'day',
        spent: sums.get(day) ?? 0,
        before: weeks.flatMap((week) => sums.get(day - week * 7 * dayMs) ?? []),
      },
    ]
    return stretches.map((each) => suddenSpend(each, { factor, least: Number(least) }))
  }

  async #risingRefusals(
    { refusals_factor: factor, refusals_least: least }: AlarmConfig,
    at: number,
  ): Promise<readonly (AlarmFinding | undefined)[]> {
    const { store, totals } = this.#parts
    this.#refusals ??= await refusalsIn(store.upkeep, at)
    const { refusals } = await totals()
    const now = new Map([...refusals].filter(([code]) => !ofStrangers.has(code)))
    const before = this.#refusedBefore ?? now
    this.#refusedBefore = now
    const added = [...now].map(([code, times]) => [code, times - (before.get(code) ?? 0)] as const)
    this.#refusals.add(
      added.reduce((sum, [, times]) => sum + times, 0),
      at,
    )
    await store.upkeep.keepNote({ name: notes.refusals, at, value: { counts: this.#refusals.counts } })
    const [mostly] = added.toSorted(([, a], [, b]) => b - a)[0] ?? ['']
    return [this.#refusals.finding({ factor, least }, mostly)]
  }

  async #audits({ audit }: AlarmConfig): Promise<readonly AlarmFinding[]> {
    if (!audit) return []
    const { upkeep } = this.#parts.store
    const last = [await upkeep.findNote(notes.audit), await upkeep.findNote(notes.auditOfDay)]
    return last.flatMap((note) => {
      if (note === undefined || note.value['ok'] === true) return []
      const { broken, detail, day = null } = note.value
      return {
        alarm: 'ledger_not_clean',
        subject: note.name,
        text: `The ledger does not hold: ${String(broken)} (weir ledger audit tells more)`,
        data: { broken, detail, day, audited_at: new Date(note.at).toISOString() },
        holdMs: 0,
        until: null,
      }
    })
  }

  /** The log of acts is what all processes have frozen, and it outlives them. */
  async #frozenKeys(at: number): Promise<readonly AlarmFinding[]> {
    const { acts } = this.#parts.store
    const lately = { operator: 'weir', from: at - dayMs + 1 }
    const frozen = await acts.page(mostFrozen, undefined, { ...lately, what: 'key.freeze' })
    const revoked = await acts.page(mostFrozen, undefined, { ...lately, what: 'management_key.revoke' })
    return frozenKeys([...frozen, ...revoked].toSorted((a, b) => a.at - b.at))
  }

  async #disk({ disk_free_percent: least }: AlarmConfig): Promise<readonly AlarmFinding[]> {
    const { diskBytes, diskFreeBytes } = await this.#parts.store.figures()
    if (diskBytes === 0 || 100 * diskFreeBytes >= diskBytes * least) return []
    const percent = Math.floor((100 * diskFreeBytes) / diskBytes)
    return [
      {
        alarm: 'disk_nearly_full',
        subject: 'data directory',
        text: `The disk of the database is nearly full: ${percent} % are free`,
        data: { free_bytes: diskFreeBytes, bytes: diskBytes },
        holdMs: 0,
        until: null,
      },
    ]
  }

  async #webhooks({ webhooks_waiting: most }: AlarmConfig): Promise<readonly AlarmFinding[]> {
    const { webhooksWaiting } = await this.#parts.store.figures()
    if (most === 0 || webhooksWaiting <= most) return []
    return [
      {
        alarm: 'webhooks_waiting',
        subject: 'webhooks',
        text: `${webhooksWaiting} messages to webhooks wait to be taken`,
        data: { waiting: webhooksWaiting },
        holdMs: stuckMs,
        until: null,
      },
    ]
  }

  async #exports(): Promise<readonly AlarmFinding[]> {
    const state = await this.#parts.logExport()
    if (state === undefined || state.error === null) return []
    return [
      {
        alarm: 'log_not_sent',
        subject: 'request log',
        text: `The request log cannot be sent: ${state.error}`,
        data: { rows_waiting: state.waiting, error: state.error },
        holdMs: stuckMs,
        until: null,
      },
    ]
  }

  /** Once a day, beside the calls: an audit that nobody makes finds nothing. */
  async #auditYesterday({ audit }: AlarmConfig, at: number): Promise<void> {
    const today = startOfDay(at)
    if (!audit || this.#auditing || at - today < auditAfterMs) return
    const last = await this.#parts.store.upkeep.findNote(notes.auditOfDay)
    if (last !== undefined && last.at >= today) return
    this.#auditing = true
    try {
      await this.#parts.audit(today - dayMs)
    } finally {
      this.#auditing = false
    }
  }
}

/** Whoever finds the gateway on the internet knocks at all doors: that alone is no alarm. */
const ofStrangers: ReadonlySet<string> = new Set([
  'not_found',
  'not_signed_in',
  'method_not_allowed',
  'missing_api_key',
])

function budgetFinding(
  subject: string,
  name: string,
  spentUsd: number,
  budgetUsd: number,
  shares: readonly number[],
  { start, end }: { readonly start: number; readonly end: number | null },
): readonly AlarmFinding[] {
  const share = shareReached(spentUsd, budgetUsd, shares)
  if (share === undefined) return []
  const percent = Math.round(share * 100)
  return [
    {
      alarm: 'budget_reached',
      subject: `${subject} ${start} ${share}`,
      text: `${name} has spent ${percent} % of its budget: ${spentUsd.toFixed(2)} of ${budgetUsd.toFixed(2)} USD`,
      data: {
        of: subject,
        share,
        spent_usd: spentUsd.toFixed(2),
        budget_usd: budgetUsd.toFixed(2),
        resets_at: end === null ? null : new Date(end).toISOString(),
      },
      holdMs: 0,
      until: end,
    },
  ]
}

function usdOf(amount: Pico): number {
  return Number(formatUsd(amount))
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

// What is noted.

export async function episodesIn(upkeep: Pick<Store['upkeep'], 'findNote'>): Promise<readonly Episode[]> {
  const note = await upkeep.findNote(notes.alarms)
  return (note?.value['episodes'] ?? []) as readonly Episode[]
}

async function hoursIn(upkeep: Pick<Store['upkeep'], 'findNote'>): Promise<Map<number, number>> {
  const note = await upkeep.findNote(notes.spending)
  const hours = (note?.value['hours'] ?? {}) as Readonly<Record<string, number>>
  return new Map(Object.entries(hours).map(([hour, usd]) => [Number(hour), usd]))
}

async function refusalsIn(upkeep: Pick<Store['upkeep'], 'findNote'>, now: number): Promise<RefusalRate> {
  const note = await upkeep.findNote(notes.refusals)
  return new RefusalRate((note?.value['counts'] ?? []) as readonly number[], note?.at ?? now, now)
}

// Who is told.

const webhookChannel = 'webhook'
const mailChannel = 'mail:'

export function channelsOf({ mail, webhook }: AlarmConfig): readonly string[] {
  return [
    ...mail.map((address) => `${mailChannel}${address}`),
    ...(webhook.url === undefined ? [] : [webhookChannel]),
  ]
}

const sendMs = 15_000
const mostAnswerBytes = 65_536

/** Sends as the configuration in force says. */
export function alarmSender(parts: {
  readonly settings: () => AlarmConfig
  /** Undefined without a mail server. */
  readonly mailer: () => { send(mail: Mail): Promise<void> } | undefined
  /** The gateway's address, for people. */
  readonly gateway: () => string
  readonly now: () => number
}): SendAlarm {
  return async (owed) => {
    if (owed.channel !== webhookChannel) {
      const mailer = parts.mailer()
      if (mailer === undefined) throw new Error('there is no mail server: set mail.smtp_url')
      return mailer.send({ to: owed.channel.slice(mailChannel.length), ...alarmMail(owed, parts.gateway()) })
    }
    const { url, secret } = parts.settings().webhook
    const body = alarmBody(owed)
    const id = `${owed.episode.id}_${owed.what}`
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'Weir',
      'webhook-id': id,
      ...(secret === undefined ? {} : signatureHeaders(secret, id, parts.now(), body)),
    }
    const signal = AbortSignal.timeout(sendMs)
    const init = { method: 'POST', headers, body, signal, redirect: 'manual' } as const
    const answer = await fetchBounded(url!, init, mostAnswerBytes)
    await answer.body?.cancel().catch(() => undefined)
    if (!answer.ok) throw new Error(`the webhook of alarms answered ${answer.status}`)
  }
}

const lookEveryMs = 1_000

/** Looks again and again while this process leads, until it is stopped. What another one has told meanwhile is read first. */
export function keepLooking(alarmsOf: () => Alarms, leads: () => boolean): { stop(): void } {
  let alarms: Alarms | undefined
  const timer = setInterval(() => {
    if (leads()) void (alarms ??= alarmsOf()).look()
    else alarms = undefined
  }, lookEveryMs)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}

/** Rows of another gateway are there after so long, milliseconds. */
const lateMs = 5_000
/** Whoever has not asked for so long did not lead meanwhile, milliseconds. */
const longestMs = 600_000

/** Adds up what calls have cost, and their refusals, of all gateways. */
export function totalsOfAll(
  recent: Pick<RecentCalls, 'totals'>,
  now: () => number,
): () => Promise<CallTotals> {
  const refusals = new Map<string, number>()
  let costUsd = 0
  let until: number | undefined
  return async () => {
    const end = now() - lateMs
    const from = Math.max(until ?? end, end - longestMs)
    if (end > from) {
      const added = await recent.totals(from, end)
      costUsd += added.costUsd
      for (const [code, times] of added.refusals) refusals.set(code, (refusals.get(code) ?? 0) + times)
    }
    until = Math.max(from, end)
    return { costUsd, refusals: new Map(refusals) }
  }
}

// Alarms for operators: what is wrong now becomes an episode, of which they are told once when it begins and once when it
// is over. Episodes are noted in the database: a restart announces none of them again. Pure, but for who is told.

import { randomBytes } from 'node:crypto'
import type { Awaitable } from '../async/async.ts'
import type { AuditReport, DayAudit } from '../credits/ledger/ledger.ts'

/** What operators are told of; `test` by weir alarms test alone. */
const alarmKinds = [
  'provider_down',
  'budget_reached',
  'sudden_spend',
  'refusals_rising',
  'ledger_not_clean',
  'key_frozen',
  'disk_nearly_full',
  'webhooks_waiting',
  'log_not_sent',
  'test',
] as const
export type AlarmKind = (typeof alarmKinds)[number]

/** Something that is wrong now. */
export interface AlarmFinding {
  readonly alarm: AlarmKind
  /** What it is about; with the kind it names the episode. */
  readonly subject: string
  /** One sentence for people. */
  readonly text: string
  readonly data: Readonly<Record<string, unknown>>
  /** How long it must have been so before anybody is told, milliseconds. */
  readonly holdMs: number
  /** What is true until then in any case, such as of a budget's window; its end is not told. Null: while it is found. */
  readonly until: number | null
}

export interface Episode extends Pick<AlarmFinding, 'alarm' | 'subject' | 'text' | 'data' | 'until'> {
  readonly id: string
  /** When it began, milliseconds since 1970. */
  readonly since: number
  /** When it was over; null while it is not. */
  readonly endedAt: number | null
  /** Who was told of its beginning, and of its end. */
  readonly toldOf: readonly string[]
  readonly toldOfEnd: readonly string[]
}

/** What one look has found. */
export interface Look {
  readonly findings: readonly AlarmFinding[]
  /** Kinds that could not be looked at: their episodes stay as they are. */
  readonly unknown: ReadonlySet<AlarmKind>
}

/** What has not been so for this long is over, milliseconds. */
const overAfterMs = 5 * 60_000
/** Whoever could not be told of an episode's end for so long is not told any more, milliseconds. */
const forgottenAfterMs = 86_400_000
export const mostEpisodes = 500

/** The episodes of a gateway, and since when what was found is so. */
export class Episodes {
  #episodes: readonly Episode[]
  /** When each finding was first and last seen in a row, by its name. */
  readonly #seen = new Map<string, { readonly first: number; last: number }>()

  constructor(episodes: readonly Episode[], now: number) {
    this.#episodes = episodes
    for (const episode of episodes) this.#seen.set(nameOf(episode), { first: episode.since, last: now })
  }

  get all(): readonly Episode[] {
    return this.#episodes
  }

  /** Begins and ends episodes. Returns whether anything has changed. */
  onLook({ findings, unknown }: Look, now: number): boolean {
    const before = this.#episodes
    const found = new Map(findings.map((finding) => [nameOf(finding), finding]))
    for (const name of found.keys()) {
      const seen = this.#seen.get(name)
      if (seen === undefined) this.#seen.set(name, { first: now, last: now })
      else seen.last = now
    }
    const kept = before.flatMap((episode) => this.#stillThere(episode, unknown, now))
    const open = new Set(kept.filter(({ endedAt }) => endedAt === null).map(nameOf))
    const begun = findings.filter((finding) => {
      const name = nameOf(finding)
      return !open.has(name) && now - this.#seen.get(name)!.first >= finding.holdMs
    })
    for (const [name, { last }] of this.#seen)
      if (now - last > overAfterMs && !open.has(name)) this.#seen.delete(name)
    const room = Math.max(0, mostEpisodes - kept.length)
    this.#episodes = [
      ...kept,
      ...begun.slice(0, room).map(({ alarm, subject, text, data, until }) => ({
        id: `alarm_${randomBytes(9).toString('hex')}`,
        alarm,
        subject,
        text,
        data,
        until,
        since: now,
        endedAt: null,
        toldOf: [],
        toldOfEnd: [],
      })),
    ]
    return this.#episodes.length !== before.length || this.#episodes.some((each, at) => each !== before[at])
  }

  #stillThere(episode: Episode, unknown: ReadonlySet<AlarmKind>, now: number): readonly Episode[] {
    if (episode.endedAt !== null) return now - episode.endedAt > forgottenAfterMs ? [] : [episode]
    if (episode.until !== null) {
      if (now < episode.until) return [episode]
      this.#seen.delete(nameOf(episode))
      return []
    }
    const seen = this.#seen.get(nameOf(episode))
    if (unknown.has(episode.alarm) && seen !== undefined) seen.last = now
    if (now - (seen?.last ?? episode.since) < overAfterMs) return [episode]
    this.#seen.delete(nameOf(episode))
    return [{ ...episode, endedAt: now }]
  }

  /** What each of these is to be told, the oldest first. */
  messagesFor(channels: readonly string[]): readonly Owed[] {
    return this.#episodes.flatMap((episode) =>
      channels.flatMap((channel): Owed[] => {
        if (!episode.toldOf.includes(channel)) return [{ channel, episode, what: 'began' }]
        if (episode.endedAt === null || episode.toldOfEnd.includes(channel)) return []
        return [{ channel, episode, what: 'ended' }]
      }),
    )
  }

  /** Notes that somebody was told; what everybody knows is over is forgotten. */
  onTold({ channel, episode: { id }, what }: Owed, channels: readonly string[]): void {
    this.#episodes = this.#episodes.flatMap((episode) => {
      if (episode.id !== id) return [episode]
      const told =
        what === 'began'
          ? { ...episode, toldOf: [...episode.toldOf, channel] }
          : { ...episode, toldOfEnd: [...episode.toldOfEnd, channel] }
      const isOver = told.endedAt !== null && channels.every((each) => told.toldOfEnd.includes(each))
      return isOver ? [] : [told]
    })
  }
}

export interface Owed {
  readonly channel: string
  readonly episode: Episode
  readonly what: 'began' | 'ended'
}

function nameOf({ alarm, subject }: Pick<AlarmFinding, 'alarm' | 'subject'>): string {
  return `${alarm} ${subject}`
}

// What is told.

/** The JSON that a webhook gets. */
export function alarmBody({ episode, what }: Pick<Owed, 'episode' | 'what'>): string {
  const { id, alarm, subject, text, data, since, endedAt } = episode
  const at = what === 'began' ? since : endedAt!
  return JSON.stringify({
    type: `alarm.${what}`,
    timestamp: new Date(at).toISOString(),
    data: {
      id,
      alarm,
      subject,
      text,
      since: new Date(since).toISOString(),
      ended_at: what === 'began' || endedAt === null ? null : new Date(endedAt).toISOString(),
      details: data,
    },
  })
}

/** The subject and the text of a mail. */
export function alarmMail(
  { episode, what }: Pick<Owed, 'episode' | 'what'>,
  gateway: string,
): { readonly subject: string; readonly text: string } {
  const { alarm, text, data, since, endedAt } = episode
  const began = new Date(since).toISOString()
  const times =
    what === 'began'
      ? `Since ${began}. You are told once more when it is over.`
      : `It began at ${began} and was over at ${new Date(endedAt!).toISOString()}.`
  const facts = Object.entries(data).map(([name, value]) => `${name}: ${String(value)}`)
  const head = what === 'began' ? text : `Over: ${text}`
  return {
    subject: `Weir${what === 'began' ? '' : ', over'}: ${text}`.replace(/\s+/g, ' ').slice(0, 200),
    text: `${head}\n\n${episode.until === null ? times : `Since ${began}.`}\n\n${facts.join('\n')}\n\nGateway: ${gateway}\nAlarm: ${alarm} (${episode.id})\n`,
  }
}

// What may be wrong: figures against limits. Pure.

/** The spending of one hour or day, and of the same ones in the last four weeks, US dollars. */
export interface SpendOfStretch {
  readonly stretch: 'hour' | 'day'
  readonly spent: number
  readonly before: readonly number[]
}

/** Fewer of them say too little of what is usual. */
const leastSamples = 2

/** Whether spending is far above what is usual at this time of the week. */
export function suddenSpend(
  { stretch, spent, before }: SpendOfStretch,
  { factor, least }: { readonly factor: number; readonly least: number },
): AlarmFinding | undefined {
  if (factor === 0 || before.length < leastSamples) return undefined
  const usual = before.reduce((sum, each) => sum + each, 0) / before.length
  if (spent <= usual * factor || spent - usual < least) return undefined
  const usd = (amount: number) => amount.toFixed(2)
  return {
    alarm: 'sudden_spend',
    subject: stretch,
    text: `${usd(spent)} USD were spent this ${stretch}; usual at this time of the week are ${usd(usual)} USD`,
    data: { spent_usd: usd(spent), usual_usd: usd(usual), weeks: before.length },
    holdMs: 0,
    until: null,
  }
}

const stretchMs = 5 * 60_000
/** A quarter of an hour, which is held against the day before it. */
const stretchesNow = 3
const stretchesKept = 288 + stretchesNow
/** With less of a past nothing is called a rise: an hour. */
const leastStretches = 12

/** Refusals in stretches of five minutes. */
export class RefusalRate {
  /** The newest last; each begins at a multiple of five minutes. */
  #counts: number[]
  #stretch: number

  constructor(counts: readonly number[], at: number, now: number) {
    this.#counts = [...counts]
    this.#stretch = Math.floor(at / stretchMs)
    this.#moveTo(now)
  }

  get counts(): readonly number[] {
    return this.#counts
  }

  add(times: number, now: number): void {
    this.#moveTo(now)
    this.#counts[this.#counts.length - 1]! += times
  }

  #moveTo(now: number): void {
    const stretch = Math.floor(now / stretchMs)
    if (this.#counts.length === 0) this.#counts.push(0)
    for (let more = Math.min(stretch - this.#stretch, stretchesKept); more > 0; more--) this.#counts.push(0)
    this.#stretch = Math.max(stretch, this.#stretch)
    this.#counts = this.#counts.slice(-stretchesKept)
  }

  /** Whether there are far more refusals than in the last day; `mostly` is the code of most of them. */
  finding(
    { factor, least }: { readonly factor: number; readonly least: number },
    mostly: string,
  ): AlarmFinding | undefined {
    const now = this.#counts.slice(-stretchesNow).reduce((sum, each) => sum + each, 0)
    const past = this.#counts.slice(0, -stretchesNow)
    if (factor === 0 || past.length < leastStretches || now < least) return undefined
    const usual = (past.reduce((sum, each) => sum + each, 0) / past.length) * stretchesNow
    if (now <= usual * factor) return undefined
    return {
      alarm: 'refusals_rising',
      subject: 'refusals',
      text: `${now} requests were refused in a quarter of an hour, mostly with ${mostly}; usual are ${Math.round(usual)}`,
      data: { refused: now, usual: Math.round(usual), mostly },
      holdMs: 0,
      until: null,
    }
  }
}

const dayMs = 86_400_000

/** What was frozen or revoked because it has leaked, as the log of acts has it; told for a day. */
export function frozenKeys(acts: readonly KeyAct[]): readonly AlarmFinding[] {
  return acts.map(({ at, what, subject: account, before, after }) => {
    const { key, name } = before as { readonly key: string; readonly name: string }
    const isManagement = what !== 'key.freeze'
    const reason = isManagement ? 'leak' : (after as { readonly paused_by: string }).paused_by
    const why =
      reason === 'networks' ? 'was used from too many networks' : 'was reported by whoever has found it'
    return {
      alarm: 'key_frozen',
      subject: key,
      text: `${isManagement ? 'Management key' : 'Key'} ${JSON.stringify(name)} of ${account} ${why}: it is ${isManagement ? 'revoked' : 'frozen'}`,
      data: { key, name, account, reason, frozen_at: new Date(at).toISOString() },
      holdMs: 0,
      until: at + dayMs,
    }
  })
}

/** A row of the log of acts. */
interface KeyAct {
  readonly at: number
  readonly what: string
  readonly subject: string
  readonly before: unknown
  readonly after: unknown
}

/** The highest of these shares of a budget that is spent; undefined if none is. */
export function shareReached(
  spentUsd: number,
  budgetUsd: number,
  shares: readonly number[],
): number | undefined {
  return shares.toSorted((a, b) => a - b).findLast((share) => spentUsd >= budgetUsd * share)
}

// What the gateway notes of its own upkeep: when it was audited and backed up last, how far its log was sent, which alarms
// are open. A note has a name and replaces the one before it.

export interface UpkeepNote {
  readonly name: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly value: Readonly<Record<string, unknown>>
}

export interface UpkeepStore {
  findNote(name: string): Awaitable<UpkeepNote | undefined>
  /** Throws `store_unavailable`. A power cut may take the latest notes. */
  keepNote(note: UpkeepNote): Awaitable<void>
}

/** The names of notes. */
export const notes = {
  audit: 'audit',
  auditOfDay: 'audit of a day',
  backup: 'backup',
  logExport: 'log export',
  alarms: 'alarms',
  spending: 'spending by hour',
  refusals: 'refusals of a day',
} as const

/** What is noted of an audit of the whole ledger, or of the UTC day that began at `day`. */
export function auditNote(
  { ok, checks }: Pick<AuditReport | DayAudit, 'ok' | 'checks'>,
  at: number,
  day?: number,
): UpkeepNote {
  const broken = checks.find((check) => !check.ok)
  const value = { ok, broken: broken?.name ?? null, detail: broken?.detail ?? null }
  if (day === undefined) return { name: notes.audit, at, value }
  return { name: notes.auditOfDay, at, value: { ...value, day: new Date(day).toISOString().slice(0, 10) } }
}

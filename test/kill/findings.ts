// What the clients noted, what the ledger says and what the provider bills, held against each other.

import { parseUsd } from '../../src/credits/money.ts'
import { type BillingProvider, dueOf, roundsOf } from './billing-provider.ts'
import type { Noted } from './load.ts'
import type { ToolServers } from './tool-servers.ts'
import { type CallFailpoint, trials, type Fate } from './trials.ts'

export interface CallRow {
  readonly id: string
  readonly state: string
  readonly charged: bigint | null
  readonly hold: bigint
  readonly ending: string | null
  readonly upstream_id: string | null
  /** Output tokens of its receipt. */
  readonly words: bigint | null
  /** Searches of its receipt. */
  readonly searches: bigint | null
}

/** How one process of the server died. */
export interface Death {
  readonly cause: CallFailpoint | 'any moment'
  /** The call that passed the failpoint; undefined where there is none, and for a point that was not reached. */
  readonly victim: string | undefined
}

export interface Evidence {
  readonly seen: readonly Noted[]
  readonly rows: ReadonlyMap<string, CallRow>
  readonly provider: BillingProvider
  readonly tools: Pick<ToolServers, 'searchesOf'>
  /** By the number of the process. */
  readonly deaths: readonly Death[]
}

export interface Findings {
  /** Everything that must not be, by the process it happened to; -1 where no single one can be named. */
  readonly broken: readonly { readonly process: number; readonly what: string }[]
  /** For each stream that was cut off after some words: how many it had delivered and was not charged for. */
  readonly cutStreams: readonly { readonly process: number; readonly uncharged: number | undefined }[]
  /** Searches that were executed for streams which were cut off, and those of them that were charged. */
  readonly searches: { readonly executed: number; readonly charged: number }
}

export function judge(evidence: Evidence): Findings {
  return new Judge(evidence).findings()
}

class Judge {
  readonly #evidence: Evidence
  readonly #broken: { process: number; what: string }[] = []
  readonly #cutStreams: { process: number; uncharged: number | undefined }[] = []
  readonly #searches = { executed: 0, charged: 0 }

  constructor(evidence: Evidence) {
    this.#evidence = evidence
  }

  findings(): Findings {
    const { seen, rows, provider, deaths } = this.#evidence
    for (const call of seen) this.#call(call)
    for (const row of rows.values()) this.#row(row)
    for (const [process, death] of deaths.entries()) this.#death(process, death)
    this.#chargedOnce()
    // A hold is durable before a byte goes out, so no request came without a row of its own.
    if (provider.requests > rows.size)
      this.#note(-1, `${provider.requests} requests came to the provider for ${rows.size} holds`)
    return { broken: this.#broken, cutStreams: this.#cutStreams, searches: this.#searches }
  }

  #note(process: number, what: string): void {
    this.#broken.push({ process, what })
  }

  #call(call: Noted): void {
    if (call.ending === 'refused') this.#refused(call)
    if (call.ending === 'complete') this.#acknowledged(call)
    if (call.ending === 'broken' && call.plan.stream && call.words > 0) this.#cut(call)
  }

  #acknowledged({ id, plan, cost, process }: Noted): void {
    const row = this.#evidence.rows.get(id)
    const due = dueOf(plan)
    if (row?.state !== 'settled')
      this.#note(process, `the acknowledged call ${id} is ${row?.state ?? 'lost'}`)
    else if (row.charged !== due) this.#note(process, `${id} was charged ${row.charged}, the bill is ${due}`)
    if (parseUsd(cost ?? '') !== row?.charged) this.#note(process, `${id} was shown ${cost} USD`)
  }

  #refused({ id, plan, status, text, process }: Noted): void {
    if (plan.keyed && status === 409) return this.#answerLost(process, text)
    if (plan.words > 0 || status !== 400)
      return this.#note(process, `${plan.nonce} was refused: ${status} ${text}`)
    if (this.#evidence.rows.get(id)?.state !== 'voided')
      this.#note(process, `${id}, which the provider refused, kept its hold`)
  }

  /** Only a call that its process did not live to settle may have lost its answer. */
  #answerLost(process: number, text: string): void {
    const { error } = JSON.parse(text) as { error: { code: string; metadata?: { generation?: string } } }
    const row = this.#evidence.rows.get(error.metadata?.generation ?? '')
    if (error.code !== 'idempotency_answer_lost' || row?.state !== 'settled')
      this.#note(process, `a retry was refused: ${text}`)
    else if (row.ending !== 'recovered') this.#note(process, `${row.id} was settled, and its answer is lost`)
  }

  #cut(call: Noted): void {
    const { id, plan, words, process } = call
    const row = this.#evidence.rows.get(id)
    if (!row || row.state === 'open')
      return this.#note(process, `the cut stream ${id} is ${row?.state ?? 'lost'}`)
    if ((row.charged ?? 0n) > row.hold) return this.#note(process, `${id} was charged beyond its hold`)
    if (plan.uses) this.#searched(call, row)
    const charged = Number(row.words ?? 0n)
    const calls = roundsOf(plan) - (plan.tool ? 0 : 1)
    const most = (plan.words * 1.1 + 1) * roundsOf(plan) + tokensOfCall * calls
    if (charged > most) this.#note(process, `${id} was charged ${charged} words of ${plan.words}`)
    // What a model writes to the gateway's tools, its client does not see.
    const isSeen = plan.gapMs > 0 && roundsOf(plan) === 1
    // A burst is read, passed on and checkpointed in one go; where words take their time the checkpoints do show.
    const uncharged = isSeen ? Math.max(0, words - charged) : undefined
    this.#cutStreams.push({ process, uncharged })
  }

  /** A search that was executed is charged at most once; and when much has been said since, it is. */
  #searched({ id, plan, text, process }: Noted, row: CallRow): void {
    const executed = this.#evidence.tools.searchesOf(plan.nonce)
    const charged = Number(row.searches ?? 0n)
    this.#searches.executed += executed
    this.#searches.charged += charged
    if (charged > executed)
      this.#note(process, `${id} was charged ${charged} searches of ${executed} that there were`)
    if (wordsAfterTools(text) < manyWords || plan.gapMs === 0) return
    const used = text.split('"type":"web_search_call"').length - 1
    if (charged < used) this.#note(process, `${id} was charged ${charged} searches of ${used} that it showed`)
  }

  #row(row: CallRow): void {
    if (row.state === 'open') this.#note(-1, `the call ${row.id} is open for ever`)
    if (row.upstream_id === null) return
    const booked = this.#evidence.provider.bill.get(row.upstream_id)
    if (!booked) this.#note(-1, `${row.id} was charged for ${row.upstream_id}, which never was`)
    else if (row.ending === 'finished' && row.charged !== dueOf(booked.plan))
      this.#note(-1, `${row.id} was charged ${row.charged} for ${booked.words} words`)
  }

  /** No work of the provider is charged twice, nor is what a client asked for, however often it asked. */
  #chargedOnce(): void {
    const { seen, rows, provider } = this.#evidence
    const byWork = new Map<string, string>()
    const byNonce = new Map<string, string>()
    const once = (charged: Map<string, string>, what: string, id: string) => {
      const other = charged.get(what)
      if (other !== undefined && other !== id) this.#note(-1, `${what} was charged twice: ${other} and ${id}`)
      charged.set(what, id)
    }
    for (const { id, upstream_id: work } of rows.values()) {
      if (work === null) continue
      once(byWork, work, id)
      const nonce = provider.bill.get(work)?.plan.nonce
      if (nonce !== undefined) once(byNonce, `call ${nonce}`, id)
    }
    for (const { id, plan } of seen)
      if ((rows.get(id)?.charged ?? 0n) > 0n) once(byNonce, `call ${plan.nonce}`, id)
  }

  #death(process: number, { cause, victim }: Death): void {
    if (cause === 'any moment') return
    if (victim === undefined) return this.#note(process, `${cause} was not reached`)
    const { fate } = trials[cause]
    const row = this.#evidence.rows.get(victim)
    if (!agrees(fate, row))
      this.#note(process, `${victim}, whose process died at ${cause}, should be ${fate}: ${told(row)}`)
  }
}

/** What an estimate may count of a call of a tool beside its words: its name, and the call's. */
const tokensOfCall = 16

/** Words that come so slowly are more than two checkpoints. */
const manyWords = 60

/** Words of the answer that a stream has brought since the last result of a tool. */
function wordsAfterTools(text: string): number {
  const results = Math.max(text.lastIndexOf('"web_search_calls"'), text.lastIndexOf('"mcp_calls"'))
  return results < 0 ? 0 : text.slice(results).split('"delta":{"content"').length - 1
}

function agrees(fate: Fate, row: CallRow | undefined): boolean {
  const recovered = row?.ending === 'recovered'
  switch (fate) {
    case 'unknown':
      return row === undefined
    case 'voided':
      return row?.state === 'voided' && recovered
    case 'recovered':
      return row?.state !== 'open' && recovered
    case 'charged':
      return row?.state === 'settled'
    case 'settled':
      return row?.state === 'settled' && row.ending === 'finished'
    case 'released':
      return row?.state === 'voided' && !recovered
    case 'many':
      return true
    default:
      return fate satisfies never
  }
}

function told(row: CallRow | undefined): string {
  return row ? `it is ${row.state}, ${row.ending}, charged ${row.charged}` : 'there is no such call'
}

// The request log elsewhere: its rows as JSON lines, gzipped, to an S3-compatible store or a webhook, in the order in which
// they were written. How far it has got is noted in the database, and so is each batch before it is sent: after a crash the
// same rows are sent again under the same name. One process sends: the one that leads.

import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { AwsV4Signer } from 'aws4fetch'
import type { Config } from '../../config/config.ts'
import { formatUsd } from '../../credits/money.ts'
import { notes, type UpkeepStore } from '../../notify/alarms.ts'
import type { LoggedRequest, RequestFollower } from '../../observe/call-log.ts'
import type { Log } from '../../observe/log.ts'
import { signatureHeaders } from '../../payments/processor.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'
import type { GatewayProcess } from './process.ts'

type ExportConfig = Config['log']['export']

/** A batch, and what it is called: the same rows have the same name. */
export interface Batch {
  readonly name: string
  /** When the first of its calls ended, milliseconds since 1970. */
  readonly at: number
  readonly body: Uint8Array<ArrayBuffer>
}

/** Resolves when a batch has been taken. Rejects with a reason that an operator can read. */
export type SendBatch = (batch: Batch, signal: AbortSignal) => Promise<void>

interface ExportParts {
  readonly rows: RequestFollower
  readonly upkeep: UpkeepStore
  /** Undefined while nobody takes rows. */
  readonly send: () => SendBatch | undefined
  readonly batchRows: () => number
  readonly everyMs: () => number
  /** Whether the words of requests and answers go with the rows. */
  readonly takesContents: () => boolean
  readonly log: Pick<Log, 'info' | 'warn'>
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** How far it has got: rows up to `cursor` were taken; those up to `until` are being sent. */
interface Progress {
  readonly cursor: number
  readonly until: number | null
  /** When the last batch was taken, milliseconds since 1970. */
  readonly sentAt: number | null
  /** Why the last try failed; null if it did not. */
  readonly error: string | null
}

export interface LogExportState {
  /** About how many rows wait. */
  readonly waiting: number
  readonly sentAt: number | null
  readonly error: string | null
  /** Rows that were taken, and tries that failed, since the start. */
  readonly rows: number
  readonly failures: number
}

const nothingSent: Progress = { cursor: 0, until: null, sentAt: null, error: null }
/** A batch is closed at so many bytes of text. */
const batchBytes = 4 * 1024 ** 2
/** Rows that are read at once, without contents and with them. */
const rowsAtOnce = 250
const longRowsAtOnce = 20
const longestPauseMs = 15 * 60_000
const sendMs = 60_000

export class LogExport {
  readonly #parts: ExportParts
  readonly #stopping = new AbortController()
  #failures = 0
  #nextAt = 0
  #looking: Promise<void> | undefined
  /** Since the start. */
  readonly #counts = { rows: 0, failures: 0 }

  constructor(parts: ExportParts) {
    this.#parts = parts
  }

  /** Sends what is due, unless that is under way. Never rejects. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined))
    return this.#looking
  }

  stop(): void {
    this.#stopping.abort()
  }

  /** How many rows wait, and how it goes; undefined while nobody takes rows. */
  async state(): Promise<LogExportState | undefined> {
    const { send, rows, upkeep } = this.#parts
    if (send() === undefined) return undefined
    return { ...(await exportState(rows, upkeep)), ...this.#counts }
  }

  async #look(): Promise<void> {
    const { send: sender, now, everyMs, log } = this.#parts
    const send = sender()
    if (send === undefined || now() < this.#nextAt || this.#stopping.signal.aborted) return
    this.#nextAt = now() + everyMs()
    let progress = nothingSent
    try {
      progress = await progressOf(this.#parts.upkeep)
      for (let isMore = true; isMore && !this.#stopping.signal.aborted;) {
        const batch = await this.#nextBatch(progress)
        if (batch === undefined) {
          if (progress.until === null) break
          // They are older than the log is kept.
          progress = { ...progress, cursor: progress.until, until: null }
          continue
        }
        progress = { ...progress, ...batch.place }
        await this.#note(progress)
        await send(batch, AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(sendMs)]))
        progress = { cursor: batch.place.until, until: null, sentAt: now(), error: null }
        await this.#note(progress)
        this.#counts.rows += batch.rows
        isMore = batch.isMore
        if (this.#failures > 0) log.info('the request log is sent again', {})
        this.#failures = 0
      }
    } catch (error) {
      if (!this.#stopping.signal.aborted) await this.#onFailed(progress, error)
    }
  }

  async #onFailed(progress: Progress, failure: unknown): Promise<void> {
    const { now, everyMs, log } = this.#parts
    const error = failure instanceof Error ? failure.message : String(failure)
    this.#counts.failures++
    // One line when it begins to fail, and one when it is over.
    if (this.#failures === 0) log.warn('the request log cannot be sent; it is tried again', { error })
    this.#failures++
    this.#nextAt = now() + Math.min(everyMs() * 2 ** Math.min(this.#failures - 1, 20), longestPauseMs)
    try {
      await this.#note({ ...progress, error })
    } catch {
      // The log has said it; the next try begins where the last note says.
    }
  }

  async #note(progress: Progress): Promise<void> {
    await this.#parts.upkeep.keepNote({
      name: notes.logExport,
      at: this.#parts.now(),
      value: { ...progress },
    })
  }

  /** The next rows as one batch; undefined if there are none. */
  async #nextBatch({ cursor, until }: Progress) {
    const { rows: reader, batchRows, takesContents } = this.#parts
    const withContents = takesContents()
    // A log that was emptied counts from the beginning again.
    const from = until === null && cursor > (await reader.lastSeq()) ? 0 : cursor
    const lines: string[] = []
    const most = batchRows()
    let [bytes, last, firstAt] = [0, from, 0]
    let isFull = false
    while (!isFull) {
      const limit = Math.min(
        withContents ? longRowsAtOnce : rowsAtOnce,
        until === null ? most - lines.length : Infinity,
      )
      const page = await reader.pageAfter(last, limit, until ?? undefined)
      for (const row of page) {
        if (lines.length === 0) firstAt = row.at
        const line = `${JSON.stringify(lineOf(row, withContents))}\n`
        lines.push(line)
        bytes += line.length
        last = row.seq
        // A batch that is sent once more has the rows that it had.
        isFull = until === null && (lines.length >= most || bytes >= batchBytes)
        if (isFull) break
      }
      if (page.length < limit) break
      await new Promise((resolve) => setImmediate(resolve))
    }
    if (lines.length === 0) return undefined
    const stamp = new Date(firstAt).toISOString().replace(/[-:]|\.\d+/g, '')
    return {
      name: `${stamp}-${from + 1}-${last}.jsonl.gz`,
      at: firstAt,
      body: await gzip(lines.join('')),
      rows: lines.length,
      isMore: isFull || until !== null,
      place: { cursor: from, until: last },
    }
  }
}

/** The same for whoever sends nothing: of the database alone. */
export async function exportState(
  rows: Pick<RequestFollower, 'lastSeq'>,
  upkeep: Pick<UpkeepStore, 'findNote'>,
): Promise<Pick<LogExportState, 'waiting' | 'sentAt' | 'error'>> {
  const { cursor, sentAt, error } = await progressOf(upkeep)
  const last = await rows.lastSeq()
  return { waiting: last < cursor ? last : last - cursor, sentAt, error }
}

async function progressOf(upkeep: Pick<UpkeepStore, 'findNote'>): Promise<Progress> {
  const note = await upkeep.findNote(notes.logExport)
  return note === undefined ? nothingSent : { ...nothingSent, ...(note.value as Partial<Progress>) }
}

/** A row as it is sent; the words of requests and answers where they are asked for. */
function lineOf(row: LoggedRequest, withContents: boolean): object {
  return {
    request_id: row.requestId,
    at: new Date(row.at).toISOString(),
    account: row.account === '' ? null : row.account,
    key: row.key,
    model: row.model === '' ? null : row.model,
    provider: row.provider,
    stream: row.stream,
    status: row.status,
    code: row.code,
    ending: row.ending,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    cost_usd: formatUsd(row.cost),
    attempts: row.attempts,
    first_byte_ms: row.firstByteMs,
    total_ms: row.totalMs,
    tags: jsonOf(row.tags),
    detail: jsonOf(row.detail),
    ...(withContents && row.contents !== null && { contents: jsonOf(row.contents) }),
  }
}

/** On another thread. The library is loaded with the first batch. */
async function gzip(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const zlib = await import('node:zlib')
  return new Uint8Array(await promisify(zlib.gzip)(text))
}

function jsonOf(text: string | null): unknown {
  return text === null ? null : JSON.parse(text)
}

// Where batches go.

const mostAnswerBytes = 65_536
const quotedCharacters = 300

/** Sends as the configuration says; undefined where it names nobody who takes rows. */
export function senderOf({ s3, webhook }: ExportConfig, now: () => number): SendBatch | undefined {
  if (s3.endpoint !== undefined) return (batch, signal) => putObject(s3, batch, signal)
  const { url, secret } = webhook
  if (url === undefined) return undefined
  return (batch, signal) => postBatch({ url, secret }, batch, now(), signal)
}

/** An object whose name begins with its day, in a bucket that the path names: every such store knows that form. */
async function putObject(
  s3: ExportConfig['s3'],
  { name, at, body }: Batch,
  signal: AbortSignal,
): Promise<void> {
  const day = new Date(at).toISOString().slice(0, 10).replaceAll('-', '/')
  const prefix = s3.prefix.replace(/^\/+|\/+$/g, '')
  const path = [s3.bucket ?? '', ...(prefix === '' ? [] : [prefix]), day, name].join('/')
  const signer = new AwsV4Signer({
    method: 'PUT',
    url: `${s3.endpoint}/${path}`,
    headers: {
      'content-type': 'application/gzip',
      'x-amz-content-sha256': createHash('sha256').update(body).digest('hex'),
    },
    body,
    accessKeyId: s3.access_key ?? '',
    secretAccessKey: s3.secret_key ?? '',
    service: 's3',
    region: s3.region,
  })
  const { url, headers, method } = await signer.sign()
  await requireTaken(
    await fetchBounded(url.href, { method, headers, body, signal, redirect: 'manual' }, mostAnswerBytes),
  )
}

/** Signed as messages of webhooks are, over the bytes that are sent: standardwebhooks.com. */
async function postBatch(
  { url, secret }: { readonly url: string; readonly secret: string | undefined },
  { name, body }: Batch,
  at: number,
  signal: AbortSignal,
): Promise<void> {
  const id = `log_${name.replace('.jsonl.gz', '')}`
  const headers = {
    'content-type': 'application/x-ndjson',
    'content-encoding': 'gzip',
    'user-agent': 'Weir',
    'webhook-id': id,
    ...(secret === undefined ? {} : signatureHeaders(secret, id, at, body)),
  }
  const init = { method: 'POST', headers, body, signal, redirect: 'manual' } as const
  await requireTaken(await fetchBounded(url, init, mostAnswerBytes))
}

async function requireTaken(answer: Response): Promise<void> {
  const text = await answer.text().catch(() => '')
  if (answer.ok) return
  const quoted = text.slice(0, quotedCharacters).replace(/\s+/g, ' ').trim()
  throw new Error(`the answer was ${answer.status}${quoted === '' ? '' : `: ${quoted}`}`)
}

const lookEveryMs = 1_000

/** Sends rows as the configuration in force says. */
export function logExportOf({
  live,
  store,
  log,
  clock,
}: Pick<GatewayProcess, 'live' | 'store' | 'log' | 'clock'>): LogExport {
  const settings = () => live.config.log.export
  return new LogExport({
    rows: store.requests,
    upkeep: store.upkeep,
    send: () => senderOf(settings(), clock),
    batchRows: () => settings().batch_rows,
    everyMs: () => settings().every_ms,
    takesContents: () => live.config.log.prompts,
    log,
    now: clock,
  })
}

/** Looks for rows to be sent while this process leads, until it is stopped. */
export function keepExporting(exporting: LogExport, leads: () => boolean): { stop(): void } {
  const timer = setInterval(() => {
    if (leads()) void exporting.look()
  }, lookEveryMs)
  timer.unref()
  return {
    stop: () => {
      clearInterval(timer)
      exporting.stop()
    },
  }
}

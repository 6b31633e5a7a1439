// The Idempotency-Key header: a request sent twice is served and charged once, and answered twice.

import type { Catalog } from '../../../catalog/catalog.ts'
import { mayReach } from '../../../chat/admission.ts'
import { budgetRoom } from '../../../chat/billing/need.ts'
import { type Caller, lineOf, windowEnd, windowStart } from '../../../accounts/account.ts'
import type { AnswerKeeper } from '../../../chat/call.ts'
import type { Scheduler } from '../../../scheduler/scheduler.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import { pass } from '../../../credits/ledger/failpoint.ts'
import type {
  AnsweredCall,
  CallLedger,
  ClaimCommand,
  IdempotencyStore,
  KeptAnswer,
} from '../../../credits/ledger/ledger.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { stringifySteps } from '../../../json/json.ts'
import type { Log } from '../../../observe/log.ts'

interface IdempotencyLimits {
  /** How long a key is remembered. */
  readonly keepMs: number
  /** The largest answer that is kept; a larger one cannot be replayed. */
  readonly answerBytes: number
}

/** What is kept of calls with a key, and for how long. */
export interface KeyedCalls {
  readonly idempotency: Omit<IdempotencyStore, 'sweep'>
  readonly idempotencyLimits: IdempotencyLimits
  readonly keptBytes: KeptBytes
  readonly ledger: Pick<CallLedger, 'keySpend' | 'budgetSpend'>
  readonly scheduler: Pick<Scheduler, 'run' | 'runSteps'>
  readonly catalog: Pick<Catalog, 'routesTo'>
  readonly now: () => number
  readonly log: Log
}

export interface KeyedRequest {
  readonly request: Request
  readonly caller: Caller
  readonly json: JsonObject
  readonly requestId: string
}

export type Run = (signal: AbortSignal, keeper: AnswerKeeper | undefined) => Promise<Response>

export const idempotencyHeader = 'idempotency-key'
/** Set on every replayed answer. */
export const replayedHeader = 'idempotency-replayed'

const retryAfterMs = 1_000

/**
 * Runs the call, or answers in its stead: with the kept answer of the first request, `idempotency_conflict` for another
 * body, `idempotency_in_progress` while the first runs, `idempotency_answer_lost` when it was charged and its answer
 * is not there. A call that charged nothing frees its key. Without the header this is `run` and nothing else.
 *
 * A keyed call is not cut short when its client leaves: the answer is what the client comes back for. Only
 * `on_disconnect: "cancel"` says otherwise. `run` is given the signal that may end the call, and what keeps its answer.
 */
export function idempotent(parts: KeyedCalls, keyed: KeyedRequest, run: Run): Promise<Response> {
  const key = keyed.request.headers.get(idempotencyHeader)
  return key === null ? run(keyed.request.signal, undefined) : onceForKey(parts, keyed, key, run)
}

async function onceForKey(parts: KeyedCalls, keyed: KeyedRequest, key: string, run: Run): Promise<Response> {
  const command = await commandOf(parts, keyed, key)
  const claim = await parts.idempotency.claim(command)
  switch (claim.kind) {
    case 'fresh':
      return firstAnswer(parts, command, keyed, run)
    case 'answered':
      await requireAsker(parts, keyed.caller, claim.of)
      return replay(claim.answer)
    case 'running':
      throw new GatewayError('idempotency_in_progress', { retryAfterMs })
    case 'conflict':
      throw new GatewayError('idempotency_conflict', {
        message: 'The Idempotency-Key was used before with another body.',
      })
    case 'lost':
      throw new GatewayError('idempotency_answer_lost', { metadata: { generation: claim.call } })
    default:
      return claim satisfies never
  }
}

/**
 * The claim of a request on its key. Rejects with `invalid_request` for a key that none may have.
 */
export async function commandOf(
  { now, scheduler, idempotencyLimits }: KeyedCalls,
  keyed: KeyedRequest,
  key: string,
): Promise<ClaimCommand> {
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw new GatewayError('invalid_request', {
      message: 'Idempotency-Key must be 1 to 255 visible ASCII characters.',
      param: 'Idempotency-Key',
    })
  }
  const { caller, json, requestId, request } = keyed
  const { pathname } = new URL(request.url)
  // Over the parsed body, so that a retry with different whitespace is the same request.
  const hash = new Bun.SHA256()
  for (const piece of await scheduler.runSteps(stringifySteps([pathname, caller.mode, json])))
    hash.update(piece)
  const bodyHash = new Uint8Array(32)
  hash.digest(bodyHash)
  return {
    account: caller.account.id,
    key,
    bodyHash,
    call: requestId,
    expiresAt: now() + idempotencyLimits.keepMs,
  }
}

/**
 * Throws unless the caller could have made the call: any key of the account may send a request again, but none is given
 * what it could not have asked for. The line that made the call has paid for its answer, whatever is left of its limit.
 */
export async function requireAsker(
  { ledger, now, catalog }: Pick<KeyedCalls, 'ledger' | 'now' | 'catalog'>,
  caller: Caller,
  { model, line }: AnsweredCall,
): Promise<void> {
  const { account, key } = caller
  if (account.suspended) throw new GatewayError('account_suspended')
  if (!mayReach(catalog, caller, model)) throw new GatewayError('model_not_allowed', { metadata: { model } })
  if (key === null || lineOf(key) === line) return
  const room = await budgetRoom(ledger, caller.standing, now())
  if (room !== undefined && room.freeLater <= 0n)
    throw new GatewayError('budget_exceeded', { metadata: { model } })
  if (key.spendLimit === null) return
  const { spent } = await ledger.keySpend(key.id, windowStart(key.limitWindow, now()))
  if (spent < key.spendLimit) return
  const end = windowEnd(key.limitWindow, now())
  const resets_at = end === null ? null : new Date(end).toISOString()
  throw new GatewayError('key_limit_exceeded', { metadata: { model, resets_at } })
}

function replay({ status, headers, body }: KeptAnswer): Response {
  return new Response(body, { status, headers: { ...headers, [replayedHeader]: 'true' } })
}

async function firstAnswer(
  parts: KeyedCalls,
  command: ClaimCommand,
  { request, json }: KeyedRequest,
  run: Run,
): Promise<Response> {
  const cancels = json['on_disconnect'] === 'cancel'
  const keeper = new Keeper(parts, command)
  const finish = () => finishKept(parts, command, keeper)
  let response: Response
  try {
    response = await run(cancels ? request.signal : new AbortController().signal, keeper)
  } catch (error) {
    await finish()
    throw error
  }
  const { status, headers, body } = response
  if (!body || !headers.get('content-type')?.startsWith('text/event-stream')) {
    await finish()
    return response
  }
  const onDisconnect = cancels ? 'cancel' : 'read-on'
  return new Response(followBody(body, { finish, disconnected: request.signal, onDisconnect }), {
    status,
    headers,
  })
}

async function finishKept(parts: KeyedCalls, command: ClaimCommand, keeper: Keeper): Promise<void> {
  try {
    await parts.idempotency.finish(command)
    if (keeper.kept) pass('answer-kept', command.call)
  } catch (error) {
    parts.log.warn('an Idempotency-Key could not be freed', { request_id: command.call, error })
  }
}

/** Copies an answer while it is sent, up to a limit, and stores it with the settle that charges it. */
class Keeper implements AnswerKeeper {
  readonly #parts: KeyedCalls
  readonly #command: ClaimCommand
  #headers: Readonly<Record<string, string>> = {}
  #chunks: Uint8Array[] | null = []
  #size = 0
  kept = false

  constructor(parts: KeyedCalls, command: ClaimCommand) {
    this.#parts = parts
    this.#command = command
  }

  begin(headers: Readonly<Record<string, string>>): void {
    this.#headers = headers
  }

  add(bytes: Uint8Array): void {
    this.#size += bytes.length
    if (this.#size > this.#parts.idempotencyLimits.answerBytes) this.#chunks = null
    this.#chunks?.push(bytes)
  }

  /** The answer is sent even if it could not be stored: it is paid for. */
  keep(): void {
    this.kept = true
    const { idempotency, keptBytes, log } = this.#parts
    const hasRoom = this.#chunks !== null && keptBytes.take(this.#command.account, this.#size)
    const body = hasRoom ? Buffer.concat(this.#chunks!) : null
    idempotency.keep(this.#command, { status: 200, headers: this.#headers, body }).catch((error: unknown) =>
      log.warn('an answer could not be kept for its Idempotency-Key', {
        request_id: this.#command.call,
        error,
      }),
    )
  }
}

interface Ends {
  /** Called once, when the answer has ended, broken off or been cancelled. */
  readonly finish: () => Promise<void>
  /** Aborts when the client disconnects, even before it has read anything. */
  readonly disconnected: AbortSignal
  /** What happens to the call then. */
  readonly onDisconnect: 'read-on' | 'cancel'
}

/**
 * The body as it arrives, read to its end even if the client disconnects. It ends for the client after its key is
 * released, so that a client that has read a whole answer can request it again.
 */
function followBody(body: ReadableStream<Uint8Array>, ends: Ends): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let ended: Promise<void> | undefined
  let clientGone = false
  async function next(): Promise<Uint8Array | undefined> {
    const { done, value } = await reader.read()
    if (done) await (ended ??= ends.finish())
    return value
  }
  async function readOn(): Promise<void> {
    while ((await next()) !== undefined);
  }
  async function disconnect(): Promise<void> {
    if (clientGone || ended !== undefined) return
    clientGone = true
    if (ends.onDisconnect === 'cancel') {
      ended = ends.finish()
      await reader.cancel().catch(() => undefined)
    } else await readOn().catch(() => (ended ??= ends.finish()))
  }
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const chunk = await next()
          if (clientGone) return
          if (chunk === undefined) controller.close()
          else controller.enqueue(chunk)
        } catch (error) {
          await (ended ??= ends.finish())
          if (!clientGone) controller.error(error)
        }
      },
      // Not awaited: nobody reads the result.
      cancel: () => void disconnect(),
    },
    { highWaterMark: 0 },
  )
  ends.disconnected.addEventListener('abort', () => void disconnect(), { once: true })
  if (ends.disconnected.aborted) void disconnect()
  return stream
}

// Limits how much of the disk the answers kept for Idempotency-Keys take: each may be of megabytes, and any client can
// name a new key with every request.

interface Limits {
  /** Bytes of one account. */
  readonly accountBytes: number
  /** How long answers are kept, milliseconds. */
  readonly keepMs: number
}

/**
 * Counts what this process has kept for each account, in two halves of the time that answers are kept: the older half is
 * forgotten as a whole, so that at most twice the limit is ever there.
 */
export class KeptBytes {
  readonly #limits: Limits
  readonly #now: () => number
  #older = new Map<string, number>()
  #newer = new Map<string, number>()
  #turnsAt: number

  /** `now`: milliseconds; never goes back. */
  constructor(limits: Limits, now: () => number = () => performance.now()) {
    this.#limits = limits
    this.#now = now
    this.#turnsAt = now() + limits.keepMs / 2
  }

  /** Counts an answer that is about to be kept; false if there is no room for it. */
  take(account: string, bytes: number): boolean {
    this.#turn()
    const newer = this.#newer.get(account) ?? 0
    if (newer + (this.#older.get(account) ?? 0) + bytes > this.#limits.accountBytes) return false
    this.#newer.set(account, newer + bytes)
    return true
  }

  #turn(): void {
    const now = this.#now()
    const half = this.#limits.keepMs / 2
    if (now < this.#turnsAt) return
    // After a whole time without any answer nothing of what was counted is kept any more.
    this.#older = now < this.#turnsAt + half ? this.#newer : new Map<string, number>()
    this.#newer = new Map<string, number>()
    this.#turnsAt = now + half
  }
}

// Keeps answers for clients that come back for them, and reads them again.

import type { JsonObject } from '../conversation/request.ts'
import { characters, leastBytes, parseSteps, type Steps, stringifySteps } from '../json/json.ts'
import type { Scheduler } from '../scheduler/scheduler.ts'
import type {
  Conversation,
  ResponseStore,
  ResponseViewer,
  StoredBytes,
  StoredResponse,
  WrittenResponse,
} from './response-store.ts'
import type { Awaitable } from '../async/async.ts'
import { GatewayError } from '../errors/errors.ts'

export interface ResponseLimits {
  /** How long a response is kept. */
  readonly retentionMs: number
  /** The largest response that is kept, with its input. */
  readonly storedBytes: number
  /** How much one account may have kept. */
  readonly accountBytes: number
}

export interface KeepingParts {
  readonly responses: Pick<ResponseStore, 'keep'>
  /** What the account of the call has kept; undefined where the store could not say. */
  readonly stored: StoredBytes | undefined
  readonly responseLimits: ResponseLimits
  /** Shares the event loop among all calls. */
  readonly scheduler: Pick<Scheduler, 'runSteps'>
  readonly log: { warn(message: string, facts: Readonly<Record<string, unknown>>): void }
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** The answer of a call, with the items that it was made from. */
export interface AnswerToKeep {
  readonly account: string
  readonly requestId: string
  /** The conversation of the chat that it answers in. */
  readonly conversation: string | undefined
  readonly input: readonly JsonObject[]
  readonly answer: JsonObject
  /** No fewer than the items had in the request and in the responses that it refers to. */
  readonly inputBytes: number
}

/** Type, id and status of an item, and the names around its text: more than is ever added to one that is kept. */
const addedBytes = 256
/** No character of a JavaScript string takes more in UTF-8. */
const bytesPerCharacter = 3

/**
 * Stores a response, if it is not too large and its account has room for it; undefined if not. Always resolves, as soon as
 * the store has queued it: its charge is queued right behind it, so neither is without the other.
 */
export function keepResponse(parts: KeepingParts, call: AnswerToKeep): Promise<void> | undefined {
  const { stored, responseLimits } = parts
  const fits = (size: number) =>
    size <= responseLimits.storedBytes && hasRoom(stored, responseLimits.accountBytes - size)
  // Measuring megabytes takes a while, and most responses are far below what may be kept, or far above.
  const length = characters(call.answer)
  if (length > responseLimits.storedBytes) return undefined
  const most = call.inputBytes + addedBytes * call.input.length + bytesPerCharacter * length
  return fits(most) || fits(leastBytes([call.input, call.answer])) ? keep(parts, call) : undefined
}

async function keep(parts: KeepingParts, asked: AnswerToKeep): Promise<void> {
  const { account, requestId, conversation, input, answer } = asked
  const { responses, responseLimits, scheduler, log, now } = parts
  const previous = answer['previous_response_id']
  const fail = (error: unknown) => log.warn('a response was not stored yet', { request_id: requestId, error })
  try {
    const texts = {
      input: await scheduler.runSteps(stringifySteps(input)),
      answer: await scheduler.runSteps(stringifySteps(answer)),
    }
    const kept = responses.keep({
      id: String(answer['id']),
      account,
      call: requestId,
      // After a failure the conversation stays where it was.
      conversation: answer['status'] === 'failed' ? undefined : conversation,
      previous: typeof previous === 'string' ? previous : undefined,
      expiresAt: now() + responseLimits.retentionMs,
      ...texts,
    })
    // Not waited for: the charge is to be in the same commit.
    kept.catch(fail)
  } catch (error) {
    fail(error)
  }
}

/** While the store cannot be read, answers are given and not kept. */
function hasRoom(stored: StoredBytes | undefined, mostBytes: number): boolean {
  try {
    return stored !== undefined && stored.bytes() <= mostBytes
  } catch {
    return false
  }
}

// What a request continues or refers to: the stored conversation before it, and single items of earlier answers.

/** An item that a request names instead of sending it. */
interface ItemReference {
  readonly id: string
  /** The response that the item belongs to; undefined if its id is not ours. */
  readonly response: string | undefined
}

interface RecallRequest {
  readonly viewer: ResponseViewer
  /** Whether the caller may call the model that made a response; responses of other models are hidden from it. */
  readonly mayUse: (model: string) => boolean
  /** The response that the request continues. */
  readonly previous: string | undefined
  readonly references: readonly ItemReference[]
  /** How many bytes of a body are left for what is recalled. */
  readonly room: number
  /** The most bytes that a body may have. */
  readonly maxBodyBytes: number
  /** Asked, with their number, before bytes are read and parsed. */
  readonly permit: ReadPermit
}

interface RecalledItems {
  /** The items of the conversation before the request, oldest first. */
  readonly history: readonly JsonObject[]
  /** The items that were referred to and are stored, by their ids. */
  readonly items: ReadonlyMap<string, JsonObject>
  /** Their size as JSON; an item counts as often as it is referred to. */
  readonly bytes: number
}

const nothing: RecalledItems = { history: [], items: new Map(), bytes: 0 }

/**
 * Rejects with `previous_response_not_found` if a part of the conversation is missing, `invalid_request` if it ends in a
 * failure, and `payload_too_large` if there is no room for it.
 */
export async function recall(
  responses: Pick<ParsedResponses, 'conversation' | 'find'>,
  scheduler: Pick<Scheduler, 'run' | 'runSteps'>,
  { viewer, mayUse, previous, references, room, maxBodyBytes, permit }: RecallRequest,
): Promise<RecalledItems> {
  if (previous === undefined && references.length === 0) return nothing
  const tooLarge = () =>
    new GatewayError('payload_too_large', {
      message: 'The request and the conversation it continues are larger than a body may be.',
      metadata: { limit_bytes: maxBodyBytes },
    })
  const history: JsonObject[] = []
  let historyBytes = 0
  if (previous !== undefined) {
    const conversation = await responses.conversation(viewer, previous, mostRead(maxBodyBytes), permit)
    if (conversation.kind === 'missing') throw notContinued(previous, conversation.id)
    if (conversation.kind === 'too-large') throw tooLarge()
    const barred = conversation.responses.find(({ model }) => !mayUse(model))
    if (barred) throw notContinued(previous, barred.id)
    const failed = conversation.responses.find(({ answer }) => answer['status'] === 'failed')
    if (failed) throw continuesFailure(failed.id)
    for (const response of conversation.responses) {
      historyBytes += response.size
      for (const item of itemsOf(response)) history.push(item)
    }
  }
  const items = await referredItems(responses, scheduler, { viewer, mayUse }, references, {
    room: mostRead(maxBodyBytes),
    permit: (bytes) => permit(historyBytes + bytes),
  })
  if (items === undefined) throw tooLarge()
  const bytes = await scheduler.runSteps(sizeSteps(history, items, references))
  if (bytes > Math.max(room, 0) && bytes > 0) throw tooLarge()
  return { history, items, bytes }
}

/**
 * How much is read for the items that a request continues or refers to, bytes, where a body may have `maxBodyBytes`. It
 * is more, as answers hold more than their items: each repeats the tools and instructions of its request.
 */
export function mostRead(maxBodyBytes: number): number {
  return 4 * maxBodyBytes
}

/** The items of these ids that are stored; undefined where more than `room` bytes would have to be read for them. */
async function referredItems(
  responses: Pick<ParsedResponses, 'find'>,
  scheduler: Pick<Scheduler, 'run' | 'runSteps'>,
  { viewer, mayUse }: Pick<RecallRequest, 'viewer' | 'mayUse'>,
  references: readonly ItemReference[],
  { room, permit }: Pick<RecallRequest, 'room' | 'permit'>,
): Promise<ReadonlyMap<string, JsonObject> | undefined> {
  const items = new Map<string, JsonObject>()
  const wanted = new Map<string, Set<string>>()
  for (const { id, response } of references) {
    if (response === undefined) continue
    if (!wanted.has(response)) wanted.set(response, new Set())
    wanted.get(response)!.add(id)
  }
  let read = 0
  for (const [response, of] of wanted) {
    // A request may name ten thousand responses: together they take a fifth of a second to look for.
    const stored = await scheduler.run(() =>
      responses.find(viewer, response, (bytes) => permit(read + bytes)),
    )
    if (!stored || !mayUse(stored.model)) continue
    read += stored.size
    if (read > room) return undefined
    for (const item of itemsOf(stored)) {
      const id = String(item['id'])
      if (of.has(id)) items.set(id, item)
    }
  }
  return items
}

function continuesFailure(id: string): GatewayError {
  const param = 'previous_response_id'
  const message = `Invalid value for '${param}': the response ${id} failed and cannot be continued.`
  return new GatewayError('invalid_request', { message, param })
}

function notContinued(asked: string, missing: string): GatewayError {
  const message =
    asked === missing
      ? 'There is no stored response with that id that this caller may continue.'
      : `A response that it continues, ${missing}, is not stored any more, or this caller may not continue it.`
  return new GatewayError('previous_response_not_found', { message, param: 'previous_response_id' })
}

/** The input and output of a response. */
export function itemsOf(stored: StoredResponse): readonly JsonObject[] {
  return [...stored.input, ...outputOf(stored)]
}

export function outputOf({ answer }: StoredResponse): readonly JsonObject[] {
  return answer['output'] as JsonObject[]
}

/** What a history and the items that are referred to measure as JSON, bytes. */
function* sizeSteps(
  history: readonly JsonObject[],
  items: ReadonlyMap<string, JsonObject>,
  references: readonly ItemReference[],
): Steps<number> {
  const sizes = new Map<string, number>()
  for (const [id, item] of items) sizes.set(id, yield* sizeOf([item]))
  const bytes = yield* sizeOf(history)
  // An item that is referred to twice is sent, and paid for, twice.
  return references.reduce((sum, { id }) => sum + (sizes.get(id) ?? 0), bytes)
}

function* sizeOf(items: readonly JsonObject[]): Steps<number> {
  if (items.length === 0) return 0
  const pieces = yield* stringifySteps(items)
  return pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0)
}

// Stored responses as objects: what is stored is text, of up to megabytes, and is parsed in steps.

type Store = Pick<ResponseStore, 'find' | 'sizeOf' | 'conversation'>

/** Permission to read and parse so many bytes. */
export type ReadPermit = (bytes: number) => Awaitable<void>

/** A conversation no larger than this is read before it is permitted: it takes less than asking for its size. */
const littleBytes = 65_536

export class ParsedResponses {
  readonly #store: Store
  readonly #scheduler: Pick<Scheduler, 'runSteps'>

  constructor(store: Store, scheduler: Pick<Scheduler, 'runSteps'>) {
    this.#store = store
    this.#scheduler = scheduler
  }

  /** As the store's `find`. Many requests may wait for permission, so nothing is read before. */
  async find(viewer: ResponseViewer, id: string, permit: ReadPermit): Promise<StoredResponse | undefined> {
    const size = await this.#store.sizeOf(viewer, id)
    if (size === undefined) return undefined
    await permit(size)
    const written = await this.#store.find(viewer, id)
    return written && this.#scheduler.runSteps(parsedSteps(written))
  }

  /** As the store's `conversation`. */
  async conversation(
    viewer: ResponseViewer,
    id: string,
    maxBytes: number,
    permit: ReadPermit,
  ): Promise<Conversation> {
    const conversation = await this.#writtenConversation(viewer, id, maxBytes, permit)
    if (conversation.kind !== 'whole') return conversation
    const responses: StoredResponse[] = []
    for (const written of conversation.responses)
      responses.push(await this.#scheduler.runSteps(parsedSteps(written)))
    return { kind: 'whole', responses }
  }

  async #writtenConversation(
    viewer: ResponseViewer,
    id: string,
    maxBytes: number,
    permit: ReadPermit,
  ): Promise<Conversation<WrittenResponse>> {
    const little = await this.#store.conversation(viewer, id, Math.min(maxBytes, littleBytes))
    if (little.kind === 'whole') {
      await permit(little.responses.reduce((sum, { size }) => sum + size, 0))
      return little
    }
    if (little.kind === 'missing' || little.bytes > maxBytes) return little
    await permit(little.bytes)
    return this.#store.conversation(viewer, id, maxBytes)
  }
}

function* parsedSteps(written: WrittenResponse): Steps<StoredResponse> {
  const input = (yield* parsedOf(written.input)) as JsonObject[]
  const answer = (yield* parsedOf(written.answer)) as JsonObject
  return { ...written, input, answer }
}

function* parsedOf(pieces: readonly string[]): Steps<unknown> {
  if (pieces.length === 1) return yield* parseSteps(pieces[0]!)
  const text = pieces.join('')
  yield
  return yield* parseSteps(text)
}

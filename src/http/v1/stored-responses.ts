// GET and DELETE /v1/responses/{id}, GET /v1/responses/{id}/input_items, and the same for the app.

import { type Caller, viewerOf } from '../../accounts/account.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { requestIdOf, withoutEncrypted } from '../../protocols/openai-responses/inbound/encode.ts'
import { invalidParam } from '../../protocols/request/fields.ts'
import { itemsOf, mostRead, outputOf } from '../../responses/recall.ts'
import type { StoredResponse } from '../../responses/response-store.ts'
import { readPermit } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import type { Call } from '../route.ts'

export type StoredParts = Pick<
  HttpParts,
  'responses' | 'parsedResponses' | 'body' | 'largeBodies' | 'keepOpen' | 'closeWhenIdle'
>

type Asked = Pick<Call, 'request' | 'requestId' | 'params'>

/** The response as its request was answered. Throws `not_found`, and `unsupported_parameter` where a stream is asked for. */
export async function showResponse(parts: StoredParts, caller: Caller, asked: Asked): Promise<JsonObject> {
  const { searchParams } = new URL(asked.request.url)
  if (searchParams.get('stream') === 'true') {
    const message = "'stream' cannot be honoured: a stored response is given as a whole."
    throw new GatewayError('unsupported_parameter', { message, param: 'stream' })
  }
  const stored = await storedOf(parts, caller, asked)
  if (wantsEncrypted(searchParams)) return stored.answer
  return { ...stored.answer, output: outputOf(stored).map(withoutEncrypted) }
}

/** Resolves when the response is gone from the disk. Rejects with `not_found`. */
export async function deleteResponse(
  parts: Pick<StoredParts, 'responses'>,
  caller: Caller,
  id: string,
): Promise<JsonObject> {
  const gone = await parts.responses.delete(viewerOf(caller), id)
  if (!gone) throw noSuchResponse()
  return { id, object: 'response', deleted: true }
}

const defaultLimit = 20
const mostAtOnce = 100

/**
 * The items that a response was made from, those of the conversation it continues before its own; a page of them.
 * Throws `not_found`, and `invalid_request` for a page that cannot be.
 */
export async function listInputItems(parts: StoredParts, caller: Caller, asked: Asked): Promise<JsonObject> {
  const { searchParams } = new URL(asked.request.url)
  const limit = limitOf(searchParams.get('limit'))
  const order = searchParams.get('order') ?? 'desc'
  if (order !== 'asc' && order !== 'desc') throw invalidParam('order', "it is 'asc' or 'desc'.")
  const all = await inputOf(parts, caller, asked)
  const ordered = order === 'asc' ? all : all.toReversed()
  const after = searchParams.get('after')
  const from = after === null ? 0 : ordered.findIndex((item) => item['id'] === after) + 1
  if (after !== null && from === 0) throw invalidParam('after', 'no item has that id.')
  const page = ordered.slice(from, from + limit)
  const encrypted = wantsEncrypted(searchParams)
  return {
    object: 'list',
    data: encrypted ? page : page.map(withoutEncrypted),
    first_id: page[0]?.['id'] ?? null,
    last_id: page.at(-1)?.['id'] ?? null,
    has_more: from + page.length < ordered.length,
  }
}

/** What is still there of a conversation that has lost its beginning is listed all the same. */
async function inputOf(parts: StoredParts, caller: Caller, asked: Asked): Promise<JsonObject[]> {
  const { id: account } = caller.account
  const stored = await storedOf(parts, caller, asked)
  const permit = readPermit(parts, asked.request, asked.requestId, account)
  const before =
    stored.previous === undefined
      ? undefined
      : await parts.parsedResponses.conversation(
          viewerOf(caller),
          stored.previous,
          mostRead(parts.body.maxBodyBytes),
          (bytes) => permit(stored.size + bytes),
        )
  const earlier = before?.kind === 'whole' ? before.responses : []
  return withOwnIds([...earlier.flatMap(itemsOf), ...stored.input])
}

/** Pages are found by ids, and an item may stand there twice: what comes again is listed under an id of its own. */
function withOwnIds(items: readonly JsonObject[]): JsonObject[] {
  const counts = new Map<string, number>()
  return items.map((item) => {
    const sent = String(item['id'])
    let id = sent
    while (counts.has(id)) {
      const count = counts.get(sent)! + 1
      counts.set(sent, count)
      id = `${sent}_${count}`
    }
    counts.set(id, 1)
    return id === sent ? item : { ...item, id }
  })
}

function limitOf(text: string | null): number {
  const limit = text === null ? defaultLimit : Number(text)
  if (!Number.isInteger(limit) || limit < 1 || limit > mostAtOnce)
    throw invalidParam('limit', `it is a whole number from 1 to ${mostAtOnce}.`)
  return limit
}

/** Lists travel in a query as `include=` or `include[]=`. */
function wantsEncrypted(query: URLSearchParams): boolean {
  return ['include', 'include[]'].some((name) => query.getAll(name).includes('reasoning.encrypted_content'))
}

/** The id that a path names; throws `not_found` for what can be none of ours. */
async function storedOf(
  parts: StoredParts,
  caller: Caller,
  { request, requestId, params }: Asked,
): Promise<StoredResponse> {
  const id = params['id']!
  const { id: account } = caller.account
  const permit = readPermit(parts, request, requestId, account)
  const stored =
    requestIdOf(id) === undefined ? undefined : await parts.parsedResponses.find(viewerOf(caller), id, permit)
  if (!stored) throw noSuchResponse()
  return stored
}

function noSuchResponse(): GatewayError {
  return new GatewayError('not_found', {
    message: 'There is no stored response with that id that this caller may see.',
  })
}

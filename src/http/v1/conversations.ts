// /v1/conversations: the items of a conversation, to be read and changed; responses that name it are made behind them.

import { z } from 'zod'
import { type Caller, viewerOf } from '../../accounts/account.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { listedItems, withoutEncrypted } from '../../protocols/openai-responses/inbound/inbound.ts'
import { checkedRequest, droppedOf } from '../../protocols/openai-responses/inbound/read.ts'
import { invalidParam, invalidRequest, safeParsed } from '../../protocols/request/fields.ts'
import { conversationIdOf, type ResponsesRequest } from '../../protocols/openai-responses/inbound/schema.ts'
import type { ItemConversation } from '../../responses/response-store.ts'
import { readJson, refuseByHeaders } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import type { RouteCall } from '../route.ts'

/** As many as OpenAI takes at once. */
const mostItems = 20

const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine((pairs) => Object.keys(pairs).length <= 16, {
    message: 'It has at most 16 pairs.',
  })
const items = z.array(z.looseObject({})).max(mostItems)
export const newConversation = z.strictObject({ items: items.nullish(), metadata: metadata.nullish() })
export const conversationChanges = z.strictObject({ metadata })
export const newItems = z.strictObject({ items: items.min(1) })
export const conversationObject = z.object({
  id: z.string(),
  object: z.literal('conversation'),
  created_at: z.int().describe('Seconds since 1970.'),
  metadata: z.record(z.string(), z.string()),
})
export const conversationItem = z.looseObject({ type: z.string(), id: z.string() })
export const deletedConversation = z.object({
  id: z.string(),
  object: z.literal('conversation.deleted'),
  deleted: z.literal(true),
})

export async function createConversation(
  parts: HttpParts,
  caller: Caller,
  asked: RouteCall,
): Promise<JsonObject> {
  const body = await bodyOf(parts, asked, newConversation)
  const conversation: ItemConversation = {
    id: asked.requestId.replace('req_', 'conv_'),
    account: caller.account.id,
    key: caller.key?.id ?? null,
    createdAt: parts.now(),
    metadata: body.metadata ?? {},
  }
  await requireRoom(parts, caller.account.id)
  await parts.itemConversations.create(conversation, checkedItems(body.items ?? [], asked), expiryOf(parts))
  return conversationView(conversation)
}

export async function showConversation(
  parts: HttpParts,
  caller: Caller,
  asked: RouteCall,
): Promise<JsonObject> {
  return conversationView(await conversationOf(parts, caller, asked.params['id']!))
}

export async function changeConversation(
  parts: HttpParts,
  caller: Caller,
  asked: RouteCall,
): Promise<JsonObject> {
  const conversation = await conversationOf(parts, caller, asked.params['id']!)
  const { metadata: changed } = await bodyOf(parts, asked, conversationChanges)
  await parts.itemConversations.setMetadata(conversation.id, changed)
  return conversationView({ ...conversation, metadata: changed })
}

/** The responses that were made in it stay. */
export async function deleteConversation(
  parts: HttpParts,
  caller: Caller,
  asked: RouteCall,
): Promise<JsonObject> {
  const { id } = await conversationOf(parts, caller, asked.params['id']!)
  await parts.itemConversations.delete(id)
  return { id, object: 'conversation.deleted', deleted: true }
}

export async function listItems(parts: HttpParts, caller: Caller, asked: RouteCall): Promise<JsonObject> {
  const { id } = await conversationOf(parts, caller, asked.params['id']!)
  const kept = await parts.itemConversations.items(id)
  return pageOfItems(
    kept.map(({ item }) => item),
    asked.request,
  )
}

export async function addItems(parts: HttpParts, caller: Caller, asked: RouteCall): Promise<JsonObject> {
  const { id } = await conversationOf(parts, caller, asked.params['id']!)
  const added = checkedItems((await bodyOf(parts, asked, newItems)).items, asked)
  await requireRoom(parts, caller.account.id)
  await parts.itemConversations.add(id, added, expiryOf(parts))
  return {
    object: 'list',
    data: added.map(withoutEncrypted),
    first_id: added[0]!['id'] ?? null,
    last_id: added.at(-1)!['id'] ?? null,
    has_more: false,
  }
}

export async function showItem(parts: HttpParts, caller: Caller, asked: RouteCall): Promise<JsonObject> {
  const { id } = await conversationOf(parts, caller, asked.params['id']!)
  const kept = await parts.itemConversations.items(id)
  const found = kept.find(({ item }) => item['id'] === asked.params['item'])
  if (found === undefined) throw noSuchItem()
  return withoutEncrypted(found.item)
}

/** Resolves with the conversation. */
export async function deleteItem(parts: HttpParts, caller: Caller, asked: RouteCall): Promise<JsonObject> {
  const conversation = await conversationOf(parts, caller, asked.params['id']!)
  if (!(await parts.itemConversations.removeItem(conversation.id, asked.params['item']!))) throw noSuchItem()
  return conversationView(conversation)
}

/** Throws `payload_too_large` where an account has kept as much as it may. */
async function requireRoom(parts: ThreadParts, account: string): Promise<void> {
  const { accountBytes } = parts.responseLimits
  if ((await parts.itemConversations.accountBytes(account)) <= accountBytes) return
  throw new GatewayError('payload_too_large', {
    message:
      'The conversations of this account hold as much as they may (responses.account_bytes): delete some.',
    metadata: { limit_bytes: accountBytes },
  })
}

/** Throws `not_found`, of `param` where a field of the body names it. */
async function conversationOf(
  parts: ThreadParts,
  caller: Caller,
  id: string,
  param?: 'conversation',
): Promise<ItemConversation> {
  const found = await parts.itemConversations.find(viewerOf(caller), id)
  if (found) return found
  throw new GatewayError('not_found', {
    message: 'There is no conversation with that id that this caller may see.',
    ...(param && { param }),
  })
}

function noSuchItem(): GatewayError {
  return new GatewayError('not_found', { message: 'The conversation has no item with that id.' })
}

async function bodyOf<Body>(parts: HttpParts, asked: RouteCall, schema: z.ZodType<Body>): Promise<Body> {
  refuseByHeaders(asked.request.headers, parts.body)
  const { json } = await readJson(asked.request, parts)
  const { data, error } = safeParsed(schema, json)
  if (error) throw invalidRequest(error)
  return data
}

/** Items as a request may send them, with an id each. Throws what a request with them would. */
function checkedItems(sent: readonly object[], { requestId }: RouteCall): JsonObject[] {
  if (sent.length === 0) return []
  const request = checkedRequest({ model: 'any/model', input: sent, strict: true })
  droppedOf(request, [])
  return listedItems(request.input as unknown as Parameters<typeof listedItems>[0], requestId)
}

function expiryOf({ now, responseLimits }: ThreadParts): number {
  return now() + responseLimits.retentionMs
}

function conversationView({ id, createdAt, metadata: pairs }: ItemConversation): JsonObject {
  return { id, object: 'conversation', created_at: Math.floor(createdAt / 1000), metadata: pairs }
}

// Responses that are made in a conversation.

export type ThreadParts = Pick<HttpParts, 'itemConversations' | 'body' | 'responseLimits' | 'now' | 'log'>

/** The items of a conversation before a response. */
export interface Thread {
  readonly id: string
  readonly items: readonly JsonObject[]
  readonly bytes: number
}

/** The conversation that a request names. Throws `not_found`, `invalid_request`, and `payload_too_large` for one too long. */
export async function threadOf(
  parts: ThreadParts,
  caller: Caller,
  request: ResponsesRequest,
): Promise<Thread | undefined> {
  const named = conversationIdOf(request)
  if (named === undefined) return undefined
  const { id } = await conversationOf(parts, caller, named, 'conversation')
  const { itemConversations: store } = parts
  const bytes = await store.size(id)
  if (bytes > parts.body.maxBodyBytes)
    throw new GatewayError('payload_too_large', {
      message: 'The conversation is larger than a body may be.',
      metadata: { limit_bytes: parts.body.maxBodyBytes },
    })
  // What is made must have a place to be kept.
  await requireRoom(parts, caller.account.id)
  const items = await store.items(id)
  return { id, items: items.map(({ item }) => item), bytes }
}

/** Queued in front of the charge, as the response itself is. What failed, or was left, is no part of a conversation. */
export function addToThread(
  parts: ThreadParts,
  { id }: Thread,
  input: readonly JsonObject[],
  answer: JsonObject,
): void {
  if (answer['status'] !== 'completed' && answer['status'] !== 'incomplete') return
  const items = [...input, ...(answer['output'] as JsonObject[])]
  parts.itemConversations
    .add(id, items, expiryOf(parts))
    .catch((error: unknown) =>
      parts.log.warn('a conversation was not gone on with', { conversation: id, error }),
    )
}

// Lists of items, page by page.

const defaultLimit = 20
const mostAtOnce = 100

/** The page of items that a request asks for, the last first unless it says otherwise. Throws `invalid_request`. */
export function pageOfItems(all: readonly JsonObject[], { url }: Request): JsonObject {
  const { searchParams } = new URL(url)
  const limit = limitOf(searchParams.get('limit'))
  const order = searchParams.get('order') ?? 'desc'
  if (order !== 'asc' && order !== 'desc') throw invalidParam('order', "it is 'asc' or 'desc'.")
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

function limitOf(text: string | null): number {
  const limit = text === null ? defaultLimit : Number(text)
  if (!Number.isInteger(limit) || limit < 1 || limit > mostAtOnce)
    throw invalidParam('limit', `it is a whole number from 1 to ${mostAtOnce}.`)
  return limit
}

/** Lists travel in a query as `include=` or `include[]=`. */
export function wantsEncrypted(query: URLSearchParams): boolean {
  return ['include', 'include[]'].some((name) => query.getAll(name).includes('reasoning.encrypted_content'))
}

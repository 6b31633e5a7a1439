// /v1/conversations: the items of a conversation, to be read and changed; responses that name it are made behind them.

import { z } from 'zod'
import { type Caller, viewerOf } from '../../accounts/account.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { withoutEncrypted } from '../../protocols/openai-responses/inbound/encode.ts'
import { listedItems } from '../../protocols/openai-responses/inbound/inbound.ts'
import { checkedRequest, droppedOf } from '../../protocols/openai-responses/inbound/read.ts'
import { invalidParam } from '../../protocols/request/fields.ts'
import type { ItemConversation, ItemConversationStore } from '../../responses/item-conversations.ts'
import { readJson, refuseByHeaders } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import type { RouteCall } from '../route.ts'
import { pageOfItems, requireConversationRoom } from './responses.ts'

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
  await storeOf(parts).create(conversation, checkedItems(body.items ?? [], asked), expiryOf(parts))
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
  await storeOf(parts).setMetadata(conversation.id, changed)
  return conversationView({ ...conversation, metadata: changed })
}

/** The responses that were made in it stay. */
export async function deleteConversation(
  parts: HttpParts,
  caller: Caller,
  asked: RouteCall,
): Promise<JsonObject> {
  const { id } = await conversationOf(parts, caller, asked.params['id']!)
  await storeOf(parts).delete(id)
  return { id, object: 'conversation.deleted', deleted: true }
}

export async function listItems(parts: HttpParts, caller: Caller, asked: RouteCall): Promise<JsonObject> {
  const { id } = await conversationOf(parts, caller, asked.params['id']!)
  const kept = await storeOf(parts).items(id)
  return pageOfItems(
    kept.map(({ item }) => item),
    asked.request,
  )
}

export async function addItems(parts: HttpParts, caller: Caller, asked: RouteCall): Promise<JsonObject> {
  const { id } = await conversationOf(parts, caller, asked.params['id']!)
  const added = checkedItems((await bodyOf(parts, asked, newItems)).items, asked)
  await requireRoom(parts, caller.account.id)
  await storeOf(parts).add(id, added, expiryOf(parts))
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
  const kept = await storeOf(parts).items(id)
  const found = kept.find(({ item }) => item['id'] === asked.params['item'])
  if (found === undefined) throw noSuchItem()
  return withoutEncrypted(found.item)
}

/** Resolves with the conversation. */
export async function deleteItem(parts: HttpParts, caller: Caller, asked: RouteCall): Promise<JsonObject> {
  const conversation = await conversationOf(parts, caller, asked.params['id']!)
  if (!(await storeOf(parts).removeItem(conversation.id, asked.params['item']!))) throw noSuchItem()
  return conversationView(conversation)
}

/** Throws `payload_too_large` where an account has kept as much as it may. */
async function requireRoom(parts: HttpParts, account: string): Promise<void> {
  requireConversationRoom(await storeOf(parts).accountBytes(account), parts.responseLimits.accountBytes)
}

function storeOf({ itemConversations }: HttpParts): ItemConversationStore {
  if (itemConversations !== undefined) return itemConversations
  throw invalidParam(
    'conversation',
    'conversations are kept where one process serves alone (server.workers: 1).',
  )
}

async function conversationOf(parts: HttpParts, caller: Caller, id: string): Promise<ItemConversation> {
  const found = await storeOf(parts).find(viewerOf(caller), id)
  if (found) return found
  throw new GatewayError('not_found', {
    message: 'There is no conversation with that id that this caller may see.',
  })
}

function noSuchItem(): GatewayError {
  return new GatewayError('not_found', { message: 'The conversation has no item with that id.' })
}

async function bodyOf<Body>(parts: HttpParts, asked: RouteCall, schema: z.ZodType<Body>): Promise<Body> {
  refuseByHeaders(asked.request.headers, parts.body)
  const { json } = await readJson(asked.request, parts)
  const { data, error } = schema.safeParse(json)
  if (!error) return data
  const [issue] = error.issues
  throw invalidParam(issue!.path.join('.') || 'body', issue!.message)
}

/** Items as a request may send them, with an id each. Throws what a request with them would. */
function checkedItems(sent: readonly object[], { requestId }: RouteCall): JsonObject[] {
  if (sent.length === 0) return []
  const request = checkedRequest({ model: 'any/model', input: sent, strict: true })
  droppedOf(request, [])
  return listedItems(request.input as unknown as Parameters<typeof listedItems>[0], requestId)
}

function expiryOf({ now, responseLimits }: HttpParts): number {
  return now() + responseLimits.retentionMs
}

function conversationView({ id, createdAt, metadata: pairs }: ItemConversation): JsonObject {
  return { id, object: 'conversation', created_at: Math.floor(createdAt / 1000), metadata: pairs }
}

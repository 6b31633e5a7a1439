// The chat's conversations: a list, and the turns of each, which are its stored responses.

import { z } from 'zod'
import { wholeAccount } from '../../accounts/account.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { withoutEncrypted } from '../../protocols/openai-responses/inbound/inbound.ts'
import type {
  ConversationChanges,
  ConversationRecord,
  OpenConversation,
  SavedPrompt,
  StoredResponse,
  WrittenResponse,
} from '../../responses/response-store.ts'
import { mostRead, outputOf } from '../../responses/keep.ts'
import { queryOf, readPermit } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import {
  chatSettings,
  type ConversationSearchView,
  type ConversationView,
  importedTurn,
  type SavedPromptView,
  type SettledConversationView,
  type SharedConversationView,
} from './answers.ts'
import {
  type ConsoleAsked,
  type ConsoleRoute,
  iso,
  ownRoute,
  publicRoute,
  type SignedInAsked,
} from './route.ts'

/** Kept per account; older ones are deleted. */
const mostConversations = 2_000

const title = z.string().trim().min(1).max(200)
const model = z.string().min(1).max(200)
const responseId = z.string().min(1).max(200)

const folder = z.string().trim().min(1).max(60).nullable()

const placed = {
  folder: folder.optional(),
  pinned: z.boolean().optional(),
  settings: chatSettings.nullable().optional(),
}
const newConversation = z.strictObject({ title, model: model.optional(), ...placed })
/** Of one imported conversation: it is read whole, and goes along with the first question that continues it. */
const mostImportedBytes = 1024 ** 2
const importedConversation = z.strictObject({
  title,
  folder: folder.optional(),
  turns: z.array(importedTurn).min(1).max(2_000),
})
const changes = z.strictObject({
  ...placed,
  title: title.optional(),
  model: model.optional(),
  last_response: responseId.optional(),
})

export const conversationRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    'GET conversations',
    { summary: 'The conversations of the chat, the latest first' },
    async ({ parts, account }) => {
      const all = await parts.conversations.list(account.id, mostConversations)
      const answered = await answeredNow(parts, account.id)
      return { data: all.map((each) => ({ ...conversationObject(each), answering: answered.has(each.id) })) }
    },
  ),
  ownRoute(
    'POST conversations',
    { summary: 'Begin a conversation', status: 201, body: newConversation },
    async ({ parts, account, body }) => {
      const conversation: OpenConversation = {
        ...newRecord(account.id, body.title, parts.now()),
        model: body.model ?? null,
        folder: body.folder ?? null,
        pinned: body.pinned ?? false,
        settings: body.settings ?? null,
      }
      await parts.conversations.add(conversation, mostConversations)
      return settledObject(parts, conversation)
    },
  ),
  ownRoute(
    'POST imported-conversations',
    {
      summary: 'Add a conversation from the export of another program',
      status: 201,
      body: importedConversation,
      maxBodyBytes: mostImportedBytes,
    },
    async ({ parts, account, body }) => {
      const conversation = { ...newRecord(account.id, body.title, parts.now()), folder: body.folder ?? null }
      await parts.conversations.addImported(conversation, body.turns, mostConversations)
      return settledObject(parts, conversation)
    },
  ),
  ownRoute(
    'GET conversations/:id',
    { summary: 'One conversation with its turns', errors: ['not_found'] },
    async (asked) => {
      // Asked first: an answer that ends meanwhile is then among the turns.
      const answered = await answeredNow(asked.parts, asked.account.id)
      const conversation = await asked.parts.conversations.find(asked.account.id, asked.params['id']!)
      if (!conversation) throw noSuchConversation()
      const responses = await chainOf(asked, conversation.lastResponse)
      const answering = answered.has(conversation.id)
      const imported = await asked.parts.conversations.importedTurns(asked.account.id, conversation.id)
      return {
        ...settledObject(asked.parts, conversation),
        answering,
        imported,
        turns: responses.map(turnObject),
      }
    },
  ),
  ownRoute(
    'PATCH conversations/:id',
    {
      summary: 'Change its title, its place or how it asks, or note where it stands',
      errors: ['not_found'],
      body: changes,
    },
    async ({ parts, account, params, body }) => {
      const { last_response: lastResponse, ...rest } = body
      if (
        lastResponse !== undefined &&
        (await parts.responses.sizeOf(wholeAccount(account.id), lastResponse)) === undefined
      ) {
        const message = 'This account has no stored response with that id.'
        throw new GatewayError('invalid_request', { message, param: 'last_response' })
      }
      const change: ConversationChanges = { ...rest, ...(lastResponse === undefined ? {} : { lastResponse }) }
      const changed = await parts.conversations.change(account.id, params['id']!, change, parts.now())
      if (!changed) throw noSuchConversation()
      return settledObject(parts, changed)
    },
  ),
  ownRoute(
    'DELETE conversations/:id',
    { summary: 'Delete a conversation with its stored responses', errors: ['not_found'] },
    async ({ parts, account, params }) => {
      const conversation = await parts.conversations.remove(account.id, params['id']!)
      if (!conversation) throw noSuchConversation()
      if (conversation.lastResponse !== null)
        await parts.responses.deleteConversation(account.id, conversation.lastResponse)
      return { id: conversation.id, deleted: true }
    },
  ),
]

function newRecord(account: string, name: string, at: number): OpenConversation {
  return {
    id: `conv_${Bun.randomUUIDv7().replaceAll('-', '')}`,
    account,
    title: name,
    model: null,
    lastResponse: null,
    folder: null,
    pinned: false,
    settings: null,
    share: null,
    createdAt: at,
    updatedAt: at,
  }
}

/** The conversations in which an answer is being written. */
async function answeredNow({ callsOf }: HttpParts, account: string): Promise<ReadonlySet<string | null>> {
  return new Set((await callsOf(account)).map(({ conversation }) => conversation))
}

/** The responses of a conversation, oldest first; empty if they have expired. */
async function chainOf(
  { parts, request, requestId, account }: SignedInAsked<unknown>,
  last: string | null,
): Promise<readonly StoredResponse[]> {
  if (last === null) return []
  const permit = readPermit(parts, request, requestId, account.id)
  // As much as can be continued, and the last answer to that.
  const most = mostRead(parts.body.maxBodyBytes) + parts.responseLimits.storedBytes
  const chain = await parts.parsedResponses.conversation(wholeAccount(account.id), last, most, permit)
  return chain.kind === 'whole' ? chain.responses : []
}

function conversationObject(conversation: ConversationRecord): ConversationView {
  const { id, title, model, lastResponse, folder: place, pinned, createdAt, updatedAt } = conversation
  return {
    id,
    title,
    model,
    last_response: lastResponse,
    folder: place,
    pinned,
    created_at: iso(createdAt),
    updated_at: iso(updatedAt),
  }
}

/** With what it is asked with, and its link. */
function settledObject(
  { shareLinks, site }: Pick<HttpParts, 'shareLinks' | 'site'>,
  conversation: OpenConversation,
): SettledConversationView {
  const { share } = conversation
  const url = share && `${site.url()}/console/shared/${share.token}`
  return {
    ...conversationObject(conversation),
    settings: conversation.settings as SettledConversationView['settings'],
    share: share && url ? { url, created_at: iso(share.at) } : null,
    may_share: shareLinks(),
  }
}

function turnObject(stored: StoredResponse): { response: JsonObject; input: readonly JsonObject[] } {
  return {
    response: { ...stored.answer, output: outputOf(stored).map(withoutEncrypted) },
    input: stored.input.map(withoutEncrypted),
  }
}

function noSuchConversation(): GatewayError {
  return new GatewayError('not_found', { message: 'This account has no conversation with that id.' })
}

// Full-text search over an account's conversations: their stored responses are read, the latest conversation first, for
// a bounded time. No index is kept: it would have to be written with each answer, which is charged and waited for.

const query = z.strictObject({ q: z.string().trim().min(2).max(200) })

const mostFound = 30
/** A search ends after this time, and says how far it came. */
const searchedMs = 2_000
/** Of one conversation. Pictures and files are stored as text too; beyond this it is passed over. */
const mostSearchBytes = 4 * 1024 ** 2
/** How long it may hold the event loop at once. */
const turnMs = 5
const snippetCharacters = 120

/** The search that an account waits for: a later one ends those before it. */
const latest = new Map<string, symbol>()

export const conversationSearchRoute: ConsoleRoute = ownRoute(
  'GET conversation-search',
  { summary: 'Conversations with all words of `q` in one question or answer, the latest first' },
  async ({ parts, account, request }): Promise<ConversationSearchView> => {
    const { q } = queryOf(query, request)
    const all = await parts.conversations.list(account.id, mostConversations)
    const found: { conversation: ConversationRecord; snippet: string }[] = []
    let searched = 0
    const own = Symbol(account.id)
    latest.set(account.id, own)
    const words = wordsOf(q)
    const until = performance.now() + searchedMs
    let turn = performance.now()
    for (const conversation of all) {
      const now = performance.now()
      if (now > until || found.length === mostFound || request.signal.aborted) break
      if (latest.get(account.id) !== own) break
      if (now - turn > turnMs) {
        await new Promise((resolve) => setImmediate(resolve))
        turn = performance.now()
      }
      const snippet = await snippetOf(parts, conversation, words)
      if (snippet !== undefined) found.push({ conversation, snippet })
      searched++
    }
    if (latest.get(account.id) === own) latest.delete(account.id)
    return {
      data: found.map(({ conversation: { id, title, updatedAt }, snippet }) => ({
        id,
        title,
        updated_at: iso(updatedAt),
        snippet,
      })),
      searched,
      of: all.length,
    }
  },
)

async function snippetOf(
  { responses, conversations }: HttpParts,
  { id, account, lastResponse }: ConversationRecord,
  words: readonly string[],
): Promise<string | undefined> {
  const imported = await conversations.importedTurns(account, id)
  const found = textWith(
    imported.flatMap(({ question, answer }) => [question, answer]),
    words,
  )
  if (found !== undefined) return found
  if (lastResponse === null) return undefined
  const chain = await responses.conversation(wholeAccount(account), lastResponse, mostSearchBytes)
  if (chain.kind !== 'whole') return undefined
  for (const response of chain.responses.toReversed()) {
    const snippet = snippetIn(response, words)
    if (snippet !== undefined) return snippet
  }
  return undefined
}

function wordsOf(q: string): readonly string[] {
  return [...new Set(q.toLowerCase().split(/\s+/))]
}

/** Where all of the words (lower case) stand in a question or in its answer; undefined if they do not. */
export function snippetIn(
  { input, answer }: Pick<WrittenResponse, 'input' | 'answer'>,
  words: readonly string[],
): string | undefined {
  for (const pieces of [answer, input]) {
    const json = pieces.join('')
    const lower = json.toLowerCase()
    // Most texts are no match, and need not be parsed to know that.
    if (!words.every((word) => lower.includes(JSON.stringify(word).slice(1, -1)))) continue
    const found = textWith(textsIn(JSON.parse(json)), words)
    if (found !== undefined) return found
  }
  return undefined
}

/** Where all of the words stand in one of the texts; undefined if they do not. */
function textWith(texts: readonly string[], words: readonly string[]): string | undefined {
  const text = texts.find((each) => {
    const small = each.toLowerCase()
    return words.every((word) => small.includes(word))
  })
  return text === undefined ? undefined : cutAround(text, words[0]!)
}

/** What was said: the texts of messages, and not the ids and names around them. */
function textsIn(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(textsIn)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, field]) => {
    if (typeof field === 'string') return name === 'text' || name === 'content' ? [field] : []
    return name === 'output' || name === 'content' || name === 'summary' ? textsIn(field) : []
  })
}

function cutAround(text: string, word: string): string {
  const at = text.toLowerCase().indexOf(word)
  const from = Math.max(0, at - 40)
  const to = from + snippetCharacters
  const cut = text.slice(from, to).replace(/\s+/g, ' ').toWellFormed().trim()
  return `${from > 0 ? '…' : ''}${cut}${to < text.length ? '…' : ''}`
}

// Conversations that are shared by a link: what whoever has the link sees of one, and nothing else of its account.

/** Of a shared conversation with its files, bytes: what somebody unknown may have read. */
const mostSharedBytes = 16 * 1024 ** 2

export const shareRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    'POST conversations/:id/share',
    {
      summary: 'Share a conversation by a link, as it is now; a link that it has stays the same',
      errors: ['not_found'],
    },
    async ({ parts, account, params, request, requestId }) => {
      if (!parts.shareLinks())
        throw new GatewayError('not_found', {
          message: 'Conversations are not shared here: the operator sets accounts.share_links.',
        })
      const conversation = await parts.conversations.find(account.id, params['id']!)
      if (!conversation) throw noSuchConversation()
      const response = conversation.lastResponse
      const chain =
        response === null ? [] : await sharedChainOf({ parts, request, requestId }, account.id, response)
      if (response === null || chain === undefined || chain.length === 0) {
        const message = 'Nothing of it is stored that could be shared, or it is too large.'
        throw new GatewayError('invalid_request', { message })
      }
      const token = conversation.share?.token ?? newToken()
      const share = { token, response, at: parts.now() }
      const shared = await parts.conversations.change(account.id, conversation.id, { share }, parts.now())
      if (!shared) throw noSuchConversation()
      return settledObject(parts, shared)
    },
  ),
  ownRoute(
    'DELETE conversations/:id/share',
    { summary: 'Revoke the link of a conversation', errors: ['not_found'] },
    async ({ parts, account, params }) => {
      const changed = await parts.conversations.change(
        account.id,
        params['id']!,
        { share: null },
        parts.now(),
      )
      if (!changed) throw noSuchConversation()
      return settledObject(parts, changed)
    },
  ),
  publicRoute(
    'GET shared/:token',
    { summary: 'A conversation that is shared by a link, up to when it was shared', errors: ['not_found'] },
    async (asked): Promise<SharedConversationView> => {
      const { parts, params } = asked
      const conversation = parts.shareLinks()
        ? await parts.conversations.findShared(params['token']!)
        : undefined
      const account = conversation && (await parts.accounts.findAccount(conversation.account))
      if (!conversation?.share || !account || account.suspended) throw notShared()
      const { response, at } = conversation.share
      const chain = await sharedChainOf(asked, account.id, response)
      if (!chain) throw notShared()
      const imported = await parts.conversations.importedTurns(account.id, conversation.id)
      const before = imported.map(({ model, ...turn }) => ({
        ...turn,
        model: model ?? '',
        files: [],
        sources: [],
      }))
      return {
        title: conversation.title,
        shared_at: iso(at),
        turns: [...before, ...chain.map(sharedTurn)],
      }
    },
  ),
]

/** 160 bits: nobody finds one by trying. */
function newToken(): string {
  return crypto.getRandomValues(new Uint8Array(20)).toBase64({ alphabet: 'base64url', omitPadding: true })
}

/** undefined where a part of it is not stored any more, or it is too large. */
async function sharedChainOf(
  { parts, request, requestId }: Pick<ConsoleAsked<unknown>, 'parts' | 'request' | 'requestId'>,
  account: OpenConversation['account'],
  response: string,
): Promise<readonly StoredResponse[] | undefined> {
  const permit = readPermit(parts, request, requestId, account)
  const chain = await parts.parsedResponses.conversation(
    wholeAccount(account),
    response,
    mostSharedBytes,
    permit,
  )
  return chain.kind === 'whole' ? chain.responses : undefined
}

type Item = Readonly<Record<string, unknown>>
type SharedTurn = SharedConversationView['turns'][number]

/** What was asked and answered: no instructions, reasoning, tools, files, costs or ids. Exported for tests. */
export function sharedTurn({
  model,
  input,
  answer,
}: Pick<StoredResponse, 'model' | 'input' | 'answer'>): SharedTurn {
  const asked = input.findLast(({ role }) => role === 'user')
  const parts = asked === undefined ? [] : partsOf(asked)
  // A file in words stands before the question, with its name in front: see the chat's thread.ts.
  const texts = parts.flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
  const messages = (Array.isArray(answer['output']) ? (answer['output'] as Item[]) : []).filter(
    ({ type }) => type === 'message',
  )
  const written = messages.flatMap(partsOf)
  return {
    question: texts.at(-1) ?? '',
    files: [
      ...texts.slice(0, -1).flatMap((text) => /^([^\n]{1,200}):\n\n/.exec(text)?.[1] ?? []),
      ...parts.flatMap(({ type, filename }) =>
        type === 'input_image' ? ['image'] : type === 'input_file' ? [textOr(filename, 'file')] : [],
      ),
    ],
    model,
    answer: written
      .map(({ text, refusal }) => textOr(text, textOr(refusal, '')))
      .filter((text) => text !== '')
      .join('\n\n'),
    sources: sourcesIn(written),
  }
}

function partsOf({ content }: Item): readonly Item[] {
  if (typeof content === 'string') return [{ type: 'input_text', text: content }]
  return Array.isArray(content) ? (content as Item[]) : []
}

function sourcesIn(parts: readonly Item[]): SharedTurn['sources'] {
  const found = new Map<string, string>()
  for (const annotation of parts.flatMap(({ annotations }) =>
    Array.isArray(annotations) ? annotations : [],
  )) {
    const { type, url, title } = annotation as Item
    if (type === 'url_citation' && typeof url === 'string' && /^https?:/i.test(url) && URL.canParse(url))
      found.set(url, textOr(title, url))
  }
  return [...found].map(([url, title]) => ({ url, title }))
}

function textOr(value: unknown, otherwise: string): string {
  return typeof value === 'string' && value !== '' ? value : otherwise
}

function notShared(): GatewayError {
  return new GatewayError('not_found', {
    message: 'There is no such conversation here: its link was revoked, or it was deleted.',
  })
}

// The prompt library: texts that an account keeps to ask with again.

/** Kept for an account. */
const mostPrompts = 200

const promptName = z.string().trim().min(1).max(100)
const text = z.string().min(1).max(20_000)
const prompt = z.strictObject({ name: promptName, text })

export const promptRoutes: readonly ConsoleRoute[] = [
  ownRoute('GET prompts', { summary: 'The saved prompts, by name' }, async ({ parts, account }) => ({
    data: (await parts.prompts.list(account.id)).map(promptView),
  })),
  ownRoute(
    'POST prompts',
    { summary: 'Save a prompt', status: 201, body: prompt },
    async ({ parts, account, body }) => {
      const id = `prompt_${Bun.randomUUIDv7().replaceAll('-', '')}`
      const saved = { ...body, id, account: account.id, changedAt: parts.now() }
      if (!(await parts.prompts.add(saved, mostPrompts))) {
        const message = `An account has at most ${mostPrompts} saved prompts: delete one.`
        throw new GatewayError('invalid_request', { message })
      }
      return promptView(saved)
    },
  ),
  ownRoute(
    'PATCH prompts/:id',
    { summary: 'Change a saved prompt', errors: ['not_found'], body: prompt },
    async ({ parts, account, params, body }) => {
      const changed = { ...body, id: params['id']!, account: account.id, changedAt: parts.now() }
      if (!(await parts.prompts.change(changed))) throw noSuchPrompt()
      return promptView(changed)
    },
  ),
  ownRoute(
    'DELETE prompts/:id',
    { summary: 'Delete a saved prompt', errors: ['not_found'] },
    async ({ parts, account, params }) => {
      if (!(await parts.prompts.remove(account.id, params['id']!))) throw noSuchPrompt()
      return { id: params['id']!, deleted: true }
    },
  ),
]

function promptView({ id, name: title, text: words, changedAt }: SavedPrompt): SavedPromptView {
  return { id, name: title, text: words, changed_at: iso(changedAt) }
}

function noSuchPrompt(): GatewayError {
  return new GatewayError('not_found', { message: 'This account has no saved prompt with that id.' })
}

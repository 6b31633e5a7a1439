// Reasoning that a provider has signed or encrypted, for clients of chat completions that do not send it back: they
// know `reasoning_content` alone, which has the text. Without the rest Claude does not go on thinking between the calls
// of its tools, and OpenAI's models think everything anew.

import { LRUCache } from 'lru-cache'
import { lineOf } from '../../accounts/account.ts'
import type { Awaitable } from '../../async/async.ts'
import { joinReasoning } from '../../conversation/event.ts'
import type { ContentEvent } from '../../conversation/delivered.ts'
import type {
  AssistantMessage,
  Json,
  JsonObject,
  ReasoningDetail,
  ToolCall,
} from '../../conversation/request.ts'
import { isObject } from '../../protocols/lenient.ts'
import type { Target } from '../../protocols/protocol.ts'
import { joinedPrompt, promptParts } from '../../protocols/request/prompt-parts.ts'
import type { IncomingCall } from '../call.ts'
import type { Candidate } from '../routing/candidates.ts'

/** Milliseconds after its last use. It has the words of conversations in it, so it is kept in memory alone. */
const keptMs = 60 * 60 * 1000
/** Of all answers together, characters. */
const mostCharacters = 32 * 1024 * 1024
/** Of one answer, characters. */
const longestCharacters = 512 * 1024

/** Gemini's signatures belong to parts; those of calls have a memory of their own. */
const formats: ReadonlySet<string | null> = new Set([
  'anthropic-claude-v1',
  'openai-responses-v1',
  'xai-responses-v1',
])

/** Whose reasoning or signature it is: only the provider that made it can read it. */
interface Owner {
  readonly account: string
  /** The line of the key, so that no key is given what another has thought; empty for the app. */
  readonly line: string
  readonly provider: string
}

type NamedCall = Pick<ToolCall, 'id' | 'name'>

interface Kept {
  /** Of the function that was called: some servers give the same ids to the calls of every answer. */
  readonly name: string
  readonly details: readonly ReasoningDetail[]
}

/** What was thought before the calls of each answer, by the first of them. */
export class Thoughts {
  readonly #kept = new LRUCache<string, Kept>({
    maxSize: mostCharacters,
    maxEntrySize: longestCharacters,
    sizeCalculation: ({ details }) => JSON.stringify(details).length,
    ttl: keptMs,
    updateAgeOnGet: true,
  })

  /** Keeps what led to a call, if its provider has to get it back as it was. */
  keep(owner: Owner, call: NamedCall, details: readonly ReasoningDetail[]): void {
    const own = details.filter(({ format }) => formats.has(format))
    if (own.some(isSealed)) this.#kept.set(keyOf(owner, call.id), { name: call.name, details: own })
  }

  get isEmpty(): boolean {
    return this.#kept.size === 0
  }

  /** What led to a call of this account's; undefined if it is not known, or not this provider's. */
  of(owner: Owner, { id, name }: NamedCall): readonly ReasoningDetail[] | undefined {
    const kept = this.#kept.get(keyOf(owner, id))
    return kept?.name === name ? kept.details : undefined
  }
}

function keyOf({ account, line, provider }: Owner, id: string): string {
  return `${account} ${line} ${provider} ${id}`
}

/** Whether a detail has what only its provider can make. */
function isSealed({ signature, data }: Pick<ReasoningDetail, 'signature' | 'data'>): boolean {
  return Boolean(signature || data)
}

/** Whether the client of a call may lose reasoning: those of other protocols send it back. */
export function losesThoughts({ inbound }: IncomingCall): boolean {
  return inbound.id === 'openai-chat'
}

export function ownerOf({ caller }: IncomingCall, { provider }: Candidate): Owner {
  const line = caller.key === null ? '' : lineOf(caller.key)
  return { account: caller.account.id, line, provider: provider.id }
}

/** What keeps the reasoning of a streamed answer; undefined if its client sends it back. */
export function thoughtsOf(
  { thoughts }: { readonly thoughts: Pick<Thoughts, 'keep'> },
  call: IncomingCall,
  candidate: Candidate,
): StreamedThoughts | undefined {
  if (!losesThoughts(call)) return undefined
  return new StreamedThoughts((first, details) => thoughts.keep(ownerOf(call, candidate), first, details))
}

/** Collects the reasoning of a streamed answer, to be kept when it ends with calls. */
class StreamedThoughts {
  readonly #keep: (call: NamedCall, details: readonly ReasoningDetail[]) => void
  readonly #choices = new Map<number, { call: NamedCall | undefined; readonly details: ReasoningDetail[] }>()

  constructor(keep: (call: NamedCall, details: readonly ReasoningDetail[]) => void) {
    this.#keep = keep
  }

  event(event: ContentEvent): void {
    if (event.kind === 'reasoning-delta') {
      const { details } = this.#choice(event.choice)
      const last = details.at(-1)
      if (last?.index === event.detail.index) details[details.length - 1] = joinReasoning(last, event.detail)
      else details.push(event.detail)
      return
    }
    const choice = this.#choices.get(event.choice)
    if (choice === undefined) return
    if (event.kind === 'tool-call-start') choice.call ??= { id: event.id, name: event.name }
    else if (event.kind === 'choice-finish' && choice.call) this.#keep(choice.call, choice.details)
  }

  #choice(index: number) {
    const known = this.#choices.get(index)
    if (known) return known
    const fresh = { call: undefined, details: [] }
    this.#choices.set(index, fresh)
    return fresh
  }
}

/**
 * The call with the reasoning that its client has left out, if the first candidate's provider made it. It is a part of
 * the prompt, and so of what is held.
 */
export function withThoughts(
  thoughts: Pick<Thoughts, 'isEmpty' | 'of'>,
  call: IncomingCall,
  candidates: readonly Candidate[],
): IncomingCall {
  const [first] = candidates
  if (first === undefined || thoughts.isEmpty || !losesThoughts(call)) return call
  const { request } = call
  const owner = ownerOf(call, first)
  const found = new Map<string, readonly ReasoningDetail[]>()
  for (const named of callsWithoutThoughts(request.body['messages'])) {
    const details = thoughts.of(owner, named)
    if (details) found.set(named.id, details)
  }
  if (found.size === 0) return call
  const added: JsonObject = { thoughts: [...found.values()].flat() as unknown as Json }
  const completeMessage = (message: AssistantMessage) => {
    const reasoning = found.get(message.toolCalls[0]?.id ?? '')
    return reasoning === undefined || message.reasoning.some(isSealed) ? message : { ...message, reasoning }
  }
  return {
    ...call,
    bodyBytes: call.bodyBytes + Buffer.byteLength(JSON.stringify(added)),
    request: {
      ...request,
      promptParts: joinedPrompt(
        request.promptParts,
        promptParts(added, { conversation: '', instructions: 'thoughts', declared: [] }),
      ),
      toChatRequest: () => {
        const asked = request.toChatRequest()
        const messages = asked.messages.map((message) =>
          message.role === 'assistant' ? completeMessage(message) : message,
        )
        return { ...asked, messages }
      },
    },
  }
}

/** The first call of each message whose reasoning the client has not sent back as it was. */
function* callsWithoutThoughts(messages: Json | undefined): Generator<NamedCall> {
  for (const message of Array.isArray(messages) ? messages : []) {
    if (!isObject(message) || !Array.isArray(message['tool_calls'])) continue
    const [call] = message['tool_calls']
    const details = message['reasoning_details']
    if (
      !isObject(call) ||
      (Array.isArray(details) && details.some((each) => isObject(each) && isSealed(each)))
    )
      continue
    const { id, function: called } = call
    if (typeof id === 'string' && isObject(called) && typeof called['name'] === 'string')
      yield { id, name: called['name'] }
  }
}

// Thought signatures for protocols, whose synchronous lowering needs them.

/** Stores thought signatures of tool calls, for clients that drop them. */
export interface SignatureMemory {
  /** `key`: see `signatureKey`. */
  remember(key: string, signature: string): void
  /** undefined if unknown or expired. Never fails: the call can continue without it. */
  recall(key: string): Awaitable<string | undefined>
}

type SignatureOf = Target['rememberedSignature']

/**
 * What the signature of a call is stored by. Ids alone are not unique: some servers count them from `call_0` in each
 * answer. All models of a provider share its signatures. A hash is short, and does not store what clients name things.
 */
export function signatureKey({ account, line, provider }: Owner, { id, name }: NamedCall): string {
  const text = JSON.stringify([account, line, provider, name, id])
  return new Bun.CryptoHasher('sha256').update(text).digest('base64url').slice(0, 22)
}

/** Remembers the signatures of calls that a provider made for an account. */
export function remembering(
  memory: Pick<SignatureMemory, 'remember'>,
  owner: Owner,
): (call: NamedCall, signature: string) => void {
  return (call, signature) => memory.remember(signatureKey(owner, call), signature)
}

/**
 * Runs `lower` with the owner's signatures. If some are loaded asynchronously it runs twice: first without them, then
 * with all.
 */
export async function withSignatures<T>(
  memory: Pick<SignatureMemory, 'recall'>,
  owner: Owner,
  lower: (signatureOf: SignatureOf) => Promise<T>,
): Promise<T> {
  const recalled = new Recalled(memory, owner)
  const lowered = await lower(recalled.of)
  if (recalled.isComplete) return lowered
  await recalled.load()
  return lower(recalled.of)
}

/** The signatures that one request asks for. */
class Recalled {
  readonly #memory: Pick<SignatureMemory, 'recall'>
  readonly #owner: Owner
  /** By key, as what is awaited. */
  #known: Map<string, string | undefined> | undefined
  #awaited: Map<string, Promise<string | undefined>> | undefined

  constructor(memory: Pick<SignatureMemory, 'recall'>, owner: Owner) {
    this.#memory = memory
    this.#owner = owner
  }

  readonly of: SignatureOf = (call) => {
    const key = signatureKey(this.#owner, call)
    if (this.#known?.has(key)) return this.#known.get(key)
    const found = this.#memory.recall(key)
    if (!(found instanceof Promise)) return found
    this.#awaited = (this.#awaited ?? new Map<string, Promise<string | undefined>>()).set(key, found)
    return undefined
  }

  /** Whether all were there at once. */
  get isComplete(): boolean {
    return this.#awaited === undefined
  }

  async load(): Promise<void> {
    const awaited = [...(this.#awaited ?? [])]
    const signatures = await Promise.all(awaited.map(([, signature]) => signature))
    this.#known = new Map(awaited.map(([key], at) => [key, signatures[at]]))
  }
}

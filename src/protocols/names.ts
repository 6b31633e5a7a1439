// Makes names and ids unique.

import { createHash } from 'node:crypto'
import type { ChatEvent } from '../conversation/event.ts'
import type { ChatRequest, Message, ToolChoice } from '../conversation/request.ts'
import { atOnce, isSteps, type Steps } from '../json/json.ts'
import type { LoweredRequest } from './lowering.ts'
import type { Outbound, ProtocolId, StreamParser, Target } from './protocol.ts'

export class FreeNames {
  /** Where the search ended, by stem. */
  readonly #last = new Map<string, number>()

  /**
   * The first name that is not taken, of those that `nameOf` makes of the numbers from 2 on. `stem` is what all of them
   * begin with: a search goes on where the last of its stem ended. From the beginning each time, the ten thousand calls of
   * a conversation that share one id would take fifty million tries.
   */
  of(stem: string, nameOf: (copy: number) => string, isTaken: (name: string) => boolean): string {
    let copy = this.#last.get(stem) ?? 1
    let name: string
    do name = nameOf(++copy)
    while (isTaken(name))
    this.#last.set(stem, copy)
    return name
  }
}

/** The maximum length of a number after a name, including the underscore. */
const longestTail = 8

/** The same for names of limited length: the number replaces the last characters. */
export function freeName(
  names: FreeNames,
  name: string,
  longest: number,
  isTaken: (name: string) => boolean,
): string {
  const whole = name.slice(0, longest)
  if (!isTaken(whole)) return whole
  const nameOf = (copy: number) => {
    const tail = `_${copy}`
    return name.slice(0, longest - tail.length) + tail
  }
  return names.of(name.slice(0, longest - longestTail), nameOf, isTaken)
}

/**
 * The id that a provider gave a tool call; what `mint` makes if it gave none, or that of another call: two calls of one id
 * could not be matched with their results. It is added to those that are `taken`.
 */
export function callIdOf(given: string | undefined, taken: Set<string>, mint: () => string): string {
  const id = given && !taken.has(given) ? given : mint()
  taken.add(id)
  return id
}

/**
 * An id for a tool call whose provider gave it none, or that of another call: the same whenever the answer is read again.
 * `seed` is the answer's own id, `place` says where in it the call is.
 */
export function mintedId(seed: string, ...place: readonly number[]): string {
  const digest = createHash('sha256')
    .update([seed, ...place].join('/'))
    .digest('hex')
  return `call_${digest.slice(0, 24)}`
}

// What providers take as names of tools and ids of calls. What clients wrote otherwise is changed on the way out, the
// same in every turn, and undone on the way back.

export interface NameRule {
  /** The most characters of a name. */
  readonly longest: number
  /** Matches, globally, each character that may not be in a name. */
  readonly forbidden: RegExp
  /** Matches a name that begins as it may. */
  readonly opening: RegExp
  /** A name has exactly `longest` characters. */
  readonly exact?: true
}

export interface WireLimits {
  readonly tools: NameRule
  readonly calls: NameRule
}

const anything: NameRule = { longest: Number.POSITIVE_INFINITY, forbidden: /(?!)/g, opening: /^/ }

function wordsOf(longest: number): NameRule {
  return { longest, forbidden: /[^a-zA-Z0-9_-]/g, opening: /^./ }
}

/** Call ids of Mistral, which answers anything else with code 3280. */
export const nineLetters: NameRule = { longest: 9, forbidden: /[^a-zA-Z0-9]/g, opening: /^./, exact: true }

/**
 * By the protocol a provider speaks; from its own messages, where its documentation says nothing. Servers that speak
 * OpenAI's chat completions have the limits of OpenAI or wider ones.
 */
const wireLimits: Readonly<Record<ProtocolId, WireLimits>> = {
  'openai-chat': { tools: wordsOf(64), calls: { ...anything, longest: 40 } },
  'openai-responses': { tools: wordsOf(64), calls: { ...anything, longest: 64 } },
  // 128 at Anthropic itself by now, 64 at the clouds that host Claude.
  'anthropic-messages': { tools: wordsOf(64), calls: { ...wordsOf(64), longest: Number.POSITIVE_INFINITY } },
  // "Must start with a letter or an underscore", says the API. It matches results by name; ids of its own are long.
  gemini: {
    tools: { longest: 64, forbidden: /[^a-zA-Z0-9_.:-]/g, opening: /^[a-zA-Z_]/ },
    calls: anything,
  },
  'bedrock-converse': { tools: wordsOf(64), calls: wordsOf(64) },
  // "Only the characters a-z, A-Z, 0-9, _", and no digit first.
  cohere: { tools: { longest: 64, forbidden: /[^a-zA-Z0-9_]/g, opening: /^[a-zA-Z_]/ }, calls: anything },
  ollama: { tools: anything, calls: anything },
}

/**
 * Gives every name a wire name of its own: the one it has, where that is allowed, else one made from it. It depends on
 * the name alone, so that the next turn, with other tools beside it, writes the same.
 */
class WireNames {
  readonly #rule: NameRule
  readonly #wire = new Map<string, string>()
  readonly #client = new Map<string, string>()

  /** `known` are all names there will be. */
  constructor(rule: NameRule, known: ReadonlySet<string>) {
    this.#rule = rule
    for (const name of known) if (!fits(name, rule)) this.#give(name, known)
  }

  /** Whether no name had to be changed. */
  get unchanged(): boolean {
    return this.#wire.size === 0
  }

  of(name: string): string {
    return this.#wire.get(name) ?? name
  }

  /** The client's own for a wire name. */
  clientNameOf(wire: string): string {
    return this.#client.get(wire) ?? wire
  }

  /** From wire names to the client's, where they differ. */
  clientNames(): Record<string, string> {
    return Object.fromEntries(this.#client)
  }

  #give(name: string, known: ReadonlySet<string>): void {
    let wire: string
    let salt = 0
    do wire = madeOf(name, this.#rule, salt++)
    while (known.has(wire) || this.#client.has(wire))
    this.#wire.set(name, wire)
    this.#client.set(wire, name)
  }
}

function fits(name: string, { longest, forbidden, opening, exact }: NameRule): boolean {
  if (name.length > longest || (exact === true && name.length !== longest)) return false
  return name.search(forbidden) < 0 && opening.test(name)
}

const markLength = 8

/** A name that fits: what is readable of it, and a mark that tells it from others that read alike. */
function madeOf(name: string, { longest, forbidden, opening, exact }: NameRule, salt: number): string {
  const digest = createHash('sha256')
    .update(salt === 0 ? name : `${salt}/${name}`)
    .digest('hex')
  if (exact === true) return digest.slice(0, longest)
  const allowed = name.replace(forbidden, '_')
  const stem = opening.test(allowed) ? allowed : `_${allowed}`
  return `${stem.slice(0, longest - markLength - 1)}_${digest.slice(0, markLength)}`
}

/** A request within the limits of a provider. */
interface LimitedRequest {
  readonly request: ChatRequest
  readonly tools: WireNames
  readonly calls: WireNames
}

/** Undefined where everything is within them, as mostly. */
function limitedRequest(request: ChatRequest, limits: WireLimits): LimitedRequest | undefined {
  const names = new Set(request.tools.map(({ name }) => name))
  const ids = new Set<string>()
  for (const message of request.messages) {
    if (message.role === 'tool') ids.add(message.toolCallId)
    if (message.role !== 'assistant') continue
    for (const { id, name } of message.toolCalls) {
      names.add(name)
      ids.add(id)
    }
  }
  const tools = new WireNames(limits.tools, names)
  const calls = new WireNames(limits.calls, ids)
  if (tools.unchanged && calls.unchanged) return undefined
  const limited = {
    ...request,
    tools: request.tools.map((tool) => ({ ...tool, name: tools.of(tool.name) })),
    toolChoice: limitedChoice(request.toolChoice, tools),
    messages: request.messages.map((message) => limitedMessage(message, tools, calls)),
  }
  return { request: limited, tools, calls }
}

function limitedMessage(message: Message, tools: WireNames, calls: WireNames): Message {
  switch (message.role) {
    case 'tool':
      return { ...message, toolCallId: calls.of(message.toolCallId) }
    case 'assistant': {
      const named = message.toolCalls.map((call) => ({
        ...call,
        id: calls.of(call.id),
        name: tools.of(call.name),
      }))
      return { ...message, toolCalls: named }
    }
    default:
      return message
  }
}

function limitedChoice(choice: ToolChoice | undefined, tools: WireNames): ToolChoice | undefined {
  switch (choice?.kind) {
    case 'function':
      return { ...choice, name: tools.of(choice.name) }
    case 'allowed':
      return { ...choice, names: choice.names.map((name) => tools.of(name)) }
    default:
      return choice
  }
}

/** A protocol whose names may be too long; some lower a request in steps alone. */
type Unlimited<Quirks> = Omit<Outbound<Quirks>, 'lower' | 'lowerSteps'> & {
  lower(request: ChatRequest, target: Target<Quirks>): LoweredRequest | Steps<LoweredRequest>
}

/**
 * The protocol with its limits kept: names of tools and ids of calls that its providers would refuse are changed in
 * what it lowers, and what it reads has the client's own. `limitsFor`: those of one provider, where they differ.
 */
export function withinLimits<Quirks>(
  outbound: Unlimited<Quirks>,
  limitsFor: (target: Target<Quirks>, usual: WireLimits) => WireLimits = (_, usual) => usual,
): Outbound<Quirks> {
  function* lowerSteps(request: ChatRequest, target: Target<Quirks>): Steps<LoweredRequest> {
    const limited = limitedRequest(request, limitsFor(target, wireLimits[outbound.id]))
    if (limited === undefined) return yield* inSteps(outbound, request, target)
    yield
    const { tools, calls } = limited
    const lowered = yield* inSteps(outbound, limited.request, {
      ...target,
      rememberedSignature: ({ id, name }) =>
        target.rememberedSignature({ id: calls.clientNameOf(id), name: tools.clientNameOf(name) }),
    })
    if (tools.unchanged) return lowered
    // What the protocol itself has renamed, it has renamed from names within the limits.
    const renamed = Object.entries(lowered.toolNames ?? {}).map(([wire, name]) => [
      wire,
      tools.clientNameOf(name),
    ])
    return { ...lowered, toolNames: { ...tools.clientNames(), ...Object.fromEntries(renamed) } }
  }
  return {
    ...outbound,
    lower: (request, target) => atOnce(lowerSteps(request, target)),
    lowerSteps,
    whole: (body, target) => withClientNames(outbound.whole(body, target), target),
    parser: (target, choices) => parserWithClientNames(outbound.parser(target, choices), target),
  }
}

function* inSteps<Quirks>(
  outbound: Unlimited<Quirks>,
  request: ChatRequest,
  target: Target<Quirks>,
): Steps<LoweredRequest> {
  const made = outbound.lower(request, target)
  return isSteps(made) ? yield* made : made
}

/** The events with the client's own names of the tools that are called. */
function withClientNames(
  events: readonly ChatEvent[],
  { toolNames }: Pick<Target, 'toolNames'>,
): readonly ChatEvent[] {
  if (toolNames === undefined) return events
  return events.map((event) =>
    event.kind === 'tool-call-start' && Object.hasOwn(toolNames, event.name)
      ? { ...event, name: toolNames[event.name]! }
      : event,
  )
}

/** The same parser, whose calls have the client's own names of the tools. */
function parserWithClientNames(parser: StreamParser, target: Pick<Target, 'toolNames'>): StreamParser {
  if (target.toolNames === undefined) return parser
  return {
    push: (frame) => withClientNames(parser.push(frame), target),
    end: () => withClientNames(parser.end(), target),
    ...(parser.texts && { texts: (received, at) => parser.texts!(received, at) }),
  }
}

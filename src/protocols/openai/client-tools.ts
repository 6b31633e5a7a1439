// Tools that OpenAI's protocols have beside functions and that their clients run: a text instead of arguments
// (`custom`), shells, patches, a search among tools. Inside the gateway, and at providers that know functions alone,
// each is a function; this file says which, and turns calls and results into items of the Responses protocol and back.
// Shapes: https://developers.openai.com/api/reference/resources/responses, "Input items" and "Tools".

import type { CallForm, ChatRequest, ClientToolKind, Json, JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { noWarnings, type Warning } from '../lowering.ts'
import { isObject, nonEmpty, parseJson } from '../lenient.ts'

/** What a tool is as a function. */
interface Offer {
  readonly description: string | undefined
  readonly parameters: JsonObject
}

interface ClientTool {
  /** The type of a call's item, of its result's, and what the ids of calls begin with. */
  readonly call: string
  readonly result: string
  readonly idPrefix: string
  offer(tool: JsonObject): Offer
  /** The arguments of the function, JSON text, for a call's item. */
  argumentsOf(item: JsonObject): string
  /** The fields of a call's item for arguments that the model wrote; never throws, whatever they are. */
  fieldsOf(json: string): JsonObject
}

const text = { type: 'string' }
const count = { type: 'integer' }
const texts = { type: 'array', items: text }

function object(properties: JsonObject, required: readonly string[]): JsonObject {
  return { type: 'object', properties, required: [...required], additionalProperties: false }
}

export const clientTools: Readonly<Record<Exclude<ClientToolKind, 'function'>, ClientTool>> = {
  custom: {
    call: 'custom_tool_call',
    result: 'custom_tool_call_output',
    idPrefix: 'ctc',
    offer: ({ description, format }) => ({
      description: joinWords(nonEmpty(description), grammarWords(format)),
      parameters: object({ input: { ...text, description: 'The input of the tool, as plain text.' } }, [
        'input',
      ]),
    }),
    argumentsOf: ({ input }) => JSON.stringify({ input: typeof input === 'string' ? input : '' }),
    fieldsOf: (json) => ({ input: inputIn(json) }),
  },
  local_shell: {
    call: 'local_shell_call',
    result: 'local_shell_call_output',
    idPrefix: 'lsh',
    offer: () => ({
      description: "Runs a command in the user's own shell, and gives its output.",
      parameters: object(
        {
          command: { ...texts, description: 'The program and its arguments.' },
          working_directory: text,
          timeout_ms: count,
          env: { type: 'object', additionalProperties: text },
        },
        ['command'],
      ),
    }),
    argumentsOf: ({ action }) => JSON.stringify(withoutType(action)),
    fieldsOf: (json) => {
      const { command, env, ...more } = objectIn(json)
      const list = typeof command === 'string' ? ['bash', '-lc', command] : textsIn(command)
      return { action: { ...more, type: 'exec', command: list, env: isObject(env) ? env : {} } }
    },
  },
  shell: {
    call: 'shell_call',
    result: 'shell_call_output',
    idPrefix: 'sh',
    offer: () => ({
      description: "Runs commands in the user's own shell, and gives the output of each.",
      parameters: object({ commands: texts, timeout_ms: count, max_output_length: count }, ['commands']),
    }),
    argumentsOf: ({ action }) => JSON.stringify(withoutType(action)),
    fieldsOf: (json) => {
      const { commands, timeout_ms = null, max_output_length = null } = objectIn(json)
      const list = typeof commands === 'string' ? [commands] : textsIn(commands)
      return { action: { commands: list, timeout_ms, max_output_length } }
    },
  },
  apply_patch: {
    call: 'apply_patch_call',
    result: 'apply_patch_call_output',
    idPrefix: 'apc',
    offer: () => ({
      description:
        "Creates, changes or deletes one of the user's files. `diff` is a V4A diff without the lines that begin and " +
        'end a patch: lines of context after a space, new ones after +, old ones after -, sections after @@. A new ' +
        'file has + before every line; a deletion has no diff.',
      parameters: object(
        { type: { ...text, enum: ['create_file', 'update_file', 'delete_file'] }, path: text, diff: text },
        ['type', 'path'],
      ),
    }),
    argumentsOf: ({ operation }) => JSON.stringify(isObject(operation) ? operation : {}),
    fieldsOf: (json) => {
      const { type = 'update_file', path = '', ...more } = objectIn(json)
      return { operation: { type, path, ...more } }
    },
  },
  tool_search: {
    call: 'tool_search_call',
    result: 'tool_search_output',
    idPrefix: 'tsc',
    offer: ({ description, parameters }) => ({
      description: nonEmpty(description) ?? 'Searches for tools. What it finds can be called from then on.',
      parameters: isObject(parameters) ? parameters : object({ query: text }, ['query']),
    }),
    argumentsOf: ({ arguments: args }) => (typeof args === 'string' ? args : JSON.stringify(args ?? {})),
    fieldsOf: (json) => ({ arguments: objectIn(json), execution: 'client' }),
  },
}

export type ClientToolType = keyof typeof clientTools

export const clientToolTypes = Object.keys(clientTools) as readonly ClientToolType[]

export function isClientToolType(type: unknown): type is ClientToolType {
  return typeof type === 'string' && Object.hasOwn(clientTools, type)
}

const kindOfCalls = new Map(clientToolTypes.map((kind) => [clientTools[kind].call, kind]))
const kindOfResults = new Map(clientToolTypes.map((kind) => [clientTools[kind].result, kind]))

/** The kind of tool that an item of this type is a call of; undefined for all other items, and calls of functions. */
export function kindOfCall(type: unknown): ClientToolType | undefined {
  return kindOfCalls.get(type as string)
}

/** The same for results. */
export function kindOfResult(type: unknown): ClientToolType | undefined {
  return kindOfResults.get(type as string)
}

/** The id by which a call and its result find each other. OpenAI's local shell has results under `id`. */
export function callIdIn(item: JsonObject): string | undefined {
  return nonEmpty(item.call_id) ?? (item.type === 'local_shell_call_output' ? nonEmpty(item.id) : undefined)
}

/** The item of a call, without its ids and status. */
export function callItem({ kind, name, namespace }: CallForm, json: string): JsonObject {
  const within: JsonObject = namespace === undefined ? {} : { namespace }
  if (kind === 'function') return { type: 'function_call', name, ...within, arguments: json }
  const named: JsonObject = kind === 'custom' ? { name, ...within } : {}
  return { type: clientTools[kind].call, ...named, ...clientTools[kind].fieldsOf(json) }
}

/**
 * The request for a provider that knows functions alone. Throws GatewayError `unsupported_parameter` for what would be
 * lost with an item of the Responses protocol.
 */
export function forOtherProtocols(request: ChatRequest): {
  readonly request: ChatRequest
  readonly warnings: readonly Warning[]
} {
  const refused = request.nativeItems?.find(({ refusedElsewhere }) => refusedElsewhere !== undefined)
  if (refused !== undefined) {
    const { param, refusedElsewhere } = refused
    const message = `'${param}' cannot be honoured by this model's provider: ${refusedElsewhere}.`
    throw new GatewayError('unsupported_parameter', { message, param })
  }
  // A model that is to write a summary calls nothing.
  const last = request.messages.at(-1)
  const isSummary = last?.role === 'user' && last.item?.['type'] === 'compaction_trigger'
  if (isSummary && request.tools.length > 0)
    return { request: { ...request, toolChoice: { kind: 'none' } }, warnings: noWarnings }
  return { request, warnings: noWarnings }
}

function joinWords(...parts: readonly (string | undefined)[]): string | undefined {
  const said = parts.filter((part) => part !== undefined)
  return said.length === 0 ? undefined : said.join('\n\n')
}

/** What a model is told that a provider cannot hold to a grammar. */
function grammarWords(format: Json | undefined): string | undefined {
  if (!isObject(format) || format.type !== 'grammar') return undefined
  const { syntax, definition } = isObject(format.grammar) ? format.grammar : format
  const kind = syntax === 'regex' ? 'match this regular expression' : `follow this ${String(syntax)} grammar`
  return `The input must ${kind}:\n${String(definition)}`
}

function withoutType(action: Json | undefined): JsonObject {
  const { type: _, ...fields } = isObject(action) ? action : {}
  return fields
}

function objectIn(json: string): JsonObject {
  const value = parseJson(json)
  return isObject(value) ? value : {}
}

function textsIn(value: Json | undefined): string[] {
  return Array.isArray(value)
    ? value.map((each) => (typeof each === 'string' ? each : JSON.stringify(each)))
    : []
}

/** The text of a custom tool's call. A model that wrote no `{"input": …}` meant what it wrote. */
function inputIn(json: string): string {
  const value = parseJson(json)
  if (isObject(value)) {
    if (typeof value.input === 'string') return value.input
    const [only, ...others] = Object.values(value)
    if (others.length === 0 && typeof only === 'string') return only
    if (only === undefined) return ''
  }
  return typeof value === 'string' ? value : json
}

// A custom tool's input while it is streamed: the arguments are JSON, and what of the input is known so far is text.

const opening = /^\s*\{\s*"input"\s*:\s*"/
/** Where arguments are longer than this and have not begun as expected, the input waits for their end. */
const longestOpening = 64

export class InputStream {
  /** What has been received and not decoded. */
  #rest = ''
  #state: 'before' | 'within' | 'after' | 'other' = 'before'
  #json = ''
  #text = ''

  /** Takes more of the arguments; returns what is new of the input. */
  take(json: string): string {
    this.#json += json
    if (this.#state === 'after' || this.#state === 'other') return ''
    this.#rest += json
    if (this.#state === 'before') {
      const start = opening.exec(this.#rest)
      if (start === null) {
        if (this.#rest.length > longestOpening) this.#state = 'other'
        return ''
      }
      this.#state = 'within'
      this.#rest = this.#rest.slice(start[0].length)
    }
    return this.#add(this.#decode())
  }

  /** The end of the arguments; returns the rest of the input. */
  end(): string {
    if (this.#state === 'within' || this.#state === 'after') return ''
    this.#state = 'after'
    return this.#add(this.#json === '' ? '' : inputIn(this.#json))
  }

  /** The input so far. */
  get text(): string {
    return this.#text
  }

  /** Whether nothing more of the input can follow. */
  get isWhole(): boolean {
    return this.#state === 'after'
  }

  #add(piece: string): string {
    this.#text += piece
    return piece
  }

  #decode(): string {
    const pieces: string[] = []
    let at = 0
    while (at < this.#rest.length) {
      const ends = /["\\]/g
      ends.lastIndex = at
      const stop = ends.exec(this.#rest)?.index ?? this.#rest.length
      if (stop > at) pieces.push(this.#rest.slice(at, stop))
      at = stop
      if (at === this.#rest.length) break
      if (this.#rest[at] === '"') {
        this.#state = 'after'
        at = this.#rest.length
        break
      }
      const length = escapeLength(this.#rest, at)
      if (at + length > this.#rest.length) break
      const escape = parseJson(`"${this.#rest.slice(at, at + length)}"`)
      pieces.push(typeof escape === 'string' ? escape : this.#rest.slice(at, at + length))
      at += length
    }
    this.#rest = this.#rest.slice(at)
    return pieces.join('')
  }
}

/** How many characters the escape at this place takes; both halves of a pair are one. */
function escapeLength(json: string, at: number): number {
  if (json[at + 1] !== 'u') return 2
  const isHalf = /^\\u[dD][89abAB]/.test(json.slice(at, at + 4))
  const after = json.slice(at + 6, at + 8)
  return isHalf && '\\u'.startsWith(after) ? 12 : 6
}

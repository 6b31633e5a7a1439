// Output items of the gateway's own tools.

import type { GatewayCall, GatewayRun } from '../../../conversation/gateway-tools.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { isObject } from '../../json.ts'
import { actionOf, wireRun } from '../../openai/gateway-runs.ts'
import { type ItemStatus, OutputItem, type Place, type Emit } from './output-item.ts'

/** A tool call, open until it has run; several may be open. */
export class RunItem extends OutputItem {
  readonly #call: GatewayCall
  #run: GatewayRun | undefined

  constructor(place: Place, emit: Emit, call: GatewayCall) {
    super(place, emit)
    this.#call = call
    this.begin()
    this.about(`response.${this.#type}.in_progress`, {})
    if (this.#type === 'web_search_call') this.about('response.web_search_call.searching', {})
    else {
      this.about('response.mcp_call_arguments.delta', { delta: call.arguments })
      this.about('response.mcp_call_arguments.done', { arguments: call.arguments })
    }
  }

  static idPrefix({ origin }: GatewayCall): string {
    return origin.kind === 'mcp' ? 'mcp' : 'ws'
  }

  end(run: GatewayRun): void {
    this.#run = run
    const failed = run.result.failure !== undefined
    if (!failed) this.about(`response.${this.#type}.completed`, {})
    // A search has no event for its arguments.
    else if (this.#type === 'mcp_call') this.about('response.mcp_call.failed', {})
    this.close(failed ? 'failed' : 'completed')
  }

  json(status: ItemStatus = this.status): JsonObject {
    if (this.#run) return { id: this.id, ...wireRun(this.#run), status }
    const { origin, arguments: json } = this.#call
    if (origin.kind !== 'mcp')
      return {
        id: this.id,
        type: this.#type,
        status: searchStatus(status),
        action: actionOf(origin, json, undefined),
      }
    const { serverLabel, tool } = origin
    const call = { server_label: serverLabel, name: tool, arguments: json }
    return { id: this.id, type: this.#type, status, ...call, output: null, error: null }
  }

  get #type(): 'mcp_call' | 'web_search_call' {
    return this.#call.origin.kind === 'mcp' ? 'mcp_call' : 'web_search_call'
  }
}

/** A search run by the provider, open until its result arrives. */
export class SearchItem extends OutputItem {
  readonly #query: string
  #item: JsonObject

  constructor(place: Place, emit: Emit, query = '') {
    super(place, emit)
    this.#query = query
    this.#item = { type: 'web_search_call', action: { type: 'search', query } }
    this.begin()
    this.about('response.web_search_call.in_progress', {})
    this.about('response.web_search_call.searching', {})
  }

  /** The search has ended; `item` is its final state. */
  end(item: JsonObject): void {
    this.#item = { ...item, action: this.#withQuery(item.action) }
    const failed = item.status === 'failed'
    if (!failed) this.about('response.web_search_call.completed', {})
    this.close(failed ? 'failed' : 'completed')
  }

  json(status: ItemStatus = this.status): JsonObject {
    return { id: this.id, ...this.#item, status: searchStatus(status) }
  }

  /** If the turn paused between a search and its result, the query is not repeated. */
  #withQuery(action: Json | undefined): Json {
    const isUnnamed = isObject(action) && action.type === 'search' && action.query === ''
    return isUnnamed ? { ...action, query: this.#query } : (action ?? null)
  }
}

/** The protocol has no status for incomplete searches. */
function searchStatus(status: ItemStatus): ItemStatus {
  return status === 'incomplete' ? 'failed' : status
}

/** Other items of tools, which are sent whole. */
export class NoteItem extends OutputItem {
  readonly #item: JsonObject

  constructor(place: Place, emit: Emit, item: JsonObject) {
    // The client's answer refers to its id.
    super(typeof item.id === 'string' ? { ...place, id: item.id } : place, emit)
    this.#item = item
    this.begin()
  }

  json(): JsonObject {
    return { id: this.id, ...this.#item }
  }

  protected override endParts(): void {
    const { type, error } = this.#item
    // The other kinds have no events of their own.
    if (type !== 'mcp_list_tools') return
    this.about('response.mcp_list_tools.in_progress', {})
    this.about(`response.mcp_list_tools.${error == null ? 'completed' : 'failed'}`, {})
  }
}

const notePrefixes: Readonly<Record<string, string>> = {
  mcp_list_tools: 'mcpl',
  mcp_approval_request: 'mcpr',
}

export function notePrefix({ type }: JsonObject): string {
  return notePrefixes[String(type)] ?? 'item'
}

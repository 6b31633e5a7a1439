// Approvals in the history of a conversation: what the client was asked, what it has answered, and what became of it.

import type { ApprovedCall } from '../../conversation/gateway-tools.ts'
import type { JsonObject, ToolCall, ToolMessage } from '../../conversation/request.ts'
import { invalidParam } from './invalid-param.ts'

/** An item of the history, and where the client wrote it. */
export interface PlacedItem {
  readonly item: JsonObject
  readonly param: string
}

/** A call that was submitted for approval, as it is in the conversation. */
export interface AskedCall {
  readonly call: ToolCall
  /** undefined while the gateway is still to run it. */
  readonly result: ToolMessage | undefined
}

export class Approvals {
  readonly #asked = new Map<string, AskedCall>()
  readonly #approved: readonly ApprovedCall[]

  /**
   * Reads all items of a conversation, in their order. Throws `invalid_request` for an answer to what was never asked,
   * and for a second one.
   */
  constructor(items: readonly PlacedItem[]) {
    const requests = new Map<string, ApprovedCall>()
    const answers = new Map<string, JsonObject>()
    const ran = new Set<unknown>()
    /** Answers that the model has gone on from, and those that it has not yet. */
    const settled = new Set<unknown>()
    let fresh: string[] = []
    for (const { item, param } of items) {
      if (isOfModel(item)) {
        for (const id of fresh) settled.add(id)
        fresh = []
      }
      if (item.type === 'mcp_call' && item.approval_request_id != null) ran.add(item.approval_request_id)
      if (item.type === 'mcp_approval_request') {
        const request = requestIn(item, param)
        requests.set(request.requestId, request)
      }
      if (item.type === 'mcp_approval_response') {
        const id = answeredId(item, param)
        const field = `${param}.approval_request_id`
        if (!requests.has(id)) throw invalidParam(field, 'no approval was asked for under this id.')
        if (answers.has(id)) throw invalidParam(field, 'it has been answered before.')
        answers.set(id, item)
        fresh.push(id)
      }
    }
    const open = [...requests.values()].filter(({ requestId }) => !ran.has(requestId))
    this.#approved = open.filter(
      ({ requestId }) => answers.get(requestId)?.approve === true && !settled.has(requestId),
    )
    const approved = new Set(this.#approved)
    for (const request of open) {
      const answer = answers.get(request.requestId)
      this.#asked.set(request.requestId, askedCall(request, answer, approved.has(request)))
    }
  }

  /** Calls that are still to be run. */
  get approved(): readonly ApprovedCall[] {
    return this.#approved
  }

  /** The call that a request asked about; undefined if it has been run already. */
  askedCall(requestId: unknown): AskedCall | undefined {
    return this.#asked.get(String(requestId))
  }
}

function requestIn(item: JsonObject, param: string): ApprovedCall {
  const { id, server_label: serverLabel, name, arguments: json } = item
  if (typeof id !== 'string' || typeof serverLabel !== 'string' || typeof name !== 'string') {
    throw invalidParam(param, 'an approval request has an id, a server_label and a name.')
  }
  return {
    requestId: id,
    serverLabel,
    tool: name,
    arguments: typeof json === 'string' && json !== '' ? json : '{}',
  }
}

function answeredId({ approval_request_id: id, approve }: JsonObject, param: string): string {
  if (typeof id !== 'string') throw invalidParam(`${param}.approval_request_id`, 'must be a text.')
  if (typeof approve !== 'boolean') throw invalidParam(`${param}.approve`, 'must be true or false.')
  return id
}

function askedCall(
  { requestId: id, serverLabel, tool, arguments: json }: ApprovedCall,
  answer: JsonObject | undefined,
  isPending: boolean,
): AskedCall {
  const origin = { kind: 'mcp', serverLabel, tool } as const
  const call: ToolCall = { id, name: tool, arguments: json, thoughtSignature: undefined, origin }
  if (isPending) return { call, result: undefined }
  const content = [{ kind: 'text', text: notRun(answer), cache: undefined } as const]
  return { call, result: { role: 'tool', toolCallId: id, content, isError: true } }
}

/** Why a call that was asked about has not been run, for the model. */
function notRun(answer: JsonObject | undefined): string {
  if (!answer) return 'The user was asked to allow this call and has not answered.'
  if (answer.approve === true)
    return 'The user has allowed this call, and it was not run: its tool had changed.'
  const { reason } = answer
  const why = typeof reason === 'string' && reason !== '' ? ` The user says: ${reason}` : ''
  return `The user has not allowed this call.${why}`
}

/** Whether an item was made by the model, or by the gateway for it: whatever was answered before has been read then. */
function isOfModel({ type, role }: JsonObject): boolean {
  if (type === 'message') return role === 'assistant'
  return typeof type === 'string' && modelItems.has(type)
}

const modelItems = new Set(['function_call', 'mcp_call', 'mcp_list_tools', 'reasoning', 'web_search_call'])

// A conversation in the page: its turns, and how stream events change them. Pure.

import type { ImportedTurnView } from '../../http/console/answers.ts'

export interface Attachment {
  readonly name: string
  readonly type: string
  /** As a data URL; for plain text its words. */
  readonly data: string
}

export interface ToolRun {
  readonly id: string
  readonly kind: string
  readonly label: string
  readonly state: 'running' | 'done' | 'failed'
  readonly detail: string
}

/** A tool call that waits for the user's approval. */
export interface ApprovalRequest {
  readonly id: string
  readonly server: string
  readonly tool: string
  readonly arguments: string
}

/** The user's decision about such a call. */
export interface Approval {
  readonly id: string
  readonly approve: boolean
}

/** A page that an answer cites. */
export interface CitedSource {
  readonly url: string
  readonly title: string
}

export interface Answer {
  /** The id of the stored response; null until the stream has begun, or if none is stored. */
  readonly id: string | null
  readonly requestId: string | null
  readonly model: string
  readonly text: string
  readonly reasoning: string
  readonly tools: readonly ToolRun[]
  readonly requests: readonly ApprovalRequest[]
  readonly sources: readonly CitedSource[]
  readonly state: 'running' | 'done' | 'cut' | 'stopped' | 'failed'
  readonly stored: boolean
  /** `code` as in the error reference; null for a fault that the page found itself. */
  readonly fault: { readonly code: string | null; readonly message: string } | null
  readonly cost: string | null
  readonly paidBy: readonly { readonly pool: string; readonly amount: string }[]
  readonly tokens: { readonly input: number; readonly output: number } | null
}

export interface ChatTurn {
  readonly key: string
  readonly text: string
  readonly attachments: readonly Attachment[]
  /** If present, the turn has no question: the answer before goes on. */
  readonly approvals: readonly Approval[]
  readonly answer: Answer
  /** From another program: it stays as it is, and goes along as text. */
  readonly imported?: true
}

export function newAnswer(model: string): Answer {
  return {
    id: null,
    requestId: null,
    model,
    text: '',
    reasoning: '',
    tools: [],
    requests: [],
    sources: [],
    state: 'running',
    stored: false,
    fault: null,
    cost: null,
    paidBy: [],
    tokens: null,
  }
}

/** The fields of a response stream's event that the chat reads. */
export interface StreamEvent {
  readonly type: string
  readonly delta?: string
  readonly item?: ThreadItem
  readonly annotation?: Annotation
  readonly response?: ResponseObject
  readonly code?: string
  readonly message?: string
}

export interface ThreadItem {
  readonly id?: string
  readonly type: string
  readonly role?: string
  readonly status?: string
  readonly name?: string
  readonly server_label?: string
  readonly arguments?: string
  readonly output?: string | null
  readonly error?: unknown
  readonly action?: Readonly<Record<string, unknown>>
  readonly content?: string | readonly Part[]
  readonly summary?: readonly Part[]
  readonly approval_request_id?: string
  readonly approve?: boolean
}

interface Annotation {
  readonly type: string
  readonly url?: string
  readonly title?: string
}

interface Part {
  readonly type: string
  readonly text?: string
  readonly refusal?: string
  readonly annotations?: readonly Annotation[]
  readonly image_url?: string
  readonly filename?: string
  readonly file_data?: string
}

export interface ResponseObject {
  readonly id: string
  readonly model: string
  readonly status: string
  readonly store?: boolean
  readonly previous_response_id?: string | null
  readonly output: readonly ThreadItem[]
  readonly error: { readonly code: string; readonly message: string } | null
  readonly usage?: {
    readonly input_tokens: number
    readonly output_tokens: number
    readonly cost_details?: { readonly total?: string }
  } | null
}

export function after(answer: Answer, event: StreamEvent): Answer {
  switch (event.type) {
    case 'response.created':
      return { ...answer, id: event.response?.id ?? null }
    case 'response.output_text.delta':
    case 'response.refusal.delta':
      return { ...answer, text: answer.text + (event.delta ?? '') }
    case 'response.reasoning_text.delta':
    case 'response.reasoning_summary_text.delta':
      return { ...answer, reasoning: answer.reasoning + (event.delta ?? '') }
    case 'response.reasoning_summary_part.added':
      return answer.reasoning === '' ? answer : { ...answer, reasoning: `${answer.reasoning}\n\n` }
    case 'response.output_item.added':
      // As a stored answer is shown.
      if (event.item?.type === 'message' && answer.text !== '')
        return { ...answer, text: `${answer.text}\n\n` }
      return event.item ? withItem(answer, event.item) : answer
    case 'response.output_item.done':
      return event.item ? withItem(answer, event.item) : answer
    case 'response.output_text.annotation.added':
      return { ...answer, sources: withCitation(answer.sources, event.annotation) }
    case 'response.completed':
    case 'response.incomplete':
    case 'response.failed':
      return event.response ? { ...answer, ...endOf(event.response, answer) } : answer
    case 'error':
      return { ...answer, fault: { code: event.code ?? 'error', message: event.message ?? '' } }
    default:
      return answer
  }
}

function withItem(answer: Answer, item: ThreadItem): Answer {
  const request = requestOf(item)
  if (request) {
    const others = answer.requests.filter(({ id }) => id !== request.id)
    return { ...answer, requests: [...others, request] }
  }
  const tool = toolOf(item)
  if (tool === undefined) return answer
  const others = answer.tools.filter(({ id }) => id !== tool.id)
  return { ...answer, tools: [...others, tool] }
}

function toolOf(item: ThreadItem): ToolRun | undefined {
  const { id = '', type, name, status, error } = item
  if (!/_call$|^mcp_list_tools$/.test(type)) return undefined
  const state =
    error != null || status === 'failed' ? 'failed' : status === 'in_progress' ? 'running' : 'done'
  const [kind, label] =
    type === 'web_search_call' ? actionOf(item.action) : [type, name ?? item.server_label ?? '']
  const detail = [item.arguments, item.output]
    .filter((text) => typeof text === 'string' && text !== '')
    .join('\n\n')
  return { id, kind, label, state, detail }
}

/** A search and what it looked for; of another tool of the gateway its action (`open_page`), and what that names. */
function actionOf({ type = 'search', ...about }: NonNullable<ThreadItem['action']> = {}) {
  const named = [about['query'], ...Object.values(about)].find((value) => typeof value === 'string')
  return [type === 'search' ? 'web_search_call' : String(type), named ?? ''] as const
}

function requestOf(item: ThreadItem): ApprovalRequest | undefined {
  const { id, type, name = '', server_label: server = '', arguments: json = '' } = item
  if (type !== 'mcp_approval_request' || id === undefined) return undefined
  return { id, server, tool: name, arguments: json }
}

/** The sources with one more, if it is a page and not among them. */
function withCitation(
  sources: readonly CitedSource[],
  annotation: Annotation | undefined,
): readonly CitedSource[] {
  const { type, url = '', title } = annotation ?? {}
  if (type !== 'url_citation' || !/^https?:\/\//i.test(url) || !URL.canParse(url)) return sources
  return sources.some((known) => known.url === url) ? sources : [...sources, { url, title: title || url }]
}

const states: Readonly<Record<string, Answer['state']>> = {
  completed: 'done',
  incomplete: 'cut',
  cancelled: 'stopped',
}

function endOf(response: ResponseObject, answer: Answer): Partial<Answer> {
  const { status, usage, error } = response
  return {
    id: response.id,
    state: states[status] ?? 'failed',
    stored: response.store !== false,
    fault: error ?? answer.fault,
    cost: usage?.cost_details?.total ?? answer.cost,
    tokens: usage ? { input: usage.input_tokens, output: usage.output_tokens } : answer.tokens,
  }
}

/** The turns that a conversation begins with that was imported. */
export function importedTurns(turns: readonly ImportedTurnView[]): readonly ChatTurn[] {
  return turns.map(({ question, answer, model }, index) => ({
    key: `imported ${index}`,
    text: question,
    attachments: [],
    approvals: [],
    answer: { ...newAnswer(model ?? ''), text: answer, state: 'done' },
    imported: true,
  }))
}

/** A stored turn: the response with its input items. */
export function keptTurn(response: ResponseObject, input: readonly ThreadItem[]): ChatTurn {
  const { output } = response
  const of = (type: string, read: (item: ThreadItem) => string) =>
    output.flatMap((item) => (item.type === type ? [read(item)] : [])).join('\n\n')
  const answer: Answer = {
    ...newAnswer(response.model),
    text: of('message', textIn),
    reasoning: of('reasoning', reasoningIn),
    tools: output.flatMap((item) => toolOf(item) ?? []),
    requests: output.flatMap((item) => requestOf(item) ?? []),
    sources: output
      .flatMap(partsOf)
      .flatMap(({ annotations = [] }) => annotations)
      .reduce(withCitation, []),
  }
  const asked = input.findLast((item) => item.role === 'user')
  return {
    key: response.id,
    ...(asked === undefined ? { text: '', attachments: [] } : questionIn(asked)),
    approvals: asked === undefined ? input.flatMap(approvalIn) : [],
    answer: { ...answer, ...endOf(response, answer), stored: true },
  }
}

function approvalIn({ type, approval_request_id: id, approve }: ThreadItem): Approval[] {
  return type === 'mcp_approval_response' && id !== undefined ? [{ id, approve: approve === true }] : []
}

function partsOf(item: ThreadItem): readonly Part[] {
  if (typeof item.content === 'string') return [{ type: 'input_text', text: item.content }]
  return item.content ?? []
}

function textIn(item: ThreadItem): string {
  return partsOf(item)
    .map(({ text, refusal }) => text ?? refusal ?? '')
    .filter((text) => text !== '')
    .join('\n\n')
}

function reasoningIn(item: ThreadItem): string {
  return [...(item.summary ?? []), ...partsOf(item)].map(({ text }) => text ?? '').join('\n\n')
}

/** A question as `userItem` wrote it: text before its last text is that of a file. */
function questionIn(item: ThreadItem): Pick<ChatTurn, 'text' | 'attachments'> {
  const parts = partsOf(item)
  const words = parts.findLastIndex(({ text }) => text !== undefined)
  const attachments = parts.map((part, index) => (index === words ? undefined : attachmentOf(part)))
  const rest = parts.filter((_, index) => attachments[index] === undefined)
  return {
    text: textIn({ ...item, content: rest }),
    attachments: attachments.filter((attachment) => attachment !== undefined),
  }
}

function attachmentOf(part: Part): Attachment | undefined {
  const { type, text, image_url: image, filename, file_data: file } = part
  if (type === 'input_image' && image !== undefined) return { name: 'image', type: 'image/*', data: image }
  if (type === 'input_file') return { name: filename ?? 'file', type: 'file', data: file ?? '' }
  const [head, name] = /^([^\n]+):\n\n/.exec(text ?? '') ?? []
  return head === undefined ? undefined : { name: name!, type: 'text/plain', data: text!.slice(head.length) }
}

/**
 * What is sent for the last of these turns: the response it continues, and the input. Turns that were not stored, since
 * they were stopped or failed, go along as text.
 */
export function requestFor(turns: readonly ChatTurn[]): {
  previous: string | null
  input: readonly object[]
} {
  const before = turns.slice(0, -1)
  const kept = before.findLastIndex(
    ({ answer }) => answer.stored && answer.state !== 'failed' && answer.id !== null,
  )
  const unkept = before.slice(kept + 1).filter(({ answer }) => answer.state !== 'failed')
  const input = unkept.flatMap((turn) => [
    ...askedBy(turn),
    ...(turn.answer.text === ''
      ? []
      : [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: turn.answer.text }] }]),
  ])
  return { previous: before[kept]?.answer.id ?? null, input: [...input, ...askedBy(turns.at(-1)!)] }
}

function askedBy(turn: ChatTurn): readonly object[] {
  // An imported conversation may begin with an answer.
  if (turn.imported && turn.text === '') return []
  if (turn.approvals.length === 0) return [userItem(turn)]
  return turn.approvals.map(({ id, approve }) => ({
    type: 'mcp_approval_response',
    approval_request_id: id,
    approve,
  }))
}

function userItem({ text, attachments }: ChatTurn): object {
  const parts = attachments.map(({ name, type, data }) => {
    if (type.startsWith('image/')) return { type: 'input_image', image_url: data, detail: 'auto' }
    if (data.startsWith('data:')) return { type: 'input_file', filename: name, file_data: data }
    return { type: 'input_text', text: `${name}:\n\n${data}` }
  })
  // Some providers refuse a text without a character.
  const words = text === '' && parts.length > 0 ? [] : [{ type: 'input_text', text }]
  return { type: 'message', role: 'user', content: [...parts, ...words] }
}

// Translates a conversation for Cohere: text before calls is a plan, text files are documents.

import type { AssistantMessage, ContentPart, JsonObject, Message } from '../../conversation/request.ts'
import {
  isPlain,
  linesOf,
  plainReasoning,
  refusePart,
  textOf,
  type Warn,
  warnOfForeignReasoning,
  warnOfName,
} from '../lowering.ts'

export interface Conversation {
  readonly messages: JsonObject[]
  /** The users' text files, sent beside the messages. */
  readonly documents: readonly JsonObject[]
}

/** The messages to send. Throws `unsupported_parameter` for parts that Cohere does not accept. */
export function conversationOf(messages: readonly Message[], warn: Warn): Conversation {
  const documents: JsonObject[] = []
  const wire = messages.flatMap((message, index): JsonObject[] => {
    const param = `messages[${index}]`
    warnOfName(message, param, warn)
    switch (message.role) {
      case 'system':
      case 'developer':
        return [{ role: 'system', content: linesOf(message.content, `${param}.content`) }]
      case 'user':
        return [{ role: 'user', content: userContent(message.content, `${param}.content`, documents) }]
      case 'assistant':
        return assistantOf(message, param, warn)
      case 'tool':
        return [
          {
            role: 'tool',
            tool_call_id: message.toolCallId,
            content: linesOf(message.content, `${param}.content`),
          },
        ]
      default:
        return message satisfies never
    }
  })
  return { messages: wire, documents }
}

function userContent(
  parts: readonly ContentPart[],
  param: string,
  documents: JsonObject[],
): string | JsonObject[] {
  const [only] = parts
  if (parts.length === 1 && only?.kind === 'text') return only.text
  return parts.flatMap((part): JsonObject[] => {
    switch (part.kind) {
      case 'text':
      case 'refusal':
        return [{ type: 'text', text: part.text }]
      case 'image':
        return [imageOf(part, param)]
      case 'file':
        documents.push(documentOf(part, documents.length, param))
        return []
      default:
        return refusePart(part, param, 'text, images and text files')
    }
  })
}

function imageOf(part: Extract<ContentPart, { kind: 'image' }>, param: string): JsonObject {
  const { source, detail } = part
  if (source.kind === 'provider-file') return refusePart(part, param, 'images by address or inline')
  const url = source.kind === 'url' ? source.url : `data:${source.mediaType};base64,${source.data}`
  const known = detail === 'auto' || detail === 'low' || detail === 'high'
  return { type: 'image_url', image_url: { url, ...(known ? { detail } : {}) } }
}

function documentOf(part: Extract<ContentPart, { kind: 'file' }>, number: number, param: string): JsonObject {
  const { source, filename } = part
  if (source.kind !== 'base64' || !/^text\/|^application\/(json|xml)\b/.test(source.mediaType)) {
    return refusePart(part, param, 'text, images and inline text files')
  }
  const text = Buffer.from(source.data, 'base64').toString('utf8')
  return { id: `doc:${number}`, data: { ...(filename === undefined ? {} : { title: filename }), text } }
}

/** Thinking is returned unchanged; text before calls is what Cohere calls their plan. */
function assistantOf(message: AssistantMessage, param: string, warn: Warn): JsonObject[] {
  const text = textOf(message.content, `${param}.content`)
  const thinking = plainReasoning(message.reasoning)
  warnOfForeignReasoning(message.reasoning, isPlain, param, warn)
  const thought: JsonObject[] = thinking === '' ? [] : [{ type: 'thinking', thinking }]
  if (message.toolCalls.length > 0) {
    return [
      {
        role: 'assistant',
        ...(thought.length === 0 ? {} : { content: thought }),
        ...(text === '' ? {} : { tool_plan: text }),
        tool_calls: message.toolCalls.map(({ id, name, arguments: json }) => ({
          id,
          type: 'function',
          function: { name, arguments: json },
        })),
      },
    ]
  }
  if (text === '' && thought.length === 0) {
    warn(param, 'The message is empty and is left out.')
    return []
  }
  return [{ role: 'assistant', content: thought.length === 0 ? text : [...thought, { type: 'text', text }] }]
}

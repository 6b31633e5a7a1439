// Calls of gateway tools, as items, messages and lines of a receipt.

import type { ToolImage, ToolOrigin, ToolResult } from '../../conversation/gateway-tools.ts'
import type { ContentPart, JsonObject, ToolMessage } from '../../conversation/request.ts'
import type { CalledTool } from './round-events.ts'

export function needsApproval({ offered, arguments: json }: CalledTool): boolean {
  return offered.tool.needsApproval?.(json) === true
}

export function approvalRequest({
  offered,
  arguments: json,
}: Pick<CalledTool, 'offered' | 'arguments'>): JsonObject {
  const { origin } = offered.tool
  const id = offered.tool.approvalId?.(json)
  const label: Record<string, string> = origin.kind === 'mcp' ? { server_label: origin.serverLabel } : {}
  const name = origin.kind === 'mcp' ? origin.tool : offered.name
  return {
    type: 'mcp_approval_request',
    ...(id === undefined ? {} : { id }),
    ...label,
    name,
    arguments: json,
  }
}

/** The result of a call, for the model: its images as well where `sees` says that it takes them. */
export function toolMessage(
  toolCallId: string,
  { text, images = [], failure }: ToolResult,
  sees: 'images' | 'text',
): ToolMessage {
  const shown = sees === 'images' ? images.map(imagePart) : []
  const unseen = images.length - shown.length
  const note = `\n[${unseen === 1 ? 'An image' : `${unseen} images`} of the result cannot be shown to this model.]`
  const words: ContentPart = { kind: 'text', text: unseen === 0 ? text : text + note, cache: undefined }
  return { role: 'tool', toolCallId, content: [words, ...shown], isError: failure !== undefined }
}

function imagePart({ mediaType, data }: ToolImage): ContentPart {
  return { kind: 'image', source: { kind: 'base64', mediaType, data }, detail: undefined, cache: undefined }
}

export function feeName(origin: ToolOrigin): string {
  switch (origin.kind) {
    case 'web-search':
      return 'web_search'
    case 'open-page':
      return 'open_page'
    case 'mcp':
      return `mcp:${origin.serverLabel}.${origin.tool}`
    default:
      return origin satisfies never
  }
}

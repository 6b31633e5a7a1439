// Fields as most calls have them. Every protocol that has them allows them so, and asking its schema would take longer
// than all the rest of reading the call.

import type { JsonObject } from '../../conversation/request.ts'
import { isObject } from '../json.ts'

/** Whether the body has these fields, and none but plain ones. */
export function isPlainBody(body: JsonObject, required: readonly string[]): boolean {
  if (!required.every((name) => name in body)) return false
  for (const name in body) if (!isPlainField(name, body[name])) return false
  return true
}

/** Whether the field has a value that needs no schema to be known as valid. False says nothing about it. */
export function isPlainField(name: string, value: unknown): boolean {
  switch (name) {
    case 'model':
      return typeof value === 'string' && value !== '' && value.length <= 512
    case 'messages':
      return Array.isArray(value) && value.length > 0 && value.every(isPlainMessage)
    case 'input':
    case 'instructions':
      return typeof value === 'string'
    case 'max_tokens':
    case 'max_output_tokens':
      return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1
    case 'temperature':
      return isBetween(value, 0, 2)
    case 'top_p':
      return isBetween(value, 0, 1)
    case 'stream':
    case 'store':
      return typeof value === 'boolean'
    default:
      return false
  }
}

/** A text, and who says it. */
function isPlainMessage(message: unknown): boolean {
  if (!isObject(message) || typeof message['content'] !== 'string') return false
  const { role } = message
  if (role !== 'user' && role !== 'assistant' && role !== 'system') return false
  for (const name in message) if (name !== 'role' && name !== 'content') return false
  return true
}

function isBetween(value: unknown, least: number, most: number): boolean {
  return typeof value === 'number' && value >= least && value <= most
}

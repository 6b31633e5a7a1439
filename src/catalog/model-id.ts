// Model ids: `<provider>/<model_name>`, split at the first slash.

import { GatewayError } from '../errors.ts'

export interface ModelId {
  readonly provider: string
  /** May itself contain slashes. */
  readonly name: string
}

/** No model has a longer id; the limit also bounds the search for similar ids. */
export const longestId = 200

// No spaces and no control characters: they come from copying mistakes and would end up in URLs and logs.
const wellFormed = /^([A-Za-z0-9][A-Za-z0-9._-]*)\/([^\s\p{C}]+)$/u

/**
 * Splits an id at its first slash. Throws GatewayError `invalid_model_id` for one without a provider or a name;
 * `nearestTo` gives the ids to suggest (`gpt-4o` → `openai/gpt-4o`).
 */
export function parseModelId(
  text: string,
  nearestTo: (text: string) => readonly string[] = () => [],
): ModelId {
  const match = text.length <= longestId ? wellFormed.exec(text) : null
  if (match) return { provider: match[1]!, name: match[2]! }
  const nearest = nearestTo(text)
  throw new GatewayError('invalid_model_id', {
    message: `${quote(text)} is not a model id of the form provider/model_name.${suggestion(nearest)}`,
    param: 'model',
    metadata: { model: clip(text), nearest },
  })
}

/** ` Did you mean a, b or c?`, or an empty text if no id is similar. */
export function suggestion(nearest: readonly string[]): string {
  if (nearest.length === 0) return ''
  const last = nearest.at(-1)!
  return ` Did you mean ${nearest.length === 1 ? last : `${nearest.slice(0, -1).join(', ')} or ${last}`}?`
}

/** An id from a request, shortened and escaped for a message. */
export function quote(id: string): string {
  return JSON.stringify(clip(id))
}

function clip(id: string): string {
  return id.length <= longestId ? id : `${id.slice(0, longestId)}…`
}

// Fields of a request that may contain URLs.

import { parts } from '../../request/addresses.ts'
import { gatewayPlaces } from '../../request/gateway-fields.ts'

const link = parts({ url: 'address', detail: 'words' }, { text: 'address' })

const part = parts(
  {
    image_url: link,
    file_url: 'address',
    file_data: 'data',
    input_audio: parts({ data: 'data', format: 'words' }),
    file_id: 'reference',
  },
  { others: 'never-sent' },
)

/**
 * Providers only receive what the conversation has fields for. Unknown fields, items and tools are not sent, so the
 * commands of a coding agent may contain addresses of its own machine.
 */
export const addresses = parts(
  {
    ...gatewayPlaces,
    input: parts({ content: part, output: part }, { others: 'never-sent' }),
  },
  { others: 'never-sent' },
)

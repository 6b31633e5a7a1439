// Where an address may stand in the body of a response.

import { parts } from '../../request/addresses.ts'
import { gatewayPlaces } from '../../request/gateway-fields.ts'

const link = parts({ url: 'address', detail: 'words' }, { text: 'address' })

const part = parts(
  {
    image_url: link,
    file_url: 'address',
    file_data: 'address',
    input_audio: parts({ data: 'address', format: 'words' }),
    file_id: 'reference',
  },
  { others: 'never-sent' },
)

/**
 * Providers of every protocol only receive what the conversation has fields for: unknown members, items and tools stay
 * here, so commands of a coding agent may name its own machine.
 */
export const addresses = parts(
  {
    ...gatewayPlaces,
    input: parts({ content: part, output: part }, { others: 'never-sent' }),
  },
  { others: 'never-sent' },
)

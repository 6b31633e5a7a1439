// Signatures that a store across the network gives later are in the request all the same.

import { expect, test } from 'bun:test'
import { candidatesFor } from '../../../src/chat/routing/candidates.ts'
import { prepare } from '../../../src/chat/upstream/upstream-request.ts'
import { signatureKey, type SignatureMemory } from '../../../src/chat/upstream/thoughts.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { openStore } from '../../../src/store/open.ts'
import { tempDir } from '../../support/tmp.ts'
import { callOf, partsOf } from '../parts.ts'
import { providerOf } from '../support.ts'

const toolCall = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }
const messages: JsonObject[] = [
  { role: 'user', content: 'Look.' },
  { role: 'assistant', content: null, tool_calls: [toolCall] },
  { role: 'tool', tool_call_id: 'call_1', content: 'seen' },
]

/** The body of the request to Gemini, whose client has dropped the signature of its tool call. */
async function bodyWith(recall: SignatureMemory['recall']): Promise<string> {
  using dir = tempDir()
  const store = await openStore(dir.path, { clock: Date.now })
  const parts = partsOf(store, [providerOf('a', { protocol: 'gemini' })])
  const call = callOf({ model: 'a/m', messages })
  const candidates = candidatesFor(
    [parts.catalog.resolve('a/m')],
    parts.providers,
    call.request.envelope.routing,
    '',
    1,
  )
  const signatures = { remember: () => undefined, recall }
  const round = { call, candidates, warnings: [] }
  const { lowered } = await prepare(
    { ...parts, signatures },
    { outputBound: () => undefined, warningsFor: () => [] },
    candidates[0]!,
    round,
  )
  await store.close()
  return lowered.body
}

test('a signature is in the request, whether it is there at once or comes later', async () => {
  const own = signatureKey({ account: 'anna', line: '', provider: 'a' }, { id: 'call_1', name: 'look' })
  const atOnce = await bodyWith((key) => (key === own ? 'c2lnbmVk' : undefined))
  expect(JSON.parse(atOnce).contents[1].parts[0].thoughtSignature).toBe('c2lnbmVk')
  let asked = 0
  const later = await bodyWith(async () => {
    asked++
    return 'c2lnbmVk'
  })
  expect(later).toBe(atOnce)
  expect(asked).toBe(1)
})

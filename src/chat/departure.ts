// What becomes of an answer whose client has left.

import type { PaidCall } from './gateway.ts'

/** What the request says about departures, else what the provider's row says. */
export function disconnectPolicy(
  call: PaidCall,
  row: 'cancel' | 'drain' | 'free',
): 'cancel' | 'drain' | 'free' {
  const { onDisconnect } = call.request.envelope
  if (onDisconnect === undefined) return row
  return onDisconnect === 'finish' ? 'drain' : row === 'free' ? 'free' : 'cancel'
}

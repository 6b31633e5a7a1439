// What happens to an answer whose client has disconnected.

import type { PaidCall } from '../call.ts'

/**
 * The provider row's policy, unless the request asks for more work (`finish`) or for less (`cancel`). A provider that
 * goes on generating, and billing, after a disconnect is read to its end whatever the request says: cutting the
 * connection would save nothing and only hide what it bills.
 */
export function disconnectPolicy(
  call: Pick<PaidCall, 'request'>,
  row: 'cancel' | 'drain' | 'free',
): 'cancel' | 'drain' | 'free' {
  return call.request.envelope.onDisconnect === 'finish' ? 'drain' : row
}

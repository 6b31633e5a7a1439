import type { PaidCall } from '../call.ts'

/**
 * What to do with an answer when its client disconnects: the provider row's policy, unless the request asks to
 * `finish` or to `cancel`. A provider that keeps generating and billing after a disconnect is always read to its end:
 * closing the connection would save nothing and only hide what it bills.
 */
export function disconnectPolicy(
  call: Pick<PaidCall, 'request'>,
  row: 'cancel' | 'drain' | 'free',
): 'cancel' | 'drain' | 'free' {
  return call.request.envelope.onDisconnect === 'finish' ? 'drain' : row
}

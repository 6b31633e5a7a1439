// Which pools may pay for a chat call: the daily allowance only if every candidate is flash class.

import type { Awaitable } from '../../awaitable.ts'
import { isFlash } from '../../catalog/prices/flash.ts'
import type { ChatRequest } from '../../conversation/request.ts'
import type { TokenBucket } from '../../conversation/usage.ts'
import { fundingOf, type Pool } from '../../credits/pool.ts'
import type { IncomingCall } from '../call.ts'
import type { Candidate } from '../routing/candidates.ts'
import { countingFor, promptBound, type SharedCounting, tokenBound } from '../counting/prompt-size.ts'
import { mediaIn } from './unpriced-media.ts'

/** The pools that may pay, in spending order. One candidate that is not flash class excludes the allowance. */
export function fundingFor(
  parts: SharedCounting,
  call: Pick<IncomingCall, 'caller' | 'request' | 'bodyBytes'>,
  candidates: readonly Candidate[],
): Awaitable<readonly Pool[]> {
  const { channel } = call.caller
  // An API key spends purchased credit only.
  return channel === 'app' ? appFunding(parts, call, candidates) : fundingOf(channel, false)
}

async function appFunding(
  parts: SharedCounting,
  call: Pick<IncomingCall, 'caller' | 'request' | 'bodyBytes'>,
  candidates: readonly Candidate[],
): Promise<readonly Pool[]> {
  return fundingOf('app', await isFlashCall(parts, call, candidates))
}

async function isFlashCall(
  parts: SharedCounting,
  { caller, request, bodyBytes }: Pick<IncomingCall, 'caller' | 'request' | 'bodyBytes'>,
  candidates: readonly Candidate[],
): Promise<boolean> {
  if (!candidates.every(({ model }) => model.flashClass)) return false
  const dear = candidates.some(({ offer }) => !isFlash(offer.price, 0, mediaBuckets))
  const media = dear ? mediaBucketsOf(request.toChatRequest()) : []
  const within = (prompt: number) => candidates.every(({ offer }) => isFlash(offer.price, prompt, media))
  if (within(promptBound(request.promptParts, bodyBytes))) return true
  // Counting tokens is only worth it if a shorter prompt would be within the limits.
  const counting = countingFor(parts, caller.account.id)
  return within(0) && within(await tokenBound(counting, request.promptParts, bodyBytes))
}

const sound = ['inputAudio', 'cacheReadAudio'] as const
const mediaBuckets: readonly TokenBucket[] = [...sound, 'inputImage', 'outputAudio', 'outputImage']

/** Buckets other than text that this request can fill. A video has pictures and sound. */
function mediaBucketsOf(request: ChatRequest): readonly TokenBucket[] {
  const used = new Set<TokenBucket>(mediaIn(request).map(({ bucket }) => bucket))
  const parts = request.messages.flatMap(({ content }) => content)
  if (parts.some(({ kind }) => kind === 'image' || kind === 'video')) used.add('inputImage')
  if (used.has('inputAudio') || parts.some(({ kind }) => kind === 'video'))
    for (const bucket of sound) used.add(bucket)
  return [...used]
}

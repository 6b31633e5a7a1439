// Recorded streams that break off: every count that came is charged as it came, and the rest is never below it.

import { expect, test } from 'bun:test'
import { atOnce } from '../../../src/json/json.ts'
import { chargeOf } from '../../../src/chat/billing/charge.ts'
import { promptOf } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { frameDecoder } from '../../../src/protocols/framing/decoder.ts'
import { roughCount } from '../../../src/chat/counting/own-count.ts'
import type { Progress } from '../../../src/conversation/progress.ts'
import { TranslateChannel } from '../../../src/chat/streaming/translate.ts'
import { completionTokens, noUsage, promptTokens, tokenBuckets } from '../../../src/conversation/usage.ts'
import type { StreamEncoder } from '../../../src/protocols/protocol.ts'
import { type Frame, maxFrameCharacters } from '../../../src/protocols/framing/sse.ts'
import { recordedHosts, spokenBy } from '../../protocols/recorded-hosts.ts'
import { type Case, cases } from '../../support/recordings.ts'
import { envelope, price } from '../support.ts'

const silent: StreamEncoder = { start: () => [], event: () => [], finish: () => [], fail: () => [] }

/** What is known after each frame of a recorded stream. */
function progressAfter(host: (typeof recordedHosts)[number], recorded: Case) {
  const { outbound, target } = spokenBy(host, recorded)
  const framing = frameDecoder(outbound.framingFor?.(target) ?? outbound.framing, maxFrameCharacters)
  const frames = [...framing.push(recorded.stream()), ...framing.end()]
  const next: Frame[] = []
  const channel = new TranslateChannel({
    decoder: { push: () => next.splice(0), end: () => [] },
    parser: outbound.parser(target),
    encoder: silent,
    extra: {},
    onSignature: () => undefined,
  })
  return {
    frames,
    push: (frame: Frame): Progress => {
      next.push(frame)
      atOnce(channel.push(new Uint8Array()))
      return channel.progress
    },
  }
}

const cut = ({ usage, delivered }: Progress, recorded: Case) => {
  const body = recorded.request ?? { messages: [] }
  const call = {
    request: { envelope, body, promptParts: promptOf(body) },
    bodyBytes: JSON.stringify(body).length,
  }
  const answered = { usage, complete: false, delivered }
  return chargeOf(answered, roughCount(call, answered), price, 'rates').usage
}

for (const host of recordedHosts) {
  const streams = cases(host.folder).filter(
    ({ streamed, status, stream }) => streamed && status === 200 && stream()[0] !== '['.charCodeAt(0),
  )
  if (streams.length === 0) continue
  test(`of ${host.folder}, cut after any frame`, () => {
    for (const recorded of streams) {
      const { frames, push } = progressAfter(host, recorded)
      let counted = 0
      let tokens = 0
      for (const frame of frames) {
        const progress = push(frame)
        if (progress.fault !== undefined) break
        const charged = cut(progress, recorded)
        const { usage } = progress
        const grown = completionTokens(usage ?? noUsage) > counted
        // What was delivered once is not forgotten.
        if (!grown) expect(completionTokens(charged)).toBeGreaterThanOrEqual(tokens)
        tokens = completionTokens(charged)
        if (usage === undefined) continue
        if (promptTokens(usage) > 0) expect(promptTokens(charged)).toBe(promptTokens(usage))
        for (const bucket of tokenBuckets) expect(charged[bucket]).toBeGreaterThanOrEqual(usage[bucket])
        if (!grown) continue
        counted = completionTokens(usage)
        // A count covers what came with it; one that comes before any output is of its first tokens.
        if (progress.delivered.any) expect(completionTokens(charged)).toBe(counted)
      }
    }
  })
}

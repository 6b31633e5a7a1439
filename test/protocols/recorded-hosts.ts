// Which protocol the recordings of each folder speak, and in whose dialect; and any of them as events.

import { frameDecoder } from '../../src/protocols/framing/decoder.ts'
import type { ChatEvent } from '../../src/conversation/event.ts'
import type { Outbound, ProtocolId, Target } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { maxFrameCharacters, type Frame } from '../../src/protocols/framing/sse.ts'
import { providerById } from '../../src/providers/registry.ts'
import { type Case, parseFrames } from '../support/recordings.ts'
import { dialects as chatDialects, quirksOf } from './openai-chat/dialects.ts'
import { dialects as responsesDialects } from './openai-responses/support.ts'

export interface RecordedHost {
  /** The folder of the recordings. */
  readonly folder: string
  readonly protocol: ProtocolId
  /** What deviates from the protocol's own defaults. */
  readonly quirks: Readonly<Record<string, unknown>>
}

/** Folders whose provider has a row that says everything. */
const rows: readonly (readonly [folder: string, row: string])[] = [
  ['anthropic', 'anthropic'],
  ['vertex-anthropic', 'vertexclaude'],
  ['bedrock-invoke-anthropic', 'bedrockclaude'],
  ['gemini', 'gemini'],
  ['vertex-gemini', 'vertex'],
  ['bedrock-converse', 'bedrock'],
  ['cohere-v2', 'cohere'],
  ['ollama-native', 'ollama'],
]

export const recordedHosts: readonly RecordedHost[] = [
  ...chatDialects.map((dialect): RecordedHost => ({
    folder: dialect.folder,
    protocol: 'openai-chat',
    quirks: { ...quirksOf(dialect) },
  })),
  ...responsesDialects.map(({ folder, quirks }): RecordedHost => ({
    folder,
    protocol: 'openai-responses',
    quirks: { ...quirks },
  })),
  ...rows.map(([folder, id]): RecordedHost => {
    const row = providerById(id)
    if (!row) throw new Error(`no row ${id}`)
    return { folder, protocol: row.protocol, quirks: row.quirks }
  }),
]

/** The protocol of a host, and a target for the model of a recording. */
export function spokenBy(
  host: Pick<RecordedHost, 'protocol' | 'quirks'>,
  recorded: Pick<Case, 'meta'>,
): { outbound: Outbound; target: Target } {
  const outbound = outbounds[host.protocol]
  if (!outbound) throw new Error(`${host.protocol} is not built`)
  const target: Target = {
    model: recorded.meta.model ?? 'some-model',
    provider: 'some-provider',
    quirks: { ...(outbound.defaultQuirks as object), ...host.quirks },
    maxOutputTokens: undefined,
    reasoning: true,
    rememberedSignature: () => undefined,
  }
  return { outbound, target }
}

/** The answers of a recording as events: one, unless its file holds several responses one after the other. */
export function answersOf(host: RecordedHost, recorded: Case): readonly (readonly ChatEvent[])[] {
  const { outbound, target } = spokenBy(host, recorded)
  if (!recorded.streamed) {
    if (recorded.status < 400) return [outbound.whole(recorded.response(), target)]
    const fault = outbound.fault(recorded.status, recorded.headers, recorded.responseText(), target)
    return [[{ kind: 'error', fault }]]
  }
  const bytes = recorded.stream()
  // Gemini that is not asked for events streams one array.
  if (bytes[0] === '['.charCodeAt(0))
    return [outbound.whole(JSON.parse(new TextDecoder().decode(bytes)), target)]
  const decoder = frameDecoder(outbound.framingFor?.(target) ?? outbound.framing, maxFrameCharacters)
  const frames = [...decoder.push(bytes), ...decoder.end()]
  return turnsOf(frames).map((turn) => parseFrames(outbound.parser(target), turn))
}

/** A response of the Responses protocol begins with an event of its own: what comes before belongs to another. */
function turnsOf(frames: readonly Frame[]): Frame[][] {
  const turns: Frame[][] = []
  for (const frame of frames) {
    if (turns.length === 0 || frame.data.startsWith('{"type":"response.created"')) turns.push([])
    turns.at(-1)!.push(frame)
  }
  return turns.length === 0 ? [[]] : turns
}

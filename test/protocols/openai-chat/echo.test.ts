// A client appends the message it was given to its conversation: whatever a provider once answered comes back to us.

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { outbound } from '../../../src/protocols/openai-chat/outbound/lower.ts'
import type { OpenAIChatQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import { FrameRepair, repairWhole } from '../../../src/protocols/openai-chat/passthrough/repair.ts'
import { type Case, cases, framesOf } from '../../support/recordings.ts'
import { chatHosts, targetOf } from './dialects.ts'
import { bill, context, readByOpenAI, usage } from './wire-contract.ts'

interface EchoedMessage {
  readonly tool_calls?: readonly { readonly id: string }[]
}

/** The messages of an answer as a client has them; none of one that broke off. */
async function messagesOf(recorded: Case, quirks: OpenAIChatQuirks): Promise<EchoedMessage[]> {
  if (recorded.streamed) {
    const repair = new FrameRepair(context, quirks)
    const frames = framesOf([recorded.stream()]).flatMap((frame) => repair.push(frame))
    if (!repair.finished) return []
    const answer = await readByOpenAI([...frames, ...repair.finish(usage, bill)])
    return answer.choices.map(({ message }) => message as EchoedMessage)
  }
  const body = recorded.response() as JsonObject
  if (!Array.isArray(body['choices'])) return []
  const answer = repairWhole(body, usage, bill, context, quirks) as { choices?: unknown }
  return (answer.choices as { message: EchoedMessage }[]).map(({ message }) => message)
}

test.each(chatHosts.map(({ folder, quirks }) => [folder, quirks] as const))(
  'every answer recorded of %s can be sent back with the next turn',
  async (folder, quirks) => {
    for (const recorded of cases(folder).filter(({ status }) => status === 200)) {
      for (const message of await messagesOf(recorded, quirks)) {
        const results = (message.tool_calls ?? []).map(({ id }) => ({
          role: 'tool',
          tool_call_id: id,
          content: 'done',
        }))
        const messages = [{ role: 'user', content: 'q' }, message, ...results, { role: 'user', content: 'z' }]
        const read = inbound.parse(JSON.parse(JSON.stringify({ model: 'a/b', messages }))).toChatRequest()
        const { body } = outbound.lower(read, targetOf(quirks, { reasoning: true }))
        expect({ id: recorded.id, sent: Array.isArray(body.messages) }).toEqual({
          id: recorded.id,
          sent: true,
        })
      }
    }
  },
)

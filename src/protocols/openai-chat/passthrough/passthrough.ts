// For a client and a provider that both speak chat completions: the request is translated like any other, the answer
// keeps unknown fields.

import type { Passthrough } from '../../protocol.ts'
import type { OpenAIChatQuirks } from '../outbound/quirks.ts'
import { repairWhole } from './repair-whole.ts'
import { RepairStream } from './stream.ts'

export const passthrough: Passthrough<OpenAIChatQuirks> = {
  stream: (context, { choices, maxEventBytes }, { quirks }) =>
    new RepairStream(quirks, context, choices, maxEventBytes),
  whole: (answer, usage, bill, context, { quirks }) => repairWhole(answer, usage, bill, context, quirks),
}

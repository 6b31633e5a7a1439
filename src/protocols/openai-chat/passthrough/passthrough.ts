// For a client of chat completions whose provider speaks them as well: the request is translated as any other, the answer
// keeps the fields that nobody here knows.

import type { Passthrough } from '../../protocol.ts'
import type { OpenAIChatQuirks } from '../outbound/quirks.ts'
import { repairWhole } from './repair-whole.ts'
import { RepairStream } from './stream.ts'

export const passthrough: Passthrough<OpenAIChatQuirks> = {
  stream: (context, { choices, maxEventBytes }, { quirks }) =>
    new RepairStream(quirks, context, choices, maxEventBytes),
  whole: (answer, usage, bill, context, { quirks }) => repairWhole(answer, usage, bill, context, quirks),
}

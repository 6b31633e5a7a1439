// Refusals as Google's clients read them; apart from gemini.ts, which is loaded with its first caller.

import { wireError } from '../../protocols/gemini/inbound/encode.ts'
import { refusalIn, type Refuse } from '../route.ts'

export const refuseGemini: Refuse = refusalIn(wireError)

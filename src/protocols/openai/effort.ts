// How hard a model is to think, as clients of OpenAI's protocols say it.

import { z } from 'zod'

export const reasoningEffort = z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'])

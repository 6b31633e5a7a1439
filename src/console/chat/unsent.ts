// What has been typed and attached, and not been sent: it is there again after a look at another page of the console, or
// when an earlier question has been edited. In the cache, which an account leaves with all that is its own.

import { queryClient } from '../api/queries.ts'
import type { Attachment } from './thread/thread.ts'

export interface UnsentQuestion {
  readonly text: string
  readonly attachments: readonly Attachment[]
}

const queryKey = ['unsent-question']
queryClient.setQueryDefaults(queryKey, { gcTime: Infinity })

export function unsentQuestion(): UnsentQuestion {
  return queryClient.getQueryData<UnsentQuestion>(queryKey) ?? { text: '', attachments: [] }
}

export function keepUnsent(question: UnsentQuestion): void {
  queryClient.setQueryData(queryKey, question)
}

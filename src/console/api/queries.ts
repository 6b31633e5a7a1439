// Queries of the pages: one hook for each resource, with one cache key.

import { keepPreviousData, QueryClient, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { call, CallError, onSessionOver } from './call.ts'
import type {
  ListedConversation,
  Credits,
  KeyList,
  McpServer,
  ModelRow,
  Page,
  RequestRow,
  SessionView,
} from './wire.ts'

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // A refusal is final; a request without an answer is sent once more.
      retry: (failures, error) => failures < 1 && error instanceof CallError && error.fault.status === 0,
      throwOnError: false,
    },
    mutations: { gcTime: 0 },
  },
})

onSessionOver(signedOut)

const ofAccount = ({ queryKey }: { readonly queryKey: readonly unknown[] }) =>
  !String(queryKey[0]).endsWith('session')

/** Asks for the sign-in. The pages stay as they are, hidden: what was typed into them is not lost. */
function signedOut(): void {
  const session = queryClient.getQueryData<SessionView>(['session'])
  if (session && session.account === null) return
  if (session) queryClient.setQueryData(['lost-session'], session)
  void queryClient.cancelQueries({ predicate: ofAccount })
  void queryClient.invalidateQueries({ queryKey: ['session'] })
}

/** Sets the session from the answer of a sign-in, a sign-out or a change of the password. */
export function takeSession(session: SessionView): void {
  const lost = queryClient.getQueryData<SessionView | null>(['lost-session'])
  const before = lost ?? queryClient.getQueryData<SessionView>(['session'])
  const isAnother = before?.account?.id !== session.account?.id
  if (isAnother) queryClient.removeQueries({ predicate: ofAccount })
  if (isAnother || session.account !== null) queryClient.setQueryData(['lost-session'], null)
  queryClient.setQueryData(['session'], session)
  if (lost && !isAnother) void queryClient.invalidateQueries({ predicate: ofAccount })
}

/** The session as the gateway says. */
export function useSessionNow() {
  return useQuery({
    queryKey: ['session'],
    queryFn: () => call<SessionView>('GET', 'session'),
    staleTime: 60_000,
  })
}

/** The session that ended by itself and whose pages are kept; null if there is none. */
export function useLostSession(): SessionView | null {
  const { data } = useQuery<SessionView | null>({
    queryKey: ['lost-session'],
    queryFn: () => null,
    enabled: false,
    gcTime: Infinity,
  })
  return data ?? null
}

/** The session whose pages are shown, or kept. */
export function useSession(): { readonly data: SessionView | undefined } {
  const { data: now } = useSessionNow()
  const lost = useLostSession()
  return { data: now?.account === null && lost !== null ? lost : now }
}

/** Pages of an account's keys, at a path of its own or below an operator's view of it. */
export function useKeys(path: string, asked: Readonly<Record<string, string>>) {
  const given = new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== '')).toString()
  return useInfiniteQuery({
    queryKey: [...path.split('/'), given],
    queryFn: ({ pageParam }) => {
      const page = new URLSearchParams(given)
      if (pageParam !== null) page.set('cursor', pageParam)
      return call<KeyList>('GET', `${path}?${page}`)
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_cursor,
    placeholderData: keepPreviousData,
  })
}

export function useCredits() {
  return useQuery({
    queryKey: ['credits'],
    queryFn: async () => (await call<{ data: Credits }>('GET', 'credits')).data,
  })
}

export function useModels() {
  return useQuery({
    queryKey: ['models'],
    queryFn: async () => (await call<{ data: readonly ModelRow[] }>('GET', 'models')).data,
    staleTime: 60_000,
  })
}

export function useRecentRequests(limit: number) {
  return useQuery({
    queryKey: ['requests', 'recent', limit],
    queryFn: () => call<Page<RequestRow>>('GET', `requests?limit=${limit}`),
  })
}

const conversationList = {
  queryKey: ['conversations'],
  queryFn: async () => (await call<{ data: readonly ListedConversation[] }>('GET', 'conversations')).data,
  // Asked again whenever the page is looked at: another tab may have continued one.
  staleTime: 0,
}

export function useConversations() {
  return useQuery(conversationList)
}

/** The list of conversations as it is now. Throws CallError. */
export async function conversationsNow(): Promise<readonly ListedConversation[]> {
  // Not a fetch of the query: that is shared with one that began before, and gives the old list if it is cancelled.
  const listed = await conversationList.queryFn()
  void queryClient.invalidateQueries({ queryKey: conversationList.queryKey })
  return listed
}

export function useMcpServers() {
  return useQuery({
    queryKey: ['mcp-servers'],
    queryFn: async () => (await call<{ data: readonly McpServer[] }>('GET', 'mcp-servers')).data,
  })
}

// Queries of the pages: one hook for each resource, with one cache key.

import { QueryClient, useQuery } from '@tanstack/react-query'
import { call, CallError, onSessionOver } from './call.ts'
import type {
  ListedConversation,
  Credits,
  Key,
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

/** Drops all data of the account and shows the sign-in page. */
function signedOut(): void {
  const session = queryClient.getQueryData<SessionView>(['session'])
  if (session && session.account === null) return
  void queryClient.cancelQueries()
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'session' })
  void queryClient.resetQueries({ queryKey: ['session'] })
}

/** Sets the session from the answer of a sign-in, a sign-out or a change of the password. */
export function takeSession(session: SessionView): void {
  const before = queryClient.getQueryData<SessionView>(['session'])
  if (before?.account?.id !== session.account?.id)
    queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'session' })
  queryClient.setQueryData(['session'], session)
}

export function useSession() {
  return useQuery({
    queryKey: ['session'],
    queryFn: () => call<SessionView>('GET', 'session'),
    staleTime: 60_000,
  })
}

export function useKeys() {
  return useQuery({
    queryKey: ['keys'],
    queryFn: async () => (await call<{ data: readonly Key[] }>('GET', 'keys')).data,
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
  // One that was asked for before may be older than what is to be known.
  await queryClient.cancelQueries({ queryKey: conversationList.queryKey })
  return queryClient.fetchQuery(conversationList)
}

export function useMcpServers() {
  return useQuery({
    queryKey: ['mcp-servers'],
    queryFn: async () => (await call<{ data: readonly McpServer[] }>('GET', 'mcp-servers')).data,
  })
}

// Calls to the gateway: JSON to the console's own origin with the session's cookie; failures are one kind of error.

import {
  type InfiniteData,
  keepPreviousData,
  QueryClient,
  useInfiniteQuery,
  useQuery,
  type UseQueryOptions,
} from '@tanstack/react-query'
import type {
  CreditsView,
  KeyListView,
  KeyView,
  McpServerView,
  ModelView,
  OpenConversationView,
  Page,
  RequestRowView,
  SessionView,
} from '../../http/console/answers.ts'
import type { OwnPlansView, TopUpTermsView, TopUpView } from '../../http/payments/answers.ts'
import { t } from '../strings/text.ts'

// Addresses of the gateway, which may be below a path of its host.

/** The path of the gateway on its host: `/weir`, and nothing where it has the whole host. Scripts know where they lie. */
export const gatewayPath = pathBefore(import.meta.url)

/** Exported for tests. */
export function pathBefore(script: string): string {
  return /^(.*)\/console\/assets\/[^/]*$/.exec(new URL(script).pathname)?.[1] ?? ''
}

/** The address of a path of the gateway, such as `/docs/errors`, for links and calls that the router does not make. */
export function addressOf(path: string): string {
  return gatewayPath + path
}

/** Where programs call the gateway: for a page to show, in full. */
export function fullAddressOf(path: string): string {
  return location.origin + addressOf(path)
}

/** The error format of all refusals. */
interface Fault {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly param: string | null
  readonly metadata: Readonly<Record<string, unknown>>
}

/** A refusal of the gateway, or no answer: `code` is then `unreachable`, or `no_answer` if it did not come in time. */
export class CallError extends Error {
  readonly fault: Fault

  constructor(fault: Fault) {
    super(fault.message)
    this.name = 'CallError'
    this.fault = fault
  }
}

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** How long an answer may take, milliseconds. */
export const answerWithinMs = 30_000
/** How long it may take where the gateway asks other servers first: MCP servers, payment processors, webhooks. */
export const relayedAnswerWithinMs = 120_000

interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>
  readonly withinMs?: number
  /** Ends the call: nobody waits for its answer any more. */
  readonly signal?: AbortSignal
}

/** Calls `/console/api/<path>` and returns the body of the answer. Throws CallError. */
export function call<T>(
  method: Method,
  path: string,
  body?: object,
  { headers = {}, withinMs = answerWithinMs, signal }: CallOptions = {},
): Promise<T> {
  const init: RequestInit = {
    method,
    ...(signal === undefined ? {} : { signal }),
    ...(body === undefined
      ? { headers }
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } }),
  }
  return inTime(init, withinMs, async (limited) => {
    const response = await answerOf(`/console/api/${path}`, limited)
    return (await response.json()) as T
  })
}

/**
 * Fetches a path of the gateway; resolves with answers that succeeded only. The time limit is for the beginning of the
 * answer: the body may be a stream. Throws CallError.
 */
export function send(
  path: string,
  init: RequestInit = {},
  withinMs: number = answerWithinMs,
): Promise<Response> {
  return inTime(init, withinMs, (limited) => answerOf(path, limited))
}

/** Runs a request with a signal that ends it after `withinMs`. */
async function inTime<T>(
  init: RequestInit,
  withinMs: number,
  request: (limited: RequestInit) => Promise<T>,
): Promise<T> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), withinMs)
  const signal = init.signal ? AbortSignal.any([init.signal, late.signal]) : late.signal
  try {
    return await request({ ...init, signal })
  } catch (cause) {
    throw late.signal.aborted && !init.signal?.aborted ? noAnswer(init.method, withinMs) : cause
  } finally {
    clearTimeout(timer)
  }
}

function noAnswer(method: string | undefined, withinMs: number): CallError {
  const seconds = withinMs / 1_000
  const message =
    method === undefined || method === 'GET'
      ? t('The gateway has not answered for {seconds} seconds.', { seconds })
      : t(
          'The gateway has not answered for {seconds} seconds. It may have done what was asked: look whether it has before you repeat it.',
          { seconds },
        )
  return new CallError({ status: 0, code: 'no_answer', message, param: null, metadata: {} })
}

async function answerOf(path: string, init: RequestInit): Promise<Response> {
  let response: Response
  try {
    response = await fetch(addressOf(path), { credentials: 'same-origin', redirect: 'error', ...init })
  } catch (cause) {
    if (init.signal?.aborted) throw cause
    throw new CallError({
      status: 0,
      code: 'unreachable',
      message: t('The gateway does not answer. Is it running?'),
      param: null,
      metadata: {},
    })
  }
  if (response.ok) return response
  const fault = await faultOf(response)
  if (fault.code === 'not_signed_in') sessionOver()
  throw new CallError(fault)
}

let sessionOver: () => void = () => undefined

/** Called when any call shows that the session has ended. */
function onSessionOver(listener: () => void): void {
  sessionOver = listener
}

async function faultOf(response: Response): Promise<Fault> {
  const fallback: Fault = {
    status: response.status,
    code: `http_${response.status}`,
    message: t('The gateway answered {status}.', { status: response.status }),
    param: null,
    metadata: {},
  }
  try {
    const { error } = (await response.json()) as { error?: Partial<Fault> }
    return { ...fallback, ...error, status: response.status }
  } catch {
    return fallback
  }
}

export function faultIn(thrown: unknown): Fault {
  if (thrown instanceof CallError) return thrown.fault
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  return { status: 0, code: 'page_error', message, param: null, metadata: {} }
}

/**
 * A random id of 128 bits, in hexadecimal. Browsers have `crypto.randomUUID` on secure origins only, and a console in a
 * private network may be served over plain HTTP.
 */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

// Queries of the pages: one hook for each resource, with one cache key.

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

/** Has everything asked for again whose key begins with these. Resolves when what is shown of it has been. */
export function refresh(...queryKey: readonly unknown[]): Promise<void> {
  return queryClient.invalidateQueries({ queryKey })
}

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
  return useAnswer<SessionView>(['session'], 'session', { staleTime: 60_000 })
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

type QueryKey = readonly unknown[]

/** What a path of the console's API answers. */
export function useAnswer<Answer>(queryKey: QueryKey, path: string, options: AskOptions<Answer> = {}) {
  return useQuery({ queryKey, queryFn: () => call<Answer>('GET', path), ...options })
}

/** The `data` of what a path of the console's API answers. */
export function useData<Data>(queryKey: QueryKey, path: string, options: AskOptions<Data> = {}) {
  return useQuery({
    queryKey,
    queryFn: async () => (await call<{ data: Data }>('GET', path)).data,
    ...options,
  })
}

type AskOptions<Answer> = Pick<
  UseQueryOptions<Answer>,
  'enabled' | 'gcTime' | 'refetchInterval' | 'staleTime'
>

type PagesOf<OfPage> = InfiniteData<OfPage, string | null>

interface PagesOptions<OfPage> {
  /** Whether the list stays as it is until that of other filters is there. */
  readonly keepsBefore?: boolean
  readonly refetchInterval?: (query: { state: { data: PagesOf<OfPage> | undefined } }) => number | false
}

/** A list that is read page by page, and the rows of the pages so far. */
export function usePages<Row, OfPage extends Page<Row> = Page<Row>>(
  queryKey: QueryKey,
  path: string,
  asked: URLSearchParams | Record<string, string> = {},
  { keepsBefore = false, refetchInterval }: PagesOptions<OfPage> = {},
) {
  const list = useInfiniteQuery<OfPage, Error, PagesOf<OfPage>, QueryKey, string | null>({
    queryKey,
    queryFn: ({ pageParam }) => {
      const page = new URLSearchParams(asked)
      if (pageParam !== null) page.set('cursor', pageParam)
      return call<OfPage>('GET', `${path}?${page}`)
    },
    initialPageParam: null,
    getNextPageParam: (last) => last.next_cursor,
    ...(keepsBefore && { placeholderData: keepPreviousData<PagesOf<OfPage>> }),
    ...(refetchInterval && { refetchInterval }),
  })
  return [list, list.data?.pages.flatMap(({ data }) => data) ?? []] as const
}

/** Pages of an account's keys, at a path of its own or below an operator's view of it. */
export function useKeys(path: string, asked: Readonly<Record<string, string>>) {
  const given = new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== ''))
  return usePages<KeyView, KeyListView>([...path.split('/'), given.toString()], path, given, {
    keepsBefore: true,
  })
}

export function useCredits() {
  return useData<CreditsView>(['credits'], 'credits')
}

export function useModels() {
  return useData<readonly ModelView[]>(['models'], 'models', { staleTime: 60_000 })
}

export function useRecentRequests(limit: number) {
  return useAnswer<Page<RequestRowView>>(['requests', 'recent', limit], `requests?limit=${limit}`)
}

const conversationList = {
  queryKey: ['conversations'],
  queryFn: async () => (await call<{ data: readonly OpenConversationView[] }>('GET', 'conversations')).data,
  // Asked again whenever the page is looked at: another tab may have continued one.
  staleTime: 0,
}

export function useConversations() {
  return useQuery(conversationList)
}

/** The list of conversations as it is now. Throws CallError. */
export async function conversationsNow(): Promise<readonly OpenConversationView[]> {
  // Not a fetch of the query: that is shared with one that began before, and gives the old list if it is cancelled.
  const listed = await conversationList.queryFn()
  void queryClient.invalidateQueries({ queryKey: conversationList.queryKey })
  return listed
}

export function useMcpServers() {
  return useData<readonly McpServerView[]>(['mcp-servers'], 'mcp-servers')
}

// Queries of top-ups, their terms, and how often one that waits is asked for.

export function useTopUpTerms() {
  return useData<TopUpTermsView>(['top-up-terms'], 'top-up-terms')
}

export function usePlans() {
  return useData<OwnPlansView>(['plans'], 'plans')
}

export function useTopUps() {
  return usePages<TopUpView>(['top-ups'], 'top-ups', { limit: '20' })
}

/** Short for a new payment, longer if it takes a while. */
function askAgainMs(asked: number): number {
  if (asked < 40) return 3_000
  return asked < 100 ? 10_000 : 30_000
}

/** A top-up, polled while it is pending and the page is visible. */
export function useTopUp(id: string) {
  return useQuery({
    queryKey: ['top-ups', id],
    queryFn: () =>
      call<TopUpView>('GET', `top-ups/${encodeURIComponent(id)}`, undefined, {
        withinMs: relayedAnswerWithinMs,
      }),
    refetchInterval: ({ state: { data, dataUpdateCount } }) =>
      data !== undefined && isWaiting(data) ? askAgainMs(dataUpdateCount) : false,
  })
}

/** Whether it is still expected to change. */
export function isWaiting({ state, problem }: TopUpView): boolean {
  return (state === 'open' || state === 'paid') && problem === null
}

// The console: a single-page app that uses only the gateway's API.

import { QueryClientProvider } from '@tanstack/react-query'
import { Component, lazy, type ReactNode, Suspense } from 'react'
import { createRoot } from 'react-dom/client'
import { Redirect, Route, Router, Switch, useLocation } from 'wouter'
import type { SessionView } from '../http/console/answers.ts'
import { addressOf, queryClient, useLostSession, useSessionNow } from './api/call.ts'
import { SignedOut, SignInAgain, TicketPage, Welcome } from './session/signed-out.tsx'
import { Shell } from './shell.tsx'
import { loadStrings, t } from './strings/text.ts'
import { Button, Failure, Loading, showBrand } from './ui/kit.tsx'
import { showTheme } from './ui/remembered.ts'

showTheme()
await loadStrings()
createRoot(document.getElementById('root')!).render(
  <QueryClientProvider client={queryClient}>
    <Router base={addressOf('/console')}>
      <App />
    </Router>
  </QueryClientProvider>,
)

// Which page an address shows, and to whom. What only a signed-in reader needs is loaded after the sign-in.

const Chat = lazy(() => import('./chat/chat.tsx'))
const SharedPage = lazy(async () => ({ default: (await import('./chat/chat.tsx')).SharedPage }))
const OperatorPages = lazy(() => import('./operator/pages.tsx'))
const Pages = lazy(() => import('./pages/pages.tsx'))

function App() {
  const [path] = useLocation()
  const token = /^\/shared\/([\w-]+)$/.exec(path)?.[1]
  if (token === undefined) return <SessionApp />
  return (
    <CrashGuard page={path}>
      <Suspense fallback={<Loading />}>
        <SharedPage token={token} />
      </Suspense>
    </CrashGuard>
  )
}

function SessionApp() {
  const { data: session, error, refetch } = useSessionNow()
  const lost = useLostSession()
  const [path] = useLocation()
  if (!session) {
    return (
      <main className="mx-auto max-w-md p-8">
        {error ? <Failure error={error} retry={() => void refetch()} /> : <Loading rows={3} />}
      </main>
    )
  }
  showBrand(session.brand)
  if (path === '/link' || path === '/verify') return <TicketPage path={path} session={session} />
  const shown = session.account === null ? lost : session
  if (shown === null) return <SignedOut session={session} />
  if (path === '/welcome') return <Welcome session={shown} />
  return (
    <>
      <div key={shown.account?.id} hidden={session.account === null}>
        <Signed session={shown} path={path} />
      </div>
      {session.account === null && <SignInAgain session={session} />}
    </>
  )
}

function Signed({ session, path }: { session: SessionView; path: string }) {
  return (
    <Shell session={session}>
      <CrashGuard page={path}>
        <Suspense fallback={<Loading />}>
          <Switch>
            <Route path="/create-account">
              <Redirect to="/" replace />
            </Route>
            <Route path="/reset">
              <Redirect to="/" replace />
            </Route>
            <Route path="/chat/:id?" component={Chat} />
            {session.role === 'operator' && <Route path="/operator/*?" component={OperatorPages} />}
            <Route component={Pages} />
          </Switch>
        </Suspense>
      </CrashGuard>
    </Shell>
  )
}

// What is shown instead of a page that cannot be rendered, or whose script cannot be loaded.

interface CrashGuardProps {
  /** The address of the page; another address is tried afresh. */
  readonly page: string
  readonly children: ReactNode
}

interface CrashGuardState {
  readonly page: string
  readonly crash: { readonly error: unknown } | null
}

class CrashGuard extends Component<CrashGuardProps, CrashGuardState> {
  override state: CrashGuardState = { page: this.props.page, crash: null }

  static getDerivedStateFromProps({ page }: CrashGuardProps, state: CrashGuardState): CrashGuardState | null {
    return page === state.page ? null : { page, crash: null }
  }

  static getDerivedStateFromError(error: unknown): Partial<CrashGuardState> {
    return { crash: { error } }
  }

  override render() {
    const { crash } = this.state
    if (crash === null) return this.props.children
    return (
      <div className="mx-auto grid max-w-xl gap-3 p-6">
        <h1 className="text-lg font-semibold">{t('This page cannot be shown.')}</h1>
        <p>{t('The gateway may have been updated since it was opened. Load it again.')}</p>
        <Failure error={crash.error} />
        <div>
          <Button look="primary" onClick={() => location.reload()}>
            {t('Load again')}
          </Button>
        </div>
      </div>
    )
  }
}

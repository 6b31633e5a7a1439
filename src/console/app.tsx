// Which page an address shows, and to whom. What only a signed-in reader needs is loaded after the sign-in.

import { lazy, Suspense } from 'react'
import { Redirect, Route, Switch, useLocation } from 'wouter'
import { useLostSession, useSessionNow } from './api/queries.ts'
import type { SessionView } from './api/wire.ts'
import { CrashGuard } from './crash-guard.tsx'
import { SignedOut, SignInAgain } from './session/signed-out.tsx'
import { TicketPage, Welcome } from './session/ticket-page.tsx'
import { Shell } from './shell.tsx'
import { Failure, Loading } from './ui/basics.tsx'

const Chat = lazy(() => import('./chat/chat.tsx'))
const OperatorPages = lazy(() => import('./operator/pages.tsx'))
const Pages = lazy(() => import('./pages/pages.tsx'))

export function App() {
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

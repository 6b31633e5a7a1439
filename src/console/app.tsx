// Which page an address shows, and to whom. What only a signed-in reader needs is loaded after the sign-in.

import { lazy, Suspense } from 'react'
import { Redirect, Route, Switch, useLocation } from 'wouter'
import { useSession } from './api/queries.ts'
import { CrashGuard } from './crash-guard.tsx'
import { SignedOut } from './session/signed-out.tsx'
import { TicketPage, Welcome } from './session/ticket-page.tsx'
import { Shell } from './shell.tsx'
import { Failure, Loading } from './ui/basics.tsx'

const Chat = lazy(() => import('./chat/chat.tsx'))
const OperatorPages = lazy(() => import('./operator/pages.tsx'))
const Pages = lazy(() => import('./pages/pages.tsx'))

export function App() {
  const { data: session, error, refetch } = useSession()
  const [path] = useLocation()
  if (!session) {
    return (
      <main className="mx-auto max-w-md p-8">
        {error ? <Failure error={error} retry={() => void refetch()} /> : <Loading rows={3} />}
      </main>
    )
  }
  if (path === '/link' || path === '/verify') return <TicketPage path={path} session={session} />
  if (session.account === null) return <SignedOut session={session} />
  if (path === '/welcome') return <Welcome session={session} />
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

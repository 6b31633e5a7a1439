// `weir accounts session|sessions|end-session`: tokens for the app of a signed-in account.

import { mintSession, type Session } from '../../../accounts/session.ts'
import { recordAct } from '../../acts.ts'
import {
  CommandFailure,
  type Context,
  type Invocation,
  isoTime,
  print,
  table,
  usageFault,
} from '../../context.ts'
import { duration } from '../../values.ts'
import { accountOf, withStore } from '../../with-store.ts'

/** Creates a session and prints its token, which cannot be shown again. */
export async function createSession(context: Context, invocation: Invocation): Promise<void> {
  const ttlMs = duration('--ttl', invocation.option('ttl') ?? '30d')
  if (ttlMs === 0) throw usageFault('--ttl must be longer than nothing')
  const now = context.io.clock()
  const { id, hash, lastFour, text } = mintSession()
  const session = await withStore(context, async (store) => {
    const account = (await accountOf(store, invocation.option('account') ?? '')).id
    const made: Session = {
      id,
      account,
      hash,
      lastFour,
      createdAt: now,
      expiresAt: now + ttlMs,
      revokedAt: null,
      userAgent: null,
      seenAt: null,
      idleMs: null,
      elevatedUntil: null,
    }
    await store.accounts.insertSession(made)
    const opened = { session: id, expires_at: isoTime(made.expiresAt) }
    await recordAct(context, store, 'session.create', account, null, opened)
    return made
  })
  if (!context.json) {
    const ends = `weir accounts end-session ${id} ends it`
    context.io.err(`The token of the session ${id} is shown once; only its hash is kept. ${ends}.\n`)
  }
  print(context, { json: { ...sessionView(session, now), token: text }, text })
}

export async function listSessions(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const sessions = await withStore(context, async (store) =>
    store.accounts.listSessions((await accountOf(store, invocation.option('account') ?? '')).id),
  )
  const views = sessions.map((session) => sessionView(session, now))
  const rows = views.map((view) => [view.id, view.state, `…${view.last_four}`, view.expires_at ?? ''])
  const text = rows.length === 0 ? 'no sessions' : table(['SESSION', 'STATE', 'ENDS IN', 'EXPIRES'], rows)
  print(context, { json: views, text })
}

/** Ends a session at once. Repeating it succeeds and changes nothing. */
export async function endSession(context: Context, invocation: Invocation): Promise<void> {
  const id = invocation.args[0] ?? ''
  const now = context.io.clock()
  const session = await withStore(context, async (store) => {
    const found = await store.accounts.findSession(id)
    if (!found) throw new CommandFailure(`there is no session with the id ${JSON.stringify(id)}`)
    if (found.revokedAt !== null) return found
    await store.accounts.revokeSession(id, now)
    await recordAct(context, store, 'session.end', found.account, { session: id }, null)
    return (await store.accounts.findSession(id))!
  })
  print(context, { json: sessionView(session, now), text: `ended ${session.id} (…${session.lastFour})` })
}

function sessionView(session: Session, now: number) {
  return {
    id: session.id,
    account: session.account,
    state: stateOf(session, now),
    last_four: session.lastFour,
    created_at: isoTime(session.createdAt),
    expires_at: isoTime(session.expiresAt),
    revoked_at: isoTime(session.revokedAt),
  }
}

function stateOf({ revokedAt, expiresAt }: Session, now: number): 'active' | 'expired' | 'revoked' {
  if (revokedAt !== null && revokedAt <= now) return 'revoked'
  return expiresAt <= now ? 'expired' : 'active'
}

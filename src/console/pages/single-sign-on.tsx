// Settings: the identities of the single sign-on that are linked to the account.

import { useQuery } from '@tanstack/react-query'
import { call, relayedAnswerWithinMs } from '../api/call.ts'
import type { Identity, SessionView } from '../api/wire.ts'
import { t } from '../strings/text.ts'
import { Button, Failure, Loading, Note, Section, TimeIn } from '../ui/basics.tsx'
import { elevate } from '../ui/elevate.tsx'
import { useAct } from '../ui/use-act.ts'

/** Shown where there is a single sign-on. Linking leaves the page, and comes back to it with an error in the hash. */
export function SingleSignOn({ session }: { session: SessionView }) {
  const label = session.methods.find((method) => method.startsWith('oidc:'))?.slice('oidc:'.length)
  return label === undefined ? null : <Identities session={session} label={label} />
}

function Identities({ session, label }: { session: SessionView; label: string }) {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['identities'],
    queryFn: async () => (await call<{ data: readonly Identity[] }>('GET', 'identities')).data,
  })
  const { error: failed, busy, act } = useAct()
  const refused = /^#error=([\w-]+)/.exec(location.hash)?.[1]
  const link = () =>
    act(async () => {
      const { url } = await elevate(() =>
        call<{ url: string }>('POST', 'identities/link', {}, { withinMs: relayedAnswerWithinMs }),
      )
      location.assign(url)
    })
  const unlink = ({ issuer, subject }: Identity) =>
    act(async () => {
      await elevate(() => call('DELETE', 'identities', { issuer, subject }))
      await refetch()
    })
  return (
    <Section
      title={t('Single sign-on')}
      side={
        data?.every((identity) => identity.label === null) && (
          <Button small busy={busy} onClick={() => void link()}>
            {t('Link {label}', { label })}
          </Button>
        )
      }
    >
      {refused !== undefined && failed === null && (
        <div className="mb-2">
          <Note tone="bad" role="alert">
            {t(refusals[refused] ?? 'The single sign-on failed: {code}.', { code: refused })}
          </Note>
        </div>
      )}
      {error && <Failure error={error} retry={() => void refetch()} />}
      {failed !== null && <Failure error={failed} />}
      {isPending && <Loading rows={1} />}
      <ul className="card divide-y divide-line">
        {data?.length === 0 && (
          <li className="p-4 text-muted">
            {t('Not linked. Once it is, you can sign in to this account with {label}.', { label })}
          </li>
        )}
        {data?.map((identity) => (
          <Entry
            key={`${identity.issuer} ${identity.subject}`}
            identity={identity}
            busy={busy}
            isOnlyWay={isOnlyWay(session, data, identity)}
            onUnlink={() => void unlink(identity)}
          />
        ))}
      </ul>
    </Section>
  )
}

function Entry({
  identity,
  busy,
  isOnlyWay,
  onUnlink,
}: {
  identity: Identity
  busy: boolean
  isOnlyWay: boolean
  onUnlink: () => void
}) {
  const name = identity.label ?? identity.issuer
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5">
      <span className="min-w-0 flex-[1_1_12rem] truncate" title={identity.subject}>
        <span className="font-medium">{name}</span> <span className="text-muted">{identity.subject}</span>
      </span>
      <span className="text-[12.5px] text-muted">
        <TimeIn sentence={t('linked {time}')} at={identity.linked_at} />
      </span>
      <Button
        small
        look="quiet"
        disabled={busy || isOnlyWay}
        aria-label={t('Unlink {name}', { name })}
        onClick={onUnlink}
      >
        {t('Unlink')}
      </Button>
      {isOnlyWay && (
        <span className="basis-full text-[12.5px] text-muted">
          {t('This is the only way to sign in to the account. Set a password first.')}
        </span>
      )}
    </li>
  )
}

/** As the gateway decides it, which refuses to unlink the only way. */
function isOnlyWay({ account, methods }: SessionView, all: readonly Identity[], identity: Identity): boolean {
  const hasPasskey = methods.includes('passkey') && (account?.passkeys ?? 0) > 0
  const hasOther = all.some((other) => other !== identity && other.label !== null)
  return !account?.has_password && !hasPasskey && !hasOther
}

/** Why a browser came back without a link, by the code of the error. */
const refusals: Readonly<Record<string, string>> = {
  invalid_request: 'This identity is linked to another account. Unlink it there first.',
  invalid_ticket: 'Linking took too long, or was begun in another browser. Try again.',
  overloaded: 'The single sign-on cannot be reached. Try again later.',
  wrong_credentials: 'The single sign-on did not confirm who you are, so nothing was linked.',
}

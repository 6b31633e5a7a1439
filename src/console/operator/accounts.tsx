// All accounts, and the invitation of new ones.

import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useSearchParams } from 'wouter'
import { call } from '../api/call.ts'
import type { Page } from '../api/wire.ts'
import { moment } from '../strings/format.ts'
import { t } from '../strings/text.ts'
import { Badge, Button, Code, Empty, PageHead, Time } from '../ui/basics.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { elevate } from '../ui/elevate.tsx'
import { ActForm, Choice, TextField, textOf } from '../ui/form.tsx'
import { QueryState, Table } from '../ui/table.tsx'
import type { AccountRow, SignInLink } from './wire.ts'

export function Accounts() {
  const [query, setQuery] = useSearchParams()
  const [inviting, setInviting] = useState(false)
  const q = query.get('q') ?? ''
  const list = useInfiniteQuery({
    queryKey: ['admin', 'accounts', q],
    queryFn: ({ pageParam }) => {
      const asked = new URLSearchParams(q === '' ? {} : { q })
      if (pageParam !== null) asked.set('cursor', pageParam)
      return call<Page<AccountRow>>('GET', `admin/accounts?${asked}`)
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_cursor,
  })
  const rows = list.data?.pages.flatMap((page) => page.data) ?? []
  return (
    <>
      <PageHead title={t('Accounts')}>
        <Button look="primary" onClick={() => setInviting(true)}>
          {t('Invite')}
        </Button>
      </PageHead>
      <input
        type="search"
        aria-label={t('Search accounts')}
        placeholder={t('Address or id')}
        value={q}
        onChange={(event) =>
          setQuery(event.target.value === '' ? {} : { q: event.target.value }, { replace: true })
        }
        className="control mb-4 max-w-md"
      />
      <QueryState query={list} />
      {list.data && rows.length === 0 && <Empty title={t('No account matches.')} />}
      {rows.length > 0 && (
        <Table label={t('Accounts')} columns={[t('E-mail'), t('Role'), t('State'), t('Opened')]}>
          {rows.map((account) => (
            <tr key={account.id}>
              <td>
                <Link href={`/operator/accounts/${account.id}`} className="text-accent underline">
                  {account.email}
                </Link>
              </td>
              <td>{t(account.role)}</td>
              <td>
                <AccountState account={account} />
              </td>
              <td>
                <Time at={account.created_at} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      {list.hasNextPage && (
        <p className="mt-3">
          <Button busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            {t('More')}
          </Button>
        </p>
      )}
      {inviting && (
        <Invite
          onClose={() => {
            setInviting(false)
            void list.refetch()
          }}
        />
      )}
    </>
  )
}

export function AccountState({ account }: { account: AccountRow }) {
  if (account.suspended) return <Badge tone="bad">{t('suspended')}</Badge>
  return account.email_verified ? (
    <Badge tone="good">{t('active')}</Badge>
  ) : (
    <Badge tone="warn">{t('not verified')}</Badge>
  )
}

function Invite({ onClose }: { onClose: () => void }) {
  const [link, setLink] = useState<SignInLink | null>(null)
  const invite = async (given: FormData) => {
    const body = { email: textOf(given, 'email'), role: textOf(given, 'role') }
    setLink(await elevate(() => call<SignInLink>('POST', 'admin/invitations', body)))
  }
  return (
    <Dialog title={t('Invite somebody')} onClose={onClose} firm={link !== null} wide={link !== null}>
      {link === null ? (
        <ActForm onSubmit={invite} action={t('Make the link')}>
          <TextField label={t('E-mail')} name="email" type="email" required autoFocus />
          <Choice
            label={t('Role')}
            name="role"
            defaultValue="user"
            options={[
              ['user', t('user')],
              ['operator', t('operator')],
            ]}
          />
        </ActForm>
      ) : (
        <ShownLink link={link} onClose={onClose} />
      )}
    </Dialog>
  )
}

/** The link, which is shown only once. */
export function ShownLink({ link, onClose }: { link: SignInLink; onClose: () => void }) {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <p>
        {t('Give it to its user. It signs in once, until {time}, and is not shown again.', {
          time: moment(link.expires_at),
        })}
      </p>
      <Code label={t('The link')} text={link.url} />
      <div className="flex justify-end">
        <Button look="primary" onClick={onClose}>
          {t('Done')}
        </Button>
      </div>
    </div>
  )
}

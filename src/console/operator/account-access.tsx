// The keys and sessions of an account, which an operator can end.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { call } from '../api/call.ts'
import { useKeys } from '../api/queries.ts'
import type { Key, SessionRow } from '../api/wire.ts'
import { KeyLimit, KeyName, KeyState } from '../pages/keys/key-table.tsx'
import { KeySearch } from '../pages/keys/keys.tsx'
import { SessionEntry } from '../pages/settings.tsx'
import { t } from '../strings/text.ts'
import { Failure, Loading, Section, Time } from '../ui/basics.tsx'
import { Older } from '../ui/older.tsx'
import { QueryState } from '../ui/query-state.tsx'
import { RevokeButton } from '../ui/revoke-button.tsx'
import { rightAligned, Table } from '../ui/table.tsx'
import { useAct } from '../ui/use-act.ts'

/** A list below the account's path, with a function that removes an entry and rejects if that is refused. */
function useEntries<Entry extends { readonly id: string }>(path: string) {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['admin', path],
    queryFn: async () => (await call<{ data: readonly Entry[] }>('GET', path)).data,
  })
  const remove = async ({ id }: Entry) => {
    await call('DELETE', `${path}/${encodeURIComponent(id)}`)
    await refetch()
  }
  const state = (
    <>
      {error && <Failure error={error} retry={() => void refetch()} />}
      {isPending && <Loading rows={1} />}
    </>
  )
  return { rows: data ?? [], isPending, remove, state }
}

export function AccountKeys({ path }: { path: string }) {
  const [q, setQ] = useState('')
  const list = useKeys(`${path}/keys`, { q })
  const rows = list.data?.pages.flatMap(({ data }) => data) ?? []
  const remove = async ({ id }: Key) => {
    await call('DELETE', `${path}/keys/${encodeURIComponent(id)}`)
    await list.refetch()
  }
  return (
    <Section title={t('Keys')}>
      {(q !== '' || list.hasNextPage) && <KeySearch q={q} onChange={setQ} />}
      <QueryState query={list} rows={1} />
      {list.data && rows.length === 0 && (
        <p className="text-muted">{q === '' ? t('None.') : t('No key matches.')}</p>
      )}
      {rows.length > 0 && (
        <Table
          label={t('Keys')}
          columns={[t('Key'), t('Limit'), t('Last used'), t('State'), rightAligned(t('Actions'))]}
        >
          {rows.map((key) => (
            <tr key={key.id} className={key.state === 'active' ? '' : 'text-muted'}>
              <td className="min-w-40">
                <KeyName keyRow={key} />
              </td>
              <td className="whitespace-nowrap">
                <KeyLimit keyRow={key} />
              </td>
              <td>
                <Time at={key.last_used_at} none={t('never')} />
              </td>
              <td className="whitespace-nowrap">
                <KeyState keyRow={key} />
              </td>
              <td className="text-right">
                {key.state === 'active' && (
                  <RevokeButton
                    name={key.name}
                    consequence={t(
                      'Calls with …{last4} are refused from then on, and nothing brings the key back.',
                      { last4: key.last4 },
                    )}
                    revoke={() => remove(key)}
                  />
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Older list={list} />
    </Section>
  )
}

export function AccountSessions({ path }: { path: string }) {
  const { rows, isPending, remove, state } = useEntries<SessionRow>(`${path}/sessions`)
  const { error, busy, act } = useAct()
  return (
    <Section title={t('Sessions')}>
      {state}
      {error !== null && <Failure error={error} />}
      {!isPending && rows.length === 0 && <p className="text-muted">{t('None.')}</p>}
      {rows.length > 0 && (
        <ul className="card divide-y divide-line">
          {rows.map((session) => (
            <SessionEntry
              key={session.id}
              session={session}
              busy={busy}
              onEnd={() => void act(() => remove(session))}
            />
          ))}
        </ul>
      )}
    </Section>
  )
}

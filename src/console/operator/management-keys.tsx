// Keys of the admin API: made, shown once, revoked.

import { useState } from 'react'
import type { ManagementKeyView } from '../../http/admin/answers.ts'
import { call, newId, refresh, useData } from '../api/call.ts'
import { day, t } from '../strings/text.ts'
import {
  ActForm,
  Badge,
  Choice,
  Button,
  Dialog,
  Empty,
  PageHead,
  RevokeButton,
  ShownOnce,
  TextField,
  textOf,
  Time,
} from '../ui/kit.tsx'
import { elevate } from '../session/signed-out.tsx'
import { firstOnPhones, notOnPhones, QueryState, Table, wideOnly } from '../ui/table.tsx'

const queryKey = ['admin', 'management-keys']

const tones: Readonly<Record<ManagementKeyView['state'], 'good' | 'warn' | 'plain'>> = {
  active: 'good',
  revoked: 'warn',
  expired: 'plain',
}

export function ManagementKeys() {
  const [making, setMaking] = useState(false)
  const { data, error, isPending, refetch } = useData<readonly ManagementKeyView[]>(
    queryKey,
    'admin/management-keys',
  )
  const revoke = async (id: string) => {
    await elevate(() => call('DELETE', `admin/management-keys/${encodeURIComponent(id)}`))
    await refresh(...queryKey)
  }
  return (
    <>
      <PageHead
        title={t('Management keys')}
        about={t('For programs that administer this gateway at /admin/v1. They make no calls to models.')}
      >
        <Button look="primary" onClick={() => setMaking(true)}>
          {t('Make a key')}
        </Button>
      </PageHead>
      <QueryState query={{ error, isPending, refetch }} />
      {data?.length === 0 && (
        <Empty title={t('There are no management keys.')}>
          <p>{t('A key acts as the operator who made it, until it is revoked or expires.')}</p>
        </Empty>
      )}
      {data && data.length > 0 && (
        <Table
          label={t('Management keys')}
          columns={[
            t('Name'),
            wideOnly(t('State')),
            wideOnly(t('Made')),
            wideOnly(t('Expires')),
            wideOnly(t('From networks')),
            t('Act'),
          ]}
        >
          {data.map((key) => (
            <tr key={key.id}>
              <td className={firstOnPhones}>
                <span className="break-words">{key.name}</span>{' '}
                <span className="font-mono text-[12px] text-muted">…{key.last4}</span>{' '}
                {key.scope === 'scim' && <Badge>{t('provisioning')}</Badge>}
                <span className="mt-0.5 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted sm:hidden">
                  <Badge tone={tones[key.state]}>{t(key.state)}</Badge>
                  <Time at={key.created_at} />
                </span>
              </td>
              <td className={notOnPhones}>
                <Badge tone={tones[key.state]}>{t(key.state)}</Badge>
              </td>
              <td className={notOnPhones}>
                <Time at={key.created_at} />
              </td>
              <td className={notOnPhones}>{key.expires_at === null ? t('never') : day(key.expires_at)}</td>
              <td className={`font-mono text-[12.5px] ${notOnPhones}`}>
                {key.networks?.join(', ') ?? t('any')}
              </td>
              <td>
                {key.state === 'active' && (
                  <RevokeButton
                    name={key.name}
                    consequence={t(
                      'Programs that use it are refused from then on, and nothing brings the key back.',
                    )}
                    revoke={() => revoke(key.id)}
                  />
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {making && <Making onClose={() => setMaking(false)} />}
    </>
  )
}

/** The key is only in this dialog's state and is lost when it closes. */
function Making({ onClose }: { onClose: () => void }) {
  // If the answer was lost, the same request is sent again with this id and makes no second key.
  const [id] = useState(() => newId())
  const [made, setMade] = useState<string | null>(null)
  const make = async (given: FormData) => {
    const body = { ...bodyOf(given), id }
    try {
      const { key } = await elevate(() => call<{ key: string }>('POST', 'admin/management-keys', body))
      setMade(key)
    } finally {
      // Also after an error: it may have been made, and only the answer was lost.
      void refresh(...queryKey)
    }
  }
  if (made !== null)
    return (
      <ShownOnce
        title={t('The management key')}
        warning={t('This is the only time that it is shown.')}
        secret={made}
        label={t('Key')}
        done={t('I have stored the key')}
        onClose={onClose}
      />
    )
  return (
    <Dialog title={t('Make a management key')} onClose={onClose}>
      <ActForm onSubmit={make} action={t('Make the key')}>
        <TextField label={t('Name')} name="name" required maxLength={100} autoComplete="off" />
        <Choice
          label={t('For')}
          name="scope"
          defaultValue="admin"
          options={[
            ['admin', t('the admin API')],
            ['scim', t('provisioning by a directory (SCIM)')],
          ]}
        />
        <TextField
          label={t('Expires')}
          name="expires"
          type="date"
          hint={t('At the end of that day in UTC; empty: never.')}
        />
        <TextField
          label={t('From networks')}
          name="networks"
          placeholder="10.0.0.0/8, 203.0.113.7"
          hint={t('Empty: from anywhere.')}
        />
      </ActForm>
    </Dialog>
  )
}

function bodyOf(form: FormData) {
  const expires = textOf(form, 'expires')
  const networks = (textOf(form, 'networks') ?? '').split(/[\s,]+/).filter((network) => network !== '')
  return {
    name: textOf(form, 'name') ?? '',
    scope: textOf(form, 'scope') ?? 'admin',
    ...(expires !== undefined && { expires_at: `${expires}T23:59:59.999Z` }),
    ...(networks.length > 0 && { networks }),
  }
}

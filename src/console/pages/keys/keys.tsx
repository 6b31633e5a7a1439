// The account's keys: listed, made, changed, replaced and revoked.

import { useState } from 'react'
import { useQueryClient } from '@tanstack/react-query'
import { useKeys } from '../../api/queries.ts'
import type { MadeKey } from '../../api/wire.ts'
import { t } from '../../strings/text.ts'
import { Button, Empty, PageHead } from '../../ui/basics.tsx'
import { QueryState } from '../../ui/query-state.tsx'
import { Misbehave } from './misbehave.tsx'
import { KeyForm } from './key-form.tsx'
import { Revoke, Rotate } from './key-acts.tsx'
import { type KeyAct, KeyTable } from './key-table.tsx'
import { RevealedKey } from './revealed-key.tsx'

type Open =
  | { readonly kind: 'create' }
  | KeyAct
  /** Has the text of a new key, which is lost when it closes. */
  | { readonly kind: 'revealed'; readonly made: MadeKey }

export function Keys() {
  const keys = useKeys()
  const client = useQueryClient()
  const [open, setOpen] = useState<Open | null>(null)
  const [all, setAll] = useState(false)
  const close = () => {
    setOpen(null)
    void client.invalidateQueries({ queryKey: ['keys'] })
  }
  const rows = (keys.data ?? []).filter((key) => all || key.state === 'active' || isRecent(key.revoked_at))
  const hidden = (keys.data?.length ?? 0) - rows.length
  return (
    <>
      <PageHead
        title={t('Keys')}
        about={t('A key is shown once, when it is created. It spends purchased credit.')}
      >
        <Button look="primary" onClick={() => setOpen({ kind: 'create' })}>
          {t('Create a key')}
        </Button>
      </PageHead>
      <QueryState query={keys} />
      {keys.data && rows.length === 0 && (
        <Empty title={t('There is no key yet.')}>
          <p>
            {t(
              'A program calls the gateway with a key. Create one, and the first call is a copy and paste away.',
            )}
          </p>
        </Empty>
      )}
      {rows.length > 0 && <KeyTable rows={rows} onOpen={setOpen} />}
      {(hidden > 0 || all) && (
        <p className="mt-3">
          <Button small look="quiet" onClick={() => setAll(!all)}>
            {all
              ? t('Hide revoked and expired keys')
              : t('Show {count} more that are revoked or expired', { count: hidden })}
          </Button>
        </p>
      )}
      {rows.some(({ mode, state }) => mode === 'test' && state === 'active') && <Misbehave />}
      {open?.kind === 'create' && (
        <KeyForm onClose={close} onMade={(made) => setOpen({ kind: 'revealed', made })} />
      )}
      {open?.kind === 'edit' && <KeyForm existing={open.key} onClose={close} onMade={close} />}
      {open?.kind === 'rotate' && (
        <Rotate keyRow={open.key} onClose={close} onMade={(made) => setOpen({ kind: 'revealed', made })} />
      )}
      {open?.kind === 'revoke' && <Revoke keyRow={open.key} onClose={close} />}
      {open?.kind === 'revealed' && <RevealedKey made={open.made} onClose={close} />}
    </>
  )
}

const recentMs = 86_400_000

function isRecent(at: string | null): boolean {
  return at !== null && Date.now() - Date.parse(at) < recentMs
}

// The account's keys: listed, made, changed, replaced and revoked.

import { useState } from 'react'
import { useQueryClient } from '@tanstack/react-query'
import { useKeys } from '../../api/queries.ts'
import type { MadeKey } from '../../api/wire.ts'
import { t } from '../../strings/text.ts'
import { Button, Empty, PageHead } from '../../ui/basics.tsx'
import { Older } from '../../ui/older.tsx'
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
  const client = useQueryClient()
  const [open, setOpen] = useState<Open | null>(null)
  const [all, setAll] = useState(false)
  const [q, setQ] = useState('')
  const keys = useKeys('keys', { state: all ? 'all' : 'current', q })
  const close = () => {
    setOpen(null)
    void client.invalidateQueries({ queryKey: ['keys'] })
  }
  const rows = keys.data?.pages.flatMap(({ data }) => data) ?? []
  const hidden = keys.data?.pages.reduce((sum, page) => sum + page.hidden, 0) ?? 0
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
      {(q !== '' || rows.length >= manyKeys) && <KeySearch q={q} onChange={setQ} />}
      <QueryState query={keys} />
      {keys.data && rows.length === 0 && q !== '' && <Empty title={t('No key matches.')} />}
      {keys.data && rows.length === 0 && q === '' && (
        <Empty title={t('There is no key yet.')}>
          <p>
            {t(
              'A program calls the gateway with a key. Create one, and the first call is a copy and paste away.',
            )}
          </p>
        </Empty>
      )}
      {rows.length > 0 && <KeyTable rows={rows} onOpen={setOpen} />}
      <Older list={keys} />
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

/** A list that is longer is searched. */
const manyKeys = 10

export function KeySearch({ q, onChange }: { q: string; onChange: (q: string) => void }) {
  return (
    <input
      type="search"
      aria-label={t('Search keys')}
      placeholder={t('Name, id or last characters')}
      value={q}
      maxLength={200}
      onChange={(event) => onChange(event.target.value)}
      className="control mb-4 max-w-md"
    />
  )
}

// The account's keys: listed, made, changed, replaced and revoked.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { call } from '../api/call.ts'
import { useKeys } from '../api/queries.ts'
import type { Key, MadeKey, Page, RequestRow } from '../api/wire.ts'
import { milliseconds, moment, usd } from '../strings/format.ts'
import { t } from '../strings/text.ts'
import { Button, Code, Copy, Empty, Failure, Note, PageHead, TimeIn } from '../ui/basics.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { useAct } from '../ui/form.tsx'
import { Older, QueryState } from '../ui/table.tsx'
import { KeyForm } from './key-form.tsx'
import { type KeyAct, KeyTable } from './key-table.tsx'

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

// For test keys: how to make a provider fail on purpose, to test one's own program.

const ways = [
  ['sim/error-429', '429', 'It limits the rate, each time.'],
  ['sim/error-500', '500', 'It fails, each time.'],
  ['sim/cut', 'cut', 'It breaks off in the middle of its answer.'],
  ['sim/hang', 'hang', 'It never answers.'],
  ['sim/slow', 'slow', 'It takes its time before and between tokens.'],
] as const

function Misbehave() {
  const [model, setModel] = useState<string>(ways[0][0])
  const about = ways.find(([id]) => id === model)![2]
  return (
    <section
      className="mt-6 rounded-md border border-warn bg-warn-soft px-4 py-3"
      aria-label={t('Test mode')}
    >
      <h2 className="font-semibold">{t('Test mode: make it misbehave')}</h2>
      <p className="mt-1">
        {t(
          'Calls with a test key are free and answered by the simulator. Call one of its models to see a failure.',
        )}
      </p>
      <div className="mt-3 flex flex-wrap gap-2">
        {ways.map(([id, name]) => (
          <button
            key={id}
            type="button"
            aria-pressed={id === model}
            onClick={() => setModel(id)}
            className={`h-7 rounded-md border border-warn px-2.5 text-[13px] font-medium ${id === model ? 'bg-warn text-paper' : ''}`}
          >
            {name}
          </button>
        ))}
      </div>
      <p className="mt-3 flex flex-wrap items-center gap-2">
        <code className="rounded bg-panel px-2 py-1 font-mono text-[13px]">"model": "{model}"</code>
        <Copy text={model} /> <span>{t(about)}</span>
      </p>
    </section>
  )
}

// A new key, shown only once, with a first call to try it. It waits for that call and turns green when it arrives.
// The key is lost when the dialog closes.

const askEveryMs = 1_500

function RevealedKey({ made, onClose }: { made: MadeKey; onClose: () => void }) {
  const { data: first } = useQuery({
    queryKey: ['first-call', made.id],
    queryFn: async () =>
      (await call<Page<RequestRow>>('GET', `requests?limit=1&key=${encodeURIComponent(made.id)}`)).data[0] ??
      null,
    refetchInterval: ({ state }) => (state.data ? false : askEveryMs),
    gcTime: 0,
  })
  const base = `${location.origin}/v1`
  return (
    <Dialog title={t('Your new key')} onClose={onClose} wide firm>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
        <p>{t('This is the only time that it is shown. Weir keeps its hash and cannot show it again.')}</p>
        <div className="flex items-center gap-2 rounded-md border border-line-strong bg-paper p-2.5">
          <code className="min-w-0 flex-1 font-mono text-[13px] break-all" data-testid="key">
            {made.key}
          </code>
          <Copy text={made.key} look="primary" label={t('Copy the key')} />
        </div>
        {made.replaced_works_until != null && (
          <Note tone="warn">
            {t('The key that it replaces works until {time}.', { time: moment(made.replaced_works_until) })}
          </Note>
        )}
        <div>
          <h3 className="mb-1 text-[13px] font-medium">{t('For client libraries')}</h3>
          <Code
            label={t('Environment')}
            text={`export OPENAI_BASE_URL=${base}\nexport OPENAI_API_KEY=${made.key}`}
          />
        </div>
        <div>
          <h3 className="mb-1 text-[13px] font-medium">{t('A first call')}</h3>
          <Code label={t('A first call')} text={firstCall(base, made.key)} />
        </div>
        <FirstCall first={first ?? null} />
        <div className="flex justify-end">
          <Button look="primary" onClick={onClose}>
            {t('I have stored the key')}
          </Button>
        </div>
      </div>
    </Dialog>
  )
}

function FirstCall({ first }: { first: RequestRow | null }) {
  if (first === null) {
    return (
      <Note role="status">
        <span className="inline-block size-2 animate-pulse rounded-full bg-line-strong" aria-hidden="true" />{' '}
        {t('Waiting for the first call with this key …')}
      </Note>
    )
  }
  const { code, model, total_ms: ms, cost } = first
  if (code !== null) {
    return (
      <Note tone="bad" role="status">
        {t('The first call has arrived and was refused: {code}.', { code })}{' '}
        <a className="underline" href={`/console/requests/${first.id}`}>
          {t('Why?')}
        </a>
      </Note>
    )
  }
  return (
    <Note tone="good" role="status">
      <span className="text-good">✓</span>{' '}
      {t('The first call has arrived: {model} in {time} for {cost}.', {
        model: model ?? '',
        time: milliseconds(ms),
        cost: usd(cost),
      })}
    </Note>
  )
}

function firstCall(base: string, key: string): string {
  return [
    `curl ${base}/chat/completions \\`,
    `  -H "Authorization: Bearer ${key}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d '{"model": "sim/echo", "messages": [{"role": "user", "content": "Hello"}]}'`,
  ].join('\n')
}

// Dialogs that replace and revoke a key.

const overlaps = [
  ['0', 'at once'],
  ['1h', '1 hour'],
  ['24h', '24 hours'],
  ['7d', '7 days'],
] as const

function Rotate({
  keyRow,
  onClose,
  onMade,
}: {
  keyRow: Key
  onClose: () => void
  onMade: (made: MadeKey) => void
}) {
  const { error, busy, act } = useAct()
  const [overlap, setOverlap] = useState('24h')
  const rotate = () =>
    act(async () =>
      onMade(await call<MadeKey>('POST', `keys/${encodeURIComponent(keyRow.id)}/rotate`, { overlap })),
    )
  return (
    <Dialog title={t('Replace {name}', { name: keyRow.name })} onClose={onClose}>
      <div className="grid gap-4">
        <p>
          {t(
            'A new key with the same rights is made. The old one goes on working for a while, so that nothing stops.',
          )}
        </p>
        <fieldset>
          <legend className="mb-1 text-[13px] font-medium">{t('The old key ends after')}</legend>
          <div className="flex flex-wrap gap-x-4 gap-y-1">
            {overlaps.map(([value, name]) => (
              <label key={value} className="inline-flex items-center gap-1.5">
                <input
                  type="radio"
                  name="overlap"
                  checked={overlap === value}
                  onChange={() => setOverlap(value)}
                />
                {t(name)}
              </label>
            ))}
          </div>
        </fieldset>
        {error !== null && <Failure error={error} />}
        <Ends onClose={onClose}>
          <Button look="primary" busy={busy} onClick={() => void rotate()}>
            {t('Replace')}
          </Button>
        </Ends>
      </div>
    </Dialog>
  )
}

function Revoke({ keyRow, onClose }: { keyRow: Key; onClose: () => void }) {
  const { error, busy, act } = useAct()
  const [revoked, setRevoked] = useState<Key | null>(null)
  const revoke = () =>
    act(async () => setRevoked(await call<Key>('DELETE', `keys/${encodeURIComponent(keyRow.id)}`)))
  return (
    <Dialog title={t('Revoke {name}', { name: keyRow.name })} onClose={onClose}>
      {revoked === null ? (
        <div className="grid gap-4">
          <p>
            {t('Calls with …{last4} are refused from then on, and nothing brings the key back.', {
              last4: keyRow.last4,
            })}
          </p>
          <p className="text-muted">
            {keyRow.last_used_at === null ? (
              t('It has never been used.')
            ) : (
              <TimeIn sentence={t('It was last used {time}.')} at={keyRow.last_used_at} />
            )}
          </p>
          {error !== null && <Failure error={error} />}
          <Ends onClose={onClose}>
            <Button look="danger" busy={busy} onClick={() => void revoke()}>
              {t('Revoke the key')}
            </Button>
          </Ends>
        </div>
      ) : (
        <div className="grid gap-4">
          <p role="status">
            {revoked.revoked_at !== null &&
              t('Revoked. It took effect at {time}.', { time: moment(revoked.revoked_at) })}{' '}
            {t('Calls that were running then are finished and charged.')}
          </p>
          <div className="flex justify-end">
            <Button look="primary" autoFocus onClick={onClose}>
              {t('Done')}
            </Button>
          </div>
        </div>
      )}
    </Dialog>
  )
}

function Ends({ onClose, children }: { onClose: () => void; children: ReactNode }) {
  return (
    <div className="flex justify-end gap-2">
      <Button onClick={onClose}>{t('Cancel')}</Button>
      {children}
    </div>
  )
}

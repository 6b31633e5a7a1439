// The account's keys: listed, made, changed, replaced and revoked.

import { useQuery } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useState } from 'react'
import type { KeyView, NewKeyView, OwnGroupView, Page, RequestRowView } from '../../http/console/answers.ts'
import {
  addressOf,
  call,
  faultIn,
  fullAddressOf,
  newId,
  refresh,
  useCredits,
  useData,
  useKeys,
  useModels,
  useSession,
  useTopUpTerms,
} from '../api/call.ts'
import { decimal, milliseconds, moment, sumOf, t, usd, usdShort } from '../strings/text.ts'
import {
  Button,
  Choice,
  Code,
  Copy,
  Dialog,
  Empty,
  Failure,
  Note,
  PageHead,
  TextField,
  textOf,
  Time,
  TimeIn,
  useAct,
} from '../ui/kit.tsx'
import { isFrozen, KeyLimit, KeyName, KeySearch, KeyState, PauseButton } from './key-row.tsx'
import {
  firstOnPhones,
  notOnPhones,
  numeric,
  Older,
  QueryState,
  rightAligned,
  Table,
  wideOnly,
} from '../ui/table.tsx'

type Open =
  | { readonly kind: 'create' }
  | KeyAct
  /** Has the text of a new key, which is lost when it closes. */
  | { readonly kind: 'revealed'; readonly made: NewKeyView }

export function Keys() {
  const [open, setOpen] = useState<Open | null>(null)
  const [all, setAll] = useState(false)
  const [q, setQ] = useState('')
  const [keys, rows] = useKeys('keys', { state: all ? 'all' : 'current', q })
  const close = () => {
    setOpen(null)
    void refresh('keys')
  }
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

function RevealedKey({ made, onClose }: { made: NewKeyView; onClose: () => void }) {
  const [testKey, setTestKey] = useState<NewKeyView | null>(null)
  const { data: models } = useModels()
  const tried = testKey ?? made
  const { data: first } = useQuery({
    queryKey: ['first-call', tried.id],
    queryFn: async () =>
      (await call<Page<RequestRowView>>('GET', `requests?limit=1&key=${encodeURIComponent(tried.id)}`))
        .data[0] ?? null,
    refetchInterval: ({ state }) => (state.data ? false : askEveryMs),
    gcTime: 0,
  })
  const isFree = models?.some(({ id, input, output }) => id === firstModel && isZero(input) && isZero(output))
  // Of a test key null.
  const isRefused = testKey === null && isZero(made.spendable_usd) && isFree === false
  const base = fullAddressOf('/v1')
  return (
    <Dialog title={t('Your new key')} onClose={onClose} wide firm>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
        <p>
          {t('This is the only time that it is shown. Only its hash is kept, and it cannot be shown again.')}
        </p>
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
        {isRefused ? (
          <WithoutCredit name={made.name} onMade={setTestKey} />
        ) : (
          <>
            <div>
              <h3 className="mb-1 text-[13px] font-medium">
                {testKey === null ? t('A first call') : t('A first call with the test key')}
              </h3>
              <Code label={t('A first call')} text={firstCall(base, tried.key)} />
            </div>
            <FirstCall first={first ?? null} />
          </>
        )}
        <div className="flex justify-end">
          <Button look="primary" onClick={onClose}>
            {t('I have stored the key')}
          </Button>
        </div>
      </div>
    </Dialog>
  )
}

const firstModel = 'sim/echo'

function isZero(amount: string | null): boolean {
  return amount !== null && Number(amount) === 0
}

/** In place of a call that would be refused: how one works now, and what makes this key work. */
function WithoutCredit({ name, onMade }: { name: string; onMade: (made: NewKeyView) => void }) {
  const { error, busy, act } = useAct()
  const { data: terms } = useTopUpTerms()
  const { data: session } = useSession()
  // If the answer was lost, the same request is sent again with this id and makes no second key.
  const [id] = useState(() => newId())
  const make = () =>
    act(async () =>
      onMade(
        await call<NewKeyView>('POST', 'keys', { name: `${name} (test)`.slice(0, 100), mode: 'test', id }),
      ),
    )
  return (
    <Note tone="warn" role="status">
      <p>
        {t('There is no credit that this key could spend yet, so a call with it would be refused.')}{' '}
        {t('A test key works now: it is free, and its answers are simulated.')}{' '}
        {terms?.processors.length === 0 && t('Ask your operator for credit.')}{' '}
        {terms?.processors.length === 0 && session?.brand.support}
      </p>
      <p className="mt-2 flex flex-wrap gap-2">
        <Button busy={busy} onClick={() => void make()}>
          {t('Make a test key')}
        </Button>
        {terms !== undefined && terms.processors.length > 0 && (
          <a
            href={addressOf('/console/credits/top-up')}
            target="_blank"
            rel="noreferrer"
            className="inline-flex h-9 items-center px-2 text-accent underline"
          >
            {t('Top up')}
          </a>
        )}
      </p>
      {error !== null && <Failure error={error} />}
    </Note>
  )
}

function FirstCall({ first }: { first: RequestRowView | null }) {
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
        <a className="underline" href={addressOf(`/console/requests/${first.id}`)}>
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
    `  -d '{"model": "${firstModel}", "messages": [{"role": "user", "content": "Hello"}]}'`,
  ].join('\n')
}

// Dialogs that replace and revoke a key.

const overlaps = [
  ['0', 'at once'],
  ['1h', '1 hour'],
  ['24h', '24 hours'],
  ['7d', '7 days'],
] as const

interface RotateProps {
  readonly keyRow: KeyView
  readonly onClose: () => void
  readonly onMade: (made: NewKeyView) => void
}

function Rotate({ keyRow, onClose, onMade }: RotateProps) {
  const { error, busy, act } = useAct()
  const [overlap, setOverlap] = useState('24h')
  const rotate = () =>
    act(async () =>
      onMade(await call<NewKeyView>('POST', `keys/${encodeURIComponent(keyRow.id)}/rotate`, { overlap })),
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

function Revoke({ keyRow, onClose }: { keyRow: KeyView; onClose: () => void }) {
  const { error, busy, act } = useAct()
  const [revoked, setRevoked] = useState<KeyView | null>(null)
  const revoke = () =>
    act(async () => setRevoked(await call<KeyView>('DELETE', `keys/${encodeURIComponent(keyRow.id)}`)))
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

// The form for a new key, and for changes of a key.

interface KeyFormProps {
  readonly existing?: KeyView
  readonly onClose: () => void
  readonly onMade: (made: NewKeyView) => void
}

export function KeyForm({ existing, onClose, onMade }: KeyFormProps) {
  const { error, busy, act } = useAct()
  // If the answer was lost, the same request is sent again with this id and makes no second key.
  const [id] = useState(() => newId())
  const [more, setMore] = useState(existing !== undefined && hasBounds(existing))
  const groups = useData<readonly OwnGroupView[]>(['groups'], 'groups', { enabled: existing === undefined })
  const fault = error === null ? undefined : faultIn(error)
  const wrong = (param: string) => (fault?.param === param ? fault.message : undefined)
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const rights = rightsIn(new FormData(event.currentTarget))
    void act(async () => {
      if (existing === undefined)
        onMade(await call<NewKeyView>('POST', 'keys', { ...withoutUnset(rights), id }))
      else {
        const { mode: _, sees: __, group: ___, ...changes } = rights
        const shown = more ? changes : { name: changes.name }
        await call<KeyView>('PATCH', `keys/${encodeURIComponent(existing.id)}`, shown)
        onClose()
      }
    })
  }
  return (
    <Dialog
      title={existing ? t('Change {name}', { name: existing.name }) : t('Create a key')}
      onClose={onClose}
    >
      <form onSubmit={submit} className="grid gap-3.5">
        <TextField
          label={t('Name')}
          name="name"
          defaultValue={existing?.name}
          placeholder={t('for example: laptop, CI, search service')}
          required
          maxLength={100}
          autoFocus
          error={wrong('name')}
        />
        {existing === undefined && (
          <Choice
            label={t('Mode')}
            name="mode"
            defaultValue="live"
            options={[
              ['live', t('live: real models, charged')],
              ['test', t('test: simulated answers, free')],
            ]}
          />
        )}
        {existing === undefined && groups.data !== undefined && groups.data.length > 0 && (
          <Choice
            label={t('Group')}
            name="group"
            defaultValue=""
            options={[['', t('none: it spends your own credit')], ...groups.data.map(groupChoice)]}
            error={wrong('group')}
          />
        )}
        <Button
          small
          look="quiet"
          className="justify-self-start"
          aria-expanded={more}
          onClick={() => setMore(!more)}
        >
          {more ? t('Fewer options') : t('Limits, models, expiry')}
        </Button>
        {more && existing === undefined && (
          <Choice
            label={t('What it may read')}
            name="sees"
            defaultValue="own"
            options={[
              ['own', t('its own calls and responses')],
              ['all', t('those of all keys and of the chat')],
            ]}
          />
        )}
        {more && <Bounds existing={existing} wrong={wrong} />}
        {fault && <Failure error={error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{t('Cancel')}</Button>
          <Button type="submit" look="primary" busy={busy}>
            {existing ? t('Save') : t('Create the key')}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

/** A group with what is left of the tighter of its budgets, where there is one. */
function groupChoice(group: OwnGroupView): readonly [string, string] {
  const { id, name, limit_usd: own, spent_usd: spent, budget_usd: all, group_spent_usd: used } = group
  if (own !== null)
    return [id, t('{name}: {spent} of {limit} spent by you', { name, spent: usd(spent), limit: usd(own) })]
  if (all !== null)
    return [id, t('{name}: {spent} of {limit} spent', { name, spent: usd(used), limit: usd(all) })]
  return [id, name]
}

interface BoundsProps {
  readonly existing: KeyView | undefined
  readonly wrong: (param: string) => string | undefined
}

function RateField({
  label,
  name,
  existing,
  wrong,
}: BoundsProps & { label: string; name: 'requests_per_minute' | 'tokens_per_minute' | 'cache_ttl' }) {
  return (
    <TextField
      label={label}
      name={name}
      inputMode="numeric"
      pattern="\d+"
      placeholder={t('none')}
      defaultValue={existing?.[name] ?? ''}
      error={wrong(name)}
    />
  )
}

function Bounds({ existing, wrong }: BoundsProps) {
  return (
    <>
      <div className="grid grid-cols-2 gap-3">
        <TextField
          label={t('Limit in US dollars')}
          name="limit_usd"
          inputMode="decimal"
          pattern="\d+(\.\d{1,12})?"
          placeholder={t('none')}
          defaultValue={existing?.limit_usd ?? ''}
          error={wrong('limit_usd')}
        />
        <Choice
          label={t('Counted')}
          name="limit_window"
          defaultValue={existing?.limit_window ?? 'month'}
          options={[
            ['day', t('each day')],
            ['week', t('each week')],
            ['month', t('each month')],
            ['total', t('in all')],
          ]}
        />
        <RateField
          label={t('Requests per minute')}
          name="requests_per_minute"
          existing={existing}
          wrong={wrong}
        />
        <RateField
          label={t('Tokens per minute')}
          name="tokens_per_minute"
          existing={existing}
          wrong={wrong}
        />
      </div>
      <TextField
        label={t('Models it may call')}
        name="models"
        placeholder={t('all')}
        hint={t('Ids with commas between them; * stands for any end: anthropic/*')}
        defaultValue={existing?.models?.join(', ') ?? ''}
        error={wrong('models')}
      />
      <TextField
        label={t('Networks it may come from')}
        name="networks"
        placeholder={t('all')}
        hint={t('Addresses or prefixes with commas between them: 203.0.113.0/24')}
        defaultValue={existing?.networks?.join(', ') ?? ''}
        error={wrong('networks')}
      />
      <RateField
        label={t('Seconds an answer is given again for')}
        name="cache_ttl"
        existing={existing}
        wrong={wrong}
      />
      <TextField
        label={t('Expires')}
        name="expires_at"
        type="date"
        defaultValue={existing?.expires_at?.slice(0, 10) ?? ''}
        hint={t('At the end of that day in UTC; empty: never.')}
        error={wrong('expires_at')}
      />
    </>
  )
}

function hasBounds(key: KeyView): boolean {
  const { limit_usd, models, networks, requests_per_minute, tokens_per_minute, cache_ttl, expires_at } = key
  return [limit_usd, models, networks, requests_per_minute, tokens_per_minute, cache_ttl, expires_at].some(
    (bound) => bound !== null,
  )
}

/** The rights for the API; null removes a limit. */
function rightsIn(form: FormData) {
  const list = (name: string) => {
    const items = (textOf(form, name) ?? '').split(/[\s,]+/).filter((item) => item !== '')
    return items.length === 0 ? null : items
  }
  const whole = (name: string) => {
    const text = textOf(form, name)
    return text === undefined ? null : Number(text)
  }
  const date = textOf(form, 'expires_at')
  const limit = textOf(form, 'limit_usd') ?? null
  return {
    name: textOf(form, 'name') ?? '',
    mode: textOf(form, 'mode') ?? 'live',
    sees: textOf(form, 'sees') ?? 'own',
    group: textOf(form, 'group') ?? null,
    limit_usd: limit,
    ...(limit === null ? {} : { limit_window: textOf(form, 'limit_window') }),
    requests_per_minute: whole('requests_per_minute'),
    tokens_per_minute: whole('tokens_per_minute'),
    cache_ttl: whole('cache_ttl'),
    models: list('models'),
    networks: list('networks'),
    expires_at: date === undefined ? null : `${date}T23:59:59Z`,
  }
}

function withoutUnset(rights: object): object {
  return Object.fromEntries(Object.entries(rights).filter(([, value]) => value !== null))
}

// The table of an account's keys: their state, their limits and what each may spend now.

interface KeyAct {
  readonly kind: (typeof dialogActs)[number]
  readonly key: KeyView
}

function KeyTable({ rows, onOpen }: { rows: readonly KeyView[]; onOpen: (open: KeyAct) => void }) {
  return (
    <Table
      label={t('Keys')}
      columns={[
        t('Key'),
        wideOnly(numeric(t('Can spend now'))),
        wideOnly(t('Limit')),
        wideOnly(t('Last used')),
        wideOnly(t('State')),
        rightAligned(t('Actions')),
      ]}
    >
      {rows.map((key) => (
        <tr key={key.id} className={key.state === 'active' ? '' : 'text-muted'}>
          <td className={`sm:min-w-40 ${firstOnPhones}`}>
            <KeyName keyRow={key} />
            <span className="mt-0.5 block text-[12.5px] sm:hidden">
              <KeyState keyRow={key} />
            </span>
            <span className="block truncate text-[12.5px] text-muted sm:hidden">
              <TimeIn sentence={t('used {time}')} at={key.last_used_at} />
            </span>
          </td>
          <td className={`num ${notOnPhones}`}>
            <CanSpend keyRow={key} />
          </td>
          <td className={`whitespace-nowrap ${notOnPhones}`}>
            <KeyLimit keyRow={key} />
          </td>
          <td className={notOnPhones}>
            <Time at={key.last_used_at} none={t('never')} />
          </td>
          <td className={`whitespace-nowrap ${notOnPhones}`}>
            <KeyState keyRow={key} />
          </td>
          <td>
            <div className="flex justify-end gap-1 max-sm:grid max-sm:w-max max-sm:grid-cols-2">
              <PauseButton keyRow={key} path="keys" onDone={() => refresh('keys')} />
              {actsOn(key).map((kind) => (
                <Button
                  key={kind}
                  small
                  look="quiet"
                  aria-label={t(actsOnKey[kind], { name: key.name })}
                  onClick={() => onOpen({ kind, key })}
                >
                  {t(actNames[kind])}
                </Button>
              ))}
            </div>
          </td>
        </tr>
      ))}
    </Table>
  )
}

const dialogActs = ['edit', 'rotate', 'revoke'] as const

/**
 * A replaced key cannot be replaced again; its successor can. A paused one is replaced when it has been resumed, or if it is
 * frozen.
 */
function actsOn(key: KeyView): readonly KeyAct['kind'][] {
  const { state, replaced_by: replaced } = key
  if (state !== 'active' && state !== 'paused') return []
  const mayRotate = replaced === null && (state === 'active' || isFrozen(key))
  return dialogActs.filter((kind) => kind !== 'rotate' || mayRotate)
}

const actNames = { edit: 'Change', rotate: 'Replace', revoke: 'Revoke' } as const
/** The same with the key, for screen readers. */
const actsOnKey = { edit: 'Change {name}', rotate: 'Replace {name}', revoke: 'Revoke {name}' } as const

/** What the next call could spend, and whether the key's limit or the credit bounds it. */
function CanSpend({ keyRow }: { keyRow: KeyView }) {
  const { data: credits } = useCredits()
  if (keyRow.state !== 'active') return <span>–</span>
  const { spendable_usd: spendable } = keyRow
  // Test calls cost nothing.
  if (spendable === null) return <span title={t('Test calls are free.')}>{t('free')}</span>
  const left = leftOf(keyRow)
  return (
    <>
      <span className="font-medium" title={usd(spendable)}>
        {usdShort(spendable)}
      </span>
      <span className="block text-[12px] text-muted">
        {left !== null && `${t('limit {amount}', { amount: usdShort(left) })} · `}
        {credits && t('credit {amount}', { amount: usdShort(credits.spendable.api) })}
      </span>
    </>
  )
}

/** What is left of the key's limit in the current window; null without a limit. */
function leftOf({ limit_usd: limit, spent_usd: spent }: KeyView): string | null {
  if (limit === null) return null
  const left = sumOf([limit, `-${spent}`])
  return left.units > 0n ? decimal(left) : '0'
}

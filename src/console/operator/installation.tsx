// The installation: its state, its ledger, and the acts of operators.

import { useDeferredValue, useState } from 'react'
import { useSearchParams } from 'wouter'
import type {
  ActView,
  AuditView,
  CatalogView,
  ConfigurationView,
  OverviewView,
} from '../../http/admin/answers.ts'
import { call, useAnswer, usePages } from '../api/call.ts'
import { count, countOf, moment, t, usd, usdShort } from '../strings/text.ts'
import {
  Badge,
  Button,
  Code,
  Empty,
  Fact,
  Failure,
  Note,
  PageHead,
  Section,
  TextLink,
  useAct,
} from '../ui/kit.tsx'
import {
  Filters,
  firstOnPhones,
  notOnPhones,
  Older,
  QueryState,
  Table,
  useFilters,
  wideOnly,
} from '../ui/table.tsx'

export function Overview() {
  const { data, error, isPending, refetch } = useAnswer<OverviewView>(
    ['admin', 'overview'],
    'admin/overview',
    { refetchInterval: 10_000 },
  )
  return (
    <>
      <PageHead title={t('Installation')} />
      <QueryState query={{ error, isPending, refetch }} />
      {data && (
        <dl className="grid grid-cols-2 gap-3 lg:grid-cols-4">
          <Figure name={t('Accounts')} value={count(data.accounts)}>
            {t('{count} suspended', { count: count(data.suspended) })}
          </Figure>
          <Figure name={t('Calls in flight')} value={count(data.calls_in_flight)}>
            {data.store === 'writable' ? t('the database is writable') : t('the database is unavailable')}
          </Figure>
          <Figure name={t('Calls today')} value={count(data.today.calls)}>
            {t('{count} failed', { count: count(data.today.errors) })}
          </Figure>
          <Figure name={t('Charged today')} value={usdShort(data.today.charged)}>
            {t('{amount} billed by providers', { amount: usd(data.today.cost) })}
          </Figure>
          <Figure name={t('Models')} value={count(data.catalog.models)}>
            {t('{count} callable; prices of {date}', {
              count: count(data.catalog.callable),
              date: data.catalog.date,
            })}
          </Figure>
          <Figure name={t('Providers')} value={count(data.providers)}>
            {t('configured or found')}
          </Figure>
        </dl>
      )}
    </>
  )
}

function Figure({ name, value, children }: { name: string; value: string; children: string }) {
  return (
    <div className="card p-4">
      <dt className="text-[13px] text-muted">{name}</dt>
      <dd className="mt-1 text-2xl font-semibold tracking-tight tabular-nums">
        {value}
        <span className="mt-0.5 block text-[12.5px] font-normal tracking-normal text-muted">{children}</span>
      </dd>
    </div>
  )
}

/** An audit takes a second for each 100,000 calls or so. */
const auditWithinMs = 3_600_000

export function Ledger() {
  const { error, busy, act } = useAct()
  const [audit, setAudit] = useState<AuditView | null>(null)
  const run = () =>
    act(async () => {
      const limit = { withinMs: auditWithinMs }
      setAudit((await call<{ data: AuditView }>('POST', 'admin/audit', {}, limit)).data)
    })
  return (
    <>
      <PageHead
        title={t('Ledger')}
        about={t('Every entry is replayed and every invariant checked, beside the calls.')}
      >
        <Button look="primary" busy={busy} onClick={() => void run()}>
          {t('Check the ledger')}
        </Button>
      </PageHead>
      {error !== null && <Failure error={error} />}
      {audit && (
        <div className="grid gap-4">
          <Note tone={audit.ok ? 'good' : 'bad'} role="status">
            {audit.ok
              ? countOf(
                  audit.journal_entries,
                  'The ledger is correct: {count} entry checked.',
                  'The ledger is correct: {count} entries checked.',
                )
              : t('The ledger has errors: see below.')}
          </Note>
          <Table label={t('Checks')} columns={[t('Check'), t('Result')]}>
            {audit.checks.map(({ name, ok, detail }) => (
              <tr key={name}>
                <td>
                  {name}
                  {detail !== null && <span className="block text-[12.5px] text-muted">{detail}</span>}
                </td>
                <td>
                  <Badge tone={ok ? 'good' : 'bad'}>{ok ? t('holds') : t('broken')}</Badge>
                </td>
              </tr>
            ))}
          </Table>
          <p className="font-mono text-[12px] break-all text-muted">{audit.head_hash}</p>
        </div>
      )}
    </>
  )
}

/** What acts are about, as their names begin. */
const actKinds: Readonly<Record<string, string>> = {
  account: 'Account',
  credits: 'Credit',
  key: 'Key',
  management_key: 'Management key',
  group: 'Group',
  session: 'Sessions',
  top_up: 'Payment',
  voucher: 'Voucher',
  subscription: 'Subscription',
  config: 'Configuration',
  mcp_server: 'Tools',
  webhook: 'Webhooks',
}

export function Acts() {
  const chosen = useFilters(['operator', 'what', 'subject', 'from', 'to'])
  const [acts, rows] = usePages<ActView>(['admin', 'acts', chosen.toString()], 'admin/acts', chosen)
  return (
    <>
      <PageHead
        title={t('Audit log')}
        about={t('What operators did. Entries are never changed or removed.')}
      />
      <Filters
        label={t('Audit log')}
        fields={[
          { name: 'operator', label: t('Who'), placeholder: t('Address or id') },
          {
            name: 'what',
            label: t('What'),
            options: [
              ['', t('every act')],
              ...Object.entries(actKinds).map(([value, name]) => [value, t(name)] as const),
            ],
          },
          { name: 'subject', label: t('Of'), placeholder: t('Address or id') },
          { name: 'from', label: t('From'), type: 'date' },
          { name: 'to', label: t('To'), type: 'date' },
        ]}
      />
      <QueryState query={acts} />
      {acts.data && rows.length === 0 && !acts.hasNextPage && (
        <Empty title={chosen.size === 0 ? t('Nothing yet.') : t('No entry matches.')} />
      )}
      {rows.length > 0 && (
        <Table
          label={t('Audit log')}
          columns={[
            wideOnly(t('When')),
            wideOnly(t('Who')),
            t('What'),
            wideOnly(t('Of')),
            wideOnly(t('Before')),
            t('After'),
          ]}
        >
          {rows.map((row) => (
            <tr key={row.id} className="align-top">
              <td className={`${notOnPhones} whitespace-nowrap`}>{moment(row.at)}</td>
              <td className={`${notOnPhones} max-w-48 break-words`} title={row.operator}>
                {row.operator_email ?? row.operator}
              </td>
              <td className={`font-medium sm:whitespace-nowrap ${firstOnPhones}`}>
                <span className="break-words">{row.what}</span>
                <span className="block text-[12.5px] font-normal break-words text-muted sm:hidden">
                  <ActSubject act={row} />
                  <span className="block">{row.operator_email ?? row.operator}</span>
                  <span className="block">{moment(row.at)}</span>
                </span>
              </td>
              <td className={`${notOnPhones} max-w-48 break-words`}>
                <ActSubject act={row} />
              </td>
              <State of={row.before} beside={row.after} wide />
              <State of={row.after} beside={row.before} />
            </tr>
          ))}
        </Table>
      )}
      <Older list={acts} />
    </>
  )
}

function ActSubject({ act: { what, subject, subject_email: email } }: { act: ActView }) {
  const id = encodeURIComponent(subject)
  const place = subject.startsWith('acct_')
    ? `/operator/accounts/${id}`
    : what.startsWith('top_up.')
      ? `/operator/payments/${id}`
      : subject.startsWith('grp_')
        ? `/operator/groups/${id}`
        : null
  const text = email ?? subject
  if (place === null) return <span className="font-mono text-[12px]">{text}</span>
  return (
    <TextLink href={place} title={subject}>
      {text}
    </TextLink>
  )
}

/** The fields that differ between two states, one per line. */
function State({ of, beside, wide = false }: { of: unknown; beside: unknown; wide?: boolean }) {
  const [fields, others] = [fieldsOf(of), fieldsOf(beside)]
  const shown = Object.entries(fields).filter(
    ([name, value]) => value !== null && JSON.stringify(value) !== JSON.stringify(others[name]),
  )
  return (
    <td className={`max-w-72 text-[12px] break-words sm:min-w-40 ${wide ? notOnPhones : 'max-sm:max-w-36'}`}>
      {shown.length === 0
        ? '–'
        : shown.map(([name, value]) => (
            <span key={name} className="block">
              <span className="text-muted">{name}</span>{' '}
              <span className="font-mono">{typeof value === 'string' ? value : JSON.stringify(value)}</span>
            </span>
          ))}
    </td>
  )
}

function fieldsOf(state: unknown): Readonly<Record<string, unknown>> {
  if (state === null || state === undefined) return {}
  return typeof state === 'object' ? (state as Record<string, unknown>) : { '': state }
}

// The catalog of this installation: the sources of its prices, its changes, and models that are not sold.

/** Rows shown at first. */
const fewRows = 50

export function CatalogPage() {
  const { data, error, isPending, refetch } = useAnswer<CatalogView>(['admin', 'catalog'], 'admin/catalog')
  return (
    <>
      <PageHead title={t('Catalog')} about={t('The models offered here, and where their prices come from.')}>
        <TextLink href="/models">{t('All models')}</TextLink>
      </PageHead>
      <QueryState query={{ error, isPending, refetch }} />
      {data && <Whole state={data} />}
    </>
  )
}

function Whole({ state }: { state: CatalogView }) {
  const { date, models, callable, sources, changes, overrides, unpriced } = state
  return (
    <>
      <dl className="card grid grid-cols-2 gap-3 p-4 sm:grid-cols-4">
        <Fact name={t('Prices of')}>{date}</Fact>
        <Fact name={t('Models')}>{count(models)}</Fact>
        <Fact name={t('Callable now')}>{count(callable)}</Fact>
        <Fact name={t('File')}>{changes === null ? t('bundled') : t('imported')}</Fact>
        {sources.map(({ name, version, date: of }) => (
          <Fact key={name} name={t('Source')}>
            {name} {version} <span className="text-muted">{of}</span>
          </Fact>
        ))}
      </dl>
      <Section title={t('What the imported file changes')}>
        {changes === null ? (
          <div className="grid grid-cols-[minmax(0,1fr)] gap-2">
            <p className="text-muted">
              {t('The bundled catalog is in use. Another file is compared and imported at the command line:')}
            </p>
            <Code
              label={t('Commands')}
              text={
                'weir catalog export prices.json\nweir catalog diff prices.json\nweir catalog import prices.json'
              }
            />
          </div>
        ) : (
          <Changes changes={changes} />
        )}
      </Section>
      <Section title={t('Entries of the configuration')}>
        {overrides.length === 0 ? (
          <p className="text-muted">{t('None: models are added and changed under “models” in weir.yaml.')}</p>
        ) : (
          <Table label={t('Entries of the configuration')} columns={[t('Model'), t('What it sets')]}>
            {overrides.map(({ id, ...fields }) => (
              <tr key={id} className="align-top">
                <td className="font-mono text-[12.5px]">{id}</td>
                <td className="font-mono text-[12px] break-words">{fieldsText(fields)}</td>
              </tr>
            ))}
          </Table>
        )}
      </Section>
      <Unsold rows={unpriced} />
    </>
  )
}

function Changes({ changes: { added, removed, changed } }: { changes: NonNullable<CatalogView['changes']> }) {
  const rows = [
    ...added.map((id) => ({ id, tone: 'good', what: t('added'), text: '' }) as const),
    ...removed.map((id) => ({ id, tone: 'bad', what: t('removed'), text: '' }) as const),
    ...changed.map(({ id, fields }) => {
      const text = Object.entries(fields).map(
        ([name, { from, to }]) => `${name}: ${json(from)} → ${json(to)}`,
      )
      return { id, tone: 'accent', what: t('changed'), text: text.join('\n') } as const
    }),
  ]
  const { shown, more } = useSome(rows)
  if (rows.length === 0) return <Note>{t('Nothing: it is as the bundled one.')}</Note>
  return (
    <>
      <Table label={t('Changes')} columns={[t('Model'), t('Change'), t('From and to')]}>
        {shown.map(({ id, tone, what, text }) => (
          <tr key={id} className="align-top">
            <td className="font-mono text-[12.5px]">{id}</td>
            <td>
              <Badge tone={tone}>{what}</Badge>
            </td>
            <td className="font-mono text-[12px] break-words whitespace-pre-wrap">{text}</td>
          </tr>
        ))}
      </Table>
      {more}
    </>
  )
}

function Unsold({ rows }: { rows: CatalogView['unpriced'] }) {
  const { shown, more } = useSome(rows)
  return (
    <Section title={t('Known, but not offered')}>
      {rows.length === 0 ? (
        <p className="text-muted">{t('Every known model has a price.')}</p>
      ) : (
        <>
          <Table label={t('Known, but not offered')} columns={[t('Model'), t('Why')]}>
            {shown.map(({ id, reason }) => (
              <tr key={id}>
                <td className={`font-mono text-[12.5px] break-all ${firstOnPhones}`}>{id}</td>
                <td>{reason}</td>
              </tr>
            ))}
          </Table>
          {more}
        </>
      )}
    </Section>
  )
}

/** The first rows of a list, and a button for all of them. */
function useSome<Row>(rows: readonly Row[]) {
  const [all, setAll] = useState(false)
  const hidden = rows.length - fewRows
  const more =
    hidden > 0 && !all ? (
      <p className="mt-3">
        <Button onClick={() => setAll(true)}>{t('Show {count} more', { count: count(hidden) })}</Button>
      </p>
    ) : null
  return { shown: all ? rows : rows.slice(0, fewRows), more }
}

function fieldsText(fields: Readonly<Record<string, unknown>>): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}: ${json(value)}`)
    .join(', ')
}

function json(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

// The configuration of the running gateway: every setting with its value and its source.

type Setting = ConfigurationView['settings'][number]

export function OperatorSettings() {
  const { data, error, isPending, refetch } = useAnswer<ConfigurationView>(
    ['admin', 'settings'],
    'admin/settings',
  )
  const [query, setQuery] = useSearchParams()
  const q = query.get('q') ?? ''
  const onlyChanged = query.get('all') === null
  const words = useDeferredValue(q).toLowerCase().split(/\s+/)
  const shown = (data?.settings ?? []).filter(
    (setting) =>
      (!onlyChanged || setting.origin !== 'default') &&
      words.every((word) => setting.path.includes(word) || setting.env.toLowerCase().includes(word)),
  )
  const set = (name: string, value: string | null) =>
    setQuery(
      (before) => {
        const next = new URLSearchParams(before)
        if (value === null || value === '') next.delete(name)
        else next.set(name, value)
        return next
      },
      { replace: true },
    )
  return (
    <>
      <PageHead
        title={t('Configuration')}
        about={t(
          'As it was read last. Providers and models are changed on their pages. For the rest change the file, the environment or the flags, and read them again: weir config reload.',
        )}
      />
      <QueryState query={{ error, isPending, refetch }} />
      {data && (
        <>
          <p className="mb-3 text-muted">
            {data.file === null ? (
              t('There is no configuration file.')
            ) : (
              <code className="font-mono text-[12.5px] break-all">{data.file}</code>
            )}
          </p>
          <div className="mb-4 flex flex-wrap items-center gap-x-4 gap-y-2">
            <input
              type="search"
              aria-label={t('Search settings')}
              placeholder={t('Search, for example: timeouts')}
              value={q}
              onChange={(event) => set('q', event.target.value)}
              className="control max-w-md"
            />
            <label className="inline-flex items-center gap-2">
              <input
                type="checkbox"
                checked={!onlyChanged}
                onChange={(event) => set('all', event.target.checked ? '' : null)}
              />
              {t('Show defaults')}
            </label>
          </div>
          {shown.length === 0 ? (
            <Empty title={t('Nothing differs from its default here.')}>
              <p>{t('{count} settings have their defaults.', { count: count(data.settings.length) })}</p>
            </Empty>
          ) : (
            <Settings rows={shown} />
          )}
        </>
      )}
    </>
  )
}

function Settings({ rows }: { rows: readonly Setting[] }) {
  return (
    <Table label={t('Settings')} columns={[t('Setting'), wideOnly(t('Value')), t('From')]}>
      {rows.map(({ path, value, origin, env }) => (
        <tr key={path} className="align-top">
          <td className={firstOnPhones}>
            <span className="font-mono text-[12.5px] break-words">{path}</span>
            <span className="block font-mono text-[11.5px] break-all text-muted">{env}</span>
            <span className="block font-mono text-[12.5px] break-words sm:hidden">{valueText(value)}</span>
          </td>
          <td className={`${notOnPhones} max-w-96 font-mono text-[12.5px] break-words`}>
            {valueText(value)}
          </td>
          <td>
            {origin === 'default' ? (
              <span className="text-muted">{t('default')}</span>
            ) : (
              <Badge tone="accent">{origin}</Badge>
            )}
          </td>
        </tr>
      ))}
    </Table>
  )
}

function valueText(value: unknown): string {
  if (value === null) return '–'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

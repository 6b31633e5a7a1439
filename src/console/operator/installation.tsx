// The installation: its state, its providers, its ledger, and the acts of operators.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { call } from '../api/call.ts'
import type { Page } from '../api/wire.ts'
import { count, countOf, milliseconds, usd, usdShort } from '../strings/format.ts'
import { t } from '../strings/text.ts'
import { Badge, Button, Empty, Failure, Note, PageHead, Time } from '../ui/basics.tsx'
import { numeric, Older, QueryState, Table } from '../ui/table.tsx'
import { useAct } from '../ui/form.tsx'
import type { Act, Audit, Installation, ProviderRow } from './wire.ts'

export function Overview() {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['admin', 'overview'],
    queryFn: () => call<Installation>('GET', 'admin/overview'),
    refetchInterval: 10_000,
  })
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

export function Providers() {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['admin', 'providers'],
    queryFn: async () => (await call<{ data: readonly ProviderRow[] }>('GET', 'admin/providers')).data,
    refetchInterval: 10_000,
  })
  return (
    <>
      <PageHead title={t('Providers')} about={t('As seen by this process since it started.')} />
      <QueryState query={{ error, isPending, refetch }} />
      {data && (
        <Table
          label={t('Providers')}
          columns={[
            t('Provider'),
            t('Protocol'),
            t('State'),
            numeric(t('Answers')),
            numeric(t('Succeeded')),
            numeric(t('Median time')),
            t('Last error'),
          ]}
        >
          {data.map((provider) => (
            <tr key={provider.id}>
              <td className="whitespace-nowrap">
                <span className="font-medium">{provider.name}</span>{' '}
                <span className="font-mono text-[12px] text-muted">{provider.id}</span>
              </td>
              <td className="font-mono text-[12.5px]">{provider.protocol}</td>
              <td className="whitespace-nowrap">
                <Badge tone={provider.last_error && provider.success_rate === 0 ? 'bad' : 'plain'}>
                  {t(provider.state)}
                </Badge>
              </td>
              <td className="num">{count(provider.answers)}</td>
              <td className="num">
                {provider.success_rate === null ? '–' : `${(provider.success_rate * 100).toFixed(1)} %`}
              </td>
              <td className="num">
                {provider.p50_latency_ms === null ? '–' : milliseconds(provider.p50_latency_ms)}
              </td>
              <td className="min-w-40">
                {provider.last_error === null ? (
                  '–'
                ) : (
                  <>
                    <span className="font-mono text-[12.5px]">{provider.last_error.code}</span>{' '}
                    <Time at={provider.last_error.at} />
                    <span className="block text-[12.5px] text-muted">{provider.last_error.reason}</span>
                  </>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  )
}

/** An audit takes a second for each 100,000 calls or so. */
const auditWithinMs = 3_600_000

export function Ledger() {
  const { error, busy, act } = useAct()
  const [audit, setAudit] = useState<Audit | null>(null)
  const run = () =>
    act(async () => {
      const limit = { withinMs: auditWithinMs }
      setAudit((await call<{ data: Audit }>('POST', 'admin/audit', {}, limit)).data)
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

export function Acts() {
  const acts = useInfiniteQuery({
    queryKey: ['admin', 'acts'],
    queryFn: ({ pageParam }) =>
      call<Page<Act>>('GET', `admin/acts${pageParam === null ? '' : `?cursor=${pageParam}`}`),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_cursor,
  })
  const rows = acts.data?.pages.flatMap((page) => page.data) ?? []
  return (
    <>
      <PageHead
        title={t('Audit log')}
        about={t('What operators did. Entries are never changed or removed.')}
      />
      <QueryState query={acts} />
      {acts.data && rows.length === 0 && <Empty title={t('Nothing yet.')} />}
      {rows.length > 0 && (
        <Table
          label={t('Audit log')}
          columns={[t('When'), t('Who'), t('What'), t('Of'), t('Before'), t('After')]}
        >
          {rows.map((row) => (
            <tr key={row.id} className="align-top">
              <td>
                <Time at={row.at} />
              </td>
              <td className="font-mono text-[12px]">{row.operator}</td>
              <td className="font-medium whitespace-nowrap">{row.what}</td>
              <td className="font-mono text-[12px]">{row.subject}</td>
              <State of={row.before} beside={row.after} />
              <State of={row.after} beside={row.before} />
            </tr>
          ))}
        </Table>
      )}
      <Older list={acts} />
    </>
  )
}

/** The fields that differ between two states, one per line. */
function State({ of, beside }: { of: unknown; beside: unknown }) {
  const [fields, others] = [fieldsOf(of), fieldsOf(beside)]
  const shown = Object.entries(fields).filter(
    ([name, value]) => value !== null && JSON.stringify(value) !== JSON.stringify(others[name]),
  )
  return (
    <td className="max-w-72 min-w-40 text-[12px] break-words">
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

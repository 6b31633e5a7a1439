// The configuration of the running gateway: every setting with its value and its source.

import { useQuery } from '@tanstack/react-query'
import { useDeferredValue } from 'react'
import { useSearchParams } from 'wouter'
import { call } from '../api/call.ts'
import { count } from '../strings/format.ts'
import { t } from '../strings/text.ts'
import { Badge, Empty, PageHead } from '../ui/basics.tsx'
import { QueryState, Table } from '../ui/table.tsx'
import type { Configuration } from './wire.ts'

type Setting = Configuration['settings'][number]

export function OperatorSettings() {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['admin', 'settings'],
    queryFn: () => call<Configuration>('GET', 'admin/settings'),
  })
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
          'As of the last start. Change the file, the environment or the flags, and restart the gateway.',
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
    <Table label={t('Settings')} columns={[t('Setting'), t('Value'), t('From')]}>
      {rows.map(({ path, value, origin, env }) => (
        <tr key={path} className="align-top">
          <td>
            <span className="font-mono text-[12.5px]">{path}</span>
            <span className="block font-mono text-[11.5px] text-muted">{env}</span>
          </td>
          <td className="max-w-96 font-mono text-[12.5px] break-words">{valueText(value)}</td>
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

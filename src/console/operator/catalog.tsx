// The catalog of this installation: the sources of its prices, its changes, and models that are not sold.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import { call } from '../api/call.ts'
import { count } from '../strings/format.ts'
import { t } from '../strings/text.ts'
import { Badge, Button, Code, Fact, Note, PageHead, Section } from '../ui/basics.tsx'
import { QueryState, Table } from '../ui/table.tsx'
import type { CatalogChanges, CatalogState } from './wire.ts'

/** Rows shown at first. */
const fewRows = 50

export function CatalogPage() {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['admin', 'catalog'],
    queryFn: () => call<CatalogState>('GET', 'admin/catalog'),
  })
  return (
    <>
      <PageHead title={t('Catalog')} about={t('The models offered here, and where their prices come from.')}>
        <Link href="/models" className="text-accent underline">
          {t('All models')}
        </Link>
      </PageHead>
      <QueryState query={{ error, isPending, refetch }} />
      {data && <Whole state={data} />}
    </>
  )
}

function Whole({ state }: { state: CatalogState }) {
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

function Changes({ changes: { added, removed, changed } }: { changes: CatalogChanges }) {
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

function Unsold({ rows }: { rows: CatalogState['unpriced'] }) {
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
                <td className="font-mono text-[12.5px]">{id}</td>
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

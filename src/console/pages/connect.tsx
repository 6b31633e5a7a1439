// How each client is pointed at this gateway, with texts to copy.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import { call } from '../api/call.ts'
import { useModels } from '../api/queries.ts'
import type { ConnectClients } from '../api/wire.ts'
import { t } from '../strings/text.ts'
import { Code, Copy, Failure, Loading, PageHead } from '../ui/basics.tsx'

export function Connect() {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['connect'],
    queryFn: () => call<ConnectClients>('GET', 'connect'),
  })
  const { data: models } = useModels()
  const [chosen, setChosen] = useState('')
  const [model, setModel] = useState('')
  const callable = models?.filter((row) => row.callable.api === null && row.kind === 'chat') ?? []
  const used = model === '' ? (callable[0]?.id ?? 'sim/echo') : model
  const client = data?.clients.find(({ id }) => id === chosen) ?? data?.clients[0]
  return (
    <>
      <PageHead
        title={t('Connect')}
        about={t(
          'A client needs two things: the base URL and a key. Everything it sends and gets stays as it is.',
        )}
      />
      {error && <Failure error={error} retry={() => void refetch()} />}
      {isPending && <Loading />}
      {data && client && (
        <>
          <dl className="card grid gap-3 p-4 sm:grid-cols-2">
            <div>
              <dt className="text-[12.5px] text-muted">{t('Base URL')}</dt>
              <dd className="flex items-center gap-2">
                <code className="font-mono break-all">{data.base_url}</code> <Copy text={data.base_url} />
              </dd>
            </div>
            <div>
              <dt className="text-[12.5px] text-muted">{t('Key')}</dt>
              <dd>
                <code className="font-mono">$WEIR_API_KEY</code> ·{' '}
                <Link href="/keys" className="text-accent underline">
                  {t('create one')}
                </Link>
              </dd>
            </div>
          </dl>
          <div className="mt-6 grid gap-5 md:grid-cols-[12rem_minmax(0,1fr)]">
            <ul className="flex flex-wrap content-start gap-1 md:block" aria-label={t('Clients')}>
              {data.clients.map(({ id, name }) => (
                <li key={id}>
                  <button
                    type="button"
                    aria-pressed={id === client.id}
                    onClick={() => setChosen(id)}
                    className={`w-full rounded-md px-2.5 py-1.5 text-left ${
                      id === client.id ? 'bg-accent-soft font-medium text-accent' : 'hover:bg-paper'
                    }`}
                  >
                    {name}
                  </button>
                </li>
              ))}
            </ul>
            <section className="grid min-w-0 grid-cols-[minmax(0,1fr)] content-start gap-3">
              <div className="flex flex-wrap items-center gap-3">
                <h2 className="flex-1 font-semibold">{client.name}</h2>
                <label className="flex min-w-0 items-center gap-2 text-[13px]">
                  {t('Model')}
                  <select
                    value={used}
                    onChange={(event) => setModel(event.target.value)}
                    className="control max-w-72"
                  >
                    {callable.map(({ id }) => (
                      <option key={id}>{id}</option>
                    ))}
                  </select>
                </label>
              </div>
              <p className="text-muted">{client.about}</p>
              {client.files.map(({ path, text }, index) => (
                <div key={index}>
                  {path !== null && <p className="mb-1 font-mono text-[12.5px] text-muted">{path}</p>}
                  <Code
                    label={path ?? client.name}
                    text={text.replaceAll('{{key}}', '$WEIR_API_KEY').replaceAll('{{model}}', used)}
                  />
                </div>
              ))}
            </section>
          </div>
        </>
      )}
    </>
  )
}

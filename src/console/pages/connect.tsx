// How each client is pointed at this gateway, with texts to copy.

import { useState } from 'react'
import type { ConnectView, NewKeyView } from '../../http/console/answers.ts'
import { refresh, useAnswer, useModels } from '../api/call.ts'
import { t } from '../strings/text.ts'
import { Button, Code, Copy, PageHead } from '../ui/kit.tsx'
import { QueryState } from '../ui/table.tsx'
import { firstModel } from './models.tsx'
import { KeyForm } from './keys.tsx'

export function Connect() {
  const { data, error, isPending, refetch } = useAnswer<ConnectView>(['connect'], 'connect')
  const { data: models } = useModels()
  const [chosen, setChosen] = useState('')
  const [model, setModel] = useState('')
  const callable = models?.filter((row) => row.callable.api === null && row.kind === 'chat') ?? []
  const used = model === '' ? (firstModel(callable)?.id ?? 'sim/echo') : model
  const [making, setMaking] = useState(false)
  // Nothing but this page holds the text of the key.
  const [made, setMade] = useState<NewKeyView | null>(null)
  const shown = data?.clients.find(({ id }) => id === chosen) ?? data?.clients[0]
  return (
    <>
      <PageHead
        title={t('Connect')}
        about={t('A client needs two things: the base URL and a key. Nothing else changes.')}
      />
      <QueryState query={{ error, isPending, refetch }} />
      {data && shown && (
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
                {made === null ? (
                  <>
                    <code className="font-mono">$WEIR_API_KEY</code>{' '}
                    <Button small onClick={() => setMaking(true)}>
                      {t('Create one')}
                    </Button>
                  </>
                ) : (
                  <span className="flex items-center gap-2">
                    <code className="font-mono break-all" data-testid="key">
                      {made.key}
                    </code>{' '}
                    <Copy text={made.key} />
                  </span>
                )}
              </dd>
              {made !== null && (
                <dd className="mt-1 text-[12.5px] text-muted" role="status">
                  {t('It is filled in below until you leave this page, and is not shown again.')}
                </dd>
              )}
            </div>
          </dl>
          <div className="mt-6 grid gap-5 md:grid-cols-[12rem_minmax(0,1fr)]">
            <ul className="flex flex-wrap content-start gap-1 md:block" aria-label={t('Clients')}>
              {data.clients.map(({ id, name }) => (
                <li key={id}>
                  <button
                    type="button"
                    aria-pressed={id === shown.id}
                    onClick={() => setChosen(id)}
                    className={`w-full rounded-md px-2.5 py-1.5 text-left ${
                      id === shown.id ? 'bg-accent-soft font-medium text-accent' : 'hover:bg-paper'
                    }`}
                  >
                    {name}
                  </button>
                </li>
              ))}
            </ul>
            <section className="grid min-w-0 grid-cols-[minmax(0,1fr)] content-start gap-3">
              <div className="flex flex-wrap items-center gap-3">
                <h2 className="flex-1 font-semibold">{shown.name}</h2>
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
              <p className="text-muted">{shown.about}</p>
              {shown.files.map(({ path, text }, index) => (
                <div key={index}>
                  {path !== null && <p className="mb-1 font-mono text-[12.5px] text-muted">{path}</p>}
                  <Code
                    label={path ?? shown.name}
                    text={text
                      .replaceAll('{{key}}', made?.key ?? '$WEIR_API_KEY')
                      .replaceAll('{{model}}', used)}
                  />
                </div>
              ))}
              {shown.files.some(({ path }) => path !== null) && (
                <div>
                  <p className="mb-1 text-muted">
                    {t('This command writes it there and keeps the rest of the file:')}
                  </p>
                  <Code
                    label={t('Command')}
                    text={`weir connect ${shown.id} --url ${data.base_url} --model ${used} --key $WEIR_API_KEY --write`}
                  />
                </div>
              )}
            </section>
          </div>
        </>
      )}
      {making && (
        <KeyForm
          onClose={() => setMaking(false)}
          onMade={(key) => {
            setMade(key)
            setMaking(false)
            void refresh('keys')
          }}
        />
      )}
    </>
  )
}

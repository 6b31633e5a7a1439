// Settings that are changed while the gateway runs: what a change would do is shown before, one press takes the latest
// back, and a provider or a model is called to see whether it answers.

import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import type {
  ChangedSettingsView,
  KeptConfigurationView,
  SettingsTestView,
} from '../../http/admin/answers.ts'
import { call, faultIn, refresh, relayedAnswerWithinMs, useAnswer } from '../api/call.ts'
import { elevate } from '../session/signed-out.tsx'
import { count, milliseconds, t, usd } from '../strings/text.ts'
import { ActForm, Badge, Button, Dialog, Failure, Loading, Note, TimeIn, useAct } from '../ui/kit.tsx'
import { Table } from '../ui/table.tsx'

export type Settings = Readonly<Record<string, unknown>>
type Source = KeptConfigurationView['aliases'][number]['source']

export function useConfiguration() {
  return useAnswer<KeptConfigurationView>(['admin', 'config'], 'admin/config')
}

/** Whether what comes from there wins over what is entered here. */
export function isWrittenElsewhere(source: Source): boolean {
  return source !== 'console' && source !== 'default'
}

/** Where a setting comes from. */
export function Origin({ source, origin }: { source: Source; origin: string }) {
  if (source === 'default') return null
  if (source === 'console') return <Badge tone="accent">{t('changed here')}</Badge>
  return <Badge>{t('set by {origin}', { origin })}</Badge>
}

interface SettingsTableProps {
  readonly label: string
  readonly settings: KeptConfigurationView['settings']
}

/** Settings with where each comes from. */
export function SettingsTable({ label, settings }: SettingsTableProps) {
  return (
    <Table label={label} columns={[t('Setting'), t('Value'), t('From')]}>
      {settings.map(({ setting, value, source, origin }) => (
        <tr key={setting} className="align-top">
          <td className="font-mono text-[12.5px]">{setting}</td>
          <td className="font-mono text-[12.5px] wrap-anywhere">{shownValue(value)}</td>
          <td>
            <Origin source={source} origin={origin} />
          </td>
        </tr>
      ))}
    </Table>
  )
}

// A change, with what it would do.

interface ChangeProps {
  readonly title: string
  readonly config: KeptConfigurationView
  readonly onClose: () => void
  /** The settings of the change, as in weir.yaml; of a form what its fields say. */
  readonly settings: Settings | ((given: FormData) => Settings)
  /** What can be called before the change is made. */
  readonly calls?: ((settings: Settings) => Called | undefined) | undefined
  /** The fields of the form. */
  readonly children?: ReactNode
}

/** Asks for a change, shows what it would do, and puts it in force. */
export function ChangeDialog({ title, config, onClose, settings, calls, children }: ChangeProps) {
  const [asked, setAsked] = useState<Settings | null>(typeof settings === 'function' ? null : settings)
  const isForm = typeof settings === 'function'
  return (
    <Dialog title={title} onClose={onClose} wide>
      {isForm && (
        <div hidden={asked !== null}>
          <ActForm
            action={t('See what changes')}
            onSubmit={async (given) => {
              const wanted = settings(given)
              // The form shows what is wrong with it.
              await preview(config, wanted)
              setAsked(wanted)
            }}
          >
            {children}
          </ActForm>
        </div>
      )}
      {asked !== null && (
        <Review
          config={config}
          settings={asked}
          calls={calls?.(asked)}
          onBack={isForm ? () => setAsked(null) : onClose}
          onDone={onClose}
        />
      )}
    </Dialog>
  )
}

function preview({ revision }: KeptConfigurationView, settings: Settings): Promise<ChangedSettingsView> {
  return call<ChangedSettingsView>('POST', 'admin/config/preview', { settings, revision })
}

interface ReviewProps {
  readonly config: KeptConfigurationView
  readonly settings: Settings
  readonly calls: Called | undefined
  readonly onBack: () => void
  readonly onDone: () => void
}

function Review({ config, settings, calls, onBack, onDone }: ReviewProps) {
  const [testing, setTesting] = useState(false)
  const heading = useRef<HTMLHeadingElement>(null)
  const { error, busy, act } = useAct()
  const seen = useQuery({
    // What was typed may hold a key: nothing of it is kept once the dialog is closed.
    queryKey: ['config-preview'],
    queryFn: () => preview(config, settings),
    gcTime: 0,
    staleTime: 0,
    retry: false,
  })
  useEffect(() => heading.current?.focus(), [])
  const putInForce = async () => {
    await elevate(() => call('PATCH', 'admin/config', { settings, revision: seen.data?.revision }))
    await refreshAll()
    onDone()
  }
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-3.5">
      <h3 ref={heading} tabIndex={-1} className="font-medium outline-none">
        {t('What changes')}
      </h3>
      {seen.isFetching && <Loading rows={2} />}
      {seen.error && <Failure error={seen.error} />}
      {seen.data && !seen.isFetching && <Differences seen={seen.data} />}
      {testing && calls && <TestedCalls asked={{ ...calls, settings, revision: config.revision }} />}
      {error !== null && <Failure error={error} />}
      <div className="flex flex-wrap gap-2">
        <Button
          look="primary"
          busy={busy}
          disabled={!seen.data || seen.isFetching || seen.data.changes.length === 0}
          onClick={() => void act(putInForce)}
        >
          {t('Put it in force')}
        </Button>
        {calls && !testing && <Button onClick={() => setTesting(true)}>{t('Call it first')}</Button>}
        <Button onClick={onBack}>{t('Back')}</Button>
      </div>
    </div>
  )
}

export function Differences({
  seen: { changes, warnings },
}: {
  seen: Omit<ChangedSettingsView, 'revision'>
}) {
  return (
    <>
      {changes.length === 0 && <p>{t('Nothing: it is so already.')}</p>}
      {changes.length > 0 && (
        <Table label={t('What changes')} columns={[t('Setting'), t('Before'), t('After')]}>
          {changes.map(({ setting, from, to, restart }) => (
            <tr key={setting} className="align-top">
              <td className="font-mono text-[12.5px] wrap-anywhere">
                {setting} {restart && <Badge tone="warn">{t('at the next start')}</Badge>}
              </td>
              <td className="font-mono text-[12px] wrap-anywhere text-muted">{shownValue(from)}</td>
              <td className="font-mono text-[12px] wrap-anywhere">{shownValue(to)}</td>
            </tr>
          ))}
        </Table>
      )}
      {warnings.map(({ setting, problem }) => (
        <Note key={`${setting} ${problem}`} tone="warn">
          <span className="font-mono text-[12.5px]">{setting}</span> {problem}
        </Note>
      ))}
    </>
  )
}

export function shownValue(value: unknown): string {
  if (value === null || value === undefined) return '–'
  if (typeof value === 'string') return value
  if (typeof value !== 'object') return String(value)
  if (Array.isArray(value) && value.every((item) => typeof item === 'string'))
    return value.length === 0 ? '–' : value.join(', ')
  const members = Object.entries(value)
  const isFlat = !Array.isArray(value) && members.every(([, member]) => typeof member !== 'object')
  return isFlat
    ? members.map(([name, member]) => `${name} ${String(member)}`).join(', ')
    : JSON.stringify(value)
}

function refreshAll(): Promise<unknown> {
  return Promise.all([refresh('admin'), refresh('models')])
}

/** The latest change, and the press that takes it back; also what a page must say before anything is changed. */
export function LatestChange({ config }: { config: KeptConfigurationView }) {
  const { error, busy, act } = useAct()
  const [undone, setUndone] = useState<ChangedSettingsView | null>(null)
  const undo = async () => {
    const body = { revision: config.revision }
    setUndone(await elevate(() => call<ChangedSettingsView>('POST', 'admin/config/undo', body)))
    await refreshAll()
  }
  return (
    <div className="mb-4 grid grid-cols-[minmax(0,1fr)] gap-2 empty:hidden">
      {config.changed !== null && (
        <div className="flex flex-wrap items-center gap-x-3 gap-y-1 text-[13px] text-muted">
          <span>
            <TimeIn sentence={t('Settings were changed here {time}.')} at={config.changed.at} />
          </span>
          {config.can_undo && (
            <Button small busy={busy} onClick={() => void act(undo)}>
              {t('Take the latest change back')}
            </Button>
          )}
        </div>
      )}
      {undone && (
        <Note tone="good" role="status">
          {t('Taken back:')}{' '}
          <span className="font-mono text-[12.5px] wrap-anywhere">
            {undone.changes.map(({ setting }) => setting).join(', ')}
          </span>
        </Note>
      )}
      {error !== null && <Failure error={error} />}
      {config.unreadable.length > 0 && (
        <Note tone="warn">
          {t('These keys cannot be read any more, as secrets.master_key has changed. Enter them again:')}{' '}
          <span className="font-mono text-[12.5px]">{config.unreadable.join(', ')}</span>
        </Note>
      )}
    </div>
  )
}

// Small real calls, now.

/** What is called: a provider with each of its keys, or a model. */
interface Called {
  readonly provider?: string
  readonly model?: string
}

/** Calls it as soon as it is shown. */
export function TestDialog({ name, asked, onClose }: { name: string; asked: Called; onClose: () => void }) {
  return (
    <Dialog title={t('Call {name} now', { name })} onClose={onClose} wide>
      <TestedCalls asked={asked} />
    </Dialog>
  )
}

interface TestedCallsProps {
  readonly asked: Called & { readonly settings?: Settings; readonly revision?: number }
}

function TestedCalls({ asked }: TestedCallsProps) {
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: ['config-test'],
    queryFn: () =>
      elevate(() =>
        call<SettingsTestView>('POST', 'admin/config/test', asked, { withinMs: relayedAnswerWithinMs }),
      ),
    gcTime: 0,
    staleTime: Infinity,
    retry: false,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  })
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-3" aria-live="polite" aria-busy={isFetching}>
      {isFetching && (
        <p role="status" className="text-muted">
          {t('It is being called.')}
        </p>
      )}
      {error && !isFetching && faultIn(error).code !== 'elevation_required' && <Failure error={error} />}
      {data && !isFetching && (
        <ul className="grid gap-2">
          {data.calls.map((each, at) => (
            <li key={at} className="rounded-md border border-line p-3">
              <TestedCall tested={each} />
            </li>
          ))}
        </ul>
      )}
      {data !== undefined && data.left_out > 0 && (
        <p className="text-muted">{t('{count} more were not called.', { count: count(data.left_out) })}</p>
      )}
      {!isFetching && (
        <div>
          <Button small onClick={() => void refetch()}>
            {t('Call it again')}
          </Button>
        </div>
      )}
      <p className="text-[12.5px] text-muted">
        {t('A small real call each: the provider bills it to you, and to no account here.')}
      </p>
    </div>
  )
}

function TestedCall({ tested }: { tested: SettingsTestView['calls'][number] }) {
  const { provider, model, key, region, latency_ms: ms, text, tokens, cost_usd: cost, error } = tested
  return (
    <>
      <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <Badge tone={error === null ? 'good' : 'bad'}>
          {error === null ? t('answers') : t('does not answer')}
        </Badge>
        <span className="font-mono text-[12.5px] wrap-anywhere">{model ?? provider}</span>
        {key !== null && (
          <span className="text-[12.5px] text-muted">{t('key {number}', { number: key })}</span>
        )}
        {region !== null && <span className="text-[12.5px] text-muted">{region}</span>}
      </p>
      {error !== null && <p className="mt-1.5 wrap-anywhere">{error}</p>}
      {text !== null && (
        <blockquote className="mt-1.5 border-l-2 border-line-strong pl-2 wrap-anywhere whitespace-pre-wrap">
          {text === '' ? t('An answer without text.') : text}
        </blockquote>
      )}
      {ms !== null && (
        <p className="mt-1.5 flex flex-wrap gap-x-3 text-[12.5px] text-muted tabular-nums">
          <span>{milliseconds(ms)}</span>
          {tokens !== null && (
            <span>
              {t('{prompt} tokens in, {completion} out', {
                prompt: count(tokens.prompt),
                completion: count(tokens.completion),
              })}
            </span>
          )}
          {error === null && <span>{cost === null ? t('cost not known') : usd(cost)}</span>}
        </p>
      )}
    </>
  )
}

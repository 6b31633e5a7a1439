// Providers for operators: how they are doing, called now, added, changed and taken out of service.

import { useState } from 'react'
import { useParams } from 'wouter'
import type { KeptConfigurationView, ProviderView } from '../../http/admin/answers.ts'
import { useData } from '../api/call.ts'
import { count, countOf, milliseconds, moment, percent, t } from '../strings/text.ts'
import {
  Back,
  Badge,
  Button,
  Choice,
  Empty,
  Fact,
  Note,
  PageHead,
  Section,
  TextLink,
  TextField,
  textOf,
  Time,
} from '../ui/kit.tsx'
import { firstOnPhones, notOnPhones, numeric, QueryState, Table, wideOnly } from '../ui/table.tsx'
import {
  ChangeDialog,
  isWrittenElsewhere,
  LatestChange,
  type Settings,
  SettingsTable,
  shownValue,
  TestDialog,
  useConfiguration,
} from './changes.tsx'

type Provider = KeptConfigurationView['providers'][number]

/** What a provider has of its own in the configuration, and how it has answered. */
interface Known {
  readonly settings: Provider
  readonly health: ProviderView | undefined
}

function useProviders() {
  const config = useConfiguration()
  const health = useData<readonly ProviderView[]>(['admin', 'providers'], 'admin/providers', {
    refetchInterval: 10_000,
  })
  const known = config.data?.providers.map((settings): Known => ({
    settings,
    health: health.data?.find(({ id }) => id === settings.id),
  }))
  const query = {
    error: config.error ?? health.error,
    isPending: config.isPending || health.isPending,
    refetch: async () => {
      await Promise.all([config.refetch(), health.refetch()])
      return config.refetch()
    },
  }
  return { config: config.data, known, query }
}

export function Providers() {
  const { config, known, query } = useProviders()
  const [adding, setAdding] = useState(false)
  const [testing, setTesting] = useState<Provider | null>(null)
  const used = (known ?? []).filter(
    ({ settings, health }) => health !== undefined || settings.settings.length > 0,
  )
  const since = used
    .flatMap(({ health }) => health?.counted_since ?? [])
    .toSorted()
    .at(-1)
  return (
    <>
      <PageHead
        title={t('Providers')}
        about={
          since !== undefined && t('All processes together, counted since {time}.', { time: moment(since) })
        }
      >
        <Button look="primary" disabled={config === undefined} onClick={() => setAdding(true)}>
          {t('Add a provider')}
        </Button>
      </PageHead>
      <QueryState query={query} />
      {config && <LatestChange config={config} />}
      {known && used.length === 0 && <Empty title={t('No provider is set up.')} />}
      <ul className="grid gap-3 lg:grid-cols-2">
        {used.map(({ settings, health }) => (
          <li key={settings.id} className="card flex flex-col gap-3 p-4">
            <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
              <h2 className="min-w-0 flex-1 font-semibold break-words">
                <TextLink href={`/operator/providers/${settings.id}`}>{settings.name}</TextLink>{' '}
                <span className="font-mono text-[12px] font-normal text-muted">{settings.id}</span>
              </h2>
              <State settings={settings} health={health} />
            </div>
            <Keys settings={settings} />
            <Figures health={health} />
            <div className="mt-auto flex flex-wrap gap-2">
              <Button
                small
                aria-label={t('Test {name}', { name: settings.name })}
                disabled={settings.state === 'disabled'}
                onClick={() => setTesting(settings)}
              >
                {t('Test')}
              </Button>
            </div>
          </li>
        ))}
      </ul>
      {adding && config && <AddProvider config={config} onClose={() => setAdding(false)} />}
      {testing && (
        <TestDialog name={testing.name} asked={{ provider: testing.id }} onClose={() => setTesting(null)} />
      )}
    </>
  )
}

const stateNames: Readonly<Record<Provider['state'], string>> = {
  in_service: 'in service',
  disabled: 'out of service',
  no_key: 'no key',
  no_address: 'no address',
  not_found: 'not running',
}

function State({ settings, health }: Known) {
  if (settings.state !== 'in_service')
    return (
      <Badge tone={settings.state === 'disabled' ? 'plain' : 'warn'}>{t(stateNames[settings.state])}</Badge>
    )
  // Nothing is known of one that nobody has asked.
  const isUntried = health?.state === 'healthy' && health.last_day.answers === 0
  if (health === undefined || isUntried) return <Badge>{t(stateNames[settings.state])}</Badge>
  const tone = ({ healthy: 'good', degraded: 'warn', unavailable: 'bad' } as const)[health.state]
  return (
    <>
      <Badge tone={tone}>{t(health.state)}</Badge>
      {health.cool_down_until !== null && (
        <span className="text-[12.5px] text-muted">
          {t('cooling down until {time}', { time: moment(health.cool_down_until) })}
        </span>
      )}
    </>
  )
}

/** How many keys and deployments it has; nothing where it needs none. */
function Keys({ settings: { settings } }: Pick<Known, 'settings'>) {
  const lengthOf = (name: string) => {
    const value = settings.find(({ setting }) => setting === name)?.value
    return Array.isArray(value) ? value.length : 0
  }
  const [keys, deployments] = [lengthOf('api_key'), lengthOf('deployments')]
  const parts = [
    ...(keys === 0 ? [] : [countOf(keys, '{count} key', '{count} keys')]),
    ...(deployments === 0 ? [] : [countOf(deployments, '{count} deployment', '{count} deployments')]),
  ]
  return parts.length === 0 ? null : <p className="text-[13px] text-muted">{parts.join(' · ')}</p>
}

type HourOrDay = Pick<ProviderView, 'answers' | 'success_rate' | 'p50_latency_ms' | 'refusals'>

function Figures({ health }: { health: ProviderView | undefined }) {
  if (health === undefined) return <p className="text-muted">{t('It takes no calls.')}</p>
  if (health.last_day.answers === 0) return <p className="text-muted">{t('No calls in the last day.')}</p>
  const rows: readonly (readonly [string, HourOrDay])[] = [
    [t('Last hour'), health],
    [t('Last day'), health.last_day],
  ]
  return (
    <table className="w-full text-left text-[13px] [&_td]:py-0.5 [&_th]:py-0.5">
      <caption className="sr-only">{t('How {name} has answered', { name: health.name })}</caption>
      <thead className="text-[12px] text-muted [&_th]:font-medium">
        <tr>
          <th scope="col">
            <span className="sr-only">{t('Time')}</span>
          </th>
          <th scope="col" className="num">
            {t('Calls')}
          </th>
          <th scope="col" className="num">
            {t('Succeeded')}
          </th>
          <th scope="col" className="num">
            {t('Refused')}
          </th>
          <th scope="col" className="num">
            {t('Median time')}
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, figures]) => (
          <tr key={name}>
            <th scope="row" className="font-normal">
              {name}
            </th>
            <td className="num">{count(figures.answers)}</td>
            <td className="num">{figures.success_rate === null ? '–' : percent(figures.success_rate)}</td>
            <td className="num">{count(figures.refusals)}</td>
            <td className="num">
              {figures.p50_latency_ms === null ? '–' : milliseconds(figures.p50_latency_ms)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

// One provider.

type Open = 'test' | 'change' | 'disable' | 'enable' | 'forget' | null

export function ProviderPage() {
  const { id } = useParams<{ id: string }>()
  const { config, known, query } = useProviders()
  const [open, setOpen] = useState<Open>(null)
  const one = known?.find(({ settings }) => settings.id === id)
  const close = () => setOpen(null)
  return (
    <>
      <Back href="/operator/providers">{t('Providers')}</Back>
      <QueryState query={query} />
      {config && <LatestChange config={config} />}
      {known && !one && <Empty title={t('There is no such provider.')} />}
      {config && one && (
        <>
          <PageHead title={one.settings.name}>
            <State {...one} />
          </PageHead>
          <div className="mb-4 flex flex-wrap gap-2">
            <Button
              look="primary"
              disabled={one.settings.state === 'disabled'}
              onClick={() => setOpen('test')}
            >
              {t('Test')}
            </Button>
            <Button onClick={() => setOpen('change')}>{t('Change')}</Button>
            <Toggle provider={one.settings} onOpen={setOpen} />
            {one.settings.settings.some(({ source }) => source === 'console') && (
              <Button look="danger" onClick={() => setOpen('forget')}>
                {t('Take out what was entered here')}
              </Button>
            )}
          </div>
          <div className="card p-4">
            <dl className="mb-3 grid grid-cols-1 gap-3 sm:grid-cols-3">
              <Fact mono name={t('Id')}>
                {one.settings.id}
              </Fact>
              <Fact name={t('Address')}>
                <span className="font-mono text-[12.5px] wrap-anywhere">{one.settings.base_url || '–'}</span>
              </Fact>
              <Fact mono name={t('Protocol')}>
                {one.settings.protocol}
              </Fact>
            </dl>
            <Figures health={one.health} />
          </div>
          <Troubles health={one.health} />
          <SetSettings provider={one.settings} />
          {open === 'test' && (
            <TestDialog name={one.settings.name} asked={{ provider: id }} onClose={close} />
          )}
          {open === 'change' && <ChangeProvider config={config} provider={one.settings} onClose={close} />}
          {open === 'disable' && (
            <ChangeDialog
              title={t('Take {name} out of service', { name: one.settings.name })}
              config={config}
              settings={{ providers: { [id]: { disabled: true } } }}
              onClose={close}
            />
          )}
          {open === 'enable' && (
            <ChangeDialog
              title={t('Put {name} back into service', { name: one.settings.name })}
              config={config}
              settings={{ providers: { [id]: { disabled: null } } }}
              onClose={close}
            />
          )}
          {open === 'forget' && (
            <ChangeDialog
              title={t('Take out what was entered here')}
              config={config}
              settings={{ providers: { [id]: null } }}
              onClose={close}
            />
          )}
        </>
      )}
    </>
  )
}

function Toggle({ provider, onOpen }: { provider: Provider; onOpen: (open: Open) => void }) {
  const set = provider.settings.find(({ setting }) => setting === 'disabled')
  // What the file says is changed there: the list of settings names it.
  if (set && isWrittenElsewhere(set.source)) return null
  return provider.state === 'disabled' ? (
    <Button onClick={() => onOpen('enable')}>{t('Put it back into service')}</Button>
  ) : (
    <Button onClick={() => onOpen('disable')}>{t('Take it out of service')}</Button>
  )
}

function Troubles({ health }: { health: ProviderView | undefined }) {
  if (health === undefined || (health.troubles.length === 0 && health.last_error === null)) return null
  return (
    <Section title={t('Troubles')}>
      {health.last_error !== null && (
        <p className="mb-2">
          {t('Last error')}: <span className="font-mono text-[12.5px]">{health.last_error.code}</span>{' '}
          <Time at={health.last_error.at} />, <span>{health.last_error.reason}</span>
        </p>
      )}
      {health.troubles.length > 0 && (
        <Table
          label={t('Troubles')}
          columns={[
            t('Its key'),
            wideOnly(t('Model')),
            wideOnly(t('State')),
            numeric(t('Failures in a row')),
          ]}
        >
          {health.troubles.map(({ key, model, state, failures }) => (
            <tr key={`${key} ${model}`}>
              <td className={firstOnPhones}>
                {t('key {number}', { number: key })}
                <span className="block text-[12.5px] break-words text-muted sm:hidden">
                  {t(standingNames[state] ?? state)}
                  <span className="block font-mono text-[12px] break-all">{model ?? t('every model')}</span>
                </span>
              </td>
              <td className={`font-mono text-[12.5px] ${notOnPhones}`}>{model ?? t('every model')}</td>
              <td className={notOnPhones}>{t(standingNames[state] ?? state)}</td>
              <td className="num">{count(failures)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  )
}

const standingNames: Readonly<Record<string, string>> = {
  healthy: 'healthy',
  cooling: 'cooling down',
  open: 'not asked but once a second',
}

function SetSettings({ provider: { settings } }: { provider: Provider }) {
  if (settings.length === 0) return null
  return (
    <Section title={t('What is set')}>
      <SettingsTable label={t('What is set')} settings={settings} />
      {settings.some(({ source }) => isWrittenElsewhere(source)) && (
        <p className="mt-2 text-[13px] text-muted">
          {t('What a file, a variable or a flag says wins, and is changed there.')}
        </p>
      )}
    </Section>
  )
}

// Forms.

const protocols = [
  'openai-chat',
  'openai-responses',
  'anthropic-messages',
  'gemini',
  'bedrock-converse',
  'cohere',
  'ollama',
] as const

const another = ''

function AddProvider({ config, onClose }: { config: KeptConfigurationView; onClose: () => void }) {
  const [picked, setPicked] = useState(another)
  const waiting = config.providers.filter(
    ({ state, settings }) => settings.length === 0 && state !== 'in_service',
  )
  const known = waiting.find(({ id }) => id === picked)
  const idIn = (given: FormData) => known?.id ?? textOf(given, 'id') ?? ''
  const settingsOf = (given: FormData): Settings => {
    const model = known === undefined ? textOf(given, 'model') : undefined
    const [input, output] = [textOf(given, 'input'), textOf(given, 'output')]
    const price = input === undefined && output === undefined ? undefined : { input, output }
    return {
      providers: {
        [idIn(given)]: {
          ...(known === undefined && { protocol: textOf(given, 'protocol'), name: textOf(given, 'name') }),
          base_url: textOf(given, 'base_url'),
          api_key: textOf(given, 'api_key'),
        },
      },
      ...(model !== undefined && { models: { [`${idIn(given)}/${model}`]: { price } } }),
    }
  }
  return (
    <ChangeDialog
      title={t('Add a provider')}
      config={config}
      settings={settingsOf}
      calls={calledProvider}
      onClose={onClose}
    >
      <Choice
        label={t('Which')}
        name="known"
        value={picked}
        onChange={(event) => setPicked(event.target.value)}
        options={[
          [another, t('another server, by its address')],
          ...waiting.map(({ id, name }) => [id, `${name} (${id})`] as const),
        ]}
      />
      {known === undefined && (
        <>
          <TextField
            label={t('Id')}
            name="id"
            required
            pattern="[a-z0-9][a-z0-9._\-]*"
            hint={t('The first part of its models’ ids: small letters and digits.')}
          />
          <TextField label={t('Name')} name="name" />
          <Choice
            label={t('Protocol')}
            name="protocol"
            options={protocols.map((protocol) => [protocol, protocol] as const)}
          />
        </>
      )}
      <AddressField provider={known} />
      <KeyField config={config} />
      {known === undefined && (
        <div className="grid gap-3.5 sm:grid-cols-3">
          <TextField
            label={t('Its first model')}
            name="model"
            hint={t('Its name there. Without a price it is not offered.')}
          />
          <TextField label={t('Input, USD per million')} name="input" inputMode="decimal" />
          <TextField label={t('Output, USD per million')} name="output" inputMode="decimal" />
        </div>
      )}
    </ChangeDialog>
  )
}

/** The provider that a change is about, to be called before it is made. */
function calledProvider({ providers, models }: Settings): { provider: string; model?: string } | undefined {
  const [id] = Object.keys((providers ?? {}) as object)
  const [model] = Object.keys((models ?? {}) as object)
  return id === undefined ? undefined : { provider: id, ...(model !== undefined && { model }) }
}

function AddressField({ provider, value }: { provider: Provider | undefined; value?: string }) {
  const isNeeded = provider === undefined || provider.base_url === ''
  return (
    <TextField
      label={t('Address')}
      name="base_url"
      type="url"
      required={isNeeded}
      defaultValue={value ?? ''}
      placeholder={isNeeded ? 'https://models.example.org/v1' : provider.base_url}
      hint={t('It ends with the segment of the version, such as /v1.')}
    />
  )
}

function KeyField({ config, hint }: { config: KeptConfigurationView; hint?: string }) {
  if (!config.takes_keys)
    return (
      <Note tone="warn">
        {t(
          'Keys are kept encrypted, and there is no key for that: set secrets.master_key in weir.yaml or WEIR_SECRETS_MASTER_KEY, and restart the gateway.',
        )}
      </Note>
    )
  return (
    <TextField
      label={t('Key')}
      name="api_key"
      type="password"
      autoComplete="off"
      hint={hint ?? t('Kept encrypted, and never shown again.')}
    />
  )
}

interface ChangeProviderProps {
  readonly config: KeptConfigurationView
  readonly provider: Provider
  readonly onClose: () => void
}

function ChangeProvider({ config, provider, onClose }: ChangeProviderProps) {
  const set = (name: string) => provider.settings.find(({ setting }) => setting === name)
  const keys = set('api_key')
  const own = keys?.source === 'console' && Array.isArray(keys.value) ? (keys.value as string[]) : []
  const written = ['base_url', 'name', 'api_key', 'protocol']
    .flatMap((name) => set(name) ?? [])
    .filter(({ setting, source, origin }) =>
      // A variable that other programs read, too, is overruled by a key that is entered on purpose.
      setting === 'api_key' ? isFixedKey(source, origin) : isWrittenElsewhere(source),
    )
  const isWritten = (name: string) => written.some(({ setting }) => setting === name)
  const valueOf = (name: string) => {
    const value = set(name)?.source === 'console' ? set(name)!.value : undefined
    return typeof value === 'string' ? value : ''
  }
  const settingsOf = (given: FormData): Settings => {
    const text = (name: string) => (isWritten(name) ? undefined : (textOf(given, name) ?? null))
    const kept = own.flatMap((_, at) => (given.get(`keep-${at + 1}`) === null ? [] : [{ keep: at + 1 }]))
    const added = textOf(given, 'api_key')
    const isSame = added === undefined && kept.length === own.length
    const wanted = [...kept, ...(added === undefined ? [] : [added])]
    return {
      providers: {
        [provider.id]: {
          name: text('name'),
          base_url: text('base_url'),
          ...(provider.known ? {} : { protocol: text('protocol') }),
          ...(isSame ? {} : { api_key: wanted.length === 0 ? null : wanted }),
        },
      },
    }
  }
  return (
    <ChangeDialog
      title={t('Change {name}', { name: provider.name })}
      config={config}
      settings={settingsOf}
      calls={calledProvider}
      onClose={onClose}
    >
      {written.map(({ setting, value, origin }) => (
        <Note key={setting}>
          <span className="font-mono text-[12.5px]">{setting}</span>{' '}
          <span className="font-mono text-[12.5px] wrap-anywhere text-ink">{shownValue(value)}</span>{' '}
          {t('is set by {origin}, which wins: change it there.', { origin })}
        </Note>
      ))}
      {!isWritten('name') && <TextField label={t('Name')} name="name" defaultValue={valueOf('name')} />}
      {!isWritten('base_url') && <AddressField provider={provider} value={valueOf('base_url')} />}
      {!provider.known && !isWritten('protocol') && (
        <Choice
          label={t('Protocol')}
          name="protocol"
          defaultValue={provider.protocol}
          options={protocols.map((protocol) => [protocol, protocol] as const)}
        />
      )}
      {own.length > 0 && (
        <fieldset className="grid gap-1.5">
          <legend className="mb-1 text-[13px] font-medium">{t('Keys that stay')}</legend>
          {own.map((shown, at) => (
            <label key={shown} className="flex items-center gap-2">
              <input type="checkbox" name={`keep-${at + 1}`} defaultChecked />
              <span className="font-mono text-[12.5px]">{shown}</span>
            </label>
          ))}
        </fieldset>
      )}
      {!isWritten('api_key') && (
        <KeyField
          config={config}
          hint={
            own.length > 0
              ? t(
                  'A further key. Kept encrypted, and never shown again; with another address all keys are entered again.',
                )
              : undefined
          }
        />
      )}
    </ChangeDialog>
  )
}

function isFixedKey(source: Provider['settings'][number]['source'], origin: string): boolean {
  return isWrittenElsewhere(source) && !(source === 'environment' && !origin.startsWith('WEIR_'))
}

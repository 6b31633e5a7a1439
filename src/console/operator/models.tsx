// What operators say of models while the gateway runs: names in front of several models, other names, prices and limits
// of single models, and which of them are offered.

import { type ReactNode, useState } from 'react'
import type { KeptConfigurationView } from '../../http/admin/answers.ts'
import { ExplainDialog } from '../pages/models.tsx'
import { t } from '../strings/text.ts'
import {
  Badge,
  Button,
  Choice,
  PageHead,
  RowButton,
  Section,
  TextField,
  TextLink,
  textOf,
} from '../ui/kit.tsx'
import { firstOnPhones, notOnPhones, QueryState, Table, wideOnly } from '../ui/table.tsx'
import {
  ChangeDialog,
  isWrittenElsewhere,
  LatestChange,
  Origin,
  type Settings,
  SettingsTable,
  shownValue,
  TestDialog,
  useConfiguration,
} from './changes.tsx'

type Entry = KeptConfigurationView['models'][number]
type Alias = KeptConfigurationView['aliases'][number]

interface Route {
  readonly to: readonly (string | { readonly model: string; readonly weight?: number })[]
  readonly pick?: string
  readonly continue?: boolean
  readonly fallback_on_content_filter?: boolean
  readonly defaults?: Readonly<Record<string, unknown>>
}

type Open =
  | { readonly kind: 'route' | 'model'; readonly entry?: Entry }
  | { readonly kind: 'alias'; readonly alias?: Alias }
  | { readonly kind: 'offer' }
  | { readonly kind: 'change'; readonly title: string; readonly settings: Settings }
  | { readonly kind: 'explain' | 'test'; readonly model: string }

export function OperatorModels() {
  const { data: config, error, isPending, refetch } = useConfiguration()
  const [open, setOpen] = useState<Open | null>(null)
  const close = () => setOpen(null)
  return (
    <>
      <PageHead
        title={t('Routes and models')}
        about={t(
          'Names of your own in front of models, and what differs from the catalog. Changes are in force at once.',
        )}
      >
        <TextLink href="/models">{t('All models')}</TextLink>
      </PageHead>
      <QueryState query={{ error, isPending, refetch }} />
      {config && (
        <>
          <LatestChange config={config} />
          <Routes config={config} onOpen={setOpen} />
          <Aliases config={config} onOpen={setOpen} />
          <Entries config={config} onOpen={setOpen} />
          <Offer config={config} onOpen={setOpen} />
          {open && <Opened open={open} config={config} onClose={close} />}
        </>
      )}
    </>
  )
}

interface PartProps {
  readonly config: KeptConfigurationView
  readonly onOpen: (open: Open) => void
}

interface OpenedProps {
  readonly open: Open
  readonly config: KeptConfigurationView
  readonly onClose: () => void
}

function Opened({ open, config, onClose }: OpenedProps) {
  switch (open.kind) {
    case 'route':
      return <RouteForm config={config} existing={open.entry} onClose={onClose} />
    case 'model':
      return <ModelForm config={config} existing={open.entry} onClose={onClose} />
    case 'alias':
      return <AliasForm config={config} existing={open.alias} onClose={onClose} />
    case 'offer':
      return <OfferForm config={config} onClose={onClose} />
    case 'change':
      return <ChangeDialog title={open.title} config={config} settings={open.settings} onClose={onClose} />
    case 'explain':
      return <ExplainDialog model={open.model} onClose={onClose} />
    case 'test':
      return <TestDialog name={open.model} asked={{ model: open.model }} onClose={onClose} />
  }
}

function routeIn({ entry }: Entry): Route | undefined {
  return entry['route'] as Route | undefined
}

function Routes({ config, onOpen }: PartProps) {
  const routes = config.models.filter((entry) => routeIn(entry) !== undefined)
  return (
    <Section
      title={t('Routes')}
      side={
        <Button small look="primary" onClick={() => onOpen({ kind: 'route' })}>
          {t('Add a route')}
        </Button>
      }
    >
      {routes.length === 0 && (
        <p className="text-muted">
          {t('None. A route is a name in front of several models: where one fails, the next is asked.')}
        </p>
      )}
      <ul className="grid gap-3">
        {routes.map((entry) => (
          <li key={entry.id} className="card grid grid-cols-[minmax(0,1fr)] gap-2.5 p-4">
            <div className="flex flex-wrap items-center gap-2">
              <h3 className="min-w-0 flex-1 font-mono text-[13px] font-semibold wrap-anywhere">{entry.id}</h3>
              <Origin {...entry} />
            </div>
            <RouteFacts route={routeIn(entry)!} />
            <Acts name={entry.id}>
              <Button
                small
                aria-label={t('What happens now with {name}', { name: entry.id })}
                onClick={() => onOpen({ kind: 'explain', model: entry.id })}
              >
                {t('What happens now')}
              </Button>
              <ModelActs kind="route" entry={entry} config={config} onOpen={onOpen} />
            </Acts>
          </li>
        ))}
      </ul>
    </Section>
  )
}

function takeOut(name: string, settings: Settings): Open {
  return { kind: 'change', title: t('Take out {name}', { name }), settings }
}

function ModelActs({ kind, entry, config, onOpen }: PartProps & { kind: 'route' | 'model'; entry: Entry }) {
  return (
    <>
      <Button
        small
        aria-label={t('Test {name}', { name: entry.id })}
        onClick={() => onOpen({ kind: 'test', model: entry.id })}
      >
        {t('Test')}
      </Button>
      <OfferToggle config={config} id={entry.id} onOpen={onOpen} />
      <OwnActs
        name={entry.id}
        source={entry.source}
        onChange={() => onOpen({ kind, entry })}
        onTakeOut={() => onOpen(takeOut(entry.id, { models: { [entry.id]: null } }))}
      />
    </>
  )
}

/** What is not offered, by its own id; undefined where that is said elsewhere. */
function hiddenIds(config: KeptConfigurationView): readonly string[] | undefined {
  const hide = settingOf(config, 'catalog.hide')
  if (hide === undefined || isWrittenElsewhere(hide.source)) return undefined
  return Array.isArray(hide.value) ? (hide.value as readonly string[]) : []
}

/** Takes a model or a route out of what clients may ask for, or puts it back. A route may lead to it all the same. */
function OfferToggle({ config, id, onOpen }: PartProps & { id: string }) {
  const hidden = hiddenIds(config)
  if (hidden === undefined) return null
  const isHidden = hidden.includes(id)
  const others = hidden.filter((each) => each !== id)
  const wanted = isHidden ? others : [...others, id]
  return (
    <>
      {isHidden && <Badge tone="warn">{t('not offered')}</Badge>}
      <Button
        small
        aria-label={isHidden ? t('Offer {name} again', { name: id }) : t('Disable {name}', { name: id })}
        onClick={() =>
          onOpen({
            kind: 'change',
            title: isHidden ? t('Offer {name} again', { name: id }) : t('Disable {name}', { name: id }),
            settings: { catalog: { hide: wanted.length === 0 ? null : wanted } },
          })
        }
      >
        {isHidden ? t('Offer') : t('Disable')}
      </Button>
    </>
  )
}

function Acts({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div role="group" aria-label={name} className="flex flex-wrap gap-2">
      {children}
    </div>
  )
}

interface OwnActsProps {
  readonly name: string
  readonly source: Entry['source']
  readonly onChange: () => void
  readonly onTakeOut: () => void
}

/** What is done with an entry that was made here; what the file says is changed there. */
function OwnActs({ name, source, onChange, onTakeOut }: OwnActsProps) {
  if (isWrittenElsewhere(source)) return null
  return (
    <>
      <Button small aria-label={t('Change {name}', { name })} onClick={onChange}>
        {t('Change')}
      </Button>
      <RowButton look="danger" label={t('Take out {name}', { name })} onClick={onTakeOut}>
        {t('Take out')}
      </RowButton>
    </>
  )
}

const pickNames: Readonly<Record<string, string>> = {
  order: 'in this order',
  weight: 'by weight, the same for each account',
  price: 'the cheapest first',
  latency: 'the quickest first',
}

function RouteFacts({ route }: { route: Route }) {
  const isWeighted = route.to.some((member) => typeof member !== 'string' && member.weight !== undefined)
  const pick = route.pick ?? (isWeighted ? 'weight' : 'order')
  return (
    <>
      <ol className="grid gap-1">
        {route.to.map((member, at) => (
          <li key={at} className="flex flex-wrap items-center gap-2">
            <span className="w-4 text-right text-[12px] text-muted tabular-nums">{at + 1}</span>
            <span className="min-w-0 font-mono text-[12.5px] wrap-anywhere">
              {typeof member === 'string' ? member : member.model}
            </span>
            {typeof member !== 'string' && member.weight !== undefined && (
              <Badge>{t('weight {weight}', { weight: member.weight })}</Badge>
            )}
          </li>
        ))}
      </ol>
      <p className="text-[13px] text-muted">
        {[
          t(pickNames[pick] ?? pick),
          ...(route.continue === true ? [t('another goes on with a stream that breaks off')] : []),
          ...(route.fallback_on_content_filter === true ? [t('also after a content filter')] : []),
          ...Object.entries(route.defaults ?? {}).map(([name, value]) => `${name} ${shownValue(value)}`),
        ].join(' · ')}
      </p>
    </>
  )
}

function Aliases({ config, onOpen }: PartProps) {
  return (
    <Section
      title={t('Other names')}
      side={
        <Button small onClick={() => onOpen({ kind: 'alias' })}>
          {t('Add a name')}
        </Button>
      }
    >
      {config.aliases.length === 0 ? (
        <p className="text-muted">{t('None. Such a name stands for one model or route.')}</p>
      ) : (
        <Table
          label={t('Other names')}
          columns={[t('Name'), wideOnly(t('Stands for')), wideOnly(t('From')), t('Actions')]}
        >
          {config.aliases.map((alias) => (
            <tr key={alias.name}>
              <td className={`font-mono text-[12.5px] wrap-anywhere ${firstOnPhones}`}>
                {alias.name}
                <span className="block text-muted sm:hidden">{alias.to}</span>
              </td>
              <td className={`font-mono text-[12.5px] ${notOnPhones}`}>{alias.to}</td>
              <td className={notOnPhones}>
                <Origin {...alias} />
              </td>
              <td>
                <Acts name={alias.name}>
                  <OwnActs
                    name={alias.name}
                    source={alias.source}
                    onChange={() => onOpen({ kind: 'alias', alias })}
                    onTakeOut={() => onOpen(takeOut(alias.name, { aliases: { [alias.name]: null } }))}
                  />
                </Acts>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  )
}

function Entries({ config, onOpen }: PartProps) {
  const entries = config.models.filter((entry) => routeIn(entry) === undefined)
  return (
    <Section
      title={t('Models of your own')}
      side={
        <Button small onClick={() => onOpen({ kind: 'model' })}>
          {t('Add or change a model')}
        </Button>
      }
    >
      {entries.length === 0 ? (
        <p className="text-muted">{t('None: every model is as the catalog has it.')}</p>
      ) : (
        <Table
          label={t('Models of your own')}
          columns={[t('Model'), wideOnly(t('What it sets')), wideOnly(t('From')), t('Actions')]}
        >
          {entries.map((entry, at) => (
            <tr key={at} className="align-top">
              <td className={`font-mono text-[12.5px] wrap-anywhere ${firstOnPhones}`}>
                {entry.id}
                <span className="block text-[12px] text-muted sm:hidden">{whatIsSet(entry)}</span>
              </td>
              <td className={`min-w-48 font-mono text-[12px] wrap-anywhere ${notOnPhones}`}>
                {whatIsSet(entry)}
              </td>
              <td className={notOnPhones}>
                <Origin {...entry} />
              </td>
              <td>
                <Acts name={entry.id}>
                  <ModelActs kind="model" entry={entry} config={config} onOpen={onOpen} />
                </Acts>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  )
}

function whatIsSet({ entry }: KeptConfigurationView['models'][number]): string {
  return Object.entries(entry)
    .filter(([name]) => name !== 'id')
    .map(([name, value]) => `${name}: ${shownValue(value)}`)
    .join(', ')
}

const offerSettings = ['catalog.offer', 'catalog.hide', 'catalog.bare_names'] as const

function settingOf({ settings }: KeptConfigurationView, name: (typeof offerSettings)[number]) {
  return settings.find(({ setting }) => setting === name)
}

function Offer({ config, onOpen }: PartProps) {
  const set = offerSettings.flatMap((name) => settingOf(config, name) ?? [])
  const isAllWritten = set.length > 0 && set.every(({ source }) => isWrittenElsewhere(source))
  return (
    <Section
      title={t('What is offered')}
      side={
        !isAllWritten && (
          <Button small onClick={() => onOpen({ kind: 'offer' })}>
            {t('Change what is offered')}
          </Button>
        )
      }
    >
      <SettingsTable label={t('What is offered')} settings={set} />
    </Section>
  )
}

// Forms.

interface FormProps {
  readonly config: KeptConfigurationView
  readonly onClose: () => void
}

function linesOf(given: FormData, name: string): readonly string[] {
  return (textOf(given, name) ?? '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
}

interface TextAreaProps {
  readonly label: string
  readonly name: string
  readonly hint?: string
  readonly value: string
  readonly required?: boolean
}

function TextArea({ label, name, hint, value, required = false }: TextAreaProps) {
  const id = `field-${name}`
  return (
    <div>
      <label htmlFor={id} className="mb-1 block text-[13px] font-medium">
        {label}
      </label>
      <textarea
        id={id}
        name={name}
        rows={4}
        required={required}
        defaultValue={value}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        className="control h-auto py-1.5 font-mono text-[12.5px]"
      />
      {hint !== undefined && (
        <p id={`${id}-hint`} className="mt-1 text-[12.5px] text-muted">
          {hint}
        </p>
      )}
    </div>
  )
}

function Check({ label, name, checked }: { label: string; name: string; checked: boolean }) {
  return (
    <label className="flex items-center gap-2">
      <input type="checkbox" name={name} defaultChecked={checked} />
      {label}
    </label>
  )
}

function memberLine(member: Route['to'][number]): string {
  if (typeof member === 'string') return member
  return member.weight === undefined ? member.model : `${member.model} ${member.weight}`
}

function memberOf(line: string): Route['to'][number] {
  const [model = '', weight] = line.split(/\s+/)
  // What is no number is for the gateway to refuse in words.
  return weight === undefined ? model : { model, weight: Number(weight) }
}

const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

function RouteForm({ config, existing, onClose }: FormProps & { existing?: Entry | undefined }) {
  const route = existing && routeIn(existing)
  const defaults = route?.defaults ?? {}
  const textIn = (name: string) => (defaults[name] === undefined ? '' : String(defaults[name]))
  const settingsOf = (given: FormData): Settings => {
    const number = (name: string) => {
      const text = textOf(given, name)
      return text === undefined ? undefined : Number(text)
    }
    const wanted = {
      ...defaults,
      temperature: number('temperature'),
      max_tokens: number('max_tokens'),
      reasoning: textOf(given, 'reasoning'),
      system: textOf(given, 'system'),
      max_cost: textOf(given, 'max_cost'),
    }
    const isEmpty = Object.values(wanted).every((value) => value === undefined)
    const id = existing?.id ?? textOf(given, 'id') ?? ''
    return {
      models: {
        [id]: {
          ...withoutId(existing?.entry),
          route: {
            to: linesOf(given, 'to').map(memberOf),
            pick: textOf(given, 'pick'),
            continue: given.get('continue') === null ? undefined : true,
            fallback_on_content_filter: given.get('filter') === null ? undefined : true,
            defaults: isEmpty ? undefined : wanted,
          },
        },
      },
    }
  }
  return (
    <ChangeDialog
      title={existing === undefined ? t('Add a route') : t('Change {name}', { name: existing.id })}
      config={config}
      settings={settingsOf}
      calls={calledModel}
      onClose={onClose}
    >
      {existing === undefined && (
        <TextField
          label={t('Name')}
          name="id"
          required
          placeholder="fast"
          hint={t('What clients send as the model. It needs no slash.')}
        />
      )}
      <TextArea
        label={t('Members')}
        name="to"
        required
        value={route?.to.map(memberLine).join('\n') ?? ''}
        hint={t('A model in each line, with a weight behind it if you like: openai/gpt-5-mini 2')}
      />
      <Choice
        label={t('Which is asked first')}
        name="pick"
        defaultValue={route?.pick ?? ''}
        options={[
          ['', t('by weight where one is given, else in this order')],
          ...Object.entries(pickNames).map(([pick, name]) => [pick, t(name)] as const),
        ]}
      />
      <Check
        label={t('Another member goes on with a stream that breaks off')}
        name="continue"
        checked={route?.continue === true}
      />
      <Check
        label={t('Another member is asked where a content filter refuses the prompt')}
        name="filter"
        checked={route?.fallback_on_content_filter === true}
      />
      <details open={Object.keys(defaults).length > 0}>
        <summary className="cursor-pointer text-[13px] font-medium">
          {t('What calls get that do not say it themselves')}
        </summary>
        <div className="mt-3 grid gap-3.5 sm:grid-cols-2">
          <TextField
            label="temperature"
            name="temperature"
            inputMode="decimal"
            defaultValue={textIn('temperature')}
          />
          <TextField
            label="max_tokens"
            name="max_tokens"
            inputMode="numeric"
            defaultValue={textIn('max_tokens')}
          />
          <Choice
            label="reasoning"
            name="reasoning"
            defaultValue={textIn('reasoning')}
            options={[['', '–'], ...efforts.map((effort) => [effort, effort] as const)]}
          />
          <TextField
            label={t('max_cost, US dollars')}
            name="max_cost"
            inputMode="decimal"
            defaultValue={textIn('max_cost')}
          />
          <div className="sm:col-span-2">
            <TextArea
              label="system"
              name="system"
              value={textIn('system')}
              hint={t('Put before the client’s own instructions.')}
            />
          </div>
        </div>
      </details>
    </ChangeDialog>
  )
}

/** The first model of a change, to be called before it is made. */
function calledModel({ models }: Settings): { model: string } | undefined {
  const [id] = Object.keys((models ?? {}) as object)
  return id === undefined ? undefined : { model: id }
}

function withoutId(entry: Entry['entry'] | undefined): object {
  if (entry === undefined) return {}
  const { id: _, ...rest } = entry
  return rest
}

function ModelForm({ config, existing, onClose }: FormProps & { existing?: Entry | undefined }) {
  const entry = existing?.entry ?? {}
  const price = (entry as { price?: unknown }).price
  const rate = (name: string) => {
    const value = typeof price === 'object' && price !== null ? Reflect.get(price, name) : undefined
    return typeof value === 'string' ? value : ''
  }
  const numberIn = (name: string) => {
    const value: unknown = Reflect.get(entry, name)
    return typeof value === 'number' ? String(value) : ''
  }
  const settingsOf = (given: FormData): Settings => {
    const number = (name: string) => {
      const text = textOf(given, name)
      return text === undefined ? undefined : Number(text)
    }
    const rates = {
      input: textOf(given, 'input'),
      output: textOf(given, 'output'),
      cache_read: textOf(given, 'cache_read'),
    }
    const isPriced = Object.values(rates).some((each) => each !== undefined)
    const id = existing?.id ?? textOf(given, 'id') ?? ''
    return {
      models: {
        [id]: {
          ...withoutId(existing?.entry),
          price:
            given.get('free') !== null
              ? 'free'
              : isPriced
                ? { ...(typeof price === 'object' ? price : {}), ...rates }
                : undefined,
          context_length: number('context_length'),
          max_output_tokens: number('max_output_tokens'),
        },
      },
    }
  }
  return (
    <ChangeDialog
      title={existing === undefined ? t('Add or change a model') : t('Change {name}', { name: existing.id })}
      config={config}
      settings={settingsOf}
      calls={calledModel}
      onClose={onClose}
    >
      {existing === undefined && (
        <TextField
          label={t('Model')}
          name="id"
          required
          pattern="[A-Za-z0-9][A-Za-z0-9._\-]*/\S+"
          placeholder="openai/gpt-5-mini"
          hint={t('The id of its provider, a slash, and its name there.')}
        />
      )}
      <div className="grid gap-3.5 sm:grid-cols-3">
        <TextField
          label={t('Input, USD per million')}
          name="input"
          inputMode="decimal"
          defaultValue={rate('input')}
        />
        <TextField
          label={t('Output, USD per million')}
          name="output"
          inputMode="decimal"
          defaultValue={rate('output')}
        />
        <TextField
          label={t('Cached input, USD per million')}
          name="cache_read"
          inputMode="decimal"
          defaultValue={rate('cache_read')}
        />
      </div>
      <Check label={t('It is free')} name="free" checked={price === 'free'} />
      <div className="grid gap-3.5 sm:grid-cols-2">
        <TextField
          label={t('Context, tokens')}
          name="context_length"
          inputMode="numeric"
          defaultValue={numberIn('context_length')}
        />
        <TextField
          label={t('Longest answer, tokens')}
          name="max_output_tokens"
          inputMode="numeric"
          defaultValue={numberIn('max_output_tokens')}
        />
      </div>
      <p className="text-[13px] text-muted">
        {t(
          'What is left empty is as the catalog has it. A price here replaces all of the catalog’s for this model.',
        )}
      </p>
    </ChangeDialog>
  )
}

function AliasForm({ config, existing, onClose }: FormProps & { existing?: Alias | undefined }) {
  return (
    <ChangeDialog
      title={existing === undefined ? t('Add a name') : t('Change {name}', { name: existing.name })}
      config={config}
      settings={(given) => ({
        aliases: { [existing?.name ?? textOf(given, 'name') ?? '']: textOf(given, 'to') },
      })}
      onClose={onClose}
    >
      {existing === undefined && <TextField label={t('Name')} name="name" required placeholder="gpt" />}
      <TextField
        label={t('Stands for')}
        name="to"
        required
        placeholder="openai/gpt-5"
        defaultValue={existing?.to ?? ''}
        hint={t('The id of a model or of a route.')}
      />
    </ChangeDialog>
  )
}

function OfferForm({ config, onClose }: FormProps) {
  const valueOf = (name: (typeof offerSettings)[number]) => settingOf(config, name)
  const lines = (name: (typeof offerSettings)[number]) => {
    const value = valueOf(name)?.value
    return Array.isArray(value) ? value.join('\n') : ''
  }
  const isOpen = (name: (typeof offerSettings)[number]) => {
    const setting = valueOf(name)
    return setting === undefined || !isWrittenElsewhere(setting.source)
  }
  const listOf = (given: FormData, name: string) => {
    const found = linesOf(given, name)
    return found.length === 0 ? null : found
  }
  return (
    <ChangeDialog
      title={t('Change what is offered')}
      config={config}
      settings={(given) => ({
        catalog: {
          ...(isOpen('catalog.offer') && { offer: listOf(given, 'offer') }),
          ...(isOpen('catalog.hide') && { hide: listOf(given, 'hide') }),
          ...(isOpen('catalog.bare_names') && { bare_names: given.get('bare_names') === null ? null : true }),
        },
      })}
      onClose={onClose}
    >
      {isOpen('catalog.offer') && (
        <TextArea
          label={t('Only these are offered')}
          name="offer"
          value={lines('catalog.offer')}
          hint={t('An id in each line; a star stands for any text, as in openai/*. Empty: all.')}
        />
      )}
      {isOpen('catalog.hide') && (
        <TextArea
          label={t('These are not offered')}
          name="hide"
          value={lines('catalog.hide')}
          hint={t('Written in the same way.')}
        />
      )}
      {isOpen('catalog.bare_names') && (
        <Check
          label={t('A name without a provider is that of its maker: gpt-5 means openai/gpt-5')}
          name="bare_names"
          checked={valueOf('catalog.bare_names')?.value === true}
        />
      )}
    </ChangeDialog>
  )
}

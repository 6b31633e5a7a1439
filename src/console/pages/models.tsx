// The whole catalog in one list that scrolls smoothly: only the rows in sight are in the page.

import { type KeyboardEvent, useDeferredValue, useMemo, useRef, useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { useSearchParams } from 'wouter'
import type { ModelView, NotCallable } from '../../http/console/answers.ts'
import { send, useModels } from '../api/call.ts'
import { compact, count, milliseconds, percent, t } from '../strings/text.ts'
import { Badge, Button, Copy, Dialog, Empty, Fact, PageHead, Select } from '../ui/kit.tsx'
import { QueryState, useWindow } from '../ui/table.tsx'
import { poolNames } from './words.tsx'

const rowHeight = 44

const sorts: Readonly<Record<string, (a: ModelView, b: ModelView) => number>> = {
  name: (a, b) => (a.id < b.id ? -1 : 1),
  input: (a, b) => Number(a.input) - Number(b.input),
  output: (a, b) => Number(a.output) - Number(b.output),
  context: (a, b) => (b.context_length ?? 0) - (a.context_length ?? 0),
}

export function Models() {
  const { data, error, isPending, refetch } = useModels()
  const [query, setQuery] = useSearchParams()
  const [chosen, setChosen] = useState<ModelView | null>(null)
  const q = useDeferredValue(query.get('q') ?? '')
  const provider = query.get('provider') ?? ''
  const only = query.get('only') ?? ''
  const sort = query.get('sort') ?? 'name'
  const set = (name: string, value: string) =>
    setQuery(
      (before) => {
        const next = new URLSearchParams(before)
        if (value === '') next.delete(name)
        else next.set(name, value)
        return next
      },
      { replace: true },
    )
  const providers = useMemo(() => [...new Set(data?.map((model) => model.provider))].toSorted(), [data])
  const rows = useMemo(() => {
    const words = q.toLowerCase().split(/\s+/)
    return (data ?? [])
      .filter(
        (model) =>
          (provider === '' || model.provider === provider) &&
          fits(model, only) &&
          words.every(
            (word) => model.id.toLowerCase().includes(word) || model.name.toLowerCase().includes(word),
          ),
      )
      .toSorted(sorts[sort] ?? sorts['name'])
  }, [data, q, provider, only, sort])
  return (
    <>
      <PageHead
        title={t('Models')}
        about={
          data &&
          t('{shown} of {all}. Prices in US dollars for a million tokens, as the provider charges them.', {
            shown: count(rows.length),
            all: count(data.length),
          })
        }
      />
      <div
        className="mb-3 grid grid-cols-3 gap-2 sm:grid-cols-[minmax(0,1fr)_11rem_11rem_11rem]"
        role="search"
      >
        <input
          type="search"
          aria-label={t('Search models')}
          placeholder={t('Search by name, for example: claude sonnet')}
          value={query.get('q') ?? ''}
          onChange={(event) => set('q', event.target.value)}
          className="control max-sm:col-span-3"
        />
        <Select
          label={t('Provider')}
          value={provider}
          onPick={(value) => set('provider', value)}
          options={[['', t('every provider')], ...providers.map((name) => [name, name] as const)]}
        />
        <Select
          label={t('Which')}
          value={only}
          onPick={(value) => set('only', value)}
          options={[
            ['', t('all')],
            ['callable', t('callable now')],
            ['flash', t('flash class')],
            ['open', t('open')],
            ['premium', t('premium')],
            ['reasoning', t('reasoning')],
            ['images', t('reads images')],
          ]}
        />
        <Select
          label={t('Order')}
          value={sort}
          onPick={(value) => set('sort', value)}
          options={[
            ['name', t('by name')],
            ['input', t('cheapest input')],
            ['output', t('cheapest output')],
            ['context', t('largest context')],
          ]}
        />
      </div>
      <QueryState query={{ error, isPending, refetch }} rows={10} />
      {data && rows.length === 0 && <Empty title={t('No model matches.')} />}
      {rows.length > 0 && <Rows key={`${q}|${provider}|${only}|${sort}`} rows={rows} onChoose={setChosen} />}
      {chosen && <ModelDialog model={chosen} onClose={() => setChosen(null)} />}
    </>
  )
}

function fits(model: ModelView, only: string): boolean {
  switch (only) {
    case 'callable':
      return model.callable.api === null || model.callable.app === null
    case 'flash':
      return model.flash_class
    case 'open':
    case 'premium':
      return model.access === only
    case 'reasoning':
      return model.reasoning
    case 'images':
      return model.images
    default:
      return true
  }
}

const columns =
  'grid grid-cols-[minmax(0,1fr)_4.5rem_4.5rem] sm:grid-cols-[minmax(0,1fr)_5rem_5.5rem_5.5rem_5.5rem_7rem] lg:grid-cols-[minmax(0,1fr)_4.5rem_5rem_5rem_5rem_9.5rem_6rem] gap-x-3 px-3'

function Rows({ rows, onChoose }: { rows: readonly ModelView[]; onChoose: (model: ModelView) => void }) {
  const box = useRef<HTMLDivElement>(null)
  const { from, to, onScroll } = useWindow(box, rows.length, rowHeight)
  const [active, setActive] = useState(0)
  const move = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key]
    if (event.key === 'Enter') onChoose(rows[active]!)
    if (step === undefined) return
    event.preventDefault()
    const next = Math.max(0, Math.min(rows.length - 1, active + step))
    setActive(next)
    const top = next * rowHeight
    const { scrollTop, clientHeight } = box.current!
    if (top < scrollTop) box.current!.scrollTop = top
    if (top + rowHeight > scrollTop + clientHeight) box.current!.scrollTop = top + rowHeight - clientHeight
  }
  return (
    <div
      className="card overflow-hidden"
      role="table"
      aria-label={t('Models')}
      aria-rowcount={rows.length + 1}
    >
      <div
        role="row"
        aria-rowindex={1}
        className={`${columns} border-b border-line py-2 text-[12px] font-medium text-muted`}
      >
        <span role="columnheader">{t('Model')}</span>
        <span role="columnheader" className="num max-sm:hidden">
          {t('Context')}
        </span>
        <span role="columnheader" className="num">
          {t('Input')}
        </span>
        <span role="columnheader" className="num">
          {t('Output')}
        </span>
        <span role="columnheader" className="num max-sm:hidden">
          {t('Cached')}
        </span>
        <span role="columnheader" className="num max-lg:hidden">
          {t('Last hour')}
        </span>
        <span role="columnheader" className="max-sm:hidden">
          {t('Access')}
        </span>
      </div>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions */}
      <div
        ref={box}
        onScroll={onScroll}
        onKeyDown={move}
        tabIndex={0}
        role="rowgroup"
        aria-label={t('Models, with the arrow keys')}
        className="relative h-[calc(100dvh-15rem)] min-h-80 overflow-y-auto"
      >
        <div role="presentation" style={{ height: rows.length * rowHeight }} />
        {rows.slice(from, to).map((model, index) => (
          <Row
            key={model.id}
            model={model}
            place={from + index}
            active={from + index === active}
            onChoose={() => {
              setActive(from + index)
              onChoose(model)
            }}
          />
        ))}
      </div>
    </div>
  )
}

interface RowProps {
  readonly model: ModelView
  readonly place: number
  readonly active: boolean
  readonly onChoose: () => void
}

function Row({ model, place, active, onChoose }: RowProps) {
  const reason = model.callable.api ?? model.callable.app
  return (
    // The group around the rows has the focus and takes the keys for all of them.
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events
    <div
      role="row"
      aria-rowindex={place + 2}
      onClick={onChoose}
      style={{ transform: `translateY(${place * rowHeight}px)`, height: rowHeight }}
      title={reason === null ? undefined : t(reasons[reason])}
      className={`${columns} absolute inset-x-0 top-0 cursor-pointer items-center border-b border-line hover:bg-paper ${
        active ? 'bg-accent-soft' : ''
      } ${reason === null ? '' : 'text-muted'}`}
    >
      <span role="cell" className="min-w-0">
        {/* On a phone the whole id instead of its first letters, which many have in common. */}
        <span className="truncate font-mono text-[12.5px] max-sm:line-clamp-2 max-sm:leading-4 max-sm:wrap-anywhere max-sm:whitespace-normal sm:block">
          {model.id}
        </span>
        <span className="block truncate text-[12px] text-muted max-sm:hidden">
          {reason === null ? model.name : t(reasons[reason])}
        </span>
      </span>
      <span role="cell" className="num max-sm:hidden">
        {model.context_length === null ? '–' : compact(model.context_length)}
      </span>
      <span role="cell" className="num">
        {model.input}
      </span>
      <span role="cell" className="num">
        {model.output}
      </span>
      <span role="cell" className="num max-sm:hidden">
        {model.cache_read}
      </span>
      <span role="cell" className="num max-lg:hidden">
        {recently(model) ?? '–'}
      </span>
      <span role="cell" className="max-sm:hidden">
        {model.flash_class ? <Badge tone="good">{t('daily')}</Badge> : <Badge>{t(model.access)}</Badge>}
      </span>
    </div>
  )
}

function ModelDialog({ model, onClose }: { model: ModelView; onClose: () => void }) {
  const [explaining, setExplaining] = useState(false)
  const yes = (value: boolean) => (value ? t('yes') : t('no'))
  const reason = model.callable.api ?? model.callable.app
  return (
    <Dialog title={model.name} onClose={onClose}>
      <p className="mb-4 flex flex-wrap items-center gap-2">
        <code className="font-mono text-[13px] break-all">{model.id}</code> <Copy text={model.id} />
      </p>
      {reason !== null && <p className="mb-4 rounded-md bg-warn-soft px-3 py-2">{t(reasons[reason])}</p>}
      <dl className="grid grid-cols-2 gap-3">
        <Fact name={t('Input, per million tokens')}>{model.input} USD</Fact>
        <Fact name={t('Output, per million tokens')}>{model.output} USD</Fact>
        <Fact name={t('Cached input')}>{model.cache_read} USD</Fact>
        <Fact name={t('Access')}>{t(model.access)}</Fact>
        <Fact name={t('Context')}>{model.context_length === null ? '–' : count(model.context_length)}</Fact>
        <Fact name={t('Longest answer')}>
          {model.max_output_tokens === null ? '–' : count(model.max_output_tokens)}
        </Fact>
        <Fact name={t('Reasons')}>{yes(model.reasoning)}</Fact>
        <Fact name={t('Reads images')}>{yes(model.images)}</Fact>
        <Fact name={t('A chat is paid by')}>{model.pools.map((pool) => t(poolNames[pool])).join(', ')}</Fact>
      </dl>
      <h3 className="mt-4 mb-1 text-[13px] font-medium">{t('Last hour')}</h3>
      <ul>
        {model.providers.map((provider) => (
          <li key={provider.id}>
            <span className="font-mono text-[12.5px]">{provider.id}</span>{' '}
            <span className="text-muted">{figuresOf(provider) ?? t('no calls yet')}</span>
          </li>
        ))}
      </ul>
      {model.kind === 'chat' && (
        <p className="mt-4">
          <Button small onClick={() => setExplaining(true)}>
            {t('What happens now')}
          </Button>
        </p>
      )}
      {explaining && <ExplainDialog model={model.id} onClose={() => setExplaining(false)} />}
    </Dialog>
  )
}

// What would happen to a call now.

interface Explanation {
  readonly reason: string | null
  readonly candidates: readonly {
    readonly model: string
    readonly provider: string
    readonly standing: 'healthy' | 'cooling' | 'open'
    readonly latency_ms: number | null
  }[]
  readonly passed_over: readonly { readonly model: string; readonly reason: string }[]
  readonly refusal?: string
}

const whyFirst: Readonly<Record<string, string>> = {
  order: 'The first in the order of the route is asked first.',
  weight: 'The weights of the route decide who is asked first, always the same for this account.',
  price: 'The cheapest is asked first.',
  latency: 'The quickest of late is asked first.',
}

const standings = {
  healthy: ['good', 'healthy'],
  cooling: ['warn', 'cooling down'],
  open: ['bad', 'not asked but once a second'],
} as const

/** Who would be asked for a chat in this account now, in which order and why. Nothing is called. */
export function ExplainDialog({ model, onClose }: { model: string; onClose: () => void }) {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['explained-route', model],
    queryFn: async () => {
      const answer = await send(`/app/v1/route?model=${encodeURIComponent(model)}`)
      return (await answer.json()) as Explanation
    },
    gcTime: 0,
    staleTime: 0,
  })
  return (
    <Dialog title={t('What would happen to a call of {name} now', { name: model })} onClose={onClose}>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-3">
        <QueryState query={{ error, isPending, refetch }} rows={2} />
        {data?.refusal !== undefined && (
          <p className="rounded-md bg-warn-soft px-3 py-2">
            {t('A chat of this account would be refused:')}{' '}
            <span className="font-mono text-[12.5px]">{data.refusal}</span>
          </p>
        )}
        {data && data.reason !== null && <p>{t(whyFirst[data.reason] ?? data.reason)}</p>}
        {data && data.candidates.length > 0 && (
          <ol className="grid gap-2">
            {data.candidates.map(({ model: id, provider, standing, latency_ms: ms }, at) => (
              <li key={at} className="rounded-md border border-line px-3 py-2">
                <span className="block font-mono text-[12.5px] wrap-anywhere">
                  {at + 1}. {id}
                </span>
                <span className="mt-1 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted">
                  <Badge tone={standings[standing][0]}>{t(standings[standing][1])}</Badge>
                  {provider}
                  {ms !== null && <span className="tabular-nums">{milliseconds(ms)}</span>}
                </span>
              </li>
            ))}
          </ol>
        )}
        {data && data.passed_over.length > 0 && (
          <div>
            <p className="text-[13px] font-medium">{t('Passed over')}</p>
            <ul>
              {data.passed_over.map(({ model: id, reason }) => (
                <li key={id}>
                  <span className="font-mono text-[12.5px] wrap-anywhere">{id}</span>{' '}
                  <span className="font-mono text-[12.5px] text-muted">{reason}</span>
                </li>
              ))}
            </ul>
          </div>
        )}
      </div>
    </Dialog>
  )
}

type ServedBy = ModelView['providers'][number]

/** How the first provider of a model that was asked has answered in the last hour; null if none was. */
export function recently({ providers }: ModelView): string | null {
  return providers.map(figuresOf).find((figures) => figures !== null) ?? null
}

function figuresOf({ success_rate: rate, p50_latency_ms: p50 }: ServedBy): string | null {
  if (rate === null) return null
  return p50 === null ? percent(rate) : `${percent(rate)} · ${milliseconds(p50)}`
}

/** Why a model cannot be called now, in a sentence. */
export const reasons: Readonly<Record<NotCallable, string>> = {
  no_provider: 'No provider of it is set up on this gateway.',
  plan_required: 'Premium: opens with purchased credit, in the chat also with a subscription.',
  purchased_credits_required: 'Needs purchased credit.',
  not_chat: 'Not a chat model.',
  account_suspended: 'The account is suspended.',
}

/** The default if there is only the simulator: its other models fail or are slow. */
const echo = 'sim/echo'

/** The model to begin with, of those that can be called: the first real one that daily credit pays for, if any. */
export function firstModel(callable: readonly ModelView[]): ModelView | undefined {
  const real = callable.filter((model) => !model.id.startsWith('sim/'))
  return (
    real.find((model) => model.flash_class) ??
    real[0] ??
    callable.find((model) => model.id === echo) ??
    callable[0]
  )
}

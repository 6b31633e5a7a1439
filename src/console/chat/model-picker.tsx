// The model of the next question: a list that is typed into. Favourites and the models used last come first; those
// that cannot be called are shown greyed, with the reason.

import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from 'react'
import type { ModelView, NotCallable } from '../../http/console/answers.ts'
import { firstModel, reasons, recently } from '../pages/models.tsx'
import { t } from '../strings/text.ts'
import { Badge, Button, Dialog } from '../ui/kit.tsx'
import { isTextList, recall, remember, useRemembered } from '../ui/remembered.ts'

const item = 'weir.model'
const favouritesItem = 'weir.favourite-models'
const recentItem = 'weir.recent-models'
/** The limit of shown matches. */
const most = 80
const mostRecent = 5
const none: readonly string[] = []

/** The model last used in this browser, otherwise the one to begin with. */
export function usePickedModel(models: readonly ModelView[] | undefined) {
  const [id, setId] = useState(lastPicked)
  const picked = pickedOf(models ?? [], id)
  const pick = (model: ModelView) => {
    localStorage.setItem(item, model.id)
    const before = recall(recentItem, none, isTextList).filter((other) => other !== model.id)
    remember(recentItem, [model.id, ...before].slice(0, mostRecent))
    setId(model.id)
  }
  return [picked, pick] as const
}

function lastPicked(): string {
  return localStorage.getItem(item) ?? ''
}

/** The picked model, or else the default; undefined if none can be called. */
export function pickedOf(models: readonly ModelView[], id = lastPicked()): ModelView | undefined {
  const callable = models.filter((model) => model.callable.app === null && model.kind === 'chat')
  return callable.find((model) => model.id === id) ?? firstModel(callable)
}

interface PickerProps {
  readonly models: readonly ModelView[] | undefined
  readonly picked: ModelView | undefined
  readonly onPick: (model: ModelView) => void
}

/** `onPicked` is called when the list is gone again: the focus may then go where it is wanted. */
export function ModelPicker({
  models,
  picked,
  onPick,
  onPicked,
}: PickerProps & { readonly onPicked: () => void }) {
  const [open, setOpen] = useState(false)
  const hasPicked = useRef(false)
  useEffect(() => {
    // The dialog has given the focus back by now.
    if (!open && hasPicked.current) onPicked()
    hasPicked.current = false
  }, [open])
  return (
    <>
      <Button small onClick={() => setOpen(true)} className="max-w-[55%] shrink!" aria-haspopup="dialog">
        <span className="truncate font-mono">{picked?.id ?? t('no model')}</span>
        <span aria-hidden="true">▾</span>
      </Button>
      {open && models && (
        <Dialog title={t('Model')} onClose={() => setOpen(false)}>
          <ModelChoices
            models={models}
            picked={picked}
            onPick={(model) => {
              hasPicked.current = true
              onPick(model)
              setOpen(false)
            }}
          />
        </Dialog>
      )}
    </>
  )
}

const headings: Readonly<Record<'favourites' | 'recent' | 'rest', string>> = {
  favourites: 'Favourites',
  recent: 'Used last',
  rest: 'All models',
}

/** Models under one heading. */
interface ModelGroup {
  readonly heading: keyof typeof headings
  readonly models: readonly ModelView[]
}

/**
 * The chat models that match all words of what was typed, each once: favourites, those used last, the rest, which begins
 * with those that can be called.
 */
export function groupModels(
  models: readonly ModelView[],
  typed: string,
  favourites: readonly string[],
  recent: readonly string[],
): readonly ModelGroup[] {
  const words = typed.toLowerCase().split(/\s+/)
  const found = models
    .filter(({ kind, callable }) => kind === 'chat' && callable.app !== 'not_chat')
    .filter(({ id, name }) =>
      words.every((word) => id.toLowerCase().includes(word) || name.toLowerCase().includes(word)),
    )
  const byId = new Map(found.map((model) => [model.id, model]))
  const take = (ids: readonly string[]) =>
    ids.flatMap((id) => {
      const model = byId.get(id)
      byId.delete(id)
      return model ?? []
    })
  const groups: readonly ModelGroup[] = [
    { heading: 'favourites', models: take(favourites) },
    { heading: 'recent', models: take(recent) },
  ]
  const rest = [...byId.values()].toSorted(
    (a, b) => rank(a.callable.app) - rank(b.callable.app) || (a.id < b.id ? -1 : 1),
  )
  return [...groups, { heading: 'rest' as const, models: rest }].filter(({ models: some }) => some.length > 0)
}

function rank(reason: NotCallable | null): number {
  return reason === null ? 0 : reason === 'no_provider' ? 2 : 1
}

function ModelChoices({
  models,
  picked,
  onPick,
}: Omit<PickerProps, 'models'> & { models: readonly ModelView[] }) {
  const [typed, setTyped] = useState('')
  const [moved, setMoved] = useState<string | null>(null)
  const [favourites, setFavourites] = useRemembered(favouritesItem, none, isTextList)
  // As they were when the list was opened: it does not move under the pointer.
  const [first] = useState(() => ({ favourites, recent: recall(recentItem, none, isTextList) }))
  const groups = useMemo(
    () => groupModels(models, typed, first.favourites, first.recent),
    [models, typed, first],
  )
  const found = groups.flatMap(({ models: some }) => some)
  const shown = found.slice(0, most)
  const begins =
    (typed === '' ? shown.find(({ id }) => id === picked?.id) : undefined) ??
    shown.find(({ callable }) => callable.app === null) ??
    shown[0]
  const active = shown.find(({ id }) => id === moved) ?? begins
  const id = useId()
  const optionOf = (model: ModelView) => `${id}-${model.id}`
  useEffect(() => {
    if (active) document.getElementById(optionOf(active))?.scrollIntoView({ block: 'nearest' })
  }, [active?.id])
  const favour = ({ id: chosen }: ModelView) =>
    setFavourites(
      favourites.includes(chosen) ? favourites.filter((other) => other !== chosen) : [...favourites, chosen],
    )
  const choose = (model: ModelView) => {
    if (model.callable.app === null) onPick(model)
    else setMoved(model.id)
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing || !active) return
    if (event.key === 'Enter') {
      event.preventDefault()
      choose(active)
      return
    }
    const at = shown.indexOf(active)
    const next = stepsOf(shown.length)[event.key]?.(at)
    if (next === undefined) return
    event.preventDefault()
    setMoved(shown[next]!.id)
  }
  return (
    <>
      <input
        type="search"
        role="combobox"
        aria-expanded="true"
        aria-controls={id}
        aria-autocomplete="list"
        aria-activedescendant={active && optionOf(active)}
        autoComplete="off"
        spellCheck={false}
        aria-label={t('Search models')}
        placeholder={t('Search by name, for example: claude sonnet')}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value)
          setMoved(null)
        }}
        onKeyDown={onKey}
        className="control mb-3"
      />
      <div
        id={id}
        role="listbox"
        aria-label={t('Models')}
        className="-mx-2 max-h-[55dvh] scroll-py-8 overflow-y-auto"
      >
        {groups.map(({ heading, models: some }) => {
          const within = some.filter((model) => shown.includes(model))
          return (
            within.length > 0 && (
              <div key={heading} role="group" aria-label={t(headings[heading])}>
                <p
                  aria-hidden="true"
                  className="sticky top-0 bg-panel px-2 pt-1 pb-0.5 text-[12px] font-medium text-muted"
                >
                  {t(headings[heading])}
                </p>
                {within.map((model) => (
                  <Choice
                    key={model.id}
                    id={optionOf(model)}
                    model={model}
                    isPicked={model.id === picked?.id}
                    isActive={model === active}
                    isFavourite={favourites.includes(model.id)}
                    onPick={choose}
                    onFavour={favour}
                  />
                ))}
              </div>
            )
          )
        })}
      </div>
      <p
        role="status"
        className={found.length > most || found.length === 0 ? 'pt-1.5 text-muted' : 'sr-only'}
      >
        {found.length === 0
          ? t('No model matches.')
          : found.length > most
            ? t('{count} more: search for them.', { count: found.length - most })
            : ''}
      </p>
      {active && (
        <div className="mt-2 -mb-2 -ml-2">
          <Button small look="quiet" className="max-w-full" onClick={() => favour(active)}>
            <span className="truncate">
              {favourites.includes(active.id)
                ? t('Not a favourite any more: {model}', { model: active.id })
                : t('Make a favourite: {model}', { model: active.id })}
            </span>
          </Button>
        </div>
      )}
    </>
  )
}

/** Where a key moves in a list of so many; around its ends. */
function stepsOf(length: number): Readonly<Record<string, (at: number) => number>> {
  return {
    ArrowDown: (at) => (at + 1) % length,
    ArrowUp: (at) => (at - 1 + length) % length,
    PageDown: (at) => Math.min(at + 8, length - 1),
    PageUp: (at) => Math.max(at - 8, 0),
  }
}

interface ChoiceProps {
  readonly id: string
  readonly model: ModelView
  readonly isPicked: boolean
  /** Enter picks it. */
  readonly isActive: boolean
  readonly isFavourite: boolean
  readonly onPick: (model: ModelView) => void
  readonly onFavour: (model: ModelView) => void
}

/** By the keyboard a favourite is made with the button below the list: an option has no buttons. */
function Choice({ id, model, isPicked, isActive, isFavourite, onPick, onFavour }: ChoiceProps) {
  const reason = model.callable.app
  return (
    <button
      type="button"
      tabIndex={-1}
      id={id}
      role="option"
      aria-selected={isPicked}
      aria-disabled={reason !== null}
      // The focus stays where keys are taken.
      onMouseDown={(event) => event.preventDefault()}
      onClick={() => onPick(model)}
      className={`group flex w-full items-center gap-2 rounded-md py-1.5 pr-2 text-left ${
        isActive ? 'outline-2 -outline-offset-2 outline-accent' : ''
      } ${isPicked ? 'bg-accent-soft' : 'hover:bg-paper'} ${
        reason === null ? 'cursor-pointer' : 'cursor-not-allowed text-muted'
      }`}
    >
      <span
        aria-hidden="true"
        title={
          isFavourite
            ? t('Not a favourite any more: {model}', { model: model.id })
            : t('Make a favourite: {model}', { model: model.id })
        }
        onClick={(event) => {
          event.stopPropagation()
          onFavour(model)
        }}
        className={`-mr-2 grid size-8 shrink-0 cursor-pointer place-items-center ${
          isFavourite ? 'text-accent' : 'text-muted opacity-40 group-hover:opacity-100'
        }`}
      >
        {isFavourite ? '★' : '☆'}
      </span>
      <span className="min-w-0 flex-1">
        <span className="block font-mono text-[12.5px] wrap-anywhere">{model.id}</span>
        <span className="block text-[12px] text-muted">
          {reason === null
            ? [
                t('{input} / {output} USD per million tokens', { input: model.input, output: model.output }),
                recently(model),
              ]
                .filter((part) => part !== null)
                .join(' · ')
            : t(reasons[reason])}
        </span>
      </span>
      {isFavourite && <span className="sr-only">{t('favourite')}</span>}
      {model.flash_class && <Badge tone="good">{t('daily')}</Badge>}
      {model.images && <Badge>{t('images')}</Badge>}
    </button>
  )
}

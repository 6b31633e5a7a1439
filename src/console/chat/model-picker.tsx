// The model of the next question: a list that is typed into. Favourites and the models used last come first; those
// that cannot be called are shown greyed, with the reason.

import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react'
import type { ModelView, NotCallable } from '../../http/console/answers.ts'
import { firstModel, reasons, recently } from '../pages/models.tsx'
import { t } from '../strings/text.ts'
import { Combobox } from '../ui/combobox.tsx'
import { Badge, Button, Dialog } from '../ui/kit.tsx'
import {
  isTextList,
  lastPicked,
  onRemembered,
  pickModel,
  recall,
  recentItem,
  useRemembered,
} from '../ui/remembered.ts'

const favouritesItem = 'weir.favourite-models'
/** The limit of shown matches. */
const most = 80
const none: readonly string[] = []

/** The model last used in this browser, otherwise the one to begin with. */
export function usePickedModel(models: readonly ModelView[] | undefined) {
  const id = useSyncExternalStore(onRemembered, lastPicked)
  return pickedOf(models ?? [], id)
}

/** The picked model, or else the default; undefined if none can be called. */
export function pickedOf(models: readonly ModelView[], id = lastPicked()): ModelView | undefined {
  const callable = models.filter((model) => model.callable.app === null && model.kind === 'chat')
  return callable.find((model) => model.id === id) ?? firstModel(callable)
}

/** The two models: those compared last in this browser, otherwise the one of the chat and another one. */
export function comparedModels(
  models: readonly ModelView[],
  [first = lastPicked(), second = '']: readonly string[],
): Readonly<Record<'a' | 'b', ModelView | undefined>> {
  const a = pickedOf(models, first)
  const others = models.filter(({ id }) => id === second || id !== a?.id)
  return { a, b: pickedOf(others, second) }
}

interface PickerProps {
  readonly models: readonly ModelView[] | undefined
  readonly picked: ModelView | undefined
}

interface ModelPickerProps extends PickerProps {
  /** Takes the model; by default it is that of the next questions. */
  readonly onPick?: (id: string) => void
  /** Called when the list is gone again: the focus may then go where it is wanted. */
  readonly onPicked: () => void
}

export function ModelPicker({ models, picked, onPick = pickModel, onPicked }: ModelPickerProps) {
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
            onPick={(id) => {
              hasPicked.current = true
              onPick(id)
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

interface ModelChoicesProps {
  readonly models: readonly ModelView[]
  readonly picked: ModelView | undefined
  readonly onPick: (id: string) => void
}

function ModelChoices({ models, picked, onPick }: ModelChoicesProps) {
  const [typed, setTyped] = useState('')
  const [favourites, setFavourites] = useRemembered(favouritesItem, none, isTextList)
  // As they were when the list was opened: it does not move under the pointer.
  const [first] = useState(() => ({ favourites, recent: recall(recentItem, none, isTextList) }))
  const groups = useMemo(
    () => groupModels(models, typed, first.favourites, first.recent),
    [models, typed, first],
  )
  const found = groups.flatMap(({ models: some }) => some)
  const shown = new Set(found.slice(0, most))
  const favour = (id: string) =>
    setFavourites(favourites.includes(id) ? favourites.filter((other) => other !== id) : [...favourites, id])
  const favouring = (id: string) =>
    favourites.includes(id)
      ? t('Not a favourite any more: {model}', { model: id })
      : t('Make a favourite: {model}', { model: id })
  return (
    <Combobox
      label={t('Search models')}
      listLabel={t('Models')}
      placeholder={t('Search by name, for example: claude sonnet')}
      typed={typed}
      onTyped={setTyped}
      begins={typed === '' ? picked?.id : undefined}
      onTake={onPick}
      note={
        found.length === 0
          ? t('No model matches.')
          : found.length > most
            ? t('{count} more: search for them.', { count: found.length - most })
            : ''
      }
      groups={groups.map(({ heading, models: some }) => ({
        heading: t(headings[heading]),
        options: some
          .filter((model) => shown.has(model))
          .map((model) => ({
            id: model.id,
            selected: model.id === picked?.id,
            disabled: model.callable.app !== null,
            content: (
              <Choice
                model={model}
                isFavourite={favourites.includes(model.id)}
                favouring={favouring(model.id)}
                onFavour={() => favour(model.id)}
              />
            ),
          })),
      }))}
      renderBelow={({ id }) => (
        <div className="mt-2 -mb-2 -ml-2">
          <Button small look="quiet" className="max-w-full" onClick={() => favour(id)}>
            <span className="truncate">{favouring(id)}</span>
          </Button>
        </div>
      )}
    />
  )
}

interface ChoiceProps {
  readonly model: ModelView
  readonly isFavourite: boolean
  readonly favouring: string
  readonly onFavour: () => void
}

/** By the keyboard a favourite is made with the button below the list: an option has no buttons. */
function Choice({ model, isFavourite, favouring, onFavour }: ChoiceProps) {
  const reason = model.callable.app
  return (
    <>
      <span
        aria-hidden="true"
        title={favouring}
        onClick={(event) => {
          event.stopPropagation()
          onFavour()
        }}
        className={`-mx-2 grid size-8 shrink-0 cursor-pointer place-items-center ${
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
    </>
  )
}

// The model of the next question. Models that cannot be called are shown greyed, with the reason.

import { useDeferredValue, useState } from 'react'
import type { ModelRow, NotCallable } from '../api/wire.ts'
import { t } from '../strings/text.ts'
import { firstModel, reasons } from '../pages/models.tsx'
import { Badge, Button } from '../ui/basics.tsx'
import { Dialog } from '../ui/dialog.tsx'

const item = 'weir.model'
/** The limit of shown matches. */
const most = 80

/** The model last used in this browser, otherwise the one to begin with. */
export function usePickedModel(models: readonly ModelRow[] | undefined) {
  const [id, setId] = useState(lastPicked)
  const picked = pickedOf(models ?? [], id)
  const pick = (model: ModelRow) => {
    localStorage.setItem(item, model.id)
    setId(model.id)
  }
  return [picked, pick] as const
}

function lastPicked(): string {
  return localStorage.getItem(item) ?? ''
}

/** The picked model, or else the default; undefined if none can be called. */
export function pickedOf(models: readonly ModelRow[], id = lastPicked()): ModelRow | undefined {
  const callable = models.filter((model) => model.callable.app === null && model.kind === 'chat')
  return callable.find((model) => model.id === id) ?? firstModel(callable)
}

interface PickerProps {
  readonly models: readonly ModelRow[] | undefined
  readonly picked: ModelRow | undefined
  readonly onPick: (model: ModelRow) => void
}

export function ModelPicker({ models, picked, onPick }: PickerProps) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button small onClick={() => setOpen(true)} className="max-w-[55%] shrink!" aria-haspopup="dialog">
        <span className="truncate font-mono">{picked?.id ?? t('no model')}</span>
        <span aria-hidden="true">▾</span>
      </Button>
      {open && models && (
        <Dialog title={t('Model')} onClose={() => setOpen(false)}>
          <Choices
            models={models}
            picked={picked}
            onPick={(model) => {
              onPick(model)
              setOpen(false)
            }}
          />
        </Dialog>
      )}
    </>
  )
}

function Choices({ models, picked, onPick }: Omit<PickerProps, 'models'> & { models: readonly ModelRow[] }) {
  const [typed, setTyped] = useState('')
  const q = useDeferredValue(typed).toLowerCase().split(/\s+/)
  const found = models
    .filter(({ kind, callable }) => kind === 'chat' && callable.app !== 'not_chat')
    .filter(({ id, name }) =>
      q.every((word) => id.toLowerCase().includes(word) || name.toLowerCase().includes(word)),
    )
    .toSorted((a, b) => rank(a.callable.app) - rank(b.callable.app) || (a.id < b.id ? -1 : 1))
  return (
    <>
      <input
        type="search"
        autoFocus
        aria-label={t('Search models')}
        placeholder={t('Search by name, for example: claude sonnet')}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        className="control mb-3"
      />
      <ul className="-mx-2 max-h-[55dvh] overflow-y-auto" aria-label={t('Models')}>
        {found.slice(0, most).map((model) => (
          <li key={model.id}>
            <Choice model={model} chosen={model.id === picked?.id} onPick={onPick} />
          </li>
        ))}
        {found.length > most && (
          <li className="px-2 py-1.5 text-muted">
            {t('{count} more: search for them.', { count: found.length - most })}
          </li>
        )}
        {found.length === 0 && <li className="px-2 py-1.5 text-muted">{t('No model matches.')}</li>}
      </ul>
    </>
  )
}

function rank(reason: NotCallable | null): number {
  return reason === null ? 0 : reason === 'no_provider' ? 2 : 1
}

function Choice({
  model,
  chosen,
  onPick,
}: {
  model: ModelRow
  chosen: boolean
  onPick: (model: ModelRow) => void
}) {
  const reason = model.callable.app
  return (
    <button
      type="button"
      aria-disabled={reason !== null}
      aria-pressed={chosen}
      onClick={() => {
        if (reason === null) onPick(model)
      }}
      className={`flex w-full items-center gap-2 rounded-md px-2 py-1.5 text-left ${
        chosen ? 'bg-accent-soft' : 'hover:bg-paper'
      } ${reason === null ? '' : 'cursor-not-allowed text-muted'}`}
    >
      <span className="min-w-0 flex-1">
        <span className="block font-mono text-[12.5px] wrap-anywhere">{model.id}</span>
        <span className="block text-[12px] text-muted">
          {reason === null
            ? t('{input} / {output} USD per million tokens', { input: model.input, output: model.output })
            : t(reasons[reason])}
        </span>
      </span>
      {model.flash_class && <Badge tone="good">{t('daily')}</Badge>}
      {model.images && <Badge>{t('images')}</Badge>}
    </button>
  )
}
